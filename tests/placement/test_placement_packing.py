import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from modelplane.placement import packing, partitions
from modelplane.placement.flow import feasible
from modelplane.placement.packing import Packable, pack, packs_beside
from modelplane.placement.partitions import CounterDraw, Draw, Partition
from modelplane.placement.pool_usage import fits, is_safe
from modelplane.placement.schedule import schedule
from modelplane.placement.snapshot import Fleet
from modelplane.placement.values import Packing
from modelplane.testing.fleets import (
    assignment,
    claim,
    cluster,
    engine,
    hardware,
    kind,
    packed,
    place,
    pool,
    replica,
    request,
)

ONE, TWO, THREE, FOUR, FIVE, SIX, EIGHT, NINE = (((size, 1),) for size in (1, 2, 3, 4, 5, 6, 8, 9))


@pytest.mark.parametrize(
    ("counts", "nodes", "use", "expected"),
    [
        pytest.param((8,), 2, ((ONE, 8), (EIGHT, 1)), True, id="ones share a node beside a whole-node pod"),
        pytest.param((8,), 2, ((ONE, 9), (EIGHT, 1)), False, id="one too many"),
        pytest.param((8,), 2, ((THREE, 2), (FIVE, 2)), True, id="threes and fives pair up"),
        pytest.param((8,), 2, ((THREE, 4), (FIVE, 1)), False, id="devices suffice, no packing does"),
        pytest.param((8,), 3, ((TWO, 3), (THREE, 3), (FIVE, 1)), True, id="mixed"),
        pytest.param((7,), 2, ((TWO, 4), (THREE, 2)), True, id="the largest together would leave no room"),
        pytest.param((10,), 2, ((TWO, 4), (THREE, 4)), True, id="two of each on each node"),
        pytest.param((7,), 3, ((TWO, 7), (THREE, 2)), True, id="two nodes with a three each, and one of twos only"),
        pytest.param(
            (22,), 3, ((ONE, 3), (SIX, 4), (NINE, 4)), True, id="nines beside two sixes, and two of them together"
        ),
        pytest.param(
            (6,), 5, ((ONE, 5), (TWO, 1), (THREE, 1), (FOUR, 5)), False, id="a four on each node, and a three"
        ),
        pytest.param((8,), 1000, ((ONE, 8000),), True, id="a thousand nodes, full"),
        pytest.param((8,), 1000, ((ONE, 8001),), False, id="a thousand nodes, one too many"),
        pytest.param((2, 2), 1, ((((1, 3),), 4),), True, id="a request over two kinds"),
        pytest.param((8,), 0, ((ONE, 1),), False, id="no nodes"),
    ],
)
def test_what_can_be_packed(counts, nodes, use, expected):
    assert pack(counts, nodes, tuple(sorted(use))) is (Packable.YES if expected else Packable.NO)


def brute_force(counts, nodes, pods):
    """Whether the pods can be put on nodes at all: every assignment is tried."""

    def place(left, bins):
        if not left:
            return True
        shape, *rest = left
        tried = set()
        for at, held in enumerate(bins):
            if held in tried:
                continue
            tried.add(held)
            if feasible([*held, *shape], counts) and place(rest, (*bins[:at], (*held, *shape), *bins[at + 1 :])):
                return True
        return False

    return place(pods, ((),) * nodes)


sizes = st.lists(st.integers(1, 6), min_size=1, max_size=7)


@given(st.integers(4, 6), st.integers(1, 3), sizes)
def test_packing_agrees_with_brute_force(size, nodes, pods):
    assume(max(pods) <= size)
    use = tuple(sorted((((s, 1),), pods.count(s)) for s in set(pods)))
    expected = brute_force((size,), nodes, [((s, 1),) for s in pods])
    assert pack((size,), nodes, use) is (Packable.YES if expected else Packable.NO)


@given(st.integers(4, 6), st.integers(1, 3), sizes)
def test_a_cluster_that_packs_admits_whatever_any_cluster_does(size, nodes, pods):
    assume(max(pods) <= size)
    use = tuple(sorted((((s, 1),), pods.count(s)) for s in set(pods)))
    if is_safe((size,), nodes, use):
        assert fits((size,), nodes, use, packed=True)
        assert pack((size,), nodes, use) is Packable.YES


@pytest.mark.parametrize(
    ("most", "expected"),
    [
        pytest.param(128, [(2, 1), (1, 2), (0, 4)], id="full nodes only"),
        pytest.param(3, [(2, 1), (2, 0), (1, 2)], id="the first three ways, one of which leaves room"),
    ],
)
def test_a_node_of_eight_is_filled_with_threes_and_twos(most, expected, monkeypatch):
    monkeypatch.setattr(packing, "PATTERN_BUDGET", most)
    assert packing._patterns([THREE, TWO], (8,)) == expected


