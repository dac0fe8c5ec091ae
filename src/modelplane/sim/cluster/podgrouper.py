"""PodGroups that the gang schedulers make themselves, for pods that name none, and the status of PodGroups.

KAI       one for each group of a LeaderWorkerSet, of the size of the group (under LeaderReady of one until the
leader is bound); one for all pods of a LeaderWorkerSet that something unknown to KAI controls, of one;
one for each replica of a PodCliqueSet, of all of its pods; one for every other pod. Pods that say
`kai.scheduler/skip-podgrouper` are left alone. The topology that the annotations of the owner require is the group's.
Volcano   one for each owner of pods, of one pod unless the owner says `group-min-member`
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from modelplane.api.objects import (
    Json,
    Manifest,
    int_at,
    is_deleting,
    items_at,
    labels_of,
    manifest,
    name_of,
    namespace_of,
    text_at,
    uid_of,
    value_at,
    with_metadata,
)
from modelplane.reconcile.outcomes import Done, Outcome
from modelplane.reconcile.store import ObjectRef, StoreChange, ref_of
from modelplane.sim.cluster.claims import is_finished
from modelplane.sim.cluster.controller import ControllerContext, changed, is_about
from modelplane.sim.cluster.gangs import (
    KAI,
    KAI_GROUP,
    KAI_NAME,
    VOLCANO,
    VOLCANO_GROUP,
    VOLCANO_NAMES,
    group_name,
    group_ref,
    own_queue,
    scheduler_of,
)
from modelplane.sim.cluster.grove import KIND as POD_CLIQUE_SET
from modelplane.sim.cluster.grove import POD_GANG, gang_size
from modelplane.sim.cluster.lws import KIND, LWS_GROUP
from modelplane.sim.cluster.lws_pods import GROUP_INDEX, GROUP_KEY, SET_NAME, group_size, is_leader
from modelplane.sim.cluster.node_lifecycle import node_of
from modelplane.sim.cluster.objects import (
    annotated,
    annotation,
    condition_of,
    controller_of,
    controller_ref,
    controller_reference,
    merged_conditions,
    with_spec,
    with_status,
)

_SKIP = "kai.scheduler/skip-podgrouper"
_LEAST = "scheduling.volcano.sh/group-min-member"
_TOPOLOGY, _REQUIRED = "kai.scheduler/topology", "kai.scheduler/topology-required-placement"
_API = {KAI: "scheduling.run.ai/v2alpha2", VOLCANO: "scheduling.volcano.sh/v1beta1"}


@dataclass(frozen=True, slots=True)
class _Grouping:
    name: str
    least: int
    owner: Manifest


class PodGrouper:
    """Reconciles pods without a group, and PodGroups."""

    name = "podgrouper"
    kinds = frozenset({(KAI_GROUP, "PodGroup"), (VOLCANO_GROUP, "PodGroup"), ("", "Pod")})

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._store = context.store

    def enqueue_for(self, change: StoreChange) -> Iterable[ObjectRef]:
        if change.ref.kind == "PodGroup" and change.ref.group in {KAI_GROUP, VOLCANO_GROUP}:
            return (change.ref,)
        if not is_about(change, "", "Pod") or scheduler_of(change.manifest) not in _API:
            return ()
        if not changed(change, _facts):
            return ()
        group = group_ref(change.manifest)
        return (change.ref,) if group is None else (change.ref, group)

    def reconcile(self, ref: ObjectRef) -> Outcome:
        item = self._store.get(ref)
        if item is not None and ref.kind == "PodGroup":
            self._report(item)
        elif item is not None and not is_deleting(item):
            self._group(item)
        return Done()

    def _group(self, pod: Manifest) -> None:
        scheduler = scheduler_of(pod)
        if annotation(pod, _SKIP) == "true":
            return
        named = group_name(pod)
        wanted = self._kai(pod) if scheduler == KAI else self._volcano(pod)
        if named and named != wanted.name:
            return
        ref = ObjectRef(_API[scheduler].partition("/")[0], "PodGroup", namespace_of(pod), wanted.name)
        known = self._store.get(ref)
        if known is None:
            self._store.create(self._made(pod, wanted, _API[scheduler]))
        elif int_at(known, "spec", "minMember") != wanted.least:
            self._store.replace(with_spec(known, minMember=wanted.least))
        if not named:
            self._store.replace(annotated(pod, KAI_NAME if scheduler == KAI else VOLCANO_NAMES[0], wanted.name))

    def _kai(self, pod: Manifest) -> _Grouping:
        cliques = self._cliques(pod)
        if cliques is not None:
            return _Grouping(f"pg-{labels_of(pod)[POD_GANG]}-{uid_of(cliques)}", gang_size(cliques), cliques)
        top = self._lws(pod)
        if top is None:
            return _Grouping(f"pg-{name_of(pod)}-{uid_of(pod)}", 1, pod)
        if controller_of(top):
            return _Grouping(f"pg-{name_of(top)}-{uid_of(top)}", 1, top)
        least = group_size(pod)
        if text_at(top, "spec", "startupPolicy") == "LeaderReady" and not self._leader_is_bound(pod):
            least = 1
        return _Grouping(f"pg-{name_of(top)}-{uid_of(top)}-group-{labels_of(pod).get(GROUP_INDEX)}", least, top)

    def _leader_is_bound(self, pod: Manifest) -> bool:
        labels = {GROUP_KEY: labels_of(pod).get(GROUP_KEY, "")}
        pods = self._store.list("", "Pod", namespace=namespace_of(pod), labels=labels)
        return any(is_leader(found) and node_of(found) for found in pods)

    def _volcano(self, pod: Manifest) -> _Grouping:
        ref = controller_ref(pod)
        owner = (self._store.get(ref) if ref is not None else None) or pod
        least = annotation(owner, _LEAST)
        return _Grouping(f"podgroup-{uid_of(owner)}", int(least) if least.isdecimal() else 1, owner)

    def _lws(self, pod: Manifest) -> Manifest | None:
        name = labels_of(pod).get(SET_NAME)
        return self._store.get(ObjectRef(LWS_GROUP, KIND, namespace_of(pod), name)) if name else None

    def _cliques(self, pod: Manifest) -> Manifest | None:
        owner = controller_ref(pod)
        return self._store.get(owner) if owner is not None and owner.kind == POD_CLIQUE_SET else None

    def _made(self, pod: Manifest, wanted: _Grouping, api: str) -> Json:
        spec: Json = {"minMember": wanted.least}
        queue = own_queue(wanted.owner) or own_queue(pod)
        if queue:
            spec["queue"] = queue
        if priority := text_at(pod, "spec", "priorityClassName"):
            spec["priorityClassName"] = priority
        if scheduler_of(pod) == KAI and (topology := annotation(wanted.owner, _TOPOLOGY)):
            level = annotation(wanted.owner, _REQUIRED)
            spec["topologyConstraint"] = {"topology": topology, "requiredTopologyLevel": level}
        made = manifest(api, "PodGroup", wanted.name, namespace=namespace_of(pod), spec=spec)
        return with_metadata(made, ownerReferences=[controller_reference(wanted.owner)])

    def _members(self, group: Manifest) -> Iterator[Manifest]:
        ref = ref_of(group)
        pods = self._store.list("", "Pod", namespace=ref.namespace)
        return (pod for pod in pods if group_ref(pod) == ref and not is_deleting(pod))

    def _report(self, group: Manifest) -> None:
        pods = list(self._members(group))
        bound = [pod for pod in pods if node_of(pod) and not is_finished(pod)]
        least = int_at(group, "spec", "minMember")
        waiting = next((pod for pod in pods if not node_of(pod)), None)
        message = str(condition_of(waiting, "PodScheduled").get("message", "")) if waiting is not None else ""
        if ref_of(group).group == KAI_GROUP:
            self._store.replace_status(_kai_status(group, message if len(bound) < least else ""))
            return
        whole = bool(bound) and len(bound) >= least
        kind = "Scheduled" if whole else "Unschedulable"
        condition = {"type": kind, "status": "True", "reason": "tasks in gang are ready to be scheduled"}
        if not whole:
            condition |= {"reason": "NotEnoughResources", "message": message}
        kept = [entry for entry in items_at(group, "status", "conditions") if entry.get("type") == kind]
        conditions = merged_conditions(kept, [condition], self._context.clock.now())
        running = sum(value_at(pod, "status", "phase") == "Running" for pod in pods)
        phase = "Running" if whole else "Inqueue" if pods else "Pending"
        self._store.replace_status(with_status(group, phase=phase, running=running, conditions=conditions))


def _kai_status(group: Manifest, message: str) -> Manifest:
    """Why the group waits; nothing once it does not."""
    lacks_queue = message.endswith("does not exist") and "Queue '" in message
    reasons = [{"reason": "QueueDoesNotExist" if lacks_queue else "PodSchedulingErrors", "message": message}]
    conditions = [{"type": "UnschedulableOnNodePool", "nodePool": "default", "status": "True", "reasons": reasons}]
    return {**group, "status": {"schedulingConditions": conditions} if message else {}}


def _facts(pod: Manifest) -> object:
    phase = text_at(pod, "status", "phase")
    message = condition_of(pod, "PodScheduled").get("message")
    return group_name(pod), node_of(pod), phase, message, is_deleting(pod)
