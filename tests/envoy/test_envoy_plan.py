from hypothesis import given
from hypothesis import strategies as st

from modelplane.envoy.config import EMPTY, EnvoyConfig
from modelplane.envoy.files import table_file
from modelplane.envoy.plan import final_files, plan


def make_config(gateways, pools, ports):
    """Gateways that each route to some pools; a pool's definition and a gateway's port vary by a number."""
    return EnvoyConfig(
        listeners={name: {"name": name, "address": f"port-{ports[name]}"} for name in sorted(gateways)},
        clusters={name: {"name": name, "definition": number} for name, number in sorted(pools.items())},
        virtual_hosts={
            name: {"name": name, "uses": sorted(set(uses) & set(pools))} for name, uses in sorted(gateways.items())
        },
    )


NAMES = st.sampled_from("abc")
CONFIGS = st.builds(
    make_config,
    st.dictionaries(NAMES, st.lists(st.sampled_from("pqr"), max_size=3), max_size=3),
    st.dictionaries(st.sampled_from("pqr"), st.integers(0, 1), max_size=3),
    st.permutations([1, 2, 3]).map(lambda numbers: dict(zip("abc", numbers, strict=True))),
)


def versions(config):
    return {file.table: file.version for file in final_files(config)}


def candidates(previous, wanted):
    """Every state of every table that a plan may write, by version."""
    merged = {**previous.clusters, **wanted.clusters}
    clusters = [previous.clusters, wanted.clusters, dict(sorted(merged.items()))]
    return {table_file("cds", one.values()).version: set(one) for one in clusters}


@given(CONFIGS, CONFIGS)
def test_no_route_ever_points_at_a_pool_that_is_not_there(previous, wanted):
    known = candidates(previous, wanted)
    clusters, hosts = set(previous.clusters), previous.virtual_hosts
    for file in plan(previous, wanted, versions(previous)):
        if file.table == "cds":
            clusters = known[file.version]
        elif file.table == "rds":
            hosts = wanted.virtual_hosts
        used = {pool for host in hosts.values() for pool in host["uses"]}
        assert used <= clusters


@given(CONFIGS, CONFIGS)
def test_a_plan_ends_at_what_is_wanted(previous, wanted):
    reached = versions(previous)
    for file in plan(previous, wanted, reached):
        reached[file.table] = file.version
    assert reached == versions(wanted)


@given(CONFIGS)
def test_nothing_is_written_when_nothing_differs(config):
    assert list(plan(config, config, versions(config))) == []


def test_a_listener_is_added_before_another_goes():
    old, new = make_config({"a": []}, {}, {"a": 1}), make_config({"b": []}, {}, {"b": 2})
    files = [file for file in plan(old, new, versions(old)) if file.table == "lds"]
    assert [b'"a"' in file.content for file in files] == [True, False]


def test_a_listener_makes_room_for_another_on_its_address():
    old, new = make_config({"a": []}, {}, {"a": 1}), make_config({"b": []}, {}, {"b": 1})
    files = [file for file in plan(old, new, versions(old)) if file.table == "lds"]
    assert [b'"a"' in file.content for file in files] == [False]


def test_what_lies_on_disk_by_accident_is_replaced():
    config = make_config({"a": ["p"]}, {"p": 0}, {"a": 1})
    stray = {**versions(config), "cds": "something else"}
    assert [file.table for file in plan(config, config, stray)] == ["cds"]


def test_a_file_has_its_version_and_whether_it_is_empty():
    file = table_file("cds", [{"a": 1}])
    assert file.content == b'{"version_info":"%b","resources":[{"a":1}]}' % file.version.encode()
    assert [one.is_empty for one in final_files(EMPTY)] == [True, False, True]
