"""Volcano queues: a capability is the most that a queue may use, and one without has no limit.

From 1.15 on `status.allocated` counts claimed devices, by DeviceClass. Before, it counts extended resources only, which
are of other pods, since replicas claim.
"""

from collections.abc import Mapping

from modelplane.api.models import Queue
from modelplane.api.objects import Manifest, name_of, text_at, value_at
from modelplane.compose.capacity.amounts import CLAIMED, UNLIMITED, devices_in, is_device, whole_quota, whole_use

API_VERSION, KIND = "scheduling.volcano.sh/v1beta1", "Queue"


def read(item: Manifest) -> Queue:
    pending = value_at(item, "status", "pending")
    return Queue(
        name=name_of(item),
        scheduler="Volcano",
        quota=_quota(item),
        used=whole_use(devices_in(value_at(item, "status", "allocated"))),
        pending=pending if isinstance(pending, int) else None,
    )


def claimed(item: Manifest) -> int:
    """Claimed devices in `status.allocated`."""
    booked = value_at(item, "status", "allocated")
    if not isinstance(booked, Mapping):
        return 0
    return whole_use(devices_in({name: found for name, found in booked.items() if str(name).startswith(CLAIMED)}))


def _quota(item: Manifest) -> int:
    if text_at(item, "status", "state") in {"Closed", "Closing"}:
        return 0
    capability = value_at(item, "spec", "capability")
    if not isinstance(capability, Mapping) or not any(is_device(str(name)) for name in capability):
        return UNLIMITED
    return whole_quota(devices_in(capability))
