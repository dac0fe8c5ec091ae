"""Enqueues composites when an object that they depend on changes, and reconciles them.

A change enqueues the object itself (unless only its status changed), the composite that composed it, and the composites
that required it. A ModelDeployment is enqueued when capacity is freed anywhere while some of its replicas are pending,
when a cluster that has its replicas changes, when a replica preempts others there, and when one of its caches changes.
All of it goes into one workqueue, so a burst of changes costs one pass for each composite.
"""

import logging
from collections import defaultdict
from collections.abc import Callable

from modelplane.api.conditions import ConditionType, fails, unknown
from modelplane.api.labels import PROGRESS, TENANT
from modelplane.api.meta import ClusterName
from modelplane.api.objects import GROUP, Manifest, annotations_of, items_at, labels_of, mapping_at, text_at, value_at
from modelplane.api.reasons import Reason
from modelplane.apiserver.store.database import Database, SqliteStore
from modelplane.compose.admission_causes import trimmed_workload
from modelplane.compose.caching.complaints import incomplete_since
from modelplane.compose.contract import ComposeResult, Event
from modelplane.compose.pod_causes import trimmed
from modelplane.compose.provider_models import ListModels
from modelplane.compose.registry import COMPOSERS
from modelplane.placement.plugins import PlacementProfile
from modelplane.placement.profile import DEFAULT_PROFILE
from modelplane.placement.snapshot import Fleet
from modelplane.plane.composition import GROUPS, Composition, Defaulting, NotOursError
from modelplane.plane.events import write_event
from modelplane.plane.ownership import OWNER, Owner, Ownership, UsageIndex
from modelplane.plane.requirements import Requirements
from modelplane.plane.status import merged_status
from modelplane.reconcile.clock import Clock
from modelplane.reconcile.live_fleet import LiveFleet
from modelplane.reconcile.log_lines import about
from modelplane.reconcile.log_reasons import LogReason
from modelplane.reconcile.loop import Loop
from modelplane.reconcile.outcomes import Outcome
from modelplane.reconcile.settings import LoopSettings
from modelplane.reconcile.store import ChangeType, ObjectRef, StoreChange
from modelplane.sim.cluster.objects import condition_is

CLUSTER_PREFIX = "cluster/"
_MAX_MESSAGE = 1024
_log = logging.getLogger(__name__)
# A deployment of 1,000 replicas is enqueued thousands of times while they start. That is no conflict of writers, so
# the limit is high; beyond it a key gets one pass a second.
_LOOP = LoopSettings(breaker_passes=200, breaker_probe_s=1.0)
_SERVER_FIELDS = {"resourceVersion", "managedFields"}
_COUNTS = {"freeDevices", "lostDevices", "boundPods", "replicas", "allocated", "free", "drain"}


