"""Which devices other claims hold, and how much of the shared ones.

Results with admin access do not count as use. A result with a share id is a share: it blocks no claim, but what it
consumes is gone. Everything else is a whole device.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from modelplane.k8s.dra.capacity import Nanos, nanos_of
from modelplane.k8s.dra.features import Features
from modelplane.k8s.dra.outcome import DeviceId, DeviceResult
from modelplane.k8s.dra.resources import DeviceInUse, QuantityField
from modelplane.k8s.quantity import quantity_from_json


@dataclass(frozen=True, slots=True)
class DeviceUsage:
    """Devices held whole, devices held in shares, and the amounts that shares consume, in billionths."""

    whole: frozenset[DeviceId] = frozenset()
    shared: frozenset[DeviceId] = frozenset()
    consumed: Mapping[DeviceId, Nanos] = field(default_factory=dict)

    @classmethod
    def of(cls, devices: Iterable[DeviceInUse], features: Features) -> "DeviceUsage":
        """The usage that results of other claims add up to."""
        whole: set[DeviceId] = set()
        shared: set[DeviceId] = set()
        consumed: dict[DeviceId, dict[str, int]] = {}
        for device in devices:
            if device.admin_access:
                continue
            identity = DeviceId(device.driver, device.pool, device.device)
            if device.share_id is None or not features.consumable_capacity:
                whole.add(identity)
                continue
            shared.add(identity)
            if device.consumed_capacity is not None:
                _add(consumed.setdefault(identity, {}), device.consumed_capacity)
        return cls(frozenset(whole), frozenset(shared), consumed)

    def with_results(self, results: Iterable[DeviceResult]) -> "DeviceUsage":
        """The usage after an allocation."""
        whole, shared = set(self.whole), set(self.shared)
        consumed = {device: dict(amounts) for device, amounts in self.consumed.items()}
        for result in results:
            if result.admin_access:
                continue
            if result.consumed_capacity is None:
                whole.add(result.device)
                continue
            shared.add(result.device)
            totals = consumed.setdefault(result.device, {})
            for name, amount in result.consumed_capacity.items():
                totals[name] = totals.get(name, 0) + nanos_of(amount)
        return DeviceUsage(frozenset(whole), frozenset(shared), consumed)

    def is_allocated(self, device: DeviceId) -> bool:
        """Whether the device or a share of it is allocated; then its counters are consumed."""
        return device in self.whole or device in self.shared or device in self.consumed


def _add(totals: dict[str, int], amounts: Mapping[str, QuantityField]) -> None:
    for name, value in amounts.items():
        totals[name] = totals.get(name, 0) + nanos_of(quantity_from_json(value))
