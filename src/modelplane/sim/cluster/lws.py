"""LeaderWorkerSets: groups of pods that start, run and go together.

As the real controller: a StatefulSet of leaders named after the set, and for each leader a StatefulSet of workers named
after the leader and owned by it. A group is replaced by deleting its leader in the foreground, so that a new one starts
only when everything of the old one is gone. ControllerRevisions keep templates that groups below a partition run.

    RecreateGroupOnPodRestart   any pod deleted, or any container restarted
    RecreateGroupAfterStart     the same, once no pod of the group is pending
    None, Default               pods come back one by one

The numbers of an update come from `lws_rollout`, the words from `lws_status`. Not modelled: subgroups,
volume claim templates, Events, and Volcano PodGroups made by this controller.
"""

from collections.abc import Iterable, Mapping

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
    value_at,
    with_metadata,
)
from modelplane.reconcile.outcomes import Done, Outcome
from modelplane.reconcile.store import ObjectRef, StoreChange, ref_of
from modelplane.sim.cluster.controller import ClusterStore, ControllerContext, is_about
from modelplane.sim.cluster.deployment_status import replicas_of
from modelplane.sim.cluster.deployments import APPS, digest_of
from modelplane.sim.cluster.garbage import delete_in_foreground
from modelplane.sim.cluster.lws_pods import (
    EXCLUSIVE_TOPOLOGY,
    GROUP_INDEX,
    GROUP_KEY,
    LEADER,
    LEADER_NAME,
    REVISION,
    SET_NAME,
    SIZE,
    SUBDOMAIN_POLICY,
    UNIQUE,
    WORKER_INDEX,
    is_leader,
)
from modelplane.sim.cluster.lws_rollout import LwsGroup, Sizing, Wanted, next_sizing
from modelplane.sim.cluster.lws_status import SeenGroup, lws_status
from modelplane.sim.cluster.objects import annotation, condition_is, controller_of, controller_reference
from modelplane.sim.cluster.rollout import scaled
from modelplane.sim.cluster.statefulsets import is_healthy, is_whole, number_of

LWS_GROUP = "leaderworkerset.x-k8s.io"
KIND = "LeaderWorkerSet"
_REPLICAS = "leaderworkerset.sigs.k8s.io/replicas"
_TOGETHER = {"RecreateGroupOnPodRestart", "RecreateGroupAfterStart"}