class PlaneController:
    """Reconciles the composites of the embedded plane; the clusters have controllers of their own."""

    def __init__(
        self,
        database: Database,
        clock: Clock,
        *,
        admitted: Defaulting,
        profile: PlacementProfile = DEFAULT_PROFILE,
        resolve: Callable[[str], tuple[str, ...] | None] | None = None,
        list_models: ListModels | None = None,
    ) -> None:
        self._database = database
        self.plane = database.store("plane")
        self._clusters: dict[ClusterName, SqliteStore] = {}
        self._unreachable: set[ClusterName] = set()
        self._waiting_for_cluster: defaultdict[ClusterName, set[ObjectRef]] = defaultdict(set)
        self._ownership = Ownership(is_reachable=self.is_reachable)
        self._uses = UsageIndex()
        self._requirements = Requirements(self.plane, self._store_of_cluster)
        self._pending: set[ObjectRef] = set()
        self.fleet = LiveFleet(capacity_changed=self._enqueue_pending)
        self._composition = Composition(
            plane=self.plane,
            clusters=self._store_of_cluster,
            ownership=self._ownership,
            uses=self._uses,
            requirements=self._requirements,
            fleet=self.fleet.snapshot,
            clock=clock,
            admitted=admitted,
            record=self._record,
            on_unreachable=lambda ref, cluster: self._waiting_for_cluster[cluster].add(ref),
            profile=profile,
            resolve=resolve,
            list_models=list_models,
        )
        self._clock = clock
        self.loop: Loop[ObjectRef] = Loop(self._reconcile, clock=clock, settings=_LOOP, on_failed=self._broke)
        self._subscribe(None, self.plane)
        for name in database.stores():
            if name.startswith(CLUSTER_PREFIX):
                self._restore(ClusterName(name.removeprefix(CLUSTER_PREFIX)))

    def add_cluster(self, name: ClusterName) -> SqliteStore:
        """Open the store of a cluster, and write composed objects there from now on."""
        self._unreachable.discard(name)
        if name not in self._clusters:
            self._open(name)
        self._enqueue_for_cluster(name)
        return self._clusters[name]

    def _restore(self, name: ClusterName) -> None:
        """Index what was composed on a cluster before a restart. It is unreachable until it is added."""
        self._unreachable.add(name)
        self._open(name)

    def _open(self, name: ClusterName) -> None:
        store = self._database.store(f"{CLUSTER_PREFIX}{name}")
        store.log.disable()  # nobody watches a cluster, and its changes would compact the plane's history
        self._clusters[name] = store
        self._subscribe(name, store)

    def drop_cluster(self, name: ClusterName) -> None:
        self._clusters.pop(name, None)
        self._unreachable.discard(name)
        self._database.drop(f"{CLUSTER_PREFIX}{name}")
        for ref in self._ownership.drop_store(name):
            self.loop.add(ref)

    def set_reachable(self, name: ClusterName, *, reachable: bool) -> None:
        """Record whether a cluster is reachable, and enqueue the composites that have objects there."""
        if reachable == self.is_reachable(name):
            return
        (self._unreachable.discard if reachable else self._unreachable.add)(name)
        self._enqueue_for_cluster(name)

    def _enqueue_for_cluster(self, name: ClusterName) -> None:
        """The InferenceCluster, the composites that have objects there, and those that wait for the cluster."""
        waiting = self._waiting_for_cluster.pop(name, set())
        for ref in (ObjectRef(GROUP, "InferenceCluster", "", name), *self._ownership.owners_on(name)):
            self.loop.add(ref)
        for ref in sorted(waiting):
            self.loop.add(ref)

    def is_reachable(self, name: ClusterName) -> bool:
        """Whether the cluster was last known to be reachable."""
        return name not in self._unreachable

    def _store_of_cluster(self, name: ClusterName) -> SqliteStore | None:
        return self._clusters.get(name) if self.is_reachable(name) else None

    async def _reconcile(self, ref: ObjectRef) -> Outcome:
        with self._database.batch():
            return self._composition.reconcile(ref)

    def _subscribe(self, cluster: ClusterName | None, store: SqliteStore) -> None:
        self._ownership.add_store(cluster, store)
        for group, kind in store.kinds():
            # Of other groups only composed objects matter; Events and pods do not.
            having = b"" if cluster is None and group in GROUPS else OWNER.encode()
            for manifest in store.scan(group, kind, having=having):
                self._on_change(cluster, StoreChange(ChangeType.ADDED, _ref(group, kind, manifest), manifest, None, 0))
        store.subscribe(lambda change: self._on_change(cluster, change))

    def _on_change(self, cluster: ClusterName | None, change: StoreChange) -> None:
        owner = self._ownership.on_change(cluster, change)
        if owner is not None:
            self.loop.add(owner.ref)
        if not (_changed_counts_only(change) if cluster is None else _has_same_cause(change)):
            for owners_requiring in tuple(self._requirements.owners_requiring(change, cluster)):
                self.loop.add(owners_requiring)
        if cluster is not None:
            self._delete_empty_tenant_namespace(self._clusters[cluster], change)
            return
        if change.ref.group in GROUPS:
            self._uses.on_change(change)
        self._update_fleet(change)
        if change.ref.group in GROUPS and change.ref.kind in COMPOSERS and _changed_beyond_status(change):
            self.loop.add(change.ref)

    def _delete_empty_tenant_namespace(self, store: SqliteStore, change: StoreChange) -> None:
        """A tenant's namespace is deleted with its last object: replicas share it, so none of them owns it."""
        namespace = change.ref.namespace
        if change.type is not ChangeType.DELETED or not namespace:
            return
        ref = ObjectRef("", "Namespace", "", namespace)
        tenant = TENANT in labels_of(store.get(ref) or {})
        if tenant and not any(store.list(group, kind, namespace=namespace) for group, kind in store.kinds()):
            store.delete(ref)

    def _broke(self, ref: ObjectRef, error: Exception, attempt: int) -> None:
        """Composed objects stay as they are; the composite's Ready condition says that the pass failed."""
        extra = about(LogReason.RECONCILE_FAILED, ref.kind, ref.name, ref.namespace)
        _log.error("%s failed (attempt %d): %r", ref, attempt, error, exc_info=error, extra=extra)
        composite = self.plane.get(ref)
        if composite is None:
            return
        if isinstance(error, NotOursError):
            problem = fails(ConditionType.READY, Reason.NOT_OURS, str(error))
        else:
            message = f"{type(error).__name__}: {error}"
            problem = unknown(ConditionType.READY, Reason.BROKEN, message[:_MAX_MESSAGE])
        status = merged_status(composite.get("status"), None, [problem], self._clock.now())
        self.plane.replace_status({**composite, "status": status})

    def _update_fleet(self, change: StoreChange) -> None:
        before = self.fleet.snapshot()
        self.fleet.apply(change)
        after = self.fleet.snapshot()
        kind = change.ref.kind
        if kind == "ModelDeployment":
            self._update_pending(change)
        elif kind == "ModelCache" and after is not before:
            self._enqueue_users(change.ref)
        elif kind == "InferenceCluster" and after is not before:
            self._enqueue_deployments_on(before, ClusterName(change.ref.name))
        elif kind == "ModelReplica" and value_at(change.manifest, "spec", "preempts"):
            self._enqueue_deployments_on(after, ClusterName(text_at(change.manifest, "spec", "clusterName")))

    def _update_pending(self, change: StoreChange) -> None:
        """A deployment is pending until all of its replicas are scheduled."""
        if change.type is ChangeType.DELETED or condition_is(change.manifest, ConditionType.REPLICAS_SCHEDULED):
            self._pending.discard(change.ref)
        else:
            self._pending.add(change.ref)

    def _enqueue_pending(self) -> None:
        for ref in sorted(self._pending):
            self.loop.add(ref)

    def _enqueue_deployments_on(self, fleet: Fleet, cluster: ClusterName) -> None:
        site = fleet.infos.get(cluster)
        for owner in dict.fromkeys(replica.deployment for replica in (site.held.values() if site else ())):
            self.loop.add(ObjectRef(GROUP, "ModelDeployment", owner.namespace, owner.name))

    def _enqueue_users(self, cache: ObjectRef) -> None:
        for manifest in self.plane.list(GROUP, "ModelDeployment", namespace=cache.namespace):
            if cache.name in _mounted(manifest):
                self.loop.add(_ref(GROUP, "ModelDeployment", manifest))

    def _record(self, owner: Owner, result: ComposeResult) -> None:
        for event in result.events:
            self._write_event(owner, event)

    def _write_event(self, owner: Owner, event: Event) -> None:
        write_event(self.plane, owner, event, now=self._clock.now())


