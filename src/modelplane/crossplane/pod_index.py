"""The pods of a workload cluster by their replica or cache: a call for one reads its pods and no others."""

from collections.abc import Collection, Iterable

import msgspec

from modelplane.api.objects import text_at
from modelplane.kube import ChangeKind, InformerEvent, NamespacedName


class PodIndex:
    """Follows the events of one informer of pods. An owner is named by its namespace on the cluster and its name."""

    def __init__(self, label: str) -> None:
        """`label` names the owner of a pod."""
        self._label = label
        self._by_owner: dict[NamespacedName, dict[NamespacedName, bytes]] = {}

    def apply(self, events: Iterable[InformerEvent[bytes]]) -> Collection[NamespacedName]:
        """Returns the owners whose pods changed."""
        changed: dict[NamespacedName, None] = {}
        for event in events:
            labelled = msgspec.json.decode(event.value)
            owner = NamespacedName(event.key.namespace, text_at(labelled, "metadata", "labels", self._label))
            changed[owner] = None
            self._put(owner, event)
        return tuple(changed)

    def of(self, owner: NamespacedName) -> list[bytes]:
        return list(self._by_owner.get(owner, {}).values())

    def pods(self) -> dict[NamespacedName, bytes]:
        """All of them."""
        return {key: packed for pods in self._by_owner.values() for key, packed in pods.items()}

    def _put(self, owner: NamespacedName, event: InformerEvent[bytes]) -> None:
        pods = self._by_owner.setdefault(owner, {})
        if event.change is ChangeKind.DELETED:
            pods.pop(event.key, None)
        else:
            pods[event.key] = event.value
        if not pods:
            del self._by_owner[owner]
