"""Devices that are parts of one another, against brute force over every way to place them."""

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from modelplane.placement import partitions
from modelplane.placement.packing import Packable, pack
from modelplane.placement.partitions import (
    BudgetReached,
    CounterDraw,
    Draw,
    Partition,
    blockers,
    exceeds,
    in_set,
    kept_away,
    most_kept_away,
    most_on_node,
    on_node,
    serves,
    suitable,
    touches,
)
from modelplane.placement.pool_usage import add, fits, free_slots, is_safe

ONE = 10**9


def part(drawn: int, available: int = 7, *, sets: int = 1, most: int | None = None, kind: str = "") -> Partition:
    """A device that draws so many of a GPU's slices."""
    many = available // drawn if most is None else most
    name = kind or f"{drawn}g"
    draws = (CounterDraw(f"device/{name}", ONE, many * ONE), CounterDraw("slices", drawn * ONE, available * ONE))
    return Partition("gpu", sets, draws)


def wants(count: int, *kinds: tuple[int, Partition]) -> tuple[int, int, Draw]:
    """A demand for devices of some kinds, by their bits."""
    return count, sum(1 << bit for bit, _ in kinds), Draw(0, tuple(sorted(partition for _, partition in kinds)))


WHOLE, ONE_SLICE, THREE = (0, part(7)), (1, part(1)), (2, part(3))
COUNTS = (1, 7, 2)


def test_a_gpu_gives_one_whole_seven_slices_or_two_threes():
    assert [in_set(partition) for _, partition in (WHOLE, ONE_SLICE, THREE)] == [1, 7, 2]
    assert on_node(part(3, sets=8)) == 16
    assert in_set(Partition("x", 1, ())) == 1 << 16
    assert [in_set(part(3, most=most)) for most in (1, 5)] == [1, 2]


@pytest.mark.parametrize(
    ("holder", "wanted", "kept"),
    [
        (part(1), part(7), 1),  # a slice keeps the whole GPU
        (part(7), part(1), 7),  # the whole GPU keeps all slices
        (part(1), part(1), 1),
        (part(3), part(1), 3),
        (part(1), part(3), 1),
        (part(3), part(3), 1),
        (part(7), part(3), 2),
        (part(3)._replace(name="other"), part(1), 0),
        (part(3)._replace(draws=()), part(1), 0),  # draws on nothing
        (part(3), Partition("gpu", 1, (CounterDraw("slices", 0, 7),)), 0),  # wants nothing of the slices
    ],
)
def test_what_a_device_keeps_from_others(holder, wanted, kept):
    assert kept_away(holder, wanted) == kept


def test_a_pod_counts_with_the_kind_that_keeps_most_away():
    either = wants(2, ONE_SLICE, WHOLE)
    assert most_kept_away((either, (3, 8)), part(1)) == 14
    assert most_kept_away(((1, 8, Draw(8, ())),), part(1)) == 0
    assert most_on_node(either, COUNTS) == 7
    assert most_on_node((1, 1, Draw(1, ())), COUNTS) == 1
    assert touches((either,), (wants(1, THREE),))
    assert not touches((either,), ((1, 8),))
    assert touches((either, (1, 8)), ((1, 8), (1, 16)))


@pytest.mark.parametrize(
    ("pods", "safe"),
    [
        ({ONE_SLICE: 7}, True),
        ({ONE_SLICE: 8}, False),
        ({WHOLE: 1}, True),
        ({WHOLE: 2}, False),
        ({WHOLE: 1, ONE_SLICE: 1}, False),  # a slice and the GPU that it is of
        ({THREE: 2}, True),
        ({THREE: 3}, False),
    ],
)
def test_a_gpu_of_seven_slices_is_never_overcommitted(pods, safe):
    usage = tuple(sorted(((wants(1, kind),), number) for kind, number in pods.items()))
    assert is_safe(COUNTS, 1, usage) is safe
    assert fits(COUNTS, 1, usage, packed=True) is safe


def test_packing_admits_what_the_worst_case_refuses():
    usage = tuple(sorted([((wants(1, THREE),), 1), ((wants(1, ONE_SLICE),), 4)]))
    assert not is_safe(COUNTS, 1, usage)
    assert pack(COUNTS, 1, usage) is Packable.YES
    assert pack(COUNTS, 1, add(usage, (((wants(1, ONE_SLICE),), 1),))) is Packable.NO


def test_free_slots_on_two_nodes_of_two_gpus():
    """One slice is somewhere: three whole GPUs and 27 slices are sure to be left."""
    whole, one = (0, part(7, sets=2)), (1, part(1, sets=2))
    usage = (((wants(1, one),), 1),)
    assert free_slots((2, 14), 2, usage, (wants(1, whole),), packed=False) == 3
    assert free_slots((2, 14), 2, usage, (wants(1, one),), packed=False) == 27


