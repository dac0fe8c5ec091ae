"""What must always hold in a world, and what must hold when the faults are over.

always       overcommit   a pass on fresh facts promises no device twice
             lost         what serves leaves only for a reason that its facts or the truth give
             doubled      a pass adds no replica where enough are well placed
             tenants      a composite writes in its own namespaces, and no tenant's namespace goes while it is used
             status       a condition or a count claims no more than what was observed
             queues       queues hold each composite once
eventually   converges    within MAX_ROUNDS nothing is written any more, and passes by force write nothing either
             overcommit   no replica waits on a pool that is promised twice
             placed       every replica that fits is placed, and no more than asked for
             truth        what is reported is what is
             clients      requests to what is ready are answered
both         weights      see `weights`

A violation is an AssertionError, so that nothing carries on.
"""

from collections.abc import Callable, Mapping
from typing import Protocol

from modelplane.api.labels import CLUSTER, SYSTEM_NAMESPACE
from modelplane.api.objects import (
    Manifest,
    int_at,
    is_deleting,
    items_at,
    labels_of,
    name_of,
    namespace_of,
    text_at,
    uid_of,
    value_at,
)
from modelplane.testing.world.clusters import WorkloadCluster
from modelplane.testing.world.control_plane import ControlPlane, WorldPass
from modelplane.testing.world.judge import (
    capacity_of,
    demands,
    deployment_of,
    has_failed_cache,
    held_on,
    replicas_of,
    shows_serving,
    tenant_place,
    why_wrong,
)
from modelplane.testing.world.store import ApiStore, ObjectId, id_of
from modelplane.testing.world.views import Facts
from modelplane.testing.world.weights import CLAIM, cache_phase, claim_on

MAX_ROUNDS = 10
_NEEDS_MESSAGE = frozenset({"False", "Unknown"})


class WorldViolation(AssertionError):  # noqa: N818  the finding of a checker
    """A checker found what must not be."""

    def __init__(self, checker: str, message: str) -> None:
        super().__init__(f"{checker}: {message}")
        self.checker = checker


class Truth(Protocol):
    """What checkers ask of a world."""

    store: ApiStore
    planes: list[ControlPlane]
    clusters: dict[str, WorkloadCluster]

    @property
    def now(self) -> float: ...
    def truly_serves(self, replica: Manifest) -> bool: ...
    def probe(self, name: str) -> None: ...


