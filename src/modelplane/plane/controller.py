"""Wakes composites when something that concerns them changes, and runs their passes.

Whom a change concerns: the object itself when more than its status changed, the composite that composed it, and those
that required it. A deployment is concerned by room that appears anywhere while some of its replicas wait for it, by a
cluster that has replicas of its own, by a replica that takes the place of others there, and by its caches; whoever has
what it asked for is left alone, however large the fleet. All of it goes into one keyed queue, so a burst costs one pass
each.
"""

import logging
from collections import defaultdict

from modelplane.api.conditions import ConditionType, fails, unknown
from modelplane.api.labels import TENANT
from modelplane.api.meta import ClusterName
from modelplane.api.objects import GROUP, Manifest, items_at, labels_of, text_at, value_at
from modelplane.api.reasons import Reason
from modelplane.apiserver.store.database import Database, SqliteStore
from modelplane.compose.contract import ComposeResult, Event
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
from modelplane.reconcile.loop import Loop
from modelplane.reconcile.outcomes import Outcome
from modelplane.reconcile.settings import LoopSettings
from modelplane.reconcile.store import ChangeType, ObjectRef, StoreChange
from modelplane.sim.cluster.objects import condition_is

CLUSTER_PREFIX = "cluster/"
_MAX_MESSAGE = 1024
_log = logging.getLogger(__name__)
# A deployment of a thousand replicas is woken thousands of times while they start: that is work, not a fight. Past this
# rate a key gets a pass a second, which is as often as anybody reads a status.
_LOOP = LoopSettings(breaker_passes=200, breaker_probe_s=1.0)
_SERVER_FIELDS = {"resourceVersion", "managedFields"}
_COUNTS = {"freeDevices", "replicas", "allocated", "free"}


