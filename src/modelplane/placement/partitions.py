"""Devices that are parts of one another: partitions that draw on shared counters, and shares of a device's capacity.

A node has `sets` alike sets of counters, such as one for each GPU. A device is in one of them and draws on its
counters, and so does every other device there: a whole GPU draws all seven slices, a partition one. A share of a device
is the same: the device is the set, and its capacities are the counters. Shares of one request are of distinct devices.

Let x be how many devices of kind k a set can still give. Whoever draws w' where k draws w lowers x by at most
ceil(w' / w), the largest over the counters that both draw on. So a device keeps at most that many devices of kind k
from others (`kept_away`), wherever it is and whatever else is there, and the condition of `pool_usage` holds with this
number in place of the devices that a pod holds. It holds too where partitions have fixed positions, as long as those of
one kind do not overlap: a small partition stands in the way of one larger one.

Which devices serve the pods of one node is searched for exactly (`serves`), within a budget of steps.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from math import gcd, lcm
from typing import NamedTuple, TypeAlias

MOST_SHARES = 1 << 16
"""As many shares of a device count as no limit."""
_BUDGET = 20_000
_MOST_SIZES = 8
_CACHED = 16_384
SHARES = "share/"
"""In front of the kind: the name of the sets that its devices are, where they are shared."""
DEVICES = "device/"
"""In front of the kind: the counter of its devices in a set."""


class CounterDraw(NamedTuple):
    """In billionths."""

    counter: str
    drawn: int
    available: int


class Partition(NamedTuple):
    name: str
    """Of the sets. Kinds that name the same draw on the same counters."""
    sets: int
    draws: tuple[CounterDraw, ...]
    """By counter."""

    @property
    def is_share(self) -> bool:
        return self.name.startswith(SHARES)


class Draw(NamedTuple):
    """How a demand may be served where some of its kinds are parts of others."""

    plain: int
    """The kinds that are not, as bits."""
    partitions: tuple[Partition, ...]
    """Of the other kinds, sorted."""


PlainDemand: TypeAlias = tuple[int, int]
"""How many devices, of which kinds: a count and a mask."""
DividedDemand: TypeAlias = tuple[int, int, Draw]
"""The same, with what the devices draw."""
Demand: TypeAlias = PlainDemand | DividedDemand


class BudgetReached(Exception):  # noqa: N818  an answer of a search, not an error of the caller
    """Whether the devices can be served is not known."""


def in_set(partition: Partition) -> int:
    """Devices that an empty set gives."""
    return min((draw.available // draw.drawn for draw in partition.draws if draw.drawn), default=MOST_SHARES)


def on_node(partition: Partition) -> int:
    """Devices that an empty node gives."""
    return partition.sets * in_set(partition)


def suitable(partition: Partition) -> int:
    """Distinct devices of an empty node that can serve one request."""
    if partition.is_share:
        return partition.sets if in_set(partition) else 0
    return on_node(partition)


def blockers(wanted: Partition, count: int, shapes: Sequence[Sequence[Demand]]) -> Iterator[tuple[int, list[int]]]:
    """What keeps a node from giving so many devices, and how much a pod of each shape adds to it.

    Each answer is right, so one of them that is not reached is enough.
    """
    if wanted.is_share:
        yield from _share_blockers(wanted, count, shapes)
    else:
        yield on_node(wanted) - count + 1, [most_kept_away(shape, wanted) for shape in shapes]


def _share_blockers(
    wanted: Partition, count: int, shapes: Sequence[Sequence[Demand]]
) -> Iterator[tuple[int, list[int]]]:
    """A device is blocked once more than avail - w of a counter is drawn; all but count - 1 devices have to be.

    Shares have no positions. What is drawn is rounded up to the size of a share, as devices are in `pool_usage`.
    """
    held = [[(found[0], _amounts(found[2], wanted)) for found in divided(shape)] for shape in shapes]
    known = [amounts for found in held for _, kinds in found for amounts in kinds]
    columns = [[draw.drawn, draw.available, *(each[at] for each in known)] for at, draw in enumerate(wanted.draws)]
    units = [gcd(*column) or 1 for column in columns]
    limits = [(draw.available - draw.drawn) // unit + 1 for draw, unit in zip(wanted.draws, units, strict=True)]
    times = wanted.sets - count + 1 if all(limit > 0 for limit in limits) else 0
    sizes = {each[at] // units[at] for each in known for at in range(len(units))} - {0} | {1}
    for step in sorted(sizes)[:_MOST_SIZES]:
        scale = [(unit * step, -(-limit // step)) for unit, limit in zip(units, limits, strict=True)]
        whole = lcm(*(limit for _, limit in scale))
        yield times * whole, [sum(many * _most_blocked(kinds, scale, whole) for many, kinds in each) for each in held]


def _amounts(draw: Draw, wanted: Partition) -> list[list[int]]:
    """What a device draws of the wanted one's counters, for each kind that it may be."""
    same = [{each.counter: each.drawn for each in part.draws} for part in draw.partitions if part.name == wanted.name]
    return [[drawn.get(each.counter, 0) for each in wanted.draws] for drawn in same]