def _mounted(deployment: Manifest) -> set[str]:
    """The caches that a deployment names, in either form."""
    listed = {text_at(mount, "name") for mount in items_at(deployment, "spec", "caches")}
    return {*listed, text_at(deployment, "spec", "template", "spec", "modelCacheRef", "name")}


def _ref(group: str, kind: str, manifest: Manifest) -> ObjectRef:
    metadata = manifest["metadata"]
    assert isinstance(metadata, dict)  # noqa: S101  stores hold objects
    return ObjectRef(group, kind, str(metadata.get("namespace", "")), str(metadata["name"]))


def _changed_beyond_status(change: StoreChange) -> bool:
    """A pass writes the status of its own object, which must not enqueue another pass."""
    return change.type is not ChangeType.MODIFIED or _stated(change.manifest) != _stated(change.before or {})


def _changed_counts_only(change: StoreChange) -> bool:
    """Whether the change touched nothing that composites which require the object read.

    A cluster requires its replicas to count what they hold; replicas require their cluster, but not its counts. If each
    enqueued the other, one replica that starts would enqueue all replicas of its cluster.
    """
    if change.type is not ChangeType.MODIFIED or _changed_beyond_status(change):
        return False
    if change.ref.kind == "ModelReplica":
        return incomplete_since(change.manifest) == incomplete_since(change.before or {})
    if change.ref.kind == "ModelEndpoint":
        return _unmeasured(change.manifest) == _unmeasured(change.before or {})
    return change.ref.kind == "InferenceCluster" and _uncounted(change.manifest) == _uncounted(change.before or {})


def _progress(item: Manifest) -> str:
    """What a loader said last."""
    return annotations_of(item).get(PROGRESS, "")


def _has_same_cause(change: StoreChange) -> bool:
    """Whether a pod or a Workload changed in nothing that its replica shows: they change often while pods start."""
    if change.before is not None and _progress(change.manifest) != _progress(change.before):
        return False
    trim = {"Pod": trimmed, "Workload": trimmed_workload}.get(change.ref.kind)
    if trim is None or change.before is None or change.type is not ChangeType.MODIFIED:
        return False
    return trim(change.manifest) == trim(change.before)


def _unmeasured(endpoint: Manifest) -> dict[str, object]:
    """Traffic concerns the deployment of the endpoint, and no service that selects it."""
    return {name: value for name, value in mapping_at(endpoint, "status").items() if name != "traffic"}


def _uncounted(cluster: Manifest) -> dict[str, object]:
    status = value_at(cluster, "status")
    rest = {k: v for k, v in status.items() if k not in _COUNTS} if isinstance(status, dict) else {}
    pools = [
        {**pool, "devices": [{k: v for k, v in each.items() if k not in _COUNTS} for each in items_at(pool, "devices")]}
        for pool in items_at(cluster, "status", "gpuPools")
    ]
    return {**rest, "gpuPools": pools}


def _stated(manifest: Manifest) -> dict[str, object]:
    metadata = manifest.get("metadata")
    own = {k: v for k, v in metadata.items() if k not in _SERVER_FIELDS} if isinstance(metadata, dict) else {}
    return {**{name: value for name, value in manifest.items() if name not in {"status", "metadata"}}, "metadata": own}
