"""What a node is made of, as placement sees it. What was found of one node holds for every equal one."""

from collections.abc import Iterator
from functools import lru_cache

import msgspec

from modelplane.k8s.device import Device
from modelplane.k8s.dra.capacity import CapacityOffer, consumed_capacity_of, read_offers
from modelplane.k8s.dra.resources import DeviceCapacity
from modelplane.k8s.quantity import quantity_from_json
from modelplane.placement.partitions import SHARES, CounterDraw, Demand, Draw, Partition

CapacityRequests = tuple[tuple[str, str], ...]
"""Quantities by name, sorted."""
_CACHED = 16_384


class DeviceKind(msgspec.Struct, frozen=True, cache_hash=True, gc=False):
    """Identical devices of one node."""

    name: str
    device: Device
    count: int
    device_class: str | None
    """None for synthetic devices, which steer placement and are never claimed."""
    partition: Partition | None = None
    """What a device draws on counters that it shares with others."""
    capacity: bytes = b"{}"
    """What a device has, with the policies of requests: the JSON of its `capacity`."""
    per_value: tuple[tuple[str, int], ...] = ()
    """Attributes whose values differ among the devices, each with how many of a node share a value."""

    @property
    def is_divided(self) -> bool:
        """Whether its devices are parts of others, or are shared."""
        return self.partition is not None or self.device.allow_multiple_allocations


class Domain(msgspec.Struct, frozen=True, cache_hash=True, gc=False):
    """Nodes of a pool that belong together, such as a rack. An engine takes one for each of its copies."""

    key: str
    """The label of nodes whose value names the domain."""
    nodes: int
    fault: str = ""
    """Why engines cannot be kept in one."""


class Hardware(msgspec.Struct, frozen=True, cache_hash=True, gc=False):
    """The devices of one node, by name."""

    kinds: tuple[DeviceKind, ...]
    fault: str = ""
    """Why the description of the node cannot be read. Such a node takes nothing new, and what is there stays."""
    domain: Domain | None = None
    """Where nodes are used by the domain. What such a pool has is counted in domains then."""

    @classmethod
    def of(cls, kinds: tuple[DeviceKind, ...]) -> "Hardware":
        return cls(tuple(sorted(kinds, key=lambda kind: kind.name)))

    @property
    def counts(self) -> tuple[int, ...]:
        return tuple(kind.count for kind in self.kinds)

    @property
    def claimable(self) -> int:
        """Devices of a node that claims can take."""
        return sum(kind.count for kind in self.kinds if kind.device_class is not None)

    @property
    def is_divided(self) -> bool:
        """Whether some devices are parts of others, or are shared."""
        return any(kind.is_divided for kind in self.kinds)

    def mask(self, device_class: str | None) -> int:
        """The kinds of one DeviceClass, as bits."""
        return sum(1 << bit for bit, kind in enumerate(self.kinds) if kind.device_class == device_class)

    def demand(self, count: int, mask: int, capacity: CapacityRequests | None = ()) -> Demand:
        """So many devices of some kinds. A capacity of None is all of a device."""
        parts = {bit: kind for bit, kind in self._in(mask) if kind.is_divided}
        if not parts:
            return count, mask
        plain = mask & ~sum(1 << bit for bit in parts)
        drawn = {found for kind in parts.values() if (found := drawn_by(kind, capacity)) is not None}
        return count, mask, Draw(plain, tuple(sorted(drawn)))

    def _in(self, mask: int) -> Iterator[tuple[int, DeviceKind]]:
        return ((bit, kind) for bit, kind in enumerate(self.kinds) if mask >> bit & 1)

    @property
    def claimable_mask(self) -> int:
        return sum(1 << bit for bit, kind in enumerate(self.kinds) if kind.device_class is not None)


def count_in(counts: tuple[int, ...], mask: int) -> int:
    """Devices of the kinds whose bits are set."""
    return sum(count for bit, count in enumerate(counts) if mask >> bit & 1)


@lru_cache(maxsize=_CACHED)
def has_capacity(kind: DeviceKind, requested: CapacityRequests) -> bool:
    """Whether an unused device has what is requested, and its policies allow the amounts."""
    consumed = consumed_capacity_of(_offers(kind), {name: quantity_from_json(value) for name, value in requested})
    return consumed.is_known and consumed.is_allowed and consumed.fits_beside()


@lru_cache(maxsize=_CACHED)
def drawn_by(kind: DeviceKind, requested: CapacityRequests | None = ()) -> Partition | None:
    """What a device, or the share of one that has the requested capacity, draws; None for a device by itself.

    A request of None is all of a device.
    """
    if not kind.device.allow_multiple_allocations:
        return kind.partition
    amounts = {name: quantity_from_json(value) for name, value in requested or ()}
    needs = consumed_capacity_of(_offers(kind), amounts).needs
    draws = (CounterDraw(name, limit if requested is None else need, limit) for name, need, limit in needs)
    return Partition(f"{SHARES}{kind.name}", kind.count, tuple(sorted(draws)))


def _offers(kind: DeviceKind) -> tuple[CapacityOffer, ...]:
    return read_offers(msgspec.json.decode(kind.capacity, type=dict[str, DeviceCapacity]))