class Checkers:
    def __init__(self, world: Truth) -> None:
        self._world = world

    def on_delete(self, done: WorldPass, key: ObjectId) -> None:
        item = self._world.store.get(key)
        if item is None:
            return
        self._check_home(done, item)
        if key.kind == "ModelReplica":
            self._check_not_lost(done, item)
        if text_at(item, "spec", "forProvider", "manifest", "kind") == CLAIM:
            self._check_not_mounted(done, item)
        if key.kind == "Object" and text_at(item, "spec", "forProvider", "manifest", "kind") == "Namespace":
            self._check_tenant_kept(done, item)

    def on_apply(self, done: WorldPass, item: Manifest) -> None:
        self._check_home(done, item)
        if item.get("kind") == "ModelReplica" and self._world.store.get(id_of(item)) is None:
            if any(id_of(each) == id_of(item) for each in done.observed.values()):
                # The view still shows it, so it is kept there and not added; applied, it is created anew.
                self._world.probe("replica applied again after it was deleted")
                return
            self._check_not_doubled(done, item)
            self._check_not_overcommitted(done, item)
            self._check_cache_not_failed(done, item)

    def on_status(self, done: WorldPass, status: Mapping[str, object]) -> None:
        _check_conditions(done, status)
        match done.id.kind:
            case "ModelDeployment":
                _check_deployment(done, status)
            case "ModelReplica":
                _check_replica(done, status)
            case "InferenceCluster":
                _check_cluster(done, status)

    def check_queues(self) -> None:
        for plane in self._world.planes:
            composites = sum(len(plane.view.by_kind.get(kind, ())) for kind in plane.view.by_kind)
            if len(plane.queue) > composites + len(self._world.store.objects):
                raise WorldViolation("queues", f"{plane.name} queues {len(plane.queue)} of {composites} objects")

    def _judged(self, done: WorldPass, judge: Callable[[Facts, Manifest], str]) -> list[str]:
        """The answers of the view and of the truth. Neither may be about a deployment that is gone."""
        truth = self._world.store.get(done.id)
        if truth is None or is_deleting(truth):
            return ["the deployment is gone"]
        return [judge(done.facts, done.composite), judge(self._world.store, truth)]

    def _check_not_lost(self, done: WorldPass, replica: Manifest) -> None:
        if not (shows_serving(replica) and self._world.truly_serves(replica)) or is_deleting(replica):
            return
        gone = set(done.removed)

        def reason(facts: Facts, deployment: Manifest) -> str:
            left = [item for item in replicas_of(facts, deployment) if id_of(item) not in gone]
            well = [item for item in left if not why_wrong(facts, deployment, item, self._world.now)]
            wanted = int_at(deployment, "spec", "replicas", default=1)
            if len(well) >= wanted:
                return "enough others are placed"
            if sum(shows_serving(item) for item in left) >= wanted:
                return "enough others serve"
            return why_wrong(facts, deployment, facts.get(id_of(replica)) or replica, self._world.now)

        reasons = self._judged(done, reason)
        if not any(reasons):
            raise WorldViolation("lost", f"{done.author} deletes {id_of(replica)}, which serves, for no reason")
        for found in reasons:
            if found:
                self._world.probe(f"serving replica deleted: {found}")

    def _check_not_doubled(self, done: WorldPass, replica: Manifest) -> None:
        if value_at(replica, "spec", "preempts"):
            self._world.probe("replica that preempts")
        gone = set(done.removed)

        def room(facts: Facts, deployment: Manifest) -> str:
            left = [item for item in replicas_of(facts, deployment) if id_of(item) not in gone]
            well = [item for item in left if not why_wrong(facts, deployment, item, self._world.now)]
            return "too few are well placed" if len(well) < int_at(deployment, "spec", "replicas", default=1) else ""

        if not any(self._judged(done, room)):
            raise WorldViolation(
                "doubled", f"{done.author} adds {id_of(replica)} though enough replicas are well placed"
            )

    def _check_not_overcommitted(self, done: WorldPass, replica: Manifest) -> None:
        store = self._world.store
        if not done.fresh or value_at(replica, "spec", "preempts"):
            return
        name = text_at(replica, "spec", "clusterName")
        cluster = store.get(ObjectId("InferenceCluster", "", name))
        if cluster is None:
            raise WorldViolation("overcommit", f"{done.author} places {id_of(replica)} on {name}, which does not exist")
        for pool, devices in demands(replica).items():
            held = held_on(store, name, pool, without=done.removed)
            if held + devices > capacity_of(cluster, pool):
                room = f"{held} of {capacity_of(cluster, pool)} devices of {name}/{pool} are held"
                raise WorldViolation("overcommit", f"{done.author} adds {devices} devices where {room}")

    def _check_home(self, done: WorldPass, item: Manifest) -> None:
        """Composites write in their own namespace, and remotely in that of their tenant."""
        home = done.id.namespace or SYSTEM_NAMESPACE
        if namespace_of(item) not in {home, ""} or (done.id.namespace and not namespace_of(item)):
            raise WorldViolation("tenants", f"{done.author} writes {id_of(item)}")
        if item.get("kind") != "Object" or not done.id.namespace:
            return
        remote = value_at(item, "spec", "forProvider", "manifest")
        assert isinstance(remote, Mapping)  # noqa: S101  Objects have one
        place = namespace_of(remote) or name_of(remote)
        if place != tenant_place(done.id.namespace):
            raise WorldViolation("tenants", f"{done.author} writes into namespace {place} of a cluster")
        cluster = text_at(item, "spec", "providerConfigRef", "name")
        if done.id.kind == "ModelReplica" and cluster != text_at(done.composite, "spec", "clusterName"):
            raise WorldViolation("tenants", f"{done.author} writes on cluster {cluster}")

    def _check_tenant_kept(self, done: WorldPass, item: Manifest) -> None:
        if done.id.kind != "InferenceCluster":
            return
        namespace = text_at(item, "spec", "forProvider", "manifest", "metadata", "name")
        for replica in self._world.store.all_of("ModelReplica"):
            there = labels_of(replica).get(CLUSTER) == done.id.name
            if there and tenant_place(namespace_of(replica)) == namespace:
                raise WorldViolation(
                    "tenants", f"{done.author} lets go of namespace {namespace}, where {id_of(replica)} runs"
                )

    def _check_cache_not_failed(self, done: WorldPass, replica: Manifest) -> None:
        where = text_at(replica, "spec", "clusterName")
        if done.fresh and has_failed_cache(self._world.store, replica, where):
            raise WorldViolation("weights", f"{done.author} places {id_of(replica)} on {where}, where its cache failed")

    def _check_not_mounted(self, done: WorldPass, item: Manifest) -> None:
        cluster = self._world.clusters.get(text_at(item, "spec", "providerConfigRef", "name"))
        claim = value_at(item, "spec", "forProvider", "manifest")
        if cluster is not None and isinstance(claim, Mapping) and cluster.mounts(claim):
            raise WorldViolation("weights", f"{done.author} lets go of {id_of(claim)}, which a workload mounts")

    def _check_caches(self) -> None:
        for cache in self._world.store.all_of("ModelCache"):
            objects = list(self._world.store.all_of("Object"))
            for name, cluster in self._world.clusters.items():
                claims = [cluster.there.get(id_of(claim)) for claim in claim_on(objects, name)]
                full = any(claim is not None and uid_of(claim) in cluster.volumes.full for claim in claims)
                if full != (cache_phase(cache, name) == "Ready"):
                    shown = cache_phase(cache, name) or "nothing"
                    raise WorldViolation("weights", f"{id_of(cache)} says {shown} of {name}, and it is {full} there")

    def check_end(self) -> None:
        """When the faults are over and everything is quiet."""
        self.check_queues()
        for deployment in self._world.store.all_of("ModelDeployment"):
            self._check_placed(deployment)
        for replica in self._world.store.all_of("ModelReplica"):
            if deployment_of(self._world.store, replica) is None:
                raise WorldViolation("placed", f"{id_of(replica)} belongs to no deployment")
            if shows_serving(replica) != self._world.truly_serves(replica):
                raise WorldViolation("truth", f"{id_of(replica)} shows {shows_serving(replica)} for serving")
        self._check_no_lasting_overcommit()
        self._check_caches()

    def _check_placed(self, deployment: Manifest) -> None:
        store, wanted = self._world.store, int_at(deployment, "spec", "replicas", default=1)
        found = replicas_of(store, deployment)
        well = [item for item in found if not why_wrong(store, deployment, item, self._world.now)]
        if len(well) > wanted:
            raise WorldViolation("placed", f"{id_of(deployment)} has {len(well)} of {wanted} replicas")
        serving = sum(self._world.truly_serves(item) for item in found)
        ready = int_at(deployment, "status", "readyReplicas")
        if ready != serving:
            raise WorldViolation("truth", f"{id_of(deployment)} reports {ready} ready replicas, {serving} serve")
        if _condition(deployment, "Ready") == "True" and serving < wanted:
            raise WorldViolation("truth", f"{id_of(deployment)} is Ready with {serving} of {wanted}")
        if _condition(deployment, "Ready") != "True" and len(well) == wanted and serving >= wanted == len(found):
            raise WorldViolation("truth", f"{id_of(deployment)} is not Ready, and all {wanted} replicas serve")
        if len(well) < wanted:
            self._world.probe("replica that waits for capacity")
            self._check_no_free_node(deployment)

    def _check_no_free_node(self, deployment: Manifest) -> None:
        """A replica may wait only where no empty pool would take it."""
        store = self._world.store
        for cluster in store.all_of("InferenceCluster"):
            usable = _condition(cluster, "Ready") == "True" and not value_at(cluster, "spec", "cordoned")
            usable = usable and value_at(cluster, "spec", "drain") is None
            if not usable or list(items_at(cluster, "spec", "taints")):
                continue
            for pool in items_at(cluster, "status", "gpuPools"):
                name = text_at(pool, "name")
                if has_failed_cache(store, deployment, name_of(cluster)):
                    continue
                if held_on(store, name_of(cluster), name) == 0 and _would_take(cluster, pool, deployment):
                    raise WorldViolation(
                        "placed", f"{id_of(deployment)} waits, and {name_of(cluster)}/{name} is empty and suits"
                    )

    def _check_no_lasting_overcommit(self) -> None:
        store = self._world.store
        for cluster in store.all_of("InferenceCluster"):
            for pool in items_at(cluster, "spec", "nodePools"):
                name = text_at(pool, "name")
                held, room = held_on(store, name_of(cluster), name), capacity_of(cluster, name)
                waiting = [
                    item
                    for item in store.all_of("ModelReplica")
                    if text_at(item, "spec", "clusterName") == name_of(cluster)
                    and demands(item)[name]
                    and not shows_serving(item)
                ]
                if held > room and waiting:
                    raise WorldViolation(
                        "overcommit", f"{held} of {room} devices of {name_of(cluster)}/{name} stay promised"
                    )