class LeaderWorkerSets:
    """Keeps the StatefulSets of a LeaderWorkerSet, recreates groups, and writes its status."""

    name = "leaderworkersets"
    kinds = frozenset({(LWS_GROUP, KIND), (APPS, "StatefulSet"), ("", "Pod")})

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._store = context.store

    def enqueue_for(self, change: StoreChange) -> Iterable[ObjectRef]:
        if is_about(change, LWS_GROUP, KIND):
            return (change.ref,)
        if is_about(change, "", "Pod") or is_about(change, APPS, "StatefulSet"):
            name = labels_of(change.manifest).get(SET_NAME)
            return (ObjectRef(LWS_GROUP, KIND, change.ref.namespace, name),) if name else ()
        return ()

    def reconcile(self, ref: ObjectRef) -> Outcome:
        item = self._store.get(ref)
        if item is None or is_deleting(item):
            return Done()
        revision = revision_of(item)
        self._remember(item, revision)
        self._make_service(item, name_of(item), {SET_NAME: name_of(item)}, item)
        self._size_leaders(item, revision)
        for leader in self._leaders(item):
            if not self._recreates(item, leader):
                self._make_workers(item, leader)
        self._report(item, revision)
        return Done()

    def _leaders(self, item: Manifest) -> tuple[Manifest, ...]:
        labels = {SET_NAME: name_of(item), WORKER_INDEX: LEADER}
        return self._store.list("", "Pod", namespace=namespace_of(item), labels=labels)

    def _set(self, item: Manifest, name: str) -> Manifest | None:
        return self._store.get(ObjectRef(APPS, "StatefulSet", namespace_of(item), name))

    def _size_leaders(self, item: Manifest, revision: str) -> None:
        known = self._set(item, name_of(item))
        if known is not None and controller_of(known).get("uid") != uid_of(item):
            return
        before = None if known is None else _sizing(known)
        groups = self._groups(item, before.replicas if before else 0, revision)
        changed = known is not None and labels_of(known).get(REVISION) != revision
        sizing = next_sizing(wanted_of(item), before, groups, changed=changed)
        _put(self._store, _leader_set(item, sizing, revision), known)

    def _groups(self, item: Manifest, count: int, revision: str) -> list[LwsGroup]:
        by_number = {group.number: group for group in self._seen(item, revision)}
        found = (by_number.get(number) for number in range(count))
        return [LwsGroup() if group is None else LwsGroup(group.ready, group.updated) for group in found]

    def _seen(self, item: Manifest, revision: str) -> list[SeenGroup]:
        """The groups whose workers were requested."""
        alone = _size(item) == 1
        found: list[SeenGroup] = []
        for leader in self._leaders(item):
            workers = None if alone else self._set(item, name_of(leader))
            if workers is None and not alone:
                continue
            parts = [leader, *([workers] if workers is not None else [])]
            ready = is_healthy(leader) and (workers is None or is_whole(workers))
            updated = all(labels_of(part).get(REVISION) == revision for part in parts)
            found.append(SeenGroup(number_of(leader), ready, updated))
        return found

    def _recreates(self, item: Manifest, leader: Manifest) -> bool:
        """Whether the group goes as a whole, because one of its pods did."""
        policy = text_at(item, "spec", "leaderWorkerTemplate", "restartPolicy") or "RecreateGroupOnPodRestart"
        if is_deleting(leader):
            return True
        if policy not in _TOGETHER:
            return False
        pods = [leader, *self._workers(item, leader)]
        if not any(is_deleting(pod) or has_restarted(pod) for pod in pods):
            return False
        pending = len(pods) < _size(item) or any(text_at(pod, "status", "phase") == "Pending" for pod in pods)
        if pending and policy == "RecreateGroupAfterStart":
            return False
        delete_in_foreground(self._store, leader)
        return True

    def _workers(self, item: Manifest, leader: Manifest) -> list[Manifest]:
        """Those of this leader, not of one that had its name before."""
        workers = self._set(item, name_of(leader))
        if workers is None or controller_of(workers).get("uid") != uid_of(leader):
            return []
        labels = {SET_NAME: name_of(item), GROUP_KEY: labels_of(leader).get(GROUP_KEY, "")}
        pods = self._store.list("", "Pod", namespace=namespace_of(item), labels=labels)
        return [pod for pod in pods if not is_leader(pod) and controller_of(pod).get("uid") == uid_of(workers)]

    def _make_workers(self, item: Manifest, leader: Manifest) -> None:
        if _is_unique(item):
            group = {SET_NAME: name_of(item), GROUP_INDEX: labels_of(leader).get(GROUP_INDEX, "")}
            self._make_service(item, name_of(leader), group, leader)
        waits = text_at(item, "spec", "startupPolicy") == "LeaderReady" and not condition_is(leader, "Ready")
        if _size(item) == 1 or waits or self._set(item, name_of(leader)) is not None:
            return
        template = self._template(item, labels_of(leader).get(REVISION, ""))
        domain = self._domain(item, leader)
        if domain is not None:
            self._store.create(_worker_set(item, leader, template, domain))

    def _domain(self, item: Manifest, leader: Manifest) -> dict[str, str] | None:
        """The node label that workers of an exclusive topology follow their leader by; None until it is scheduled."""
        topology = annotation(item, EXCLUSIVE_TOPOLOGY)
        if not topology:
            return {}
        node = self._store.get(ObjectRef("", "Node", "", text_at(leader, "spec", "nodeName")))
        value = labels_of(node).get(topology) if node is not None else None
        return {topology: value} if value else None

    def _template(self, item: Manifest, revision: str) -> Mapping[str, object]:
        """The leaderWorkerTemplate of a revision."""
        kept = self._store.get(_revision_ref(item, revision))
        return mapping_at(kept or item, *(("data",) if kept is not None else ("spec",)), "leaderWorkerTemplate")

    def _remember(self, item: Manifest, revision: str) -> None:
        ref = _revision_ref(item, revision)
        if self._store.get(ref) is not None:
            return
        data = {"leaderWorkerTemplate": mapping_at(item, "spec", "leaderWorkerTemplate")}
        labels = {SET_NAME: name_of(item), REVISION: revision}
        made = manifest("apps/v1", "ControllerRevision", ref.name, namespace=ref.namespace, labels=labels, data=data)
        self._store.create(with_metadata({**made, "revision": 1}, ownerReferences=[controller_reference(item)]))

    def _make_service(self, item: Manifest, name: str, selector: Mapping[str, str], owner: Manifest) -> None:
        if self._store.get(ObjectRef("", "Service", namespace_of(item), name)) is not None:
            return
        spec = {"clusterIP": "None", "publishNotReadyAddresses": True, "selector": dict(selector)}
        made = manifest("v1", "Service", name, namespace=namespace_of(item), spec=spec)
        self._store.create(with_metadata(made, ownerReferences=[controller_reference(owner)]))

    def _report(self, item: Manifest, revision: str) -> None:
        leaders = self._set(item, name_of(item))
        count = int_at(leaders or {}, "status", "replicas")
        seen = self._seen(item, revision)
        self._store.replace_status({**item, "status": lws_status(item, count, seen, self._context.clock.now())})
        done = sum(group.updated and group.ready for group in seen) == replicas_of(item)
        if done and not wanted_of(item).partition:
            self._forget(item, revision)

    def _forget(self, item: Manifest, revision: str) -> None:
        labels = {SET_NAME: name_of(item)}
        for kept in self._store.list(APPS, "ControllerRevision", namespace=namespace_of(item), labels=labels):
            if controller_of(kept).get("uid") == uid_of(item) and labels_of(kept).get(REVISION) != revision:
                self._store.delete(ref_of(kept))


