"""Kueue's ClusterQueues: nominal quota, reservation and pending workloads.

Quota that may be borrowed from a cohort is not counted: the lender may reclaim it by preemption. A queue that covers
resources but no device does not limit devices.
"""

from collections.abc import Mapping

from modelplane.api.models import Queue
from modelplane.api.objects import Manifest, items_at, name_of, text_at, value_at
from modelplane.compose.capacity.amounts import UNLIMITED, amount, is_device, whole_quota, whole_use

KIND, LOCAL_KIND = "ClusterQueue", "LocalQueue"


def read(item: Manifest) -> Queue:
    """A ClusterQueue, or a LocalQueue under the name of its tenant: that one has no quota of its own."""
    namespace = text_at(item, "metadata", "namespace")
    name = f"{namespace}/{name_of(item)}" if namespace else name_of(item)
    quota = None if namespace else whole_quota(_nominal_quota(item) if _is_open(item) else 0.0)
    pending = value_at(item, "status", "pendingWorkloads")
    return Queue(
        name=name,
        scheduler="Kueue",
        quota=quota,
        used=whole_use(_reserved(item)),
        pending=pending if isinstance(pending, int) else None,
    )


def _nominal_quota(item: Manifest) -> float:
    flavors = [flavor for group in items_at(item, "spec", "resourceGroups") for flavor in items_at(group, "flavors")]
    covered = [str(resource.get("name")) for flavor in flavors for resource in items_at(flavor, "resources")]
    if covered and not any(is_device(name) for name in covered):
        return UNLIMITED
    return sum(_devices(flavor, "nominalQuota") for flavor in flavors)


def _reserved(item: Manifest) -> float:
    return sum(_devices(flavor, "total") for flavor in items_at(item, "status", "flavorsReservation"))


def _devices(flavor: Mapping[str, object], field: str) -> float:
    resources = items_at(flavor, "resources")
    return sum(amount(resource.get(field)) for resource in resources if is_device(str(resource.get("name"))))


def _is_open(item: Manifest) -> bool:
    if text_at(item, "spec", "stopPolicy") in {"Hold", "HoldAndDrain"}:
        return False
    active = [found for found in items_at(item, "status", "conditions") if found.get("type") == "Active"]
    return not active or active[0].get("status") == "True"
