"""Whether demands for devices can be met together: a maximum flow from demands to kinds of device."""

from collections.abc import Sequence

Demand = tuple[int, int]
"""How many devices, of which kinds: a count and a mask."""


def feasible(demands: Sequence[Demand], counts: Sequence[int]) -> bool:
    """Whether every demand can take its count of distinct devices from the kinds in its mask."""
    free = list(counts)
    taken = [[0] * len(counts) for _ in demands]
    for row, (count, _) in enumerate(demands):
        for _ in range(count):
            if not _augment(row, demands, free, taken, set()):
                return False
    return True


def _augment(row: int, demands: Sequence[Demand], free: list[int], taken: list[list[int]], seen: set[int]) -> bool:
    """Give `row` one more device, moving others to other kinds where that makes room."""
    for kind in range(len(free)):
        if kind in seen or not demands[row][1] >> kind & 1:
            continue
        seen.add(kind)
        if free[kind] > 0:
            free[kind] -= 1
            taken[row][kind] += 1
            return True
        for other in range(len(demands)):
            if taken[other][kind] and _augment(other, demands, free, taken, seen):
                taken[other][kind] -= 1
                taken[row][kind] += 1
                return True
    return False
