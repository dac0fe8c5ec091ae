"""Events as Kubernetes writes them: an event that repeats raises its count instead of adding an object.

Events of any writer are deleted an hour after they last occurred, as by an API server.
"""

import asyncio
from collections.abc import Iterable
from itertools import islice

from modelplane.api.names import make_name
from modelplane.api.objects import Manifest, name_of, text_at
from modelplane.api.timestamps import timestamp
from modelplane.apiserver.store.database import SqliteStore
from modelplane.compose.contract import Event
from modelplane.plane.ownership import Owner
from modelplane.reconcile.clock import Clock
from modelplane.reconcile.loop import Loop
from modelplane.reconcile.outcomes import Outcome, RequeueAfter
from modelplane.reconcile.store import ObjectRef, Store

_KEPT_S = 3600
_SWEEP_S = 60.0
_TURN = 500
"""Events checked before the event loop runs other tasks."""
_DEFAULT_NAMESPACE = "default"  # where events about cluster-scoped objects go


def write_event(store: Store, owner: Owner, event: Event, *, now: float) -> None:
    namespace = owner.ref.namespace or _DEFAULT_NAMESPACE
    name = make_name(owner.ref.name, owner.uid, event.type.value, event.reason.value, event.message)
    known = store.get(ObjectRef("", "Event", namespace, name))
    if known is None:
        store.create(_manifest(namespace, name, owner, event, now))
        return
    count = known.get("count")
    store.replace({**known, "count": (count if isinstance(count, int) else 0) + 1, "lastTimestamp": timestamp(now)})


class EventExpiry:
    """Deletes expired Events; the host awaits `loop.run()`."""

    def __init__(self, store: SqliteStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self.loop: Loop[str] = Loop(self._sweep, clock=clock, workers=1)
        self.loop.add("events")

    async def _sweep(self, _key: str) -> Outcome:
        oldest = timestamp(self._clock.now() - _KEPT_S)
        events = self._store.scan("", "Event")
        while turn := list(islice(events, _TURN)):
            self._remove([event for event in turn if _last_seen_s(event) < oldest])
            await asyncio.sleep(0)
        return RequeueAfter(_SWEEP_S)

    def _remove(self, events: Iterable[Manifest]) -> None:
        with self._store.batch():
            for event in events:
                self._store.delete(ObjectRef("", "Event", text_at(event, "metadata", "namespace"), name_of(event)))


def _last_seen_s(event: Manifest) -> str:
    """The newest of its timestamps; clients write some of them with microseconds."""
    places = (("lastTimestamp",), ("eventTime",), ("series", "lastObservedTime"), ("metadata", "creationTimestamp"))
    return max(text_at(event, *place)[: len("2026-11-15T00:00:00")] for place in places)


def _manifest(namespace: str, name: str, owner: Owner, event: Event, now: float) -> dict[str, object]:
    involved = {
        "apiVersion": f"{owner.ref.group}/v1alpha1",
        "kind": owner.ref.kind,
        "namespace": owner.ref.namespace,
        "name": owner.ref.name,
        "uid": owner.uid,
    }
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": namespace},
        "involvedObject": involved,
        "type": event.type.value,
        "reason": event.reason.value,
        "message": event.message,
        "source": {"component": "modelplane"},
        "firstTimestamp": timestamp(now),
        "lastTimestamp": timestamp(now),
        "count": 1,
    }
