"""Whether the pods of a pool fit: safely, however the cluster places them.

The cluster's own scheduler binds pods to nodes; it never moves one that runs, and it may choose as badly as it can. A
set of pods is *safe* on N equal nodes when each of them still finds a node wherever all the others are. Pods come and
go one at a time, so a safe set can be started in any order without one of them waiting for ever.

Take a pod p with demands (count, kinds). By Hall's theorem a node cannot serve p exactly when, for some set Q of its
demands, the other pods there hold at least T = D - c + 1 devices of the kinds K that Q may use, where D is how many a
node has of K and c is what Q requests. Another pod i can hold at most m of K. For any whole number q,

    sum of m >= T   implies   sum of ceil(m / q) >= ceil(T / q),

so a pod contributes at most a share f = min(ceil(m / q), ceil(T / q)) / ceil(T / q) towards blocking one node, a
blocked node needs shares of at least 1, and a pod sits on one node only: at most floor(sum of f) nodes are blocked. p
fits while that is below N. Any q is right, so it is enough that one of them admits it: pods that halve a node pack two
to a node. Where p has several Q, a pod counts with its largest share. The condition must hold for every shape
of pod on the pool, not only for the newcomer.

With q = 1 and one kind of device this reads floor(sum of min(s, T) / T) < N. A whole-node pod has T = 1 and so counts
one node for each other pod; eight one-device pods share a node of eight. Shares are at most 1, so whatever charging
whole nodes would admit is admitted here too.

A pod that wants parts of devices is blocked where the others keep so many of them away (`partitions`). Which kind it
gets is up to it, so one kind that the others leave enough of will do. A pod with several such demands is taken to be
blocked by anything that touches them.

Pods that are known to be on a node are there and nowhere else: a node is blocked once, so all pods of one node together
count at most 1. The others, and a pod that starts again, may go anywhere. What is safe stays safe when a pod leaves,
and when one that could be anywhere is bound to a node.

Coarse on purpose: what a pod may hold is bounded demand by demand, and a pod with very many different demands is taken
to be blocked by anything that touches its kinds. CPU and memory are not counted. The cluster is authoritative.

A cluster that is known to pack tightly can be trusted to: see `packing`.
"""

from collections.abc import Iterator
from functools import lru_cache
from math import lcm

from modelplane.placement.flow import feasible
from modelplane.placement.hardware import count_in
from modelplane.placement.matching import PodShape
from modelplane.placement.packing import Packable, pack
from modelplane.placement.partitions import (
    BudgetReached,
    PlainDemand,
    blockers,
    divided,
    plain,
    touches,
)

PoolUsage = tuple[tuple[PodShape, int], ...]
"""The pods of a pool: how many of each shape, sorted by shape. Pods that claim nothing are not listed."""
EMPTY: PoolUsage = ()
BoundNodes = tuple[PoolUsage, ...]
"""The part of a usage that is known to be on some nodes: the pods of each such node, sorted."""

_MAX_DEMANDS = 4
_CACHED = 65_536
_MOST_PODS = 1 << 20
_MOST_STEPS = 64


@lru_cache(maxsize=_CACHED)
def is_safe(
    counts: tuple[int, ...], nodes: int, usage: PoolUsage, foreign: PoolUsage = EMPTY, bound: BoundNodes = ()
) -> bool:
    """Whether each pod finds a node wherever the others are, on `nodes` nodes with these counts of each kind.

    `foreign` is the part of the usage that is not of replicas: it is in the way, and whether it finds a node itself is
    not checked.
    """
    theirs = dict(foreign)
    return all(
        _finds_a_node(shape, counts, nodes, usage, bound) for shape, number in usage if number > theirs.get(shape, 0)
    )


@lru_cache(maxsize=_CACHED)
def fits(
    counts: tuple[int, ...],
    nodes: int,
    usage: PoolUsage,
    *,
    packed: bool,
    foreign: PoolUsage = EMPTY,
    bound: BoundNodes = (),
) -> bool:
    return is_safe(counts, nodes, usage, foreign, bound) or (packed and pack(counts, nodes, usage) is Packable.YES)


def is_impossible(counts: tuple[int, ...], nodes: int, usage: PoolUsage) -> bool:
    """Whether the pods are known not to run together, however well they are placed."""
    return not is_safe(counts, nodes, usage) and pack(counts, nodes, usage) is Packable.NO


def add(usage: PoolUsage, pods: PoolUsage) -> PoolUsage:
    if not usage or not pods:
        return usage or pods
    merged = dict(usage)
    for shape, count in pods:
        merged[shape] = merged.get(shape, 0) + count
    return tuple(sorted(merged.items()))


def subtract(usage: PoolUsage, pods: PoolUsage) -> PoolUsage:
    gone = dict(pods)
    return tuple((shape, left) for shape, count in usage if (left := count - gone.get(shape, 0)) > 0)


def devices_held(usage: PoolUsage) -> int:
    """Devices that the pods hold in all."""
    return sum(count * amount for shape, count in usage for amount, *_ in shape)


