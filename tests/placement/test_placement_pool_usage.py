"""Safe accounting, against an adversary that places pods as badly as it can."""

import itertools

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from modelplane.placement.flow import feasible
from modelplane.placement.hardware import count_in
from modelplane.placement.matching import pod_shape
from modelplane.placement.partitions import Draw, Partition
from modelplane.placement.pool_usage import add, devices_held, fits, free_slots, is_safe, subtract

ONE = ((1, 1),)
TWO = ((2, 1),)
FOUR = ((4, 1),)
EIGHT = ((8, 1),)


@pytest.mark.parametrize(
    ("counts", "nodes", "use", "safe"),
    [
        pytest.param((8,), 1, ((ONE, 8),), True, id="eight one-device pods share a node"),
        pytest.param((8,), 1, ((ONE, 9),), False, id="nine do not"),
        pytest.param((8,), 2, ((EIGHT, 2),), True, id="a whole-node pod takes a node"),
        pytest.param((8,), 2, ((EIGHT, 3),), False, id="three of them do not fit two nodes"),
        pytest.param((8,), 2, ((ONE, 1), (EIGHT, 1)), True, id="one small pod blocks at most one node"),
        pytest.param((8,), 2, ((ONE, 2), (EIGHT, 1)), False, id="two small pods may sit on both nodes"),
        pytest.param((8,), 2, ((FOUR, 3),), True, id="three halves on two nodes"),
        pytest.param((8,), 2, ((FOUR, 4),), True, id="four halves on two nodes: three others block one node at most"),
        pytest.param((8,), 2, ((FOUR, 5),), False, id="five halves"),
        pytest.param((8,), 2, ((ONE, 6), (FOUR, 1)), True, id="six ones may crowd one node to five, never both"),
        pytest.param((8,), 2, ((ONE, 10), (FOUR, 1)), False, id="ten ones may hold five on both nodes"),
        pytest.param((8,), 0, ((ONE, 1),), False, id="no nodes"),
        pytest.param((8,), 0, (), True, id="nothing fits nowhere"),
        pytest.param((4, 4), 1, ((((1, 1),), 4), (((1, 2),), 4)), True, id="different kinds do not disturb each other"),
        pytest.param((4, 4), 1, ((((8, 3),), 1),), True, id="one request over two kinds"),
        pytest.param((4, 4), 1, ((((1, 1), (1, 2)), 4),), True, id="a pod of two kinds is counted once"),
        pytest.param((4, 4), 1, ((((1, 1), (1, 2)), 5),), False, id="five of them do not fit"),
        pytest.param((4,), 3, ((((5, 1),), 1),), False, id="larger than a node"),
        pytest.param(
            (8, 8),
            2,
            ((((1, 1), (1, 2)), 9), (((4, 1), (4, 2)), 1)),
            True,
            id="what is blocked for two kinds is blocked for one of them",
        ),
        pytest.param(
            (1, 8),
            2,
            ((((1, 1), (4, 2)), 1), (((4, 2),), 3)),
            True,
            id="four halves on two nodes, one of them beside the only device of another kind",
        ),
        pytest.param(
            (4, 4),
            3,
            ((ONE, 1), (((1, 2), (5, 1)), 1)),
            False,
            id="one device of one kind larger than a node, beside another",
        ),
    ],
)
def test_what_is_safe(counts, nodes, use, safe):
    assert is_safe(counts, nodes, tuple(sorted(use))) is safe


def test_a_pod_with_few_demands_is_judged_by_each_and_one_with_many_by_all():
    """Beside a pod that holds one of two devices of the first kind."""

    def is_safe_with(demands):
        wants = tuple((1, 1 << kind) for kind in range(demands))
        return is_safe((2,) * demands, 1, tuple(sorted(((ONE, 1), (wants, 1)))))

    assert [is_safe_with(demands) for demands in (3, 4, 5)] == [True, True, False]


def test_a_pod_that_starts_again_may_free_nothing():
    """On the first node are three pods, and two of them can take both devices that the third wants."""
    either = ((1, 3),)
    use = ((ONE, 2), (either, 3))
    on_nodes = ((ONE, 1), (either, 2)), ((ONE, 1), (either, 1))
    assert is_safe((2, 2), 2, use, bound=on_nodes) is False
    assert is_safe((2, 2), 3, use, bound=on_nodes) is True


