"""The objects of a control cluster, as its API sends them: listed once, then watched. Nothing is written."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Final

from modelplane.api.errors import UnavailableError
from modelplane.api.objects import Manifest, metadata_of
from modelplane.kube import ChangeKind, GroupVersionResource, Informer, InformerEvent, KubeClient, NamespacedName, Query
from modelplane.reconcile.store import ChangeType, ObjectRef, StoreChange, ref_of
from modelplane.views.dashboard_kinds import read_resources

_CHANGES: Final = {
    ChangeKind.ADDED: ChangeType.ADDED,
    ChangeKind.CHANGED: ChangeType.MODIFIED,
    ChangeKind.DELETED: ChangeType.DELETED,
}


class ControlCluster:
    """The host awaits `run`, and `wait_synced` before the first view."""

    def __init__(self, client: KubeClient) -> None:
        self._informers: dict[str, Informer[Manifest]] = {}
        for kind, (group, version, plural) in read_resources().items():
            api_version = f"{group}/{version}" if group else version
            query = Query(GroupVersionResource(group, version, plural))
            self._informers[kind] = Informer(client, query, partial(_whole, api_version, kind))

    async def run(self) -> None:
        """Until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for informer in self._informers.values():
                tasks.create_task(informer.run())

    async def wait_synced(self, within_s: float) -> None:
        """UnavailableError names a kind that cannot be read."""
        try:
            async with asyncio.timeout(within_s):
                for informer in self._informers.values():
                    await informer.wait_synced()
        except TimeoutError:
            raise UnavailableError(self.problem() or f"the API did not answer within {within_s:g} s") from None

    def missing(self) -> str:
        """What was not listed yet, with the reason where there is one; empty: every kind was."""
        waits = next((informer for informer in self._informers.values() if not informer.synced), None)
        return "" if waits is None else waits.problem or f"{waits.query.kind.plural} are being listed"

    def problem(self) -> str:
        return next((informer.problem for informer in self._informers.values() if informer.problem), "")

    def get(self, ref: ObjectRef) -> Manifest | None:
        return self._informers[ref.kind].snapshot.get(NamespacedName(ref.namespace, ref.name))

    def scan(self, _group: str, kind: str) -> Iterator[Manifest]:
        return iter(tuple(self._informers[kind].snapshot.values()))

    def subscribe(self, listener: Callable[[StoreChange], None]) -> Callable[[], None]:
        def on_events(events: Sequence[InformerEvent[Manifest]]) -> None:
            for event in events:
                listener(StoreChange(_CHANGES[event.change], ref_of(event.value), event.value, None, 0))

        ends = [informer.listen(on_events) for informer in self._informers.values()]

        def unsubscribe() -> None:
            for end in ends:
                end()

        return unsubscribe


def _whole(api_version: str, kind: str, raw: Manifest) -> Manifest:
    """Items of a list do not say their kind. Who manages which field is half of an object, and shown nowhere."""
    metadata = {name: value for name, value in metadata_of(raw).items() if name != "managedFields"}
    return {**raw, "apiVersion": api_version, "kind": kind, "metadata": metadata}
