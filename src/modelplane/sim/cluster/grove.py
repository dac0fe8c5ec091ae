"""Grove's PodCliqueSets: for each replica the pods of every clique, one PodGang, and a headless Service.

    <set>-<replica>                    Service, and the name of the PodGang that KAI places as one
    <set>-<replica>-<clique>-<index>   host name of a pod, below that Service

A new template replaces the pods of one replica at a time: those of the next go when all replicas are available again.
A replica is available when every clique has its pods ready. Not modelled: PodClique objects, scaling groups, the order
of start, gates that wait for a PodGang, topologies, and the replacement of a gang that stays below its size.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from modelplane.api.objects import (
    Json,
    Manifest,
    int_at,
    is_deleting,
    items_at,
    labels_of,
    manifest,
    mapping_at,
    name_of,
    namespace_of,
    text_at,
    uid_of,
    with_metadata,
)
from modelplane.reconcile.outcomes import Done, Outcome
from modelplane.reconcile.store import ObjectRef, StoreChange, ref_of
from modelplane.sim.cluster.claims import is_finished
from modelplane.sim.cluster.controller import ControllerContext, is_about, owned
from modelplane.sim.cluster.deployment_status import replicas_of
from modelplane.sim.cluster.deployments import digest_of
from modelplane.sim.cluster.objects import condition_is, controller_of, controller_reference

GROVE_GROUP = "grove.io"
KIND = "PodCliqueSet"
POD_GANG = "grove.io/podgang"
_CLIQUE, _REPLICA, _HASH = "grove.io/podclique", "grove.io/podcliqueset-replica-index", "grove.io/pod-template-hash"
_PART_OF = "app.kubernetes.io/part-of"


@dataclass(frozen=True, slots=True)
class _Place:
    """One pod of a set."""

    replica: int
    clique: Mapping[str, object]
    index: int
    revision: str

    @property
    def key(self) -> tuple[str, str, str]:
        return str(self.replica), str(self.clique.get("name")), str(self.index)


class PodCliqueSets:
    """Makes and replaces the pods of one PodCliqueSet, and writes its status."""

    name = "podcliquesets"
    kinds = frozenset({(GROVE_GROUP, KIND), ("", "Pod")})

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._store = context.store

    def enqueue_for(self, change: StoreChange) -> Iterable[ObjectRef]:
        if is_about(change, GROVE_GROUP, KIND):
            return (change.ref,)
        return owned(change, KIND) if is_about(change, "", "Pod") else ()

    def reconcile(self, ref: ObjectRef) -> Outcome:
        item = self._store.get(ref)
        if item is None or is_deleting(item):
            return Done()
        wanted = {place.key: place for place in _places(item)}
        for pod in self._pods(item):
            if _key(item, pod) not in wanted:
                self._store.delete(ref_of(pod))
        self._roll(item, wanted)
        present = {_key(item, pod) for pod in self._pods(item)}
        for key, place in wanted.items():
            if key not in present:
                self._make_service(item, place.replica)
                self._store.create(_pod(item, place))
        self._report(item, wanted)
        return Done()

    def _pods(self, item: Manifest) -> list[Manifest]:
        """Those that are to stay."""
        pods = self._store.list("", "Pod", namespace=namespace_of(item), labels={_PART_OF: name_of(item)})
        ours = (pod for pod in pods if controller_of(pod).get("uid") == uid_of(item))
        return [pod for pod in ours if not is_deleting(pod) and not is_finished(pod)]

    def _roll(self, item: Manifest, wanted: Mapping[tuple[str, str, str], _Place]) -> None:
        """Delete the old pods of one replica, unless another is incomplete."""
        old = [pod for pod in self._pods(item) if labels_of(pod).get(_HASH) != wanted[_key(item, pod)].revision]
        replicas = sorted({_key(item, pod)[0] for pod in old}, key=int)
        waiting = {str(number) for number in range(replicas_of(item))} - self._available(item, wanted)
        if not replicas or waiting - {*replicas}:
            return
        # One that does not serve goes first: nothing is lost by it.
        first = next((each for each in replicas if each in waiting), replicas[0])
        for pod in old:
            if _key(item, pod)[0] == first:
                self._store.delete(ref_of(pod))

    def _available(self, item: Manifest, wanted: Iterable[tuple[str, str, str]]) -> set[str]:
        ready = {_key(item, pod) for pod in self._pods(item) if condition_is(pod, "Ready")}
        return {replica for replica, _, _ in wanted} - {key[0] for key in wanted if key not in ready}

    def _make_service(self, item: Manifest, replica: int) -> None:
        name = f"{name_of(item)}-{replica}"
        if self._store.get(ObjectRef("", "Service", namespace_of(item), name)) is not None:
            return
        selector = {_PART_OF: name_of(item), _REPLICA: str(replica)}
        spec = {"clusterIP": "None", "publishNotReadyAddresses": True, "selector": selector}
        made = manifest("v1", "Service", name, namespace=namespace_of(item), spec=spec)
        self._store.create(with_metadata(made, ownerReferences=[controller_reference(item)]))

    def _report(self, item: Manifest, wanted: Mapping[tuple[str, str, str], _Place]) -> None:
        available = self._available(item, wanted)
        newest = {
            _key(item, pod) for pod in self._pods(item) if labels_of(pod).get(_HASH) == wanted[_key(item, pod)].revision
        }
        stale = {key[0] for key in wanted if key not in newest}
        status = {
            "observedGeneration": int_at(item, "metadata", "generation"),
            "replicas": replicas_of(item),
            "availableReplicas": len(available),
            "updatedReplicas": len(available - stale),
        }
        self._store.replace_status({**item, "status": status})


def gang_size(item: Manifest) -> int:
    """Pods of one replica."""
    return sum(
        int_at(clique, "spec", "replicas", default=1) for clique in items_at(item, "spec", "template", "cliques")
    )


def _places(item: Manifest) -> Iterator[_Place]:
    for replica in range(replicas_of(item)):
        for clique in items_at(item, "spec", "template", "cliques"):
            revision = digest_of([clique.get("labels"), clique.get("annotations"), clique.get("spec")])
            for index in range(int_at(clique, "spec", "replicas", default=1)):
                yield _Place(replica, clique, index, revision)


def _key(item: Manifest, pod: Manifest) -> tuple[str, str, str]:
    replica = labels_of(pod).get(_REPLICA, "")
    clique = labels_of(pod).get(_CLIQUE, "").removeprefix(f"{name_of(item)}-{replica}-")
    return replica, clique, text_at(pod, "spec", "hostname").rpartition("-")[2]


def _pod(item: Manifest, place: _Place) -> Json:
    gang = f"{name_of(item)}-{place.replica}"
    clique = f"{gang}-{place.clique.get('name')}"
    own = {_PART_OF: name_of(item), _CLIQUE: clique, _REPLICA: str(place.replica), POD_GANG: gang}
    labels = {**mapping_at(place.clique, "labels"), **own, _HASH: place.revision}
    metadata: Json = {
        "generateName": f"{clique}-",
        "namespace": namespace_of(item),
        "labels": labels,
        "ownerReferences": [controller_reference(item)],
    }
    if annotations := mapping_at(place.clique, "annotations"):
        metadata["annotations"] = dict(annotations)
    spec = {
        **mapping_at(place.clique, "spec", "podSpec"),
        "hostname": f"{clique}-{place.index}",
        "subdomain": gang,
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": {"phase": "Pending"}}
