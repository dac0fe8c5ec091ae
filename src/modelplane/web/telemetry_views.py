"""Where telemetry of the clusters goes, and how many clusters send it."""

from modelplane.api.codec import decode_readable
from modelplane.api.conditions import ConditionStatus, ConditionType
from modelplane.api.models import TelemetryDestination
from modelplane.api.objects import Manifest, items_at, text_at
from modelplane.views.health import object_health
from modelplane.web.shapes import TelemetryShown
from modelplane.web.snapshot import DashboardSnapshot


def telemetry_rows(snapshot: DashboardSnapshot) -> tuple[TelemetryShown, ...]:
    """A cluster has one collector for all destinations."""
    destinations = tuple(decode_readable(TelemetryDestination, snapshot.objects["TelemetryDestination"].values()))
    clusters = snapshot.objects["InferenceCluster"].values()
    sending = sum(map(_sends, clusters)) if destinations else 0
    return tuple(
        TelemetryShown(
            name=each.metadata.name,
            health=object_health(each.metadata, each.status.conditions),
            sinks=len(each.spec.sinks) if each.status.sinks is None else each.status.sinks,
            sending=sending,
            clusters=len(clusters),
        )
        for each in destinations
    )


def _sends(cluster: Manifest) -> bool:
    wanted = (ConditionType.TELEMETRY_READY, ConditionStatus.TRUE)
    return any(
        (text_at(each, "type"), text_at(each, "status")) == wanted for each in items_at(cluster, "status", "conditions")
    )