def revision_of(item: Manifest) -> str:
    """The hash of the group template, without the number of groups."""
    return digest_of([mapping_at(item, "spec", "leaderWorkerTemplate"), mapping_at(item, "spec", "networkConfig")])


def wanted_of(item: Manifest) -> Wanted:
    rolling = mapping_at(item, "spec", "rolloutStrategy", "rollingUpdateConfiguration")
    replicas = replicas_of(item)
    return Wanted(
        replicas=replicas,
        surge=scaled(rolling.get("maxSurge", 0), replicas, up=True),
        unavailable=scaled(rolling.get("maxUnavailable", 1), replicas, up=False),
        partition=int_at(rolling, "partition"),
    )


def has_restarted(pod: Manifest) -> bool:
    if text_at(pod, "status", "phase") not in {"Pending", "Running"}:
        return False
    statuses = [*items_at(pod, "status", "containerStatuses"), *items_at(pod, "status", "initContainerStatuses")]
    return any(int_at(entry, "restartCount") for entry in statuses)


def _size(item: Manifest) -> int:
    return int_at(item, "spec", "leaderWorkerTemplate", "size", default=1)


def _is_unique(item: Manifest) -> bool:
    return value_at(item, "spec", "networkConfig", "subdomainPolicy") == UNIQUE


def _revision_ref(item: Manifest, revision: str) -> ObjectRef:
    return ObjectRef(APPS, "ControllerRevision", namespace_of(item), f"{name_of(item)}-{revision}")


def _sizing(leaders: Manifest) -> Sizing:
    sized_for = annotation(leaders, _REPLICAS)
    return Sizing(
        replicas=replicas_of(leaders),
        partition=int_at(leaders, "spec", "updateStrategy", "rollingUpdate", "partition"),
        sized_for=int(sized_for) if sized_for.isdecimal() else replicas_of(leaders),
    )


