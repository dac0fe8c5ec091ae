"""Queues of KAI and Volcano: what each may use, and what its pods do use.

    KAI       quota and limit of GPUs, -1 for no end, also of every queue above; pods that cannot be preempted stay
              within the quota. A queue that does not exist schedules nothing.
    Volcano   a queue's capability, where it has one; only open queues schedule. The queue `default` is always there.
              Its books have claimed devices by their class, as from 1.15 on.

Nothing is preempted or reclaimed. Shares, weights and guarantees are not modelled.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping

from modelplane.api.objects import Manifest, int_at, labels_of, mapping_at, name_of, namespace_of, text_at
from modelplane.reconcile.outcomes import Done, Outcome
from modelplane.reconcile.store import ObjectRef, StoreChange, ref_of
from modelplane.sim.cluster.claims import is_finished
from modelplane.sim.cluster.controller import ClusterStore, ControllerContext, changed, is_about
from modelplane.sim.cluster.demand import Demand, demand_of
from modelplane.sim.cluster.gangs import KAI_GROUP, VOLCANO_GROUP, group_ref, queue_of, scheduler_of
from modelplane.sim.cluster.lws_pods import SET_NAME
from modelplane.sim.cluster.node_lifecycle import node_of
from modelplane.sim.cluster.objects import with_status

_GROUPS = (KAI_GROUP, VOLCANO_GROUP)
_NO_END = -1
_CLAIMED = "deviceclass/"
_NON_PREEMPTIBLE = 100
_KAI_PRIORITIES = {"train": 50, "build-preemptible": 75, "build": 100, "inference": 125}


class QueueUsage:
    """Usage of every queue during one pass; `take` counts a scheduled pod."""

    def __init__(self, store: ClusterStore, resources: Mapping[str, str]) -> None:
        self._store = store
        self._resources = resources
        self.used: defaultdict[ObjectRef, Demand] = defaultdict(Counter)
        self._firm: Counter[ObjectRef] = Counter()

    def copy(self) -> "QueueUsage":
        other = QueueUsage(self._store, self._resources)
        other.used = defaultdict(Counter, {ref: Counter(use) for ref, use in self.used.items()})
        other._firm = Counter(self._firm)
        return other

    def take(self, pod: Manifest) -> None:
        queue = queue_of(pod, self._store)
        wanted = self._wanted(pod) if queue is not None else None
        if queue is None or not wanted:
            return
        for ref in self._line(queue):
            self.used[ref] += wanted
            if self._is_firm(pod):
                self._firm[ref] += wanted.total()

    def refusal(self, pod: Manifest) -> str | None:
        """Why the pod's queue does not admit it, or None."""
        queue = queue_of(pod, self._store)
        if queue is None:
            return None
        item = self._store.get(queue)
        if item is None and (queue.group, queue.name) != (VOLCANO_GROUP, "default"):
            return no_queue(queue)
        if text_at(item or {}, "status", "state") in {"Closed", "Closing"}:
            return f"queue {queue.name} is closed"
        wanted = (self._wanted(pod) or Counter()).total()
        refusals = (self._beyond(ref, wanted, firm=self._is_firm(pod)) for ref in self._line(queue))
        return next((reason for reason in refusals if reason is not None), None)

    def _beyond(self, ref: ObjectRef, wanted: int, *, firm: bool) -> str | None:
        item = self._store.get(ref) or {}
        quota, most = _limits(item, ref.group)
        used = self.used[ref].total()
        if most != _NO_END and used + wanted > most:
            return f"queue {ref.name} has a limit of {most} devices, {used} are used and {wanted} more are requested"
        if ref.group == KAI_GROUP and firm and quota != _NO_END and self._firm[ref] + wanted > quota:
            taken = self._firm[ref]
            return f"queue {ref.name} has a quota of {quota} devices for non-preemptible pods, {taken} are used"
        return None

    def _line(self, queue: ObjectRef) -> Iterator[ObjectRef]:
        """The queue and those above it."""
        seen: set[ObjectRef] = set()
        ref: ObjectRef | None = queue
        while ref is not None and ref not in seen:
            seen.add(ref)
            yield ref
            parent = text_at(self._store.get(ref) or {}, "spec", "parentQueue")
            ref = ObjectRef(ref.group, ref.kind, "", parent) if parent else None

    def _wanted(self, pod: Manifest) -> Demand | None:
        return demand_of(mapping_at(pod, "spec"), namespace_of(pod), self._store, self._resources)

    def _is_firm(self, pod: Manifest) -> bool:
        name = text_at(pod, "spec", "priorityClassName")
        if not name:
            return SET_NAME not in labels_of(pod)
        found = self._store.get(ObjectRef("scheduling.k8s.io", "PriorityClass", "", name))
        value = int_at(found, "value") if found is not None else _KAI_PRIORITIES.get(name, 0)
        return value >= _NON_PREEMPTIBLE