def test_strictly_more_is_admitted_than_by_charging_whole_nodes():
    admitted = free_slots((8,), 4, (), ONE, packed=False)
    assert (admitted, free_slots((8,), 4, (), FOUR, packed=False)) == (32, 8)


def test_what_takes_nothing_is_counted_up_to_a_limit():
    nothing = (1, 1, Draw(0, (Partition("share/gpu", 1, ()),)))
    assert free_slots((1,), 1, (), (nothing,), packed=False) == (1 << 20) - 1


def test_use_is_added_and_taken_away_again():
    use = add(add((), ((ONE, 2),)), ((FOUR, 1), (ONE, 1)))
    assert use == ((ONE, 3), (FOUR, 1))
    assert devices_held(use) == 7
    assert subtract(use, ((ONE, 3),)) == ((FOUR, 1),)
    assert subtract(use, use) == ()


counts_of_kinds = st.lists(st.integers(1, 3), min_size=1, max_size=3).map(tuple)


@st.composite
def pools(draw, *, max_pods=5, max_nodes=3):
    counts = draw(counts_of_kinds)
    demands = [
        (count, mask) for mask in range(1, 1 << len(counts)) for count in range(1, min(3, count_in(counts, mask)) + 1)
    ]
    ones = [pod_shape([one]) for one in demands]
    twos = [pod_shape(two) for two in itertools.combinations(demands, 2) if feasible(two, counts)]
    pods = draw(st.lists(st.sampled_from(ones + twos), min_size=1, max_size=max_pods))
    return counts, draw(st.integers(1, max_nodes)), pods


def as_use(pods):
    use = ()
    for shape in pods:
        use = add(use, ((shape, 1),))
    return use


def takings(shape, free):
    """Every way a pod can take devices from what a node has free."""
    if not shape:
        yield free
        return
    (count, mask), *rest = shape
    kinds = [k for k in range(len(free)) if mask >> k & 1]
    for split in itertools.product(*(range(min(count, free[k]) + 1) for k in kinds)):
        if sum(split) == count:
            left = list(free)
            for k, taken in zip(kinds, split, strict=True):
                left[k] -= taken
            yield from takings(rest, tuple(left))


def states(others, counts, nodes):
    """Every state of the nodes that an adversary can reach with some or all of the other pods, in any order."""
    reached = {tuple([tuple(counts)] * nodes)}
    for shape in others:
        reached |= {
            tuple(sorted((*state[:node], left, *state[node + 1 :])))
            for state in reached
            for node in range(nodes)
            for left in takings(shape, state[node])
        }
    return reached


@settings(max_examples=60)
@given(pools(max_pods=4, max_nodes=2))
def test_whatever_an_adversary_does_a_safe_pod_finds_a_node(pool):
    counts, nodes, pods = pool
    assume(is_safe(counts, nodes, as_use(pods)))
    for position, shape in enumerate(pods):
        others = pods[:position] + pods[position + 1 :]
        for state in states(others, counts, nodes):
            assert any(feasible(shape, free) for free in state), (shape, state)


@settings(max_examples=60)
@given(pools(max_pods=4, max_nodes=2), st.integers(0, 4))
def test_a_safe_pod_finds_a_node_wherever_foreign_pods_are(pool, foreign):
    counts, nodes, pods = pool
    theirs, ours = pods[:foreign], pods[foreign:]
    assume(is_safe(counts, nodes, as_use(pods), as_use(theirs)))
    for position, shape in enumerate(ours):
        others = [*theirs, *ours[:position], *ours[position + 1 :]]
        for state in states(others, counts, nodes):
            assert any(feasible(shape, free) for free in state), (shape, state)


def test_what_is_foreign_is_in_the_way_and_is_not_looked_after():
    """Two single devices may keep a foreign whole-node pod from starting again; one of ours they may not."""
    use = ((ONE, 2), (EIGHT, 1))
    assert is_safe((8,), 2, use, ((EIGHT, 1),))
    assert not is_safe((8,), 2, use)
    assert not is_safe((8,), 2, ((ONE, 2), (EIGHT, 2)), ((EIGHT, 1),))


@settings(max_examples=50)
@given(pools(max_pods=12, max_nodes=4), st.randoms(use_true_random=False))
def test_a_safe_set_starts_in_any_order_on_a_careless_cluster(pool, random):
    counts, nodes, pods = pool
    assume(is_safe(counts, nodes, as_use(pods)))
    free = [tuple(counts)] * nodes
    random.shuffle(pods)
    for shape in pods:
        options = [(node, left) for node in range(nodes) for left in takings(shape, free[node])]
        assert options, (shape, free)
        node, left = random.choice(options)
        free[node] = left


