"""Shared counters: what a pool's devices, on any node, may draw together.

Devices that other claims hold are subtracted first, wherever in the pool they are. What remains may be negative;
then nothing that draws on the pool's counters can be given out at all, not even from a counter that has room.
"""

from collections.abc import Mapping
from typing import TypeAlias

from modelplane.k8s.dra.inventory import PoolOnNode
from modelplane.k8s.dra.offers import CounterKey, DeviceOffer, PoolKey
from modelplane.k8s.dra.usage import DeviceUsage

Remainders: TypeAlias = Mapping[CounterKey, int]


def remainders(pool: PoolOnNode, usage: DeviceUsage) -> Remainders:
    """The remainder of each counter, in billionths, after the allocated devices."""
    left = dict(pool.counters)
    for offer in (*pool.offers, *pool.elsewhere):
        if offer.counters and usage.is_allocated(offer.id):
            for key, amount in offer.counters:
                left[key] -= amount
    return left


class CounterLedger:
    """The counters consumed by the devices chosen so far, during one search."""

    __slots__ = ("_drawn", "_known", "_usage")

    def __init__(self, usage: DeviceUsage, known: dict[PoolKey, Remainders]) -> None:
        """`known` caches remainders over searches with one inventory and one usage."""
        self._usage = usage
        self._known = known
        self._drawn: dict[PoolKey, dict[CounterKey, int]] = {}

    def draw(self, pool: PoolOnNode, offer: DeviceOffer) -> bool:
        """Reserve what the device draws, or leave everything as it was."""
        left = self._known.get(pool.key)
        if left is None:
            left = self._known[pool.key] = remainders(pool, self._usage)
        drawn = self._drawn.setdefault(pool.key, {})
        for key, amount in offer.counters:
            drawn[key] = drawn.get(key, 0) + amount
        if any(drawn.get(key, 0) > remainder for key, remainder in left.items()):
            self.release(pool, offer)
            return False
        return True

    def release(self, pool: PoolOnNode, offer: DeviceOffer) -> None:
        """Undo `draw`."""
        drawn = self._drawn[pool.key]
        for key, amount in offer.counters:
            drawn[key] -= amount