def no_queue(queue: ObjectRef) -> str:
    """In KAI's words; Volcano says nothing where a user could read it."""
    return f"Queue '{queue.name}' does not exist"


def _limits(item: Manifest, group: str) -> tuple[int, int]:
    """The quota of a queue, and the most that it may use."""
    if group == VOLCANO_GROUP:
        capability = mapping_at(item, "spec", "capability")
        devices = [int(str(n)) for name, n in capability.items() if "/" in name and str(n).isdecimal()]
        return (sum(devices),) * 2 if devices else (_NO_END, _NO_END)
    gpus = mapping_at(item, "spec", "resources", "gpu")
    quota, limit = (_whole(gpus.get(field, 0)) for field in ("quota", "limit"))
    return quota, _NO_END if _NO_END in {quota, limit} else max(quota, limit)


def _whole(value: object) -> int:
    return int(value) if isinstance(value, int | float) and not isinstance(value, bool) else 0


class Queues:
    """Writes the use of every queue into its status; one key for all of them."""

    name = "queues"
    kinds = frozenset({(KAI_GROUP, "Queue"), (VOLCANO_GROUP, "Queue"), ("", "Pod")})

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._store = context.store
        self.key = ObjectRef(KAI_GROUP, "Queue", "", "")

    def enqueue_for(self, change: StoreChange) -> Iterable[ObjectRef]:
        if change.ref.kind == "Queue" and change.ref.group in _GROUPS:
            return (self.key,)
        if is_about(change, "", "Pod") and scheduler_of(change.manifest) and changed(change, _facts):
            return (self.key,)
        return ()

    def reconcile(self, _ref: ObjectRef) -> Outcome:
        book = queue_usage(self._store, self._context.settings.device_resources)
        waiting = QueueUsage(self._store, self._context.settings.device_resources)
        for pod in self._store.list("", "Pod"):
            if not is_finished(pod):
                waiting.take(pod)
        for group in _GROUPS:
            for item in self._store.list(group, "Queue"):
                used, requested = book.used[ref_of(item)], waiting.used[ref_of(item)]
                self._store.replace_status(_reported(item, self._booked(group, used), requested))
        return Done()

    def _booked(self, group: str, used: Demand) -> Demand:
        """By the names that the scheduler books devices under. Here they are all claimed."""
        if group != VOLCANO_GROUP:
            return used
        classes = {resource: name for name, resource in self._context.settings.device_resources.items()}
        return Counter({f"{_CLAIMED}{classes.get(name, name)}": count for name, count in used.items()})


def queue_usage(
    store: ClusterStore, resources: Mapping[str, str], pods: Iterable[Manifest] | None = None
) -> QueueUsage:
    book = QueueUsage(store, resources)
    for pod in store.list("", "Pod") if pods is None else pods:
        if node_of(pod) and not is_finished(pod):
            book.take(pod)
    return book


def _reported(item: Manifest, used: Demand, requested: Demand) -> Manifest:
    amounts = {name: str(count) for name, count in sorted(used.items())}
    if ref_of(item).group == VOLCANO_GROUP:
        state = text_at(item, "status", "state") or "Open"
        return with_status(item, state=state, allocated=amounts)
    counts = {name: str(count) for name, count in sorted(requested.items())}
    return with_status(item, allocated=amounts, requested=counts)


def _facts(pod: Manifest) -> object:
    return node_of(pod), is_finished(pod), group_ref(pod), name_of(pod)