def test_a_pod_with_two_kinds_of_parts_needs_a_node_that_nothing_touches():
    both = (wants(1, ONE_SLICE), wants(1, THREE))
    assert is_safe(COUNTS, 2, ((both, 2),))
    assert not is_safe(COUNTS, 2, ((both, 3),))
    assert not is_safe(COUNTS, 1, (((wants(1, WHOLE), wants(1, ONE_SLICE)), 1),))


def test_a_pod_that_may_have_a_plain_device_instead_is_safe_with_either():
    """One GPU in seven slices, and one plain device of another kind."""
    counts, either = (1, 7, 2, 1), (1, 0b1010, Draw(0b1000, (part(1),)))
    held = ((wants(1, WHOLE),), 1)

    def safe_beside_it(pod, number):
        return is_safe(counts, 1, tuple(sorted((held, ((pod,), number)))), (held,))

    found = [safe_beside_it(either, 1), safe_beside_it(either, 2), safe_beside_it(wants(1, ONE_SLICE), 1)]
    assert found == [True, False, False]


def test_too_many_for_all_nodes_is_a_proof():
    usage = (((wants(1, ONE_SLICE),), 15),)
    assert exceeds(usage, 2)
    assert not exceeds(usage, 3)


def test_pods_that_may_take_a_small_part_or_a_large_one_are_too_many_only_where_all_small_ones_are():
    either = wants(1, ONE_SLICE, THREE)
    assert [exceeds((((either,), number),), 1) for number in (7, 8)] == [False, True]


def test_a_kind_that_does_not_draw_on_a_counter_may_be_taken_instead():
    kinds = [(bit, Partition("gpu", 1, (CounterDraw(name, 1, 1),))) for bit, name in enumerate("xy")]
    assert not exceeds((((wants(1, *kinds),), 2),), 1)


def test_a_demand_for_parts_may_take_another_device_instead():
    """One slice or a plain device: where the GPU is held the plain one serves."""
    either = (1, 0b1010, Draw(0b1000, (part(1),)))
    assert serves((either,)) == ((),)
    assert serves((wants(1, WHOLE), either)) == (((1, 0b1000),),)
    assert serves((wants(1, WHOLE), wants(1, ONE_SLICE))) == ()


def test_sets_of_different_names_are_drawn_on_apart():
    other = (3, part(3, kind="other")._replace(name="npu"))
    assert serves((wants(2, THREE), wants(2, other))) == ((),)
    assert serves((wants(2, THREE), wants(3, other))) == ()


def test_a_device_that_may_be_of_several_sets_draws_on_none_for_sure():
    either = (1, 0b1001, Draw(0b1000, (part(7),)))
    several = wants(1, WHOLE, (3, part(7)._replace(name="npu")))
    assert [exceeds((((demand,), 9),), 1) for demand in (wants(1, WHOLE), either, several)] == [True, False, False]


def test_a_search_beyond_its_budget_has_no_answer(monkeypatch):
    monkeypatch.setattr(partitions, "_BUDGET", 3)
    with pytest.raises(BudgetReached):
        serves((wants(4, (0, part(1, 31))),))


# Brute force: every pod is one or two devices; a device is put into a set of a node, wherever its counter allows.


def share(amount: int, of: int, *, sets: int = 1) -> Partition:
    """So much of a device that others may share."""
    return Partition("share/gpu", sets, (CounterDraw("slices", amount * ONE, of * ONE),))


def test_shares_of_a_demand_are_of_distinct_devices():
    assert serves((wants(2, (0, share(1, 4, sets=2))),)) == ((),)
    assert serves((wants(2, (0, share(1, 4))),)) == ()
    assert (suitable(share(1, 4, sets=2)), suitable(share(5, 4, sets=2)), suitable(part(1, sets=2))) == (2, 0, 14)


@pytest.mark.parametrize(("large", "small", "safe"), [(4, 0, True), (4, 2, False), (3, 2, True), (3, 3, False)])
def test_shares_are_counted_by_what_they_take(large, small, safe):
    """Two devices of 80. Two shares of 10 beside one of 35 leave a device 25, too little for another of 35."""
    pods = {35: large, 10: small} if small else {35: large}
    usage = tuple(sorted(((wants(1, (0, share(size, 80, sets=2))),), number) for size, number in pods.items()))
    assert is_safe((2,), 1, usage) is safe


def test_demands_for_one_share_each_are_alike(monkeypatch):
    """There is no need to try which of them is where."""
    monkeypatch.setattr(partitions, "_BUDGET", 100)
    assert serves((wants(1, (0, share(1, 3, sets=3))),) * 10) == ()


def two_shares(slices: int, memory: int) -> Partition:
    """So much of two capacities of a device that has 4 of each."""
    draws = CounterDraw("memory", memory * ONE, 4 * ONE), CounterDraw("slices", slices * ONE, 4 * ONE)
    return Partition("share/gpu", 2, draws)


