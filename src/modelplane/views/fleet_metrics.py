"""The fleet's objects as metrics, the same on every host.

Names are those that Modelplane publishes or has designed. Labels are names of objects that people create and words of
closed sets: no replica, pod, node, caller or address is one, so the number of series grows with the fleet's intent and
not with its churn. What no object says has no series, and is never zero: devices that are shared, a price that a class
lacks. An object that cannot be read is left out; its own condition says why.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple

from modelplane.api.codec import decode_readable
from modelplane.api.conditions import Condition, ConditionStatus, ConditionType
from modelplane.api.models import CacheOnCluster, InferenceCluster, ModelCache, ModelReplica
from modelplane.api.reasons import Reason
from modelplane.views.fleet_load import FleetLoad, devices_of, fleet_load
from modelplane.views.health import object_health
from modelplane.views.inputs import FleetManifests
from modelplane.views.metric_families import Labels, MetricSpec, SampleFamily
from modelplane.views.states import READY

OTHER: Final = "Other"
_DEPLOYMENT = ("namespace", "deployment")
_POOL = ("cluster", "pool", "class")
_CACHE = ("namespace", "cache", "cluster")
_ORDER = (
    ConditionType.ACCEPTED,
    ConditionType.SCHEDULED,
    ConditionType.CACHES_READY,
    ConditionType.SECRETS_READY,
    ConditionType.WORKLOAD_READY,
    ConditionType.ROUTE_READY,
)
"""The stages of a replica: the first that does not hold is why it does not serve."""
_NOT_CONNECTED = frozenset({Reason.CLUSTER_LOST.value, Reason.WAITING_FOR_CLUSTER.value, Reason.UNRESOLVED.value})
_REASONS = frozenset(reason.value for reason in Reason)
Rows = Iterable[tuple[Labels, float]]


class _Read(NamedTuple):
    """The fleet, decoded once."""

    load: FleetLoad
    clusters: list[InferenceCluster]
    replicas: list[ModelReplica]
    caches: list[ModelCache]

    def staged(self) -> Iterator[tuple[Labels, CacheOnCluster]]:
        for cache in self.caches:
            for entry in cache.status.clusters:
                yield (cache.metadata.namespace, cache.metadata.name, entry.name), entry


class _FleetMetric(NamedTuple):
    spec: MetricSpec
    rows: Callable[[_Read], Rows]


def fleet_metrics(inputs: FleetManifests) -> tuple[SampleFamily, ...]:
    """Every family of FLEET_METRICS in its order, also those without a series."""
    fleet = _Read(
        load=fleet_load(inputs, ()),
        clusters=decode_readable(InferenceCluster, inputs.clusters),
        replicas=decode_readable(ModelReplica, inputs.replicas),
        caches=decode_readable(ModelCache, inputs.caches),
    )
    return tuple(SampleFamily(metric.spec, dict(metric.rows(fleet))) for metric in _METRICS)


def _desired(fleet: _Read) -> Rows:
    return (((row.namespace, row.name), row.replicas) for row in fleet.load.deployments)


def _ready(fleet: _Read) -> Rows:
    return (((row.namespace, row.name), row.ready_replicas) for row in fleet.load.deployments)


def _placed(fleet: _Read) -> Rows:
    counts: Counter[Labels] = Counter({(row.namespace, row.name): 0 for row in fleet.load.deployments})
    counts.update(_owner(replica) for replica in fleet.replicas)
    return counts.items()


def _not_ready(fleet: _Read) -> Rows:
    waiting = (replica for replica in fleet.replicas if not _serves(replica))
    return Counter((*_owner(replica), _cause(replica)) for replica in waiting).items()


def _incomplete(fleet: _Read) -> Rows:
    gangs = [replica for replica in fleet.replicas if _is_gang(replica)]
    counts = Counter({_owner(replica): 0 for replica in gangs})
    counts.update(_owner(replica) for replica in gangs if not _holds(replica, ConditionType.WORKLOAD_READY))
    return counts.items()


def _held_by_deployment(fleet: _Read) -> Rows:
    counts: Counter[Labels] = Counter()
    for replica in fleet.replicas:
        counts[*_owner(replica), replica.spec.cluster_name] += devices_of(replica)
    return counts.items()


def _allocatable(fleet: _Read) -> Rows:
    return (((p.cluster, p.pool, p.class_name), p.load.devices - p.load.missing) for p in fleet.load.pools)


def _held(fleet: _Read) -> Rows:
    for pool in fleet.load.pools:
        key = (pool.cluster, pool.pool, pool.class_name)
        if pool.load.used is not None:
            yield (*key, "replicas"), pool.load.used
        yield (*key, "others"), pool.load.others


def _free(fleet: _Read) -> Rows:
    return (((p.cluster, p.pool, p.class_name), p.load.free) for p in fleet.load.pools)


def _missing(fleet: _Read) -> Rows:
    return (((p.cluster, p.pool, p.class_name), p.load.missing) for p in fleet.load.pools)


def _nodes(fleet: _Read) -> Rows:
    return (((p.cluster, p.pool, p.class_name), p.nodes) for p in fleet.load.pools)


def _connected(fleet: _Read) -> Rows:
    return (((cluster.metadata.name,), float(_answers(cluster))) for cluster in fleet.clusters)


def _cluster_ready(fleet: _Read) -> Rows:
    for item in fleet.clusters:
        yield (item.metadata.name,), float(object_health(item.metadata, item.status.conditions).state == READY)


def _agents(fleet: _Read) -> Rows:
    return _held_conditions(fleet, ConditionType.AGENT_CONNECTED)


def _telemetry(fleet: _Read) -> Rows:
    return _held_conditions(fleet, ConditionType.TELEMETRY_READY)


def _held_conditions(fleet: _Read, kind: ConditionType) -> Rows:
    """Of clusters that have the condition."""
    found = ((item.metadata.name, _condition(item.status.conditions, kind)) for item in fleet.clusters)
    return (((name,), float(held.status is ConditionStatus.TRUE)) for name, held in found if held is not None)


def _faulty(fleet: _Read) -> Rows:
    return (((item.metadata.name,), len(item.status.faulty_replicas)) for item in fleet.clusters)


def _software(fleet: _Read) -> Rows:
    for item in fleet.clusters:
        if item.status.software is not None and item.status.software.phase:
            yield (item.metadata.name, item.status.software.phase), 1.0


def _cluster_cost(fleet: _Read) -> Rows:
    priced = ((pool, pool.price) for pool in fleet.load.pools if pool.price is not None)
    return (((p.cluster, p.pool, p.class_name, price.currency), price.per_hour) for p, price in priced)


def _deployment_cost(fleet: _Read) -> Rows:
    priced = ((row, row.price) for row in fleet.load.deployments if row.price is not None)
    return (((row.namespace, row.name, price.currency), price.per_hour) for row, price in priced)


def _cache_ready(fleet: _Read) -> Rows:
    return ((key, float(entry.phase == "Ready")) for key, entry in fleet.staged())


def _staged(fleet: _Read) -> Rows:
    return ((key, entry.staged_bytes) for key, entry in fleet.staged() if entry.staged_bytes is not None)


def _size(fleet: _Read) -> Rows:
    return ((key, entry.total_bytes) for key, entry in fleet.staged() if entry.total_bytes is not None)


def _owner(replica: ModelReplica) -> Labels:
    return replica.metadata.namespace, replica.spec.deployment.name if replica.spec.deployment else ""


def _serves(replica: ModelReplica) -> bool:
    return object_health(replica.metadata, replica.status.conditions).state == READY


def _condition(conditions: Iterable[Condition], kind: ConditionType) -> Condition | None:
    return next((condition for condition in conditions if condition.type == kind), None)


def _holds(replica: ModelReplica, kind: ConditionType) -> bool:
    found = _condition(replica.status.conditions, kind)
    return found is not None and found.status is ConditionStatus.TRUE


def _cause(replica: ModelReplica) -> str:
    """A word of the closed set of reasons, so that what a cluster says cannot make series."""
    if replica.metadata.deletion_timestamp is not None:
        return Reason.DELETING.value
    failing = (
        found.reason
        for kind in _ORDER
        if (found := _condition(replica.status.conditions, kind)) and found.status is not ConditionStatus.TRUE
    )
    reason = next(failing, Reason.STARTING.value)
    return reason if reason in _REASONS else OTHER


def _is_gang(replica: ModelReplica) -> bool:
    return any(sum(member.nodes for member in engine.members) > 1 for engine in replica.spec.engines)


def _answers(cluster: InferenceCluster) -> bool:
    running = _condition(cluster.status.conditions, ConditionType.CLUSTER_READY)
    lost = cluster.status.lost_devices is not None
    return running is not None and not lost and running.reason not in _NOT_CONNECTED


def _gauge(name: str, labels: Labels, text: str, rows: Callable[[_Read], Rows], *, unit: str = "") -> _FleetMetric:
    return _FleetMetric(MetricSpec(name=f"modelplane_{name}", labels=labels, help=text, unit=unit), rows)


_METRICS: Final = (
    _gauge("replicas_desired", _DEPLOYMENT, "Replicas that the deployment asks for.", _desired),
    _gauge("replicas_placed", _DEPLOYMENT, "Replicas that have a cluster.", _placed),
    _gauge("replicas_ready", _DEPLOYMENT, "Replicas that serve.", _ready),
    _gauge(
        "replicas_not_ready",
        (*_DEPLOYMENT, "reason"),
        "Replicas with a cluster that do not serve, and why.",
        _not_ready,
    ),
    _gauge("gang_incomplete", _DEPLOYMENT, "Replicas of several nodes whose pods are not all available.", _incomplete),
    _gauge("replica_gpus", (*_DEPLOYMENT, "cluster"), "Devices that replicas claim.", _held_by_deployment),
    _gauge("cluster_gpus_allocatable", _POOL, "Devices of a pool that drivers publish.", _allocatable),
    _gauge("cluster_gpus_held", (*_POOL, "holder"), "Devices that replicas, or others, hold.", _held),
    _gauge("cluster_gpus_free", _POOL, "Devices that a new replica can have.", _free),
    _gauge("cluster_gpus_missing", _POOL, "Devices that a pool should have and no driver publishes.", _missing),
    _gauge("cluster_nodes", _POOL, "Nodes of a pool: those that are there, where that is observed.", _nodes),
    _gauge("cluster_connected", ("cluster",), "1 while the cluster answers, else 0.", _connected),
    _gauge("cluster_ready", ("cluster",), "1 while the cluster is Ready, else 0.", _cluster_ready),
    _gauge("cluster_agent_connected", ("cluster",), "1 while the agent of the cluster is connected, else 0.", _agents),
    _gauge("cluster_telemetry_ready", ("cluster",), "1 while the collector of the cluster runs, else 0.", _telemetry),
    _gauge("cluster_faulty_replicas", ("cluster",), "Replicas on devices that are reported as faulty.", _faulty),
    _gauge("cluster_software_phase", ("cluster", "phase"), "1 for the phase of the cluster's software.", _software),
    _gauge("cluster_cost_per_hour", (*_POOL, "currency"), "Price of the nodes of a pool, used or not.", _cluster_cost),
    _gauge(
        "deployment_cost_per_hour",
        (*_DEPLOYMENT, "currency"),
        "Price of the parts of nodes that the replicas take.",
        _deployment_cost,
    ),
    _gauge("cache_ready", _CACHE, "1 where the cluster holds the artifact, 0 where it should.", _cache_ready),
    _gauge("cache_staged_bytes", _CACHE, "Bytes of the artifact that are on the cluster.", _staged, unit="bytes"),
    _gauge("cache_size_bytes", _CACHE, "Bytes of the artifact, where its source says.", _size, unit="bytes"),
)
FLEET_METRICS: Final[tuple[MetricSpec, ...]] = tuple(metric.spec for metric in _METRICS)