def _put(store: ClusterStore, wanted: Json, known: Manifest | None) -> None:
    if known is None:
        store.create(wanted)
    else:
        metadata = {**mapping_at(known, "metadata"), **mapping_at(wanted, "metadata")}
        store.replace({**known, **wanted, "metadata": metadata})


def _leader_set(item: Manifest, sizing: Sizing, revision: str) -> Json:
    template = mapping_at(item, "spec", "leaderWorkerTemplate")
    wanted = wanted_of(item)
    labels = {WORKER_INDEX: LEADER, SET_NAME: name_of(item), REVISION: revision}
    marks = {SIZE: str(_size(item)), **({SUBDOMAIN_POLICY: UNIQUE} if _is_unique(item) else {}), **_topology(item)}
    unavailable = max(1, wanted.unavailable + wanted.most - wanted.replicas)
    spec = {
        "serviceName": name_of(item),
        "replicas": sizing.replicas,
        "podManagementPolicy": "Parallel",
        "selector": {"matchLabels": {SET_NAME: name_of(item), WORKER_INDEX: LEADER}},
        "template": _marked(mapping_at(template, "leaderTemplate") or _worker_template(template), labels, marks),
        "updateStrategy": {
            "type": "RollingUpdate",
            "rollingUpdate": {"partition": sizing.partition, "maxUnavailable": unavailable},
        },
    }
    labels = {SET_NAME: name_of(item), REVISION: revision}
    made = manifest("apps/v1", "StatefulSet", name_of(item), namespace=namespace_of(item), labels=labels, spec=spec)
    return with_metadata(
        made, annotations={_REPLICAS: str(sizing.sized_for)}, ownerReferences=[controller_reference(item)]
    )


def _topology(item: Manifest) -> dict[str, str]:
    topology = annotation(item, EXCLUSIVE_TOPOLOGY)
    return {EXCLUSIVE_TOPOLOGY: topology} if topology else {}


def _in_domain(template: Mapping[str, object], domain: Mapping[str, str]) -> Mapping[str, object]:
    if not domain:
        return template
    spec = mapping_at(template, "spec")
    return {**template, "spec": {**spec, "nodeSelector": {**mapping_at(spec, "nodeSelector"), **domain}}}


def _worker_set(item: Manifest, leader: Manifest, template: Mapping[str, object], domain: Mapping[str, str]) -> Json:
    kept = (GROUP_INDEX, SET_NAME, GROUP_KEY, REVISION)
    labels = {key: value for key, value in labels_of(leader).items() if key in kept}
    size = int_at(template, "size", default=1)
    marks = {SIZE: str(size), LEADER_NAME: name_of(leader)}
    spec = {
        "serviceName": name_of(leader) if _is_unique(item) else name_of(item),
        "replicas": size - 1,
        "podManagementPolicy": "Parallel",
        "ordinals": {"start": 1},
        "selector": {"matchLabels": {key: value for key, value in labels.items() if key != REVISION}},
        "template": _marked(_in_domain(_worker_template(template), domain), labels, {**marks, **_topology(item)}),
    }
    made = manifest("apps/v1", "StatefulSet", name_of(leader), namespace=namespace_of(item), labels=labels, spec=spec)
    return with_metadata(made, ownerReferences=[controller_reference(leader)])


def _worker_template(template: Mapping[str, object]) -> Mapping[str, object]:
    return mapping_at(template, "workerTemplate")


def _marked(template: Mapping[str, object], labels: Mapping[str, str], marks: Mapping[str, str]) -> Json:
    metadata = mapping_at(template, "metadata")
    added = {
        "labels": {**labels_of(template), **labels},
        "annotations": {**mapping_at(metadata, "annotations"), **marks},
    }
    return {**template, "metadata": {**metadata, **added}}
