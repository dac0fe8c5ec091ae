"""Events as events.k8s.io/v1: a read-only view of the Events of the core group."""

from typing import Final

from modelplane.api.objects import Json, Manifest

GROUP: Final = "events.k8s.io"
_SAME: Final = ("metadata", "reason", "type", "action", "related", "reportingInstance", "eventTime", "series")
_RENAMED: Final = {
    "involvedObject": "regarding",
    "message": "note",
    "reportingComponent": "reportingController",
    "source": "deprecatedSource",
    "firstTimestamp": "deprecatedFirstTimestamp",
    "lastTimestamp": "deprecatedLastTimestamp",
    "count": "deprecatedCount",
}


def as_view(event: Manifest) -> Json:
    view: Json = {"apiVersion": f"{GROUP}/v1", "kind": "Event", "eventTime": None}
    view |= {name: event[name] for name in _SAME if name in event}
    return view | {new: event[old] for old, new in _RENAMED.items() if old in event}