class PlaneController:
    """The plane's side of the embedded plane: everything above the clusters."""

    def __init__(
        self, database: Database, clock: Clock, *, admitted: Defaulting, profile: PlacementProfile = DEFAULT_PROFILE
    ) -> None:
        self._database = database
        self.plane = database.store("plane")
        self._clusters: dict[ClusterName, SqliteStore] = {}
        self._silent: set[ClusterName] = set()
        self._missed: defaultdict[ClusterName, set[ObjectRef]] = defaultdict(set)
        self._ownership = Ownership(answers=self.answers)
        self._uses = UsageIndex()
        self._requirements = Requirements(self.plane, self._reachable)
        self._waiting: set[ObjectRef] = set()
        self.fleet = LiveFleet(capacity_changed=self._wake_waiting)
        self._composition = Composition(
            plane=self.plane,
            clusters=self._reachable,
            ownership=self._ownership,
            uses=self._uses,
            requirements=self._requirements,
            fleet=self.fleet.snapshot,
            clock=clock,
            admitted=admitted,
            record=self._record,
            missed=lambda ref, cluster: self._missed[cluster].add(ref),
            profile=profile,
        )
        self._clock = clock
        self.loop: Loop[ObjectRef] = Loop(self._reconcile, clock=clock, settings=_LOOP, on_broke=self._broke)
        self._follow(None, self.plane)
        for name in database.stores():
            if name.startswith(CLUSTER_PREFIX):
                self._remember(ClusterName(name.removeprefix(CLUSTER_PREFIX)))

    def add_cluster(self, name: ClusterName) -> SqliteStore:
        """Start to carry objects to a cluster."""
        self._silent.discard(name)
        if name not in self._clusters:
            self._open(name)
        self._wake_for(name)
        return self._clusters[name]

    def _remember(self, name: ClusterName) -> None:
        """What was composed on a cluster before a restart stays known, though out of reach until it is added."""
        self._silent.add(name)
        self._open(name)

    def _open(self, name: ClusterName) -> None:
        store = self._database.store(f"{CLUSTER_PREFIX}{name}")
        store.log.stop_remembering()  # nobody watches a cluster by revision, and its changes would push out the plane's
        self._clusters[name] = store
        self._follow(name, store)

    def drop_cluster(self, name: ClusterName) -> None:
        self._clusters.pop(name, None)
        self._silent.discard(name)
        self._database.drop(f"{CLUSTER_PREFIX}{name}")
        for ref in self._ownership.drop_store(name):
            self.loop.add(ref)

    def cluster_answers(self, name: ClusterName, *, answers: bool) -> None:
        """Hear that a cluster fell silent or came back: whoever has something there looks again."""
        if answers == self.answers(name):
            return
        (self._silent.discard if answers else self._silent.add)(name)
        self._wake_for(name)

    def _wake_for(self, name: ClusterName) -> None:
        """The cluster's own composite, those that have something there, and those that wait to."""
        waiting = self._missed.pop(name, set())
        for ref in (ObjectRef(GROUP, "InferenceCluster", "", name), *self._ownership.owners_on(name)):
            self.loop.add(ref)
        for ref in sorted(waiting):
            self.loop.add(ref)

    def answers(self, name: ClusterName) -> bool:
        """Whether the cluster can be reached, as far as is known."""
        return name not in self._silent

    def _reachable(self, name: ClusterName) -> SqliteStore | None:
        return self._clusters.get(name) if self.answers(name) else None

    async def _reconcile(self, ref: ObjectRef) -> Outcome:
        with self._database.batch():
            return self._composition.reconcile(ref)

    def _follow(self, cluster: ClusterName | None, store: SqliteStore) -> None:
        self._ownership.add_store(cluster, store)
        for group, kind in store.kinds():
            # Of kinds that are not ours only what was composed concerns anybody: of events, or of pods, nothing.
            having = b"" if cluster is None and group in GROUPS else OWNER.encode()
            for manifest in store.scan(group, kind, having=having):
                self._heard(cluster, StoreChange(ChangeType.ADDED, _ref(group, kind, manifest), manifest, None, 0))
        store.subscribe(lambda change: self._heard(cluster, change))

    def _heard(self, cluster: ClusterName | None, change: StoreChange) -> None:
        owner = self._ownership.heard(cluster, change)
        if owner is not None:
            self.loop.add(owner.ref)
        if cluster is not None or not _concerns_nobody_else(change):
            for concerned in tuple(self._requirements.concerned(change, cluster)):
                self.loop.add(concerned)
        if cluster is not None:
            self._tidy(self._clusters[cluster], change)
            return
        if change.ref.group in GROUPS:
            self._uses.heard(change)
        self._follow_fleet(change)
        if change.ref.group in GROUPS and change.ref.kind in COMPOSERS and _more_than_status(change):
            self.loop.add(change.ref)

    def _tidy(self, store: SqliteStore, change: StoreChange) -> None:
        """A tenant's namespace goes with the last thing in it: replicas share it, so none of them may remove it."""
        namespace = change.ref.namespace
        if change.type is not ChangeType.DELETED or not namespace:
            return
        ref = ObjectRef("", "Namespace", "", namespace)
        tenant = TENANT in labels_of(store.get(ref) or {})
        if tenant and not any(store.list(group, kind, namespace=namespace) for group, kind in store.kinds()):
            store.delete(ref)

    def _broke(self, ref: ObjectRef, error: Exception, attempt: int) -> None:
        """What runs stays as it is; the object says that we failed on it."""
        _log.error("pass %d over %s broke: %r", attempt, ref, error, exc_info=error)
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

    def _follow_fleet(self, change: StoreChange) -> None:
        before = self.fleet.snapshot()
        self.fleet.apply(change)
        after = self.fleet.snapshot()
        kind = change.ref.kind
        if kind == "ModelDeployment":
            self._note_waiting(change)
        elif kind == "ModelCache" and after is not before:
            self._wake_users(change.ref)
        elif kind == "InferenceCluster" and after is not before:
            self._wake_holders(before, ClusterName(change.ref.name))
        elif kind == "ModelReplica" and value_at(change.manifest, "spec", "preempts"):
            self._wake_holders(after, ClusterName(text_at(change.manifest, "spec", "clusterName")))

    def _note_waiting(self, change: StoreChange) -> None:
        """A deployment waits until all of its replicas have a place that they can keep."""
        if change.type is ChangeType.DELETED or condition_is(change.manifest, ConditionType.REPLICAS_SCHEDULED):
            self._waiting.discard(change.ref)
        else:
            self._waiting.add(change.ref)

    def _wake_waiting(self) -> None:
        for ref in sorted(self._waiting):
            self.loop.add(ref)

    def _wake_holders(self, fleet: Fleet, cluster: ClusterName) -> None:
        site = fleet.infos.get(cluster)
        for owner in dict.fromkeys(holding.deployment for holding in (site.held.values() if site else ())):
            self.loop.add(ObjectRef(GROUP, "ModelDeployment", owner.namespace, owner.name))

    def _wake_users(self, cache: ObjectRef) -> None:
        for manifest in self.plane.list(GROUP, "ModelDeployment", namespace=cache.namespace):
            if any(mount.get("name") == cache.name for mount in items_at(manifest, "spec", "caches")):
                self.loop.add(_ref(GROUP, "ModelDeployment", manifest))

    def _record(self, owner: Owner, result: ComposeResult) -> None:
        for event in result.events:
            self._write_event(owner, event)

    def _write_event(self, owner: Owner, event: Event) -> None:
        write_event(self.plane, owner, event, now=self._clock.now())


def _ref(group: str, kind: str, manifest: Manifest) -> ObjectRef:
    metadata = manifest["metadata"]
    assert isinstance(metadata, dict)  # noqa: S101  stores hold objects
    return ObjectRef(group, kind, str(metadata.get("namespace", "")), str(metadata["name"]))


def _more_than_status(change: StoreChange) -> bool:
    """A pass writes its own status; that alone is no reason for another."""
    return change.type is not ChangeType.MODIFIED or _stated(change.manifest) != _stated(change.before or {})


def _concerns_nobody_else(change: StoreChange) -> bool:
    """Whether nobody who asked for the object reads what changed of it.

    A cluster is asked for its replicas, of which it counts what they hold; replicas ask for their cluster, whose counts
    are none of their business. Were each woken by the other's status, one that starts would wake all on its cluster.
    """
    if change.type is not ChangeType.MODIFIED or _more_than_status(change):
        return False
    if change.ref.kind == "ModelReplica":
        return True
    return change.ref.kind == "InferenceCluster" and _uncounted(change.manifest) == _uncounted(change.before or {})


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