def test_where_not_all_ways_to_fill_a_node_were_looked_at_nothing_is_proven(monkeypatch):
    """The packing that there is needs a third way: a node of twos only."""
    found = []
    for most in (2, 128):
        monkeypatch.setattr(packing, "PATTERN_BUDGET", most)
        pack.cache_clear()
        found.append(pack((7,), 3, ((TWO, 7), (THREE, 2))))
    pack.cache_clear()
    assert found == [Packable.UNKNOWN, Packable.YES]


SIZES = range(3, 13)
MANY = tuple(sorted((((size, 1),), 6) for size in SIZES))


def test_more_devices_than_there_are_is_a_proof_however_many_shapes_there_are():
    assert [pack((41,), nodes, MANY) for nodes in (10, 11)] == [Packable.NO, Packable.UNKNOWN]


def test_more_shapes_than_can_be_searched_are_packed_where_the_plain_way_does_it():
    assert pack((64,), 10, MANY) is Packable.YES


def test_a_search_that_was_cut_short_says_so_and_admits_nothing():
    assert pack((41,), 11, MANY) is Packable.UNKNOWN
    assert not fits((41,), 11, MANY, packed=True)
    crowded = cluster("a", pool("p", 11, hardware(kind(count=41))), packing=Packing.BIN_PACK)
    held = [replica("a", size, assignment("p", claim(size), pods=6), name="other") for size in SIZES if size > 3]
    decided = schedule(place(1, engine(request(3), copies=6)), Fleet.of([crowded], held))
    (found,) = [candidate for candidate in decided.trace.candidates() if candidate.pool]
    assert found.reason.endswith("; not proven: search budget of 2000 steps and 128 patterns of packing reached")


def test_a_refusal_that_only_the_worst_case_causes_names_bin_pack():
    """Eight single devices may sit on eight nodes of ten, so two nodes are sure to be free for whole-node pods."""
    single, whole = engine(request(1)), engine(request(8))
    for where, placed, switch in ((cluster("a", pool("p", 10)), 2, True), (packed("a", pool("p", 10)), 9, False)):
        fleet = Fleet.of([where])
        singles = schedule(place(8, single, name="small"), fleet)
        fleet = fleet.with_replicas([p.replica for p in singles.placements])
        decided = schedule(place(10, whole), fleet)
        assert len(decided.placements) == placed
        (reason,) = {text for refusal, _ in decided.trace.refusals() for text in [refusal.reason]}
        assert reason.endswith("; it fits if the cluster packs its pods (spec.scheduling.packing: BinPack)") is switch


@pytest.mark.parametrize(
    ("usage", "bound", "expected"),
    [
        pytest.param(((ONE, 8), (EIGHT, 1)), (((ONE, 8),),), True, id="the other node is free"),
        pytest.param(((ONE, 8), (EIGHT, 1)), (((ONE, 4),), ((ONE, 4),)), False, id="both are begun"),
        pytest.param(((ONE, 9),), (((ONE, 8),),), True, id="beside a full node"),
        pytest.param(((ONE, 3), (EIGHT, 1)), (((ONE, 2),),), True, id="small ones go where others are"),
        pytest.param(
            ((ONE, 2), (TWO, 2), (THREE, 2), (FOUR, 1)),
            (((ONE, 2),),),
            True,
            id="each goes to the fullest that takes it",
        ),
        pytest.param(((EIGHT, 3),), (((EIGHT, 1),),), False, id="too many"),
    ],
)
def test_pods_are_packed_beside_those_that_are_on_nodes(usage, bound, expected):
    assert packs_beside((8,), 2, usage, bound) is expected


def slices(count, available, *, drawn=1, gpus=1):
    """Devices that each draw some of a GPU's slices, and one if nothing is said."""
    return count, 1, Draw(0, (Partition("gpu", gpus, (CounterDraw("slices", drawn, available),)),))


def test_a_node_that_is_in_use_is_not_searched_as_if_it_were_empty(monkeypatch):
    """It gives one slice more of each GPU. How many single slices an empty one gives takes longer to find out."""
    monkeypatch.setattr(partitions, "_BUDGET", 20)
    large, small = slices(3, 4, drawn=3, gpus=3), slices(1, 4, gpus=3)
    assert pack((1,), 1, (((small,), 1), ((large,), 1))) is Packable.YES


def test_parts_that_were_not_searched_to_the_end_are_not_admitted(monkeypatch):
    monkeypatch.setattr(partitions, "_BUDGET", 2)
    pod = (slices(3, 29),)
    assert pack((29,), 1, ((pod, 2),)) is Packable.UNKNOWN
    assert not packs_beside((29,), 1, ((pod, 2),), (((pod, 1),),))
    assert not is_safe((29,), 1, (((slices(3, 29), slices(2, 29)), 1),))
