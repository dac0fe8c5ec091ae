"""How the stand-in for a gateway reads routes."""

import pytest

from lab.gateway import Rule, _chosen, _ready, _route_status, _rules, _set_headers, _undated
from lab.manifests import parse

(ROUTE,) = parse("""
kind: HTTPRoute
metadata: {name: chat, namespace: team, generation: 3}
spec:
  parentRefs: [{name: modelplane, namespace: modelplane-system}]
  rules:
  - matches:
    - path: {type: PathPrefix, value: /team/chat}
      headers: [{name: Modelplane-Replica, value: team/r}]
    filters: [{type: URLRewrite, urlRewrite: {path: {type: ReplacePrefixMatch, replacePrefixMatch: /}}}]
    backendRefs:
    - kind: Backend
      name: r
      weight: 1
      filters: [{type: RequestHeaderModifier, requestHeaderModifier: {set: [{name: a, value: b}]}}]
    - {kind: Backend, name: none, weight: 0}
""")


def test_a_route_becomes_rules():
    (rule,) = _rules([ROUTE])
    assert (rule.namespace, rule.prefix, rule.headers, rule.rewrite) == (
        "team",
        "/team/chat",
        (("modelplane-replica", "team/r"),),
        "/",
    )
    chosen = _chosen(rule.backends)
    assert chosen["name"] == "r"
    assert list(_set_headers(chosen)) == [("a", "b")]


@pytest.mark.parametrize(
    ("prefix", "path", "matches"),
    [
        ("/", "/anything", True),
        ("/team/chat", "/team/chat", True),
        ("/team/chat", "/team/chat/v1/models", True),
        ("/team/chat", "/team/chatter", False),
        ("/team/chat", "/team", False),
    ],
)
def test_prefixes_match_whole_elements(prefix, path, matches):
    assert Rule("n", prefix, (), None, ()).matches(path, []) is matches


def test_headers_match_whatever_their_case():
    rule = Rule("n", "/", (("x", "1"),), None, ())
    assert rule.matches("/", [("X", "1")])
    assert not rule.matches("/", [("X", "2")])
    assert not rule.matches("/", [])


@pytest.mark.parametrize(
    ("rewrite", "path", "target"),
    [
        (None, "/a/b/c", "/a/b/c"),
        ("/", "/a/b/v1/models", "/v1/models"),
        ("/", "/a/b", "/"),
        ("/new", "/a/b/v1", "/new/v1"),
    ],
)
def test_prefixes_are_rewritten(rewrite, path, target):
    assert Rule("n", "/a/b", (), rewrite, ()).target(path) == target


def test_a_rule_without_weight_has_no_backend():
    assert _chosen(()) is None
    assert _chosen(({"name": "x", "weight": 0},)) is None


def test_only_ready_endpoints_are_used():
    (found,) = parse("""
kind: EndpointSlice
ports: [{name: http, port: 8000}]
endpoints:
- {addresses: [10.0.0.1], conditions: {ready: true}}
- {addresses: [10.0.0.2], conditions: {ready: false}}
""")
    assert list(_ready([found])) == ["10.0.0.1:8000"]


def test_status_is_for_the_newest_generation_and_compared_without_times():
    status = _route_status(ROUTE)
    (parent,) = status["parents"]
    assert {c["type"] for c in parent["conditions"]} == {"Accepted", "ResolvedRefs"}
    assert {c["observedGeneration"] for c in parent["conditions"]} == {3}
    later = {**parent, "conditions": [{**c, "lastTransitionTime": "later"} for c in parent["conditions"]]}
    assert _undated({"parents": [later]}) == _undated(status)
