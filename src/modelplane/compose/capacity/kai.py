"""KAI queues. An unset quota is 0; what the limit allows beyond the quota is for preemptible pods.

Serving pods are not preemptible and so have the quota only, unless all pods of the cluster are preemptible: by its
default labels, or because all its priorities are below the one from which KAI does not preempt.
"""

from modelplane.api.models import Queue, Scheduling
from modelplane.api.objects import Manifest, name_of, value_at
from modelplane.compose.capacity.amounts import UNLIMITED, devices_in, whole_quota, whole_use

API_VERSION, KIND = "scheduling.run.ai/v2", "Queue"
_PREEMPTIBILITY = "kai.scheduler/preemptibility"
_NEVER_PREEMPTED = 100


def read(item: Manifest, *, preemptible: bool = False) -> Queue:
    quota, limit = (_number(value_at(item, "spec", "resources", "gpu", field)) for field in ("quota", "limit"))
    most = quota
    if preemptible:
        most = UNLIMITED if UNLIMITED in {quota, limit} else max(quota, limit)
    used = devices_in(value_at(item, "status", "allocated"))
    return Queue(name=name_of(item), scheduler="KAI", quota=whole_quota(most), used=whole_use(used))


def is_preemptible(scheduling: Scheduling) -> bool:
    """Whether all pods of the cluster are preemptible."""
    given = scheduling.default_labels.get(_PREEMPTIBILITY)
    if given is not None:
        return given == "preemptible"
    values = [priority.value for priority in scheduling.priorities]
    return scheduling.default_priority is not None and bool(values) and max(values) < _NEVER_PREEMPTED


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else 0.0
