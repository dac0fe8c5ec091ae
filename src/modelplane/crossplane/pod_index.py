"""The pods of a workload cluster by their replica: a call for one replica reads its pods and no others."""

from collections.abc import Collection, Iterable

import msgspec

from modelplane.api.labels import REPLICA
from modelplane.api.objects import text_at
from modelplane.kube import ChangeKind, InformerEvent, NamespacedName


class PodIndex:
    """Follows the events of one informer of pods. A replica is named by its namespace on the cluster and its name."""

    def __init__(self) -> None:
        self._by_replica: dict[NamespacedName, dict[NamespacedName, bytes]] = {}

    def apply(self, events: Iterable[InformerEvent[bytes]]) -> Collection[NamespacedName]:
        """Returns the replicas whose pods changed."""
        changed: dict[NamespacedName, None] = {}
        for event in events:
            labelled = msgspec.json.decode(event.value)
            replica = NamespacedName(event.key.namespace, text_at(labelled, "metadata", "labels", REPLICA))
            changed[replica] = None
            self._put(replica, event)
        return tuple(changed)

    def of(self, replica: NamespacedName) -> list[bytes]:
        return list(self._by_replica.get(replica, {}).values())

    def _put(self, replica: NamespacedName, event: InformerEvent[bytes]) -> None:
        pods = self._by_replica.setdefault(replica, {})
        if event.change is ChangeKind.DELETED:
            pods.pop(event.key, None)
        else:
            pods[event.key] = event.value
        if not pods:
            del self._by_replica[replica]
