"""ModelEndpoints as endpoints: the same picker chooses the replica, and with it the cluster.

Three watches: the ModelEndpoints that a label selector matches, and, to know what an hour of each costs, the replicas
behind them and the prices of the clusters' pools. The price of a replica is that of all nodes that it is placed on,
which is too much where it shares one; an external provider has none.

An endpoint is not scraped unless its labels name a metrics URL: the gateway of a cluster has no metrics page, and a
provider is not our server.

An endpoint gets requests while its conditions are true. Its address is the host and port of its URL: a host name is
kept, and the proxy must be able to resolve it.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import TypeVar
from urllib.parse import urlsplit

import msgspec

from modelplane.api.labels import CLUSTER, REPLICA
from modelplane.api.objects import GROUP, VERSION
from modelplane.epp.datalayer.discovery.datastore import Datastore, DiscoveredEndpoint, address_of
from modelplane.epp.datalayer.scrape.targets import METRICS_HOST
from modelplane.epp.datalayer.tasks import cancel_all
from modelplane.kube import GroupVersionResource, Informer, KubeClient, NamespacedName, Query
from modelplane.kube.client import Raw

ENDPOINTS = GroupVersionResource(GROUP, VERSION, "modelendpoints")
REPLICAS = GroupVersionResource(GROUP, VERSION, "modelreplicas")
CLUSTERS = GroupVersionResource(GROUP, VERSION, "inferenceclusters")

PRICE = "price-per-hour"
_DEFAULT_PORTS = {"http": 80, "https": 443}
_START_S = 5.0
_T = TypeVar("_T")


class _Condition(msgspec.Struct, frozen=True):
    type: str = ""
    status: str = ""


class _Meta(msgspec.Struct, frozen=True):
    name: str
    namespace: str = ""
    uid: str = ""
    labels: Mapping[str, str] | None = None
    deleted: str | None = msgspec.field(name="deletionTimestamp", default=None)


class _ReplicaRef(msgspec.Struct, frozen=True):
    name: str
    cluster: str = msgspec.field(name="clusterName")


class _EndpointSpec(msgspec.Struct, frozen=True):
    url: str = ""
    origin: str = ""
    replica: _ReplicaRef | None = None


class _EndpointStatus(msgspec.Struct, frozen=True):
    conditions: tuple[_Condition, ...] = ()


class _Endpoint(msgspec.Struct, frozen=True):
    metadata: _Meta
    spec: _EndpointSpec
    status: _EndpointStatus = _EndpointStatus()


class _Member(msgspec.Struct, frozen=True):
    pool: str = msgspec.field(name="nodePoolName")
    nodes: int = 1


class _Engine(msgspec.Struct, frozen=True):
    members: tuple[_Member, ...] = ()
    copies: int = 1


class _ReplicaSpec(msgspec.Struct, frozen=True):
    cluster: str = msgspec.field(name="clusterName")
    engines: tuple[_Engine, ...] = ()


class _Replica(msgspec.Struct, frozen=True):
    spec: _ReplicaSpec


class _Pool(msgspec.Struct, frozen=True):
    name: str
    price: str | None = msgspec.field(name="pricePerNodeHour", default=None)


class _ClusterStatus(msgspec.Struct, frozen=True):
    pools: tuple[_Pool, ...] = msgspec.field(name="gpuPools", default=())


class _Cluster(msgspec.Struct, frozen=True):
    status: _ClusterStatus = _ClusterStatus()


class ReplicaLocation(msgspec.Struct, frozen=True):
    """The location of a replica: nodes by pool of its cluster."""

    cluster: str
    nodes: tuple[tuple[str, int], ...]


class ServingEndpoint(msgspec.Struct, frozen=True):
    """A ModelEndpoint that takes requests."""

    name: str
    uid: str
    address: str
    labels: Mapping[str, str]
    replica: NamespacedName | None = None


def serving_of(raw: Raw) -> ServingEndpoint | None:
    """None: it takes no requests."""
    found = msgspec.convert(raw, _Endpoint)
    meta, spec = found.metadata, found.spec
    address = _address(spec.origin or spec.url)
    if meta.deleted is not None or address is None or not _is_ready(found.status.conditions):
        return None
    labels = {METRICS_HOST: "", **(meta.labels or {})}
    replica = None
    if spec.replica is not None:
        labels |= {CLUSTER: spec.replica.cluster, REPLICA: spec.replica.name}
        replica = NamespacedName(meta.namespace, spec.replica.name)
    return ServingEndpoint(f"{meta.namespace}/{meta.name}", meta.uid, address, labels, replica)


def placed_of(raw: Raw) -> ReplicaLocation:
    spec = msgspec.convert(raw, _Replica).spec
    nodes: dict[str, int] = {}
    for engine in spec.engines:
        for member in engine.members:
            nodes[member.pool] = nodes.get(member.pool, 0) + member.nodes * engine.copies
    return ReplicaLocation(spec.cluster, tuple(sorted(nodes.items())))


def prices_of(raw: Raw) -> Mapping[str, float]:
    """The price of a node per hour, by pool."""
    pools = msgspec.convert(raw, _Cluster).status.pools
    return {pool.name: float(pool.price) for pool in pools if pool.price is not None}


def price_of(placed: ReplicaLocation | None, prices: Mapping[str, Mapping[str, float]]) -> float | None:
    """None if one of its pools has no price."""
    if placed is None or not placed.nodes:
        return None
    known = prices.get(placed.cluster, {})
    costs = [known[pool] * count for pool, count in placed.nodes if pool in known]
    return sum(costs) if len(costs) == len(placed.nodes) else None


def _is_ready(conditions: tuple[_Condition, ...]) -> bool:
    """By the summary where there is one, else by the route alone."""
    statuses = {one.type: one.status for one in conditions}
    return statuses.get("Ready", statuses.get("RouteReady")) == "True"


def _address(url: str) -> str | None:
    try:
        parts = urlsplit(url)
        port = parts.port or _DEFAULT_PORTS[parts.scheme]
    except (ValueError, KeyError):
        return None
    return address_of(parts.hostname, port) if parts.hostname else None


class FleetEndpoints(Datastore):
    """The ModelEndpoints of a namespace, or of all, that a selector matches. An `EndpointSource`."""

    def __init__(self, client: KubeClient, namespace: str | None = None, labels: str = "") -> None:
        super().__init__()
        self._client = client
        self._serving = self._informer(Query(ENDPOINTS, namespace, labels), serving_of)
        self._replicas = self._informer(Query(REPLICAS, namespace), placed_of)
        self._clusters = self._informer(Query(CLUSTERS), prices_of)
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def known(self) -> bool:
        return self._serving.synced

    @property
    def problem(self) -> str:
        """The problem in one sentence; empty: none."""
        return self._serving.problem or self._replicas.problem or self._clusters.problem

    async def start(self) -> None:
        informers = (self._serving, self._replicas, self._clusters)
        self._tasks = [asyncio.create_task(informer.run()) for informer in informers]
        with suppress(TimeoutError):
            async with asyncio.timeout(_START_S):
                while not self.known and not self._serving.problem:  # noqa: ASYNC110 - either can end the wait
                    await asyncio.sleep(0.01)

    async def stop(self) -> None:
        tasks, self._tasks = self._tasks, []
        await cancel_all(tasks)

    def _informer(self, query: Query, keep: Callable[[Raw], _T | None]) -> Informer[_T]:
        informer = Informer(self._client, query, keep)
        informer.listen(lambda _: self._update())
        return informer

    def _update(self) -> None:
        if self.known:
            self.replace(self._found())

    def _found(self) -> Iterator[DiscoveredEndpoint]:
        prices = {key.name: held for key, held in self._clusters.snapshot.items()}
        for serving in self._serving.snapshot.values():
            placed = self._replicas.snapshot.get(serving.replica) if serving.replica is not None else None
            price = price_of(placed, prices)
            attributes = {} if price is None else {PRICE: price}
            yield DiscoveredEndpoint(serving.name, serving.address, serving.uid, serving.labels, attributes)
