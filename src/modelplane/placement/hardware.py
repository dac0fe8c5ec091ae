"""What a node is made of, as placement sees it. What was found of one node holds for every equal one."""

import msgspec

from modelplane.k8s.device import Device


class DeviceKind(msgspec.Struct, frozen=True, cache_hash=True, gc=False):
    """Identical devices of one node."""

    name: str
    device: Device
    count: int
    device_class: str | None
    """None for synthetic devices, which steer placement and are never claimed."""


class Hardware(msgspec.Struct, frozen=True, cache_hash=True, gc=False):
    """The devices of one node, by name."""

    kinds: tuple[DeviceKind, ...]
    fault: str = ""
    """Why the description of the node cannot be read. Such a node takes nothing new, and what is there stays."""

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

    def mask(self, device_class: str | None) -> int:
        """The kinds of one DeviceClass, as bits."""
        return sum(1 << bit for bit, kind in enumerate(self.kinds) if kind.device_class == device_class)

    @property
    def claimable_mask(self) -> int:
        return sum(1 << bit for bit, kind in enumerate(self.kinds) if kind.device_class is not None)


def count_in(counts: tuple[int, ...], mask: int) -> int:
    """Devices of the kinds whose bits are set."""
    return sum(count for bit, count in enumerate(counts) if mask >> bit & 1)