def _would_take(cluster: Manifest, pool: Manifest, deployment: Manifest) -> bool:
    wanted = value_at(deployment, "spec", "clusterSelector", "matchLabels") or {}
    assert isinstance(wanted, Mapping)  # noqa: S101  as the layout writes it
    if not wanted.items() <= labels_of(cluster).items():
        return False
    copies = int_at(deployment, "spec", "workers", "count", default=1)
    for request in items_at(deployment, "spec", "nodeSelector", "devices"):
        texts = [text_at(each, "cel") for each in items_at(request, "selectors")]
        fitting = [
            device
            for device in items_at(pool, "devices")
            if all(text_at(device, "attributes", "productName", "string") in text for text in texts)
        ]
        a_node = sum(int_at(device, "count") for device in fitting)
        if int_at(request, "count", default=1) > a_node or copies > int_at(pool, "nodes"):
            return False
    return True


def _condition(item: Manifest, kind: str) -> str:
    return next(
        (text_at(each, "status") for each in items_at(item, "status", "conditions") if text_at(each, "type") == kind),
        "",
    )


def _check_conditions(done: WorldPass, status: Mapping[str, object]) -> None:
    for condition in items_at({"status": status}, "status", "conditions"):
        if not text_at(condition, "reason") or not int_at(condition, "observedGeneration"):
            raise WorldViolation("status", f"{done.author}: condition {text_at(condition, 'type')} has no reason")
        silent = text_at(condition, "status") in _NEEDS_MESSAGE and not text_at(condition, "message")
        if silent and text_at(condition, "type") != "Ready":
            raise WorldViolation("status", f"{done.author}: condition {text_at(condition, 'type')} says not why")