SMALL, LARGE = (0, share(1, 4, sets=2)), (1, share(3, 4, sets=2))


@pytest.mark.parametrize(
    ("wanted", "shapes", "expected"),
    [
        pytest.param(part(1, 4, sets=2), [(wants(1, (0, part(4, 4, sets=2))),)], [(7, [4])], id="a part"),
        pytest.param(SMALL[1], [(wants(1, LARGE),)], [(4, [3]), (2, [1])], id="a share"),
        pytest.param(SMALL[1], [(wants(2, LARGE),), ()], [(4, [6, 0]), (2, [2, 0])], id="two shares, and nothing"),
        pytest.param(SMALL[1], [(wants(1, SMALL, LARGE),)], [(4, [3]), (2, [1])], id="one share or the other"),
        pytest.param(SMALL[1], [(wants(1, (0, part(1, 4))),)], [(4, [0])], id="something else"),
        pytest.param(two_shares(1, 1), [(wants(1, SMALL),)], [(4, [1])], id="one of two capacities"),
        pytest.param(share(4, 4, sets=2), [(wants(1, SMALL),)], [(1, [1])], id="all of a device"),
        pytest.param(two_shares(1, 7), [], [(0, [])], id="more than a device has"),
    ],
)
def test_what_blocks_a_node_from_giving_two_devices(wanted, shapes, expected):
    assert list(blockers(wanted, 2, shapes)) == expected


KINDS = st.lists(st.integers(1, 4), min_size=1, max_size=3, unique=True)


@st.composite
def pools(draw):
    available, sets, nodes = draw(st.integers(2, 4)), draw(st.integers(1, 2)), draw(st.integers(1, 2))
    kinds = [size for size in draw(KINDS) if size <= available] or [available]
    if draw(st.booleans()):
        amounts = draw(st.lists(st.integers(1, available), min_size=1, max_size=4))
        counts = draw(st.lists(st.integers(1, sets), min_size=4, max_size=4))
        pods = [
            wants(count, (0, share(amount, available, sets=sets)))
            for amount, count in zip(amounts, counts, strict=False)
        ]
        return available, sets, nodes, (sets,), pods
    parts = [(bit, part(size, available, sets=sets)) for bit, size in enumerate(kinds)]
    choice = st.lists(st.sampled_from(parts), min_size=1, max_size=2, unique=True)
    shapes = draw(st.lists(st.tuples(st.integers(1, 2), choice), min_size=1, max_size=4))
    pods = [wants(count, *chosen) for count, chosen in shapes]
    return available, sets, nodes, tuple(sets * (available // size) for size in kinds), pods


def sizes(demand):
    return [next(d.drawn // ONE for d in p.draws if d.counter == "slices") for p in demand[2].partitions]


def servable(free: tuple[int, ...], demand) -> list[tuple[int, ...]]:
    """The free slices of a node's sets after a pod took its devices, in every way."""
    distinct = demand[2].partitions[0].name.startswith("share/")
    states = {(free, frozenset())}
    for _ in range(demand[0]):
        states = {
            ((*state[:at], state[at] - size, *state[at + 1 :]), used | {at})
            for state, used in states
            for at, size in product(range(len(state)), sizes(demand))
            if state[at] >= size and not (distinct and at in used)
        }
    return sorted({state for state, _ in states})


def arrangements(available, sets, nodes, pods):
    """What may be free on the nodes after these pods were placed, one after the other and anywhere."""
    states = {((available,) * sets,) * nodes}
    for pod in pods:
        states = {
            (*state[:at], after, *state[at + 1 :])
            for state in states
            for at in range(nodes)
            for after in servable(state[at], pod)
        }
    return states


@settings(max_examples=60)
@given(pools())
def test_whatever_the_cluster_does_with_the_rest_a_safe_pod_finds_its_parts(pool):
    available, sets, nodes, counts, pods = pool
    usage = ()
    for pod in pods:
        usage = add(usage, (((pod,), 1),))
    if not is_safe(counts, nodes, usage):
        return
    for at, pod in enumerate(pods):
        others = [*pods[:at], *pods[at + 1 :]]
        for state in arrangements(available, sets, nodes, others):
            assert any(servable(node, pod) for node in state), (pod, state)


@settings(max_examples=60)
@given(pools())
def test_packing_is_that_of_brute_force(pool):
    available, sets, nodes, counts, pods = pool
    usage = ()
    for pod in pods:
        usage = add(usage, (((pod,), 1),))
    possible = bool(arrangements(available, sets, nodes, pods))
    assert pack(counts, nodes, usage) is (Packable.YES if possible else Packable.NO)
    assert not is_safe(counts, nodes, usage) or possible
