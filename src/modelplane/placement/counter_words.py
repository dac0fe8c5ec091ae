"""What is held of devices that are parts of others, in numbers that a person can check.

Devices that a pod may hold one of several kinds of count as the one that draws most.
"""

from collections.abc import Iterator

from modelplane.placement.hardware import Hardware, drawn_by
from modelplane.placement.partitions import DEVICES, SHARES, Demand, Partition, divided, plain
from modelplane.placement.pool_usage import PoolUsage

_NANOS = 10**9
_UNITS = ((1 << 40, "Ti"), (1 << 30, "Gi"), (1 << 20, "Mi"))


def drawn_words(hardware: Hardware, nodes: int, usage: PoolUsage) -> str:
    """Counter by counter, then the devices that are no parts of others."""
    parts = [
        f"{amount(held)} of {amount(have * nodes)} {counter} of {name.removeprefix(SHARES)} are held"
        for (name, counter), have in sorted(_available(hardware).items())
        for held in (drawn(usage, name, counter),)
    ]
    count = sum(kind.count for kind in hardware.kinds if kind.device_class is not None and not kind.is_divided)
    if count:
        held = sum(each * number for shape, number in usage for each, _ in plain(shape))
        parts.append(f"{held} of {count * nodes} other devices are held")
    return ", ".join(parts)


def drawn(usage: PoolUsage, name: str, counter: str) -> int:
    """What the pods of a pool draw of a counter, in billionths."""
    return sum(_drawn(demand, name, counter) * number for shape, number in usage for demand in shape)


def _drawn(demand: Demand, name: str, counter: str) -> int:
    found = [
        draw.drawn
        for _, _, parts in divided((demand,))
        for partition in parts.partitions
        if partition.name == name
        for draw in partition.draws
        if draw.counter == counter
    ]
    return demand[0] * max(found, default=0)


def _available(hardware: Hardware) -> dict[tuple[str, str], int]:
    """What a node has of each counter."""
    return {
        (partition.name, draw.counter): draw.available * partition.sets
        for partition in _partitions(hardware)
        for draw in partition.draws
        if not draw.counter.startswith(DEVICES)
    }


def _partitions(hardware: Hardware) -> Iterator[Partition]:
    for kind in hardware.kinds:
        partition = drawn_by(kind, None) if kind.device_class is not None else None
        if partition is not None:
            yield partition


def amount(nanos: int) -> str:
    """A quantity as people write it: 40Gi, 7, 1.5."""
    for size, unit in _UNITS:
        if nanos and nanos % (size * _NANOS) == 0:
            return f"{nanos // (size * _NANOS)}{unit}"
    whole, rest = divmod(nanos, _NANOS)
    return f"{whole}.{rest:09d}".rstrip("0") if rest else str(whole)
