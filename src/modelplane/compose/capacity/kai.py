"""KAI queues. A quota that is not set is nothing; a limit above it may be used when others leave room."""

from modelplane.api.models import Queue
from modelplane.compose.capacity.amounts import UNLIMITED, devices_in, whole_quota, whole_use
from modelplane.compose.contract import Manifest
from modelplane.compose.manifests import name_of, value_at

API_VERSION, KIND = "scheduling.run.ai/v2", "Queue"


def read(item: Manifest) -> Queue:
    quota, limit = (_number(value_at(item, "spec", "resources", "gpu", field)) for field in ("quota", "limit"))
    most = UNLIMITED if UNLIMITED in {quota, limit} else max(quota, limit)
    used = devices_in(value_at(item, "status", "allocated"))
    return Queue(name=name_of(item), scheduler="KAI", quota=whole_quota(most), used=whole_use(used))


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else 0.0