def _most_blocked(kinds: list[list[int]], scale: list[tuple[int, int]], whole: int) -> int:
    """How much of a device is blocked, whichever of its kinds and counters does most of it."""
    return max(
        (
            min(-(-amount // size), limit) * whole // limit
            for amounts in kinds
            for amount, (size, limit) in zip(amounts, scale, strict=True)
        ),
        default=0,
    )


def kept_away(holder: Partition, wanted: Partition) -> int:
    """How many devices of the wanted kind a device of the holder's keeps from others, at most."""
    if holder.name != wanted.name:
        return 0
    drawn = {draw.counter: draw.drawn for draw in holder.draws}
    most = max((-(-drawn.get(draw.counter, 0) // draw.drawn) for draw in wanted.draws if draw.drawn), default=0)
    return min(most, in_set(wanted))


def most_kept_away(shape: Iterable[Demand], wanted: Partition) -> int:
    """The same for a pod, whichever of its kinds it holds."""
    return sum(
        demand[0] * max((kept_away(partition, wanted) for partition in demand[2].partitions), default=0)
        for demand in shape
        if len(demand) == 3  # noqa: PLR2004  a DividedDemand
    )


def divided(shape: Iterable[Demand]) -> list[DividedDemand]:
    return [demand for demand in shape if len(demand) == 3]  # noqa: PLR2004  as above


def plain(shape: Iterable[Demand]) -> list[PlainDemand]:
    return [demand for demand in shape if len(demand) == 2]  # noqa: PLR2004  as above


def touches(shape: Iterable[Demand], other: Iterable[Demand]) -> bool:
    """Whether two pods may want the same devices, or parts of the same."""
    pairs = [(one, two) for one in shape for two in other]
    return any(one[1] & two[1] or _names(one) & _names(two) for one, two in pairs)


def _names(demand: Demand) -> set[str]:
    return {partition.name for found in divided((demand,)) for partition in found[2].partitions}


def most_on_node(demand: Demand, counts: Sequence[int]) -> int:
    """How many such devices an empty node gives, of the kind that it has most of."""
    if len(demand) == 2:  # noqa: PLR2004  a PlainDemand
        return _count(counts, demand[1])
    _, _, draw = demand
    return max((on_node(partition) for partition in draw.partitions), default=0) + _count(counts, draw.plain)


def _count(counts: Sequence[int], mask: int) -> int:
    return sum(count for bit, count in enumerate(counts) if mask >> bit & 1)


_SetState: TypeAlias = tuple[tuple[str, int], ...]
"""What is drawn of the counters of a set, by counter."""
_State: TypeAlias = tuple[tuple[str, tuple[_SetState, ...]], ...]
"""The sets by name; those of one name sorted."""
_Branch: TypeAlias = tuple[int, _State, tuple[int, ...]]
"""How many devices are placed, what they leave, and the kinds of those that are no parts of others."""


@lru_cache(maxsize=_CACHED)
def serves(demands: tuple[DividedDemand, ...]) -> tuple[tuple[PlainDemand, ...], ...]:
    """Every way to serve the demands from one node, by what they take of plain kinds beside. None: there is no way.

    BudgetReached where the search was cut short.
    """
    numbered = ((count, _Unit(draw, at if count > 1 else -1)) for at, (count, _, draw) in enumerate(demands))
    units = sorted((unit for count, unit in numbered for _ in range(count)), key=_hardest_first)
    names = {part.name: part.sets for draw, _ in units for part in draw.partitions}
    start: _State = tuple((name, ((),) * sets) for name, sets in sorted(names.items()))
    found: set[tuple[PlainDemand, ...]] = set()
    stack: list[_Branch] = [(0, start, ())]
    seen = set(stack)
    for _ in range(_BUDGET):
        if not stack:
            return tuple(sorted(found))
        at, state, masks = stack.pop()
        if at == len(units):
            found.add(tuple((masks.count(mask), mask) for mask in sorted(set(masks))))
            if not masks:
                # Nothing is taken of other kinds, so no way could be better.
                return ((),)
            continue
        for following in _steps(units[at], at, state, masks):
            if following not in seen:
                seen.add(following)
                stack.append(following)
    raise BudgetReached


class _Unit(NamedTuple):
    """One device of a demand."""

    draw: Draw
    number: int
    """Of the demand, where it is for several devices; else negative."""


def _hardest_first(unit: _Unit) -> tuple[int, _Unit]:
    return max(on_node(partition) for partition in unit.draw.partitions), unit


def _steps(unit: _Unit, at: int, state: _State, masks: tuple[int, ...]) -> Iterator[_Branch]:
    """Where one device may come from; what is returned last is tried first."""
    if unit.draw.plain:
        yield at + 1, state, tuple(sorted((*masks, unit.draw.plain)))
    for partition in reversed(unit.draw.partitions):
        for position, (name, sets) in enumerate(state):
            if name == partition.name:
                for after in _after(_drawing(partition, unit.number), sets):
                    yield at + 1, (*state[:position], (name, after), *state[position + 1 :]), masks


def _drawing(partition: Partition, number: int) -> tuple[CounterDraw, ...]:
    """What a device draws; of one device no demand has two shares."""
    once = (CounterDraw(f"demand/{number}", 1, 1),) if number >= 0 and partition.is_share else ()
    return (*partition.draws, *once)


def _after(draws: tuple[CounterDraw, ...], sets: tuple[_SetState, ...]) -> Iterator[tuple[_SetState, ...]]:
    for position, used in enumerate(sets):
        if position and sets[position - 1] == used:
            continue
        drawn = dict(used)
        for draw in draws:
            drawn[draw.counter] = drawn.get(draw.counter, 0) + draw.drawn
        if all(drawn[draw.counter] <= draw.available for draw in draws):
            rest = (*sets[:position], *sets[position + 1 :])
            yield tuple(sorted((*rest, tuple(sorted(drawn.items())))))


def exceeds(shapes: Iterable[tuple[Iterable[Demand], int]], nodes: int) -> bool:
    """Whether pods draw more of a counter than all nodes have, whichever of their kinds they take."""
    least: dict[tuple[str, str], int] = {}
    available: dict[tuple[str, str], int] = {}
    for shape, number in shapes:
        for count, _, draw in divided(shape):
            for key, drawn, have in _least(draw):
                least[key] = least.get(key, 0) + count * number * drawn
                available[key] = nodes * have
    return any(least[key] > available[key] for key in least)


def _least(draw: Draw) -> Iterator[tuple[tuple[str, str], int, int]]:
    """What a device draws at least of each counter of a set, and what a node has of it."""
    if draw.plain or len({partition.name for partition in draw.partitions}) != 1:
        return
    first = draw.partitions[0]
    for found in first.draws:
        drawn = [{each.counter: each.drawn for each in part.draws}.get(found.counter, 0) for part in draw.partitions]
        yield (first.name, found.counter), min(drawn), first.sets * found.available
