"""Amounts of devices in the resource lists of schedulers.

Schedulers count every resource; devices are those that are not the node's own. Fractions of a device in use take the
whole of it, and a quota of a fraction is worth what fits into it. Volcano counts claimed devices by class, and beside
them how much of something they have: bytes of memory, say, which are no devices.
"""

import math
from collections.abc import Mapping

from modelplane.k8s.quantity import Quantity, QuantityError, as_approximate_float, quantity_from_json

UNLIMITED = -1
CLAIMED = "deviceclass/"
"""In front of the class of claimed devices; behind the name of what they have."""
_NODE_RESOURCES = frozenset({"cpu", "memory", "ephemeral-storage", "pods", "storage"})


def is_device(resource: str) -> bool:
    if resource in _NODE_RESOURCES or resource.startswith("hugepages-"):
        return False
    return f".{CLAIMED}" not in resource


def devices_in(resources: object) -> float:
    """Devices in a resource list. What cannot be read counts as nothing."""
    if not isinstance(resources, Mapping):
        return 0.0
    return sum(amount(value) for name, value in resources.items() if is_device(str(name)))


def amount(value: object) -> float:
    quantity = _parsed(value)
    return 0.0 if quantity is None else as_approximate_float(quantity)


def whole_quota(value: float) -> int:
    return UNLIMITED if value < 0 else math.floor(value)


def whole_use(value: float) -> int:
    return max(math.ceil(value), 0)


def _parsed(value: object) -> Quantity | None:
    try:
        return quantity_from_json(value)
    except (QuantityError, ValueError, TypeError):
        return None