@pytest.mark.slow
@given(pools())
def test_never_less_is_admitted_than_by_charging_whole_nodes(pool):
    counts, nodes, pods = pool
    assume(len(pods) <= nodes)
    assert is_safe(counts, nodes, as_use(pods))


@given(pools())
def test_what_is_safe_stays_safe_when_a_pod_leaves_or_a_node_comes(pool):
    counts, nodes, pods = pool
    assume(is_safe(counts, nodes, as_use(pods)))
    assert is_safe(counts, nodes, as_use(pods[1:]))
    assert is_safe(counts, nodes + 1, as_use(pods))


def test_a_pod_of_two_kinds_is_blocked_through_either_and_not_through_both_together():
    """Sixteen others of one device each can fill both nodes, fourteen cannot: GPUs and NICs are not added up."""
    gpu, nic, both = ((1, 1),), ((1, 2),), ((1, 1), (1, 2))
    assert is_safe((8, 8), 2, tuple(sorted(((gpu, 7), (nic, 7), (both, 1)))))
    assert not is_safe((8, 8), 2, tuple(sorted(((gpu, 8), (nic, 8), (both, 1)))))


@pytest.mark.slow
@given(pools())
def test_no_more_devices_are_promised_than_there_are(pool):
    counts, nodes, pods = pool
    assume(is_safe(counts, nodes, as_use(pods)))
    for wanted in range(1, 1 << len(counts)):
        inside = sum(count for shape in pods for count, mask in shape if mask & ~wanted == 0)
        assert inside <= nodes * count_in(counts, wanted)


@given(st.integers(1, 8), st.integers(1, 4), st.lists(st.integers(1, 8), min_size=1, max_size=12))
def test_with_one_kind_of_device_at_least_what_the_plain_formula_admits_is_safe(size, nodes, sizes):
    sizes = [min(found, size) for found in sizes]
    plain = all(
        sum(min(other, size - mine + 1) for other in sizes[:i] + sizes[i + 1 :]) // (size - mine + 1) < nodes
        for i, mine in enumerate(sizes)
    )
    assert is_safe((size,), nodes, as_use([((found, 1),) for found in sizes])) or not plain


def most_blocked(sizes, threshold):
    """The most nodes that pods of these sizes can block, by trying every way to group them."""
    best, seen = 0, set()

    def group(left, blocked):
        nonlocal best
        best = max(best, blocked)
        if (left, blocked) in seen:
            return
        seen.add((left, blocked))
        for picked in range(1, 1 << len(left)):
            chosen = [s for at, s in enumerate(left) if picked >> at & 1]
            if sum(chosen) >= threshold and sum(chosen) - min(chosen) < threshold:
                group(tuple(s for at, s in enumerate(left) if not picked >> at & 1), blocked + 1)

    group(tuple(sorted(sizes)), 0)
    return best


@given(st.sampled_from([2, 4, 8]), st.integers(1, 3), st.lists(st.sampled_from([1, 2, 4, 8]), min_size=1, max_size=7))
def test_the_bound_never_exceeds_what_is_safe_and_is_exact_for_pods_of_one_size(size, nodes, sizes):
    sizes = [min(found, size) for found in sizes]
    exact = all(most_blocked(sizes[:i] + sizes[i + 1 :], size - mine + 1) < nodes for i, mine in enumerate(sizes))
    found = is_safe((size,), nodes, as_use([((s, 1),) for s in sizes]))
    assert exact or not found
    if len(set(sizes)) == 1:
        assert found is exact


@given(pools(max_pods=6, max_nodes=2))
def test_spare_is_the_most_that_fits(pool):
    counts, nodes, pods = pool
    use, shape = as_use(pods[1:]), pods[0]
    more = free_slots(counts, nodes, use, shape, packed=False)
    assert more == 0 or fits(counts, nodes, add(use, ((shape, more),)), packed=False)
    assert not fits(counts, nodes, add(use, ((shape, more + 1),)), packed=False)


def test_a_pod_of_very_many_demands_is_taken_to_be_blocked_by_anything_that_touches_them():
    many = tuple((1, 1 << bit) for bit in range(7))
    counts = (8,) * 7
    assert is_safe(counts, 2, ((((1, 1),), 1), (many, 1)))
    assert not is_safe(counts, 2, ((((1, 1),), 2), (many, 1)))
    assert is_safe((*counts, 8), 2, tuple(sorted(((many, 1), (((1, 1 << 7),), 9)))))
    others = tuple((1, 1 << bit) for bit in range(1, 8))
    assert is_safe((*counts, 8), 2, tuple(sorted(((others, 1), (ONE, 9)))))


