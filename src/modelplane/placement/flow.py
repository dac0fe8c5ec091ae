"""Whether demands for devices can be met together.

By Hall's theorem they can when every set of demands finds enough devices among the kinds that it may use. Demands for
the same kinds are one demand, so there are few sets; where there are many after all, a maximum flow is worked out.
Demands for parts of devices are served first, in every way: see `partitions`.
"""

from collections.abc import Sequence

from modelplane.placement.partitions import Demand, PlainDemand, divided, plain, serves

_MAX_SETS_OF = 6


def feasible(demands: Sequence[Demand], counts: Sequence[int]) -> bool:
    """Whether every demand can take its count of distinct devices of its kinds. BudgetReached: unknown."""
    parts = divided(demands)
    if parts:
        whole = plain(demands)
        return any(_feasible([*whole, *beside], counts) for beside in serves(tuple(sorted(parts))))
    return _feasible(plain(demands), counts)


def _feasible(demands: Sequence[PlainDemand], counts: Sequence[int]) -> bool:
    merged: dict[int, int] = {}
    for count, mask in demands:
        merged[mask] = merged.get(mask, 0) + count
    if len(merged) <= _MAX_SETS_OF:
        return _every_set_finds_enough(list(merged.items()), counts)
    return _flows([(count, mask) for mask, count in merged.items()], counts)


def _every_set_finds_enough(demands: list[tuple[int, int]], counts: Sequence[int]) -> bool:
    for chosen in range(1 << len(demands)):
        kinds = wanted = 0
        for position, (mask, count) in enumerate(demands):
            if chosen >> position & 1:
                kinds |= mask
                wanted += count
        if wanted > sum(count for bit, count in enumerate(counts) if kinds >> bit & 1):
            return False
    return True


def _flows(demands: Sequence[PlainDemand], counts: Sequence[int]) -> bool:
    free = list(counts)
    taken: list[list[int]] = []
    for row, (count, mask) in enumerate(demands):
        left, own = count, list[int]()
        taken.append(own)
        for kind, have in enumerate(free):
            own.append(min(left, have) if mask >> kind & 1 else 0)
            free[kind] -= own[kind]
            left -= own[kind]
        for _ in range(left):
            if not _augment(row, demands, free, taken, set()):
                return False
    return True


def _augment(row: int, demands: Sequence[PlainDemand], free: list[int], taken: list[list[int]], seen: set[int]) -> bool:
    """Give `row` one more device, moving others to other kinds where that frees one."""
    for kind in range(len(free)):
        if kind in seen or not demands[row][1] >> kind & 1:
            continue
        seen.add(kind)
        if free[kind] > 0:
            free[kind] -= 1
            taken[row][kind] += 1
            return True
        for other in range(len(taken)):
            if taken[other][kind] and _augment(other, demands, free, taken, seen):
                taken[other][kind] -= 1
                taken[row][kind] += 1
                return True
    return False
