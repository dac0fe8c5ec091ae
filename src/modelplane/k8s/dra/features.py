"""The feature gates that change how devices are selected and allocated, with the defaults of Kubernetes 1.36."""

from collections.abc import Mapping
from dataclasses import dataclass, fields

from modelplane.api.errors import InputError
from modelplane.k8s.cel import Gates


@dataclass(frozen=True, slots=True)
class Features:
    """One flag a gate; the names are upstream's in snake case."""

    admin_access: bool = True
    prioritized_list: bool = True
    partitionable_devices: bool = True
    device_taints: bool = True
    consumable_capacity: bool = True
    device_binding_and_status: bool = True
    list_type_attributes: bool = False

    @property
    def is_stable_allocator(self) -> bool:
        """Whether upstream would run its oldest allocator, which ignores the fields of these gates."""
        return not (self.consumable_capacity or self.device_binding_and_status or self.list_type_attributes)

    @property
    def gates(self) -> Gates:
        """The feature gates of selectors."""
        return Gates(consumable_capacity=self.consumable_capacity, list_attributes=self.list_type_attributes)


def features_from(gates: Mapping[str, object]) -> Features:
    """Features with these `gates`, by upstream's names without the DRA prefix; others are defaults."""
    known = {_camel(entry.name): entry.name for entry in fields(Features)}
    settings: dict[str, bool] = {}
    for gate, enabled in gates.items():
        if gate not in known or not isinstance(enabled, bool):
            raise InputError(f"features.{gate}: expected one of {', '.join(known)} with true or false")
        settings[known[gate]] = enabled
    return Features(**settings)


def _camel(name: str) -> str:
    return "".join(part.capitalize() for part in name.split("_"))
