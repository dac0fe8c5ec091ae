"""Whether the pods of a pool can be packed at all: for clusters that are known to pack tightly.

A packing that is found is a proof. Nodes are filled by patterns, full ones with the largest pods first, which is the
usual greedy packing; where that fails fewer nodes of each pattern are tried, exhaustively, with a limit on the steps.
So an answer of yes is always right, and an answer of no is wrong only where the search was cut short: after some steps,
or before it began where more than eight shapes of pod share the pool.
"""

from functools import lru_cache

from modelplane.fleet.flow import feasible
from modelplane.fleet.matching import PodShape

_CACHED = 16_384
_MAX_STEPS = 2_000
_MAX_PATTERNS = 128
_MAX_SHAPES = 8

_Pods = tuple[tuple[PodShape, int], ...]
_Pattern = tuple[int, ...]


@lru_cache(maxsize=_CACHED)
def fits_packed(counts: tuple[int, ...], nodes: int, use: _Pods) -> bool:
    pods = sorted(use, key=lambda item: (-_size(item[0]), item[0]))
    if sum(_size(shape) * count for shape, count in pods) > nodes * sum(counts):
        return False
    if len(pods) > _MAX_SHAPES:
        return False
    shapes = [shape for shape, _ in pods]
    wanted = tuple(count for _, count in pods)
    patterns = _patterns(shapes, counts)
    return _fill(patterns, wanted, nodes)


def _size(shape: PodShape) -> int:
    return sum(count for count, _ in shape)


def _patterns(shapes: list[PodShape], counts: tuple[int, ...]) -> list[_Pattern]:
    """Ways to fill one node to which no further pod can be added, those with most of the large pods first."""
    found: list[_Pattern] = []
    _extend(shapes, counts, (), found)
    return [one for one in found if not any(_covers(other, one) for other in found if other != one)]


def _extend(shapes: list[PodShape], counts: tuple[int, ...], begun: _Pattern, found: list[_Pattern]) -> None:
    if len(found) >= _MAX_PATTERNS:
        return
    if len(begun) == len(shapes):
        found.append(begun)
        return
    for amount in range(_most(shapes, counts, begun), -1, -1):
        _extend(shapes, counts, (*begun, amount), found)


def _most(shapes: list[PodShape], counts: tuple[int, ...], begun: _Pattern) -> int:
    """How many pods of the next shape fit a node beside those of the pattern begun."""
    held = [demand for shape, amount in zip(shapes, begun, strict=False) for demand in shape * amount]
    amount = 0
    while feasible([*held, *(shapes[len(begun)] * (amount + 1))], counts):
        amount += 1
    return amount


def _covers(other: _Pattern, one: _Pattern) -> bool:
    return all(more >= less for more, less in zip(other, one, strict=True))


def _fill(patterns: list[_Pattern], wanted: _Pattern, nodes: int) -> bool:
    """Depth first over patterns in order; each is used on as many nodes as it can be of use for, then on fewer."""
    stack = [(0, wanted, nodes, min(nodes, _uses(patterns[0], wanted)))]
    for _ in range(_MAX_STEPS):
        if not stack:
            return False
        position, left, free, times = stack.pop()
        if times > 0:
            stack.append((position, left, free, times - 1))
        rest = tuple(max(have - times * take, 0) for have, take in zip(left, patterns[position], strict=True))
        if not any(rest):
            return True
        if position + 1 < len(patterns) and free > times:
            most = min(free - times, _uses(patterns[position + 1], rest))
            stack.append((position + 1, rest, free - times, most))
    return False


def _uses(pattern: _Pattern, left: _Pattern) -> int:
    """On how many nodes a pattern is of use: until nothing of what it holds is left."""
    return max((-(-have // take) for have, take in zip(left, pattern, strict=True) if take), default=0)