def _check_deployment(done: WorldPass, status: Mapping[str, object]) -> None:
    shown = {"status": status}
    replicas = [item for item in done.observed.values() if item.get("kind") == "ModelReplica"]
    serving, wanted = (
        sum(shows_serving(item) for item in replicas),
        int_at(done.composite, "spec", "replicas", default=1),
    )
    reported = int_at(shown, "status", "readyReplicas")
    decided = "placement" in status and any(
        text_at(each, "type") == "ReplicasScheduled" and text_at(each, "status") != "Unknown"
        for each in items_at(shown, "status", "conditions")
    )
    if decided and reported > serving:
        raise WorldViolation(
            "status", f"{done.author} reports {reported} ready replicas, {serving} were observed to serve"
        )
    if _condition(shown, "Ready") == "True" and serving < wanted:
        raise WorldViolation("status", f"{done.author} is Ready with {serving} of {wanted} replicas observed to serve")
    desired = sum(each.manifest.get("kind") == "ModelReplica" for each in done.result.resources.values())
    if _condition(shown, "ReplicasScheduled") == "True" and desired < wanted:
        raise WorldViolation("status", f"{done.author} says that all are placed with {desired} of {wanted}")


def _check_replica(done: WorldPass, status: Mapping[str, object]) -> None:
    workloads = [
        item
        for item in done.observed.values()
        if text_at(item, "spec", "forProvider", "manifest", "kind") == "Deployment"
    ]
    available = [
        item
        for item in workloads
        if _synced(item)
        and any(
            text_at(each, "type") == "Available" and text_at(each, "status") == "True"
            for each in items_at(item, "status", "atProvider", "manifest", "status", "conditions")
        )
    ]
    if _condition({"status": status}, "Ready") == "True" and not available:
        raise WorldViolation("status", f"{done.author} is Ready, and no workload was observed to be available")


def _check_cluster(done: WorldPass, status: Mapping[str, object]) -> None:
    gateway = done.observed.get("gateway")
    answers = (
        gateway is not None and _synced(gateway) and value_at(gateway, "status", "atProvider", "manifest", "status")
    )
    if _condition({"status": status}, "Ready") == "True" and not answers:
        raise WorldViolation("status", f"{done.author} is Ready, and its gateway was not observed to answer")


def _synced(item: Manifest) -> bool:
    return _condition(item, "Synced") == "True"
