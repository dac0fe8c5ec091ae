"""The objects that the dashboard shows, read once and then kept as the store's changes say.

To list a large fleet at once would keep the event loop for a second; it is read in turns.
"""

import asyncio
from collections.abc import Mapping
from itertools import islice
from typing import Final

from modelplane.api.objects import Manifest, name_of, namespace_of
from modelplane.reconcile.store import ChangeType, StoreChange
from modelplane.views.dashboard_kinds import KINDS
from modelplane.web.snapshot import ObjectPlace
from modelplane.web.source import DashboardSource

_TURN: Final = 100
"""Objects that are decoded before the event loop runs other tasks."""


class ObjectMirror:
    """Follows a store from `fill` to `close`. An object that changes while it is filled is as the change says."""

    def __init__(self, source: DashboardSource) -> None:
        """Figures of traffic that change are a change as well."""
        self._store = source.objects
        self._objects: dict[str, dict[ObjectPlace, Manifest]] = {kind: {} for kind in KINDS}
        self._changed = asyncio.Event()
        self._subscriptions = [source.objects.subscribe(self._apply)]
        if source.traffic is not None:
            self._subscriptions.append(source.traffic.subscribe(self._changed.set))

    def close(self) -> None:
        for unsubscribe in self._subscriptions:
            unsubscribe()

    async def fill(self) -> None:
        for kind, group in KINDS.items():
            found = self._store.scan(group, kind)
            while turn := list(islice(found, _TURN)):
                self._objects[kind].update({(namespace_of(item), name_of(item)): item for item in turn})
                await asyncio.sleep(0)

    async def changed(self) -> None:
        """Waits for a change since the objects were last taken."""
        await self._changed.wait()

    def take(self) -> Mapping[str, Mapping[ObjectPlace, Manifest]]:
        """The objects by kind and place, as they are now."""
        self._changed.clear()
        return {kind: dict(items) for kind, items in self._objects.items()}

    @property
    def is_taken(self) -> bool:
        """Whether nothing changed since the objects were last taken."""
        return not self._changed.is_set()

    def _apply(self, change: StoreChange) -> None:
        kind = change.ref.kind
        if KINDS.get(kind) != change.ref.group:
            return
        place = (change.ref.namespace, change.ref.name)
        if change.type is ChangeType.DELETED:
            self._objects[kind].pop(place, None)
        else:
            self._objects[kind][place] = change.manifest
        self._changed.set()
