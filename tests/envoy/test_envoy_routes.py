import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelplane.envoy.objects import HttpRoute, UnsupportedError, read
from modelplane.envoy.pools import EnvoyCluster, PoolMember, UnresolvedRef
from modelplane.envoy.routes import entries


def resolve(ref, _route):
    if ref.name == "missing":
        return UnresolvedRef("BackendNotFound", "missing")
    return EnvoyCluster(f"pool/{ref.name}", () if ref.name == "empty" else (PoolMember("127.0.0.1", 80),))


def rendered(manifest):
    return [entry.resource for entry in entries(read(manifest, HttpRoute), resolve)]


def entry_of(manifest):
    (entry,) = entries(read(manifest, HttpRoute), resolve)
    return entry


def matches_of(build, *matches, filters=()):
    rule = {"matches": list(matches), "filters": list(filters), "backendRefs": [{"name": "up"}]}
    return [(entry["match"], entry["route"].get("prefix_rewrite")) for entry in rendered(build.route("demo", rule))]


@pytest.mark.parametrize(
    ("path", "kind", "replacement", "expected"),
    [
        ("/", "PathPrefix", None, [({"prefix": "/"}, None)]),
        ("/", "PathPrefix", "/x", [({"prefix": "/"}, "/x/")]),
        ("/a", "PathPrefix", None, [({"path_separated_prefix": "/a"}, None)]),
        ("/a/", "PathPrefix", None, [({"path_separated_prefix": "/a"}, None)]),
        ("/a/b", "PathPrefix", "/x/", [({"path_separated_prefix": "/a/b"}, "/x")]),
        ("/a/b", "PathPrefix", "/", [({"path": "/a/b"}, "/"), ({"prefix": "/a/b/"}, "/")]),
        ("/a/b", "Exact", None, [({"path": "/a/b"}, None)]),
    ],
)
def test_paths_match_whole_segments_and_are_rewritten(build, path, kind, replacement, expected):
    filters = [build.rewrite(replacement)] if replacement else []
    found = matches_of(build, build.prefix(path, kind), filters=filters)
    assert found == [({**match, "headers": []}, rewrite) for match, rewrite in expected]


def test_headers_match_exactly(build):
    found = matches_of(build, {"headers": [{"name": "a", "value": "b"}]})
    assert found == [({"prefix": "/", "headers": [{"name": "a", "string_match": {"exact": "b"}}]}, None)]


@pytest.mark.parametrize(
    ("match", "filters"),
    [({"path": {"type": "Exact", "value": "/a"}}, 1), ({"path": {"value": "/a"}}, 2)],
)
def test_a_rewrite_needs_a_prefix_and_comes_once(build, match, filters):
    rule = {"matches": [match], "filters": [build.rewrite("/")] * filters}
    with pytest.raises(UnsupportedError, match=r"spec.rules\[0\].filters: one URLRewrite, and only with PathPrefix"):
        rendered(build.route("demo", rule))


def changed(name, value, action):
    return {"header": {"key": name, "value": value}, "append_action": f"{action}_IF_EXISTS_OR_ADD"}


def test_weights_are_kept_and_who_cannot_answer_is_left_out(build):
    refs = [
        {"name": "one", "weight": 3},
        {"name": "two", "weight": 0},
        {"name": "missing", "weight": 5},
        {"name": "empty", "weight": 6},
        {"name": "three"},
    ]
    (entry,) = rendered(build.route("demo", {"backendRefs": refs}))
    (pool,) = entry_of(build.route("demo", {"backendRefs": refs})).pools
    assert entry["route"]["cluster"] == pool.name
    assert [(member.host, member.weight) for member in pool.members] == [("127.0.0.1", 3), ("127.0.0.1", 1)]


def test_backends_that_change_headers_otherwise_are_chosen_once_for_a_request(build):
    refs = [{"name": "one", "weight": 3, "filters": [build.headers(remove=["a"])]}, {"name": "two"}]
    entry = entry_of(build.route("demo", {"backendRefs": refs}))
    clusters = entry.resource["route"]["weighted_clusters"]["clusters"]
    assert [(one["name"], one["weight"]) for one in clusters] == [("pool/one", 3), ("pool/two", 1)]
    assert [pool.name for pool in entry.pools] == ["pool/one", "pool/two"]