def free_slots(  # noqa: PLR0913  what a pool is and who uses it, as for `fits`
    counts: tuple[int, ...],
    nodes: int,
    usage: PoolUsage,
    shape: PodShape,
    *,
    packed: bool,
    foreign: PoolUsage = EMPTY,
    bound: BoundNodes = (),
) -> int:
    """How many more pods of a shape the pool would admit."""

    def admits(number: int) -> bool:
        return fits(counts, nodes, add(usage, ((shape, number),)), packed=packed, foreign=foreign, bound=bound)

    low, high = 0, 1
    while high < _MOST_PODS and admits(high):
        low, high = high, high * 2
    while high - low > 1:
        middle = (low + high) // 2
        if admits(middle):
            low = middle
        else:
            high = middle
    return low


def _finds_a_node(
    shape: PodShape, counts: tuple[int, ...], nodes: int, usage: PoolUsage, bound: BoundNodes = ()
) -> bool:
    shapes = list(dict.fromkeys(other for pods in (usage, *bound) for other, _ in pods))
    anywhere = usage
    for pods in bound:
        anywhere = subtract(anywhere, pods)
    for blocking in _alternatives(shape, shapes, counts):
        if any(threshold <= 0 for threshold, _ in blocking):
            continue
        steps = range(min(max(threshold for threshold, _ in blocking), _MOST_STEPS))
        if any(_within(shape, *_shares(shapes, blocking, step + 1), nodes, anywhere, bound) for step in steps):
            return True
    return False


_Blockers = list[tuple[int, list[int]]]
"""What must be held to block a node, and what a pod of each shape can hold of it."""


def _alternatives(shape: PodShape, shapes: list[PodShape], counts: tuple[int, ...]) -> Iterator[_Blockers]:
    """The ways to serve a pod, each with what blocks it; it finds a node where one of them does."""
    parts, whole = divided(shape), plain(shape)
    if not parts:
        yield _held(whole, shapes, counts)
        return
    if len(parts) > 1:
        able = int(_can_serve(shape, counts))
        yield [*_held(whole, shapes, counts), (able, [int(touches(parts, other)) for other in shapes])]
        return
    count, _, draw = parts[0]
    for wanted in draw.partitions:
        for blocker in blockers(wanted, count, shapes):
            yield [*_held(whole, shapes, counts), blocker]
    if draw.plain:
        yield _held([*whole, (count, draw.plain)], shapes, counts)


def _held(demands: list[PlainDemand], shapes: list[PodShape], counts: tuple[int, ...]) -> _Blockers:
    return [
        (threshold, [_most_held(other, kinds, counts) for other in shapes])
        for kinds, threshold in _blockers(demands, counts)
    ]


def _can_serve(shape: PodShape, counts: tuple[int, ...]) -> bool:
    try:
        return feasible(shape, counts)
    except BudgetReached:
        return False


def _shares(shapes: list[PodShape], blocking: _Blockers, step: int) -> tuple[dict[PodShape, int], int]:
    """What a pod of each shape contributes towards blocking a node, and what blocks one, counted in steps."""
    wholes = [-(-threshold // step) for threshold, _ in blocking]
    unit = lcm(*wholes)
    shares = {
        shape: max(
            min(-(-held[position] // step), whole) * unit // whole
            for (_, held), whole in zip(blocking, wholes, strict=True)
        )
        for position, shape in enumerate(shapes)
    }
    return shares, unit


def _within(
    shape: PodShape,
    shares: dict[PodShape, int],
    unit: int,
    nodes: int,
    anywhere: PoolUsage,
    bound: BoundNodes,
) -> bool:
    """Whether the others of a pod block fewer nodes than there are, whichever of its shape the pod is."""
    own = shares[shape]
    total = sum(shares[other] * number for other, number in anywhere)
    left_out = [own] if any(other == shape for other, _ in anywhere) else []
    for pods in bound:
        held = sum(shares[other] * number for other, number in pods)
        total += min(unit, held)
        if any(other == shape for other, _ in pods):
            left_out.append(min(unit, held) - min(unit, held - own))
    return total - min(left_out) < nodes * unit


def _blockers(shape: list[PlainDemand], counts: tuple[int, ...]) -> Iterator[tuple[int, int]]:
    """For each set of demands: the kinds that they may use, and how many devices of those must be held to block.

    Sets that fall into parts without a kind in common are left out: when such a set is blocked, so is one of its parts.
    """
    if len(shape) > _MAX_DEMANDS:
        everything = 0
        for _, mask in shape:
            everything |= mask
        yield everything, 1
        return
    for chosen in range(1, 1 << len(shape)):
        demands = [demand for position, demand in enumerate(shape) if chosen >> position & 1]
        kinds = _joined(demands)
        if kinds:
            yield kinds, count_in(counts, kinds) - sum(count for count, _ in demands) + 1


def _joined(demands: list[PlainDemand]) -> int:
    """The kinds of some demands where they hang together; 0 where they do not."""
    kinds, left = demands[0][1], demands[1:]
    while left:
        touching = [mask for _, mask in left if mask & kinds]
        if not touching:
            return 0
        for mask in touching:
            kinds |= mask
        left = [demand for demand in left if not demand[1] & kinds]
    return kinds


def _most_held(other: PodShape, kinds: int, counts: tuple[int, ...]) -> int:
    """The most devices of some kinds that a pod can hold."""
    return sum(min(count, count_in(counts, mask & kinds)) for count, mask, *_ in other)