# Pods that are known to be on a node.

SINGLES = ((ONE, 8),)
MIXED = ((ONE, 8), (EIGHT, 9))
PAIR = ((FOUR, 2),)


@pytest.mark.parametrize(
    ("nodes", "use", "bound", "safe"),
    [
        pytest.param(10, MIXED, (), False, id="eight singles may be on eight nodes"),
        pytest.param(10, MIXED, (SINGLES,), True, id="they are on one"),
        pytest.param(10, ((ONE, 8), (EIGHT, 10)), (SINGLES,), False, id="the others are full"),
        pytest.param(10, ((ONE, 8), (EIGHT, 8)), (((ONE, 4),), ((ONE, 4),)), True, id="they are on two"),
        pytest.param(10, MIXED, (((ONE, 4),), ((ONE, 4),)), False, id="two nodes are begun"),
        pytest.param(10, ((ONE, 9), (EIGHT, 8)), (SINGLES,), True, id="one more may be anywhere"),
        pytest.param(3, ((ONE, 5), (FOUR, 4)), (PAIR, PAIR), True, id="a half that restarts has its place or a node"),
        pytest.param(3, ((ONE, 6), (FOUR, 4)), (PAIR, PAIR), False, id="singles may be in both"),
        pytest.param(10, ((ONE, 9), (EIGHT, 9)), (SINGLES,), False, id="one more may be on the last free node"),
    ],
)
def test_pods_on_a_node_are_in_the_way_there_only(nodes, use, bound, safe):
    assert is_safe((8,), nodes, use, (), bound) is safe


@st.composite
def bound_pools(draw, *, max_pods=5, max_nodes=3):
    """A pool, its nodes with the pods that are bound to each and what they hold, and the pods that are not bound."""
    counts, nodes, pods = draw(pools(max_pods=max_pods, max_nodes=max_nodes))
    on, free = [[] for _ in range(nodes)], [tuple(counts)] * nodes
    anywhere = []
    for shape in pods:
        node = draw(st.integers(-1, nodes - 1))
        ways = list(takings(shape, free[node])) if node >= 0 else []
        if ways:
            on[node].append(shape)
            free[node] = draw(st.sampled_from(ways))
        else:
            anywhere.append(shape)
    return counts, on, free, anywhere


def bound_of(on):
    return tuple(sorted(as_use(pods) for pods in on if pods))


def reachable(others, state):
    reached = {tuple(state)}
    for shape in others:
        reached |= {
            (*before[:node], left, *before[node + 1 :])
            for before in reached
            for node in range(len(state))
            for left in takings(shape, before[node])
        }
    return reached


@settings(max_examples=100)
@given(bound_pools(max_pods=5, max_nodes=3))
def test_whatever_an_adversary_does_with_the_rest_a_safe_pod_finds_a_node_beside_bound_ones(pool):
    counts, on, free, anywhere = pool
    use = as_use([*itertools.chain(*on), *anywhere])
    assume(is_safe(counts, len(on), use, (), bound_of(on)))
    for position, shape in enumerate(anywhere):
        for state in reachable(anywhere[:position] + anywhere[position + 1 :], free):
            assert any(feasible(shape, left) for left in state), (shape, state)


@settings(max_examples=60)
@given(bound_pools(max_pods=6, max_nodes=4))
def test_what_is_safe_stays_safe_when_a_pod_is_bound_or_leaves(pool):
    counts, on, _, anywhere = pool
    use = as_use([*itertools.chain(*on), *anywhere])
    safe = is_safe(counts, len(on), use, (), bound_of(on))
    assume(safe or is_safe(counts, len(on), use))
    assert safe, "what is safe wherever all pods are is safe where some are bound"
    for shape in anywhere:
        for node in range(len(on)):
            moved = [[*pods, shape] if at == node else pods for at, pods in enumerate(on)]
            assert is_safe(counts, len(on), use, (), bound_of(moved))
    for node, pods in enumerate(on):
        for at, shape in enumerate(pods):
            left = [[*pods[:at], *pods[at + 1 :]] if found == node else other for found, other in enumerate(on)]
            assert is_safe(counts, len(on), subtract(use, ((shape, 1),)), (), bound_of(left))
