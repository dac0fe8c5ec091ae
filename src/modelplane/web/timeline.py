"""Events as a timeline, the newest first."""

from modelplane.api.errors import InputError
from modelplane.api.objects import Manifest, int_at, namespace_of, text_at
from modelplane.api.timestamps import timestamp
from modelplane.views.events import event_subject, last_seen
from modelplane.web.paging import ViewQuery, count_states
from modelplane.web.shapes import RowPage, TimelineEvent
from modelplane.web.snapshot import DashboardSnapshot

WARNING = "Warning"
_TYPES = ("", "Normal", WARNING)
_OF_ONE = 20
"""Events that the page of an object shows."""


def timeline(snapshot: DashboardSnapshot, query: ViewQuery) -> RowPage[TimelineEvent]:
    if query.type not in _TYPES:
        raise InputError(f"type: must be one of {', '.join(filter(None, _TYPES))}")
    found = [event for event in snapshot.events if _selected(event, query)]
    rows = tuple(event_row(event) for event in found[query.offset : query.offset + query.limit])
    return RowPage(rows=rows, offset=query.offset, limit=query.limit, total=len(found), states=count_states(()))


def newest_events(snapshot: DashboardSnapshot, most: int) -> tuple[TimelineEvent, ...]:
    return tuple(event_row(event) for event in snapshot.events[:most])


def events_about(snapshot: DashboardSnapshot, kind: str, namespace: str, name: str) -> tuple[TimelineEvent, ...]:
    """Those of one object. An object without a namespace has them in `default`."""
    found = snapshot.events_of.get((namespace or "default", kind, name), ())
    return tuple(event_row(event) for event in found[:_OF_ONE])


def warnings_of(snapshot: DashboardSnapshot) -> int:
    return sum(event.get("type") == WARNING for event in snapshot.events)


def event_row(event: Manifest) -> TimelineEvent:
    at = last_seen(event)[0]
    kind, name = event_subject(event)
    return TimelineEvent(
        at=timestamp(at) if at else "",
        type=text_at(event, "type"),
        reason=text_at(event, "reason"),
        object_kind=kind,
        namespace=text_at(event, "involvedObject", "namespace"),
        name=name,
        message=text_at(event, "message"),
        count=max(int_at(event, "count", default=1), 1),
    )


def _selected(event: Manifest, query: ViewQuery) -> bool:
    if query.type and event.get("type") != query.type:
        return False
    if query.namespace and namespace_of(event) != query.namespace:
        return False
    words = (*event_subject(event), text_at(event, "reason"), text_at(event, "message"), namespace_of(event))
    return query.selects(" ".join(words))