def test_what_a_rule_does_to_headers_holds_for_every_try(build):
    refs = [{"name": name, "filters": [build.headers(set=[{"name": "to", "value": name}])]} for name in ("a", "b")]
    rule = {"backendRefs": refs, "filters": [build.headers(set=[{"name": "all", "value": "x"}], remove=["gone"])]}
    entry = entry_of(build.route("demo", rule))
    assert entry.resource["request_headers_to_add"] == [changed("all", "x", "OVERWRITE")]
    assert entry.resource["request_headers_to_remove"] == ["gone"]
    assert [member.headers for pool in entry.pools for member in pool.members] == [(("to", "a"),), (("to", "b"),)]


@pytest.mark.parametrize(
    ("of_rule", "of_backend", "added", "removed"),
    [
        ({}, {}, [], []),
        (
            {"set": [{"name": "a", "value": "100%"}], "add": [{"name": "b", "value": "2"}], "remove": ["c"]},
            {"set": [{"name": "A", "value": "mine"}]},
            [changed("a", "100%%", "OVERWRITE"), changed("b", "2", "APPEND"), changed("A", "mine", "OVERWRITE")],
            ["c"],
        ),
        (
            {"set": [{"name": "a", "value": "1"}], "add": [{"name": "b", "value": "2"}]},
            {"remove": ["A"]},
            [changed("b", "2", "APPEND")],
            ["A"],
        ),
        ({"remove": ["a"]}, {"add": [{"name": "a", "value": "1"}]}, [changed("a", "1", "APPEND")], ["a"]),
    ],
)
def test_a_backends_headers_change_after_its_rules(build, of_rule, of_backend, added, removed):
    ref = {"name": "up", "filters": [build.headers(**of_backend)]}
    (entry,) = rendered(build.route("demo", {"filters": [build.headers(**of_rule)], "backendRefs": [ref]}))
    assert entry["route"]["weighted_clusters"]["clusters"] == [
        {"name": "pool/up", "weight": 1, "request_headers_to_add": added, "request_headers_to_remove": removed}
    ]


@pytest.mark.parametrize("refs", [[], [{"name": "up", "weight": 0}], [{"name": "missing"}, {"name": "empty"}]])
def test_a_rule_without_backends_returns_503(build, refs):
    (entry,) = rendered(build.route("demo", {"backendRefs": refs}))
    sentence = "No backend of team-a/demo is ready to answer."
    assert entry == {
        "match": {"prefix": "/", "headers": []},
        "direct_response": {"status": 503, "body": {"inline_string": sentence}},
    }


@pytest.mark.parametrize(
    ("timeouts", "expected"),
    [
        ({}, "0.000s"),
        ({"timeouts": {}}, "0.000s"),
        ({"timeouts": {"request": "0s"}}, "0.000s"),
        ({"timeouts": {"request": "1m30s"}}, "90.000s"),
        ({"timeouts": {"request": "500ms"}}, "0.500s"),
        ({"timeouts": {"request": "1h2m3s4ms"}}, "3723.004s"),
    ],
)
def test_requests_have_no_timeout_by_default(build, timeouts, expected):
    (entry,) = rendered(build.route("demo", {"backendRefs": [{"name": "up"}], **timeouts}))
    assert entry["route"]["timeout"] == expected


PATHS = st.sampled_from(["/", "/a", "/a/b", "/a/b/c", "/long-segment", "/x/y"])


@st.composite
def routes(draw):
    match = st.builds(
        lambda path, kind, count: {
            "path": {"type": kind, "value": path},
            "headers": [{"name": f"h{number}", "value": "v"} for number in range(count)],
        },
        PATHS,
        st.sampled_from(["PathPrefix", "Exact"]),
        st.integers(0, 2),
    )
    rules = draw(st.lists(st.lists(match, min_size=1, max_size=2).map(lambda found: {"matches": found}), max_size=2))
    meta = {
        "name": draw(st.sampled_from("pqr")),
        "namespace": draw(st.sampled_from("st")),
        "creationTimestamp": draw(st.sampled_from([None, "2026-01-01T00:00:00Z", "2026-02-01T00:00:00Z"])),
    }
    return {"metadata": meta, "spec": {"rules": rules}}


@given(st.lists(routes(), max_size=5))
def test_more_specific_matches_come_first_whatever_the_order_of_routes(manifests):
    def ordered(given_order):
        found = [entry for manifest in given_order for entry in entries(read(manifest, HttpRoute), resolve)]
        return [entry.resource["match"] for entry in sorted(found, key=lambda entry: entry.rank)]

    def specificity(match):
        path = match.get("path") or match.get("path_separated_prefix") or match["prefix"]
        return ("path" in match, len(path), len(match["headers"]))

    order = ordered(manifests)
    assert [specificity(match) for match in order] == sorted(map(specificity, order), reverse=True)
    assert list(map(specificity, ordered(manifests[::-1]))) == list(map(specificity, order))
