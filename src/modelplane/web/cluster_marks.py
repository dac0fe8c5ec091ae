"""What a cluster says beside its health: its agent, faulty devices, an upgrade of its software, its telemetry."""

from collections.abc import Iterator, Mapping
from typing import Final

from modelplane.api.conditions import ConditionStatus, ConditionType
from modelplane.api.models import InferenceCluster
from modelplane.api.objects import Manifest, items_at, text_at
from modelplane.web.shapes import ConditionRow, FaultyShown
from modelplane.web.snapshot import ObjectPlace

SETTLED: Final = "UpToDate"
_CONDITIONS: Final = {
    ConditionType.AGENT_CONNECTED: "agent not connected",
    ConditionType.TELEMETRY_READY: "telemetry not ready",
    ConditionType.REQUIREMENTS_MET: "software missing",
}


def marks(cluster: Manifest) -> Iterator[str]:
    """A fleet has many clusters, so they are not decoded for it."""
    conditions = items_at(cluster, "status", "conditions")
    failed = {text_at(each, "type") for each in conditions if text_at(each, "status") == ConditionStatus.FALSE}
    yield from (words for condition, words in _CONDITIONS.items() if condition in failed)
    faulty = sum(1 for _ in items_at(cluster, "status", "faultyReplicas"))
    if faulty:
        yield f"{faulty} {'replica' if faulty == 1 else 'replicas'} on faulty devices"
    phase = text_at(cluster, "status", "software", "phase")
    if phase not in {"", SETTLED}:
        yield f"software {phase}"


def condition_rows(cluster: InferenceCluster) -> tuple[ConditionRow, ...]:
    """Those that are not True come first."""
    found = sorted(cluster.status.conditions, key=lambda each: each.status is ConditionStatus.TRUE)
    return tuple(
        ConditionRow(
            type=each.type,
            status=each.status,
            reason=each.reason,
            since=each.last_transition_time or "",
            message=each.message,
        )
        for each in found
    )


def faulty_rows(cluster: InferenceCluster, digests: Mapping[str, ObjectPlace]) -> tuple[FaultyShown, ...]:
    """The status names replicas by a digest. One that is gone has no name."""
    return tuple(
        FaultyShown(namespace=place[0], replica=place[1], message=each.message)
        for each in cluster.status.faulty_replicas
        for place in (digests.get(each.replica, ("", "")),)
    )
