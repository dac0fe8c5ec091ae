"""How long replicas take until they serve: counted once for each, when it serves for the first time.

Each time that the replicas are read, those that have begun to serve since are counted by the times in their status, so
it does not matter how often that is. A replica that served before this process watched is not counted: when it served
first is not known any more. Neither is one that came and went between two readings.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

from modelplane.api.codec import decode_readable
from modelplane.api.conditions import ConditionStatus, ConditionType
from modelplane.api.models import ModelReplica
from modelplane.api.objects import Manifest
from modelplane.api.timestamps import epoch_s
from modelplane.views.metric_families import Labels, MetricSpec, SampleFamily, SecondsHistogram

BOUNDS_S: Final = (5.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1200.0, 1800.0, 3600.0, 7200.0, 14400.0)
_MOST_DEPLOYMENTS: Final = 1000
_OTHER: Final = ("other", "other")


def _spec(name: str, text: str) -> MetricSpec:
    full = f"modelplane_{name}_seconds"
    return MetricSpec(name=full, type="histogram", labels=("namespace", "deployment"), help=text, unit="seconds")


READY: Final = _spec("replica_ready_duration", "Seconds from the creation of a replica to its first answer.")
STAGING: Final = _spec("replica_staging", "Seconds from the creation of a replica to its caches being staged.")
WARMUP: Final = _spec(
    "replica_warmup", "Seconds from staged caches to the first answer: scheduling, images, weights, warm-up requests."
)
DURATION_METRICS: Final = (READY, STAGING, WARMUP)


class _Stages(NamedTuple):
    """When a replica was made, when its caches were there, and since when it serves. None: not yet."""

    created_s: float
    staged_s: float | None
    serves_s: float | None


class ReplicaDurations:
    def __init__(self, began_s: float) -> None:
        """`began_s` is when this process began to watch."""
        self._began_s = int(began_s)  # times in objects have whole seconds
        self._seen: dict[str, bool] = {}
        """By uid, whether its first answer is counted or cannot be."""
        self._counts: dict[MetricSpec, dict[Labels, SecondsHistogram]] = {spec: {} for spec in DURATION_METRICS}

    def observe(self, replicas: Iterable[Manifest]) -> None:
        seen: dict[str, bool] = {}
        for replica in decode_readable(ModelReplica, replicas):
            stages = _stages(replica)
            if stages is not None:
                seen[replica.metadata.uid] = self._is_done(replica, stages)
        self._seen = seen

    def families(self) -> tuple[SampleFamily, ...]:
        return tuple(SampleFamily(spec, dict(counts)) for spec, counts in self._counts.items())

    def _is_done(self, replica: ModelReplica, stages: _Stages) -> bool:
        known = self._seen.get(replica.metadata.uid)
        if known is None:
            new = stages.created_s >= self._began_s
            known = not new and (stages.serves_s is not None or replica.status.served_generation is not None)
        if known or stages.serves_s is None:
            return known
        self._count(replica, stages, stages.serves_s)
        return True

    def _count(self, replica: ModelReplica, stages: _Stages, serves_s: float) -> None:
        key = (replica.metadata.namespace, replica.spec.deployment.name if replica.spec.deployment else "")
        staged_s = min(stages.staged_s or stages.created_s, serves_s)
        self._add(READY, key, serves_s - stages.created_s)
        if replica.spec.caches:
            self._add(STAGING, key, staged_s - stages.created_s)
        self._add(WARMUP, key, serves_s - staged_s)

    def _add(self, spec: MetricSpec, key: Labels, seconds: float) -> None:
        counts = self._counts[spec]
        if key not in counts and len(counts) >= _MOST_DEPLOYMENTS:
            key = _OTHER
        counts[key] = counts.get(key, SecondsHistogram.empty(BOUNDS_S)).with_one(max(0.0, seconds))


def _stages(replica: ModelReplica) -> _Stages | None:
    created_s = epoch_s(replica.metadata.creation_timestamp)
    if created_s is None:
        return None
    since = {
        condition.type: epoch_s(condition.last_transition_time)
        for condition in replica.status.conditions
        if condition.status is ConditionStatus.TRUE
    }
    return _Stages(created_s, since.get(ConditionType.CACHES_READY), since.get(ConditionType.READY))
