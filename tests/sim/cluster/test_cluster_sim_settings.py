import pytest

from modelplane.sim.cluster.images import ImageRule
from modelplane.sim.cluster.sim_settings import SimSettings, sim_settings_of, stock_of, stock_text
from modelplane.sim.engine.known_flags import FlagRules
from modelplane.testing.cluster import gpu_pool


def declared(**annotations):
    marks = {f"sim.modelplane.ai/{name.replace('_', '-')}": value for name, value in annotations.items()}
    return {"metadata": {"name": "east", "annotations": marks}}


@pytest.mark.parametrize(
    ("cluster", "expected"),
    [
        ({"metadata": {"name": "east"}}, SimSettings()),
        (declared(failed="true"), SimSettings(failed=True)),
        (declared(failed="False"), SimSettings()),
        (declared(load_seconds="1.5"), SimSettings(load_s=1.5)),
        (declared(pull_seconds="7"), SimSettings(pull_s=7.0)),
        (declared(faults="stalled"), SimSettings(faults="stalled")),
        (declared(load_seconds="soon"), SimSettings()),
        (declared(load_seconds="-1"), SimSettings()),
        (declared(load_seconds="inf"), SimSettings()),
        (declared(stock="h200=0,l4=2"), SimSettings(stock={"h200": 0, "l4": 2})),
        (declared(stock="h200,l4=many,=,"), SimSettings()),
        (declared(images="acme/e,!b:1"), SimSettings(images=(ImageRule("acme/e"), ImageRule("b:1", exists=False)))),
        (declared(images=", ,!"), SimSettings()),
        (declared(engine_flags="a,!b"), SimSettings(flags=FlagRules(frozenset({"a"}), frozenset({"b"})))),
    ],
)
def test_annotations_that_make_no_sense_ask_for_nothing(cluster, expected):
    assert sim_settings_of(cluster) == expected


def test_a_pool_has_no_more_nodes_than_there_are_to_be_had():
    pools = [gpu_pool("h200", 3), gpu_pool("l4", 3)]
    assert [pool.nodes for pool in SimSettings(stock={"h200": 1, "other": 0}).limited(pools)] == [1, 3]
    assert [pool.nodes for pool in SimSettings(stock={"h200": 9}).limited(pools)] == [3, 3]


def test_the_stock_is_written_as_it_is_read():
    stock = {"l4": 2, "h200": 0}
    assert stock_text(stock) == "h200=0,l4=2"
    assert stock_of(declared(stock=stock_text(stock))) == stock
    assert stock_text({}) is None
