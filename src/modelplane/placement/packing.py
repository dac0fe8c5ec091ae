"""Whether the pods of a pool can be packed at all: for clusters that are known to pack tightly.

A packing that is found is a proof. Pods are first put where they fit, the largest first, which is the usual greedy
packing. Where that fails nodes are filled by patterns, fewer and fewer nodes of each, exhaustively, with limits on the
patterns and on the steps. So yes and no are always right; where the search was cut short, that is the answer.
"""

from enum import Enum, auto
from functools import lru_cache

from modelplane.placement.flow import feasible
from modelplane.placement.matching import PodShape
from modelplane.placement.partitions import BudgetReached, exceeds, plain

_CACHED = 16_384
PACKING_BUDGET = 2_000
PATTERN_BUDGET = 128

_Pods = tuple[tuple[PodShape, int], ...]
_Pattern = tuple[int, ...]


class Packable(Enum):
    """Whether pods can be packed on nodes.

    YES      a packing was found
    NO       there is none
    UNKNOWN  none was found before the search was cut short; the pods are not admitted
    """

    YES = auto()
    NO = auto()
    UNKNOWN = auto()


@lru_cache(maxsize=_CACHED)
def pack(counts: tuple[int, ...], nodes: int, usage: _Pods) -> Packable:
    taken = sum(amount * number for shape, number in usage for amount, _ in plain(shape))
    if taken > nodes * sum(counts) or exceeds(usage, nodes):
        return Packable.NO
    try:
        return _search(counts, nodes, usage)
    except BudgetReached:
        return Packable.UNKNOWN


def _search(counts: tuple[int, ...], nodes: int, usage: _Pods) -> Packable:
    pods = sorted(usage, key=_largest_first)
    if _greedy(pods, counts, nodes):
        return Packable.YES
    shapes = [shape for shape, _ in pods]
    wanted = tuple(count for _, count in pods)
    patterns = _patterns(shapes, counts)
    found = _fill(patterns, wanted, nodes)
    return Packable.UNKNOWN if found is Packable.NO and len(patterns) >= PATTERN_BUDGET else found


def _greedy(pods: list[tuple[PodShape, int]], counts: tuple[int, ...], nodes: int) -> bool:
    """Each shape on the nodes that are in use already, as many on each as fit, then on empty ones."""
    filled: list[tuple[PodShape, int]] = [((), nodes)]
    for shape, number in pods:
        left, after = number, []
        for held, many in filled:
            each = _most_beside(held, shape, counts)
            full = min(many, left // each) if each else 0
            rest = min(left - full * each, each) if many > full else 0
            after += [(held + shape * each, full), (held + shape * rest, bool(rest)), (held, many - full - bool(rest))]
            left -= full * each + rest
        if left:
            return False
        filled = [(held, many) for held, many in after if many]
    return True


def packs_beside(counts: tuple[int, ...], nodes: int, usage: _Pods, bound: tuple[_Pods, ...]) -> bool:
    """Whether the pods that are not on a node yet find one beside those that are, the largest first.

    Yes is a proof; no says that the usual greedy packing found none.
    """
    left = dict(usage)
    filled = [tuple(demand for shape, number in pods for demand in shape * number) for pods in bound[:nodes]]
    for pods in bound:
        for shape, number in pods:
            left[shape] = left.get(shape, 0) - number
    filled += [()] * (nodes - len(filled))
    for shape, number in sorted(left.items(), key=_largest_first):
        for _ in range(number):
            fullest = [at for at, held in enumerate(filled) if _fits_beside(held, shape, counts)]
            if not fullest:
                return False
            at = max(fullest, key=lambda at: _size(filled[at]))
            filled[at] += shape
    return True


def _fits_beside(held: PodShape, shape: PodShape, counts: tuple[int, ...]) -> bool:
    try:
        return feasible([*held, *shape], counts)
    except BudgetReached:
        return False


def _largest_first(pods: tuple[PodShape, int]) -> int:
    """A usage is sorted already, so equally large ones stay in order."""
    return -_size(pods[0])


def _size(shape: PodShape) -> int:
    return sum(count for count, *_ in shape)


def _patterns(shapes: list[PodShape], counts: tuple[int, ...]) -> list[_Pattern]:
    """Ways to fill one node to which no further pod can be added, those with most of the large pods first.

    As many as the limit means that there may be more.
    """
    found: list[_Pattern] = []
    _extend(shapes, counts, (), found)
    if len(found) >= PATTERN_BUDGET:
        return found
    return [one for one in found if not any(_covers(other, one) for other in found if other != one)]


def _extend(shapes: list[PodShape], counts: tuple[int, ...], begun: _Pattern, found: list[_Pattern]) -> None:
    if len(found) >= PATTERN_BUDGET:
        return
    if len(begun) == len(shapes):
        found.append(begun)
        return
    for amount in range(_most(shapes, counts, begun), -1, -1):
        _extend(shapes, counts, (*begun, amount), found)


def _most(shapes: list[PodShape], counts: tuple[int, ...], begun: _Pattern) -> int:
    """How many pods of the next shape fit a node beside those of the pattern begun."""
    held = tuple(demand for shape, amount in zip(shapes, begun, strict=False) for demand in shape * amount)
    return _most_beside(held, shapes[len(begun)], counts)


def _most_beside(held: PodShape, shape: PodShape, counts: tuple[int, ...]) -> int:
    amount = 0
    while feasible([*held, *(shape * (amount + 1))], counts):
        amount += 1
    return amount


def _covers(other: _Pattern, one: _Pattern) -> bool:
    return all(more >= less for more, less in zip(other, one, strict=True))


def _fill(patterns: list[_Pattern], wanted: _Pattern, nodes: int) -> Packable:
    """Depth first over patterns in order; each is used on as many nodes as it can be of use for, then on fewer."""
    stack = [(0, wanted, nodes, min(nodes, _uses(patterns[0], wanted)))]
    for _ in range(PACKING_BUDGET):
        if not stack:
            return Packable.NO
        position, left, free, times = stack.pop()
        if times > 0:
            stack.append((position, left, free, times - 1))
        rest = tuple(max(have - times * take, 0) for have, take in zip(left, patterns[position], strict=True))
        if not any(rest):
            return Packable.YES
        if position + 1 < len(patterns) and free > times:
            most = min(free - times, _uses(patterns[position + 1], rest))
            stack.append((position + 1, rest, free - times, most))
    return Packable.UNKNOWN


def _uses(pattern: _Pattern, left: _Pattern) -> int:
    """On how many nodes a pattern is of use: until nothing of what it holds is left."""
    return max((-(-have // take) for have, take in zip(left, pattern, strict=True) if take), default=0)
