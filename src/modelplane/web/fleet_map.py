"""Clusters with their pools, nodes and devices.

A cluster's status names the nodes of pods that share a node. Of all other nodes it has the counts of their devices
only: these nodes have no name here, and get the remaining devices in the order used, others', missing, lost.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from modelplane.api.codec import decode_readable
from modelplane.api.errors import NotFoundError
from modelplane.api.models import BoundPod, InferenceCluster, InferenceClusterStatus
from modelplane.api.objects import Manifest, labels_of
from modelplane.views.cluster_software import software_row
from modelplane.views.fleet_load import PoolLoad, sum_of_prices
from modelplane.views.overview import ClusterRow
from modelplane.web.cluster_marks import condition_rows, faulty_rows, marks
from modelplane.web.paging import ViewQuery, select
from modelplane.web.shapes import ClusterCard, ClusterPage, NodeUse, PodsOnNode, PoolMap, RowPage
from modelplane.web.snapshot import DashboardSnapshot, ObjectPlace, once_per_snapshot
from modelplane.web.timeline import events_about
from modelplane.web.trees import digests_of, object_tree

_NODES_OF_CARD = 16
_NODES_OF_PAGE = 200


def fleet_page(snapshot: DashboardSnapshot, query: ViewQuery) -> RowPage[ClusterCard]:
    words = cluster_words(snapshot)
    return select(
        snapshot.overview.clusters,
        query,
        words=lambda row: words[row.name],
        state=lambda row: row.health.state,
        show=lambda row: _card(snapshot, row, {}, _NODES_OF_CARD),
    )


def cluster_page(snapshot: DashboardSnapshot, query: ViewQuery) -> ClusterPage:
    row = snapshot.clusters.get(query.name)
    if row is None:
        raise NotFoundError(f"InferenceCluster {query.name} does not exist")
    tree, omitted = object_tree(snapshot, "InferenceCluster", ("", row.name))
    cluster = _decoded(snapshot.objects["InferenceCluster"]["", row.name])
    digests = digests_of(snapshot, snapshot.replicas_on.get(("", row.name), ()))
    return ClusterPage(
        cluster=_card(snapshot, row, digests, _NODES_OF_PAGE),
        version=(cluster.status.kubernetes_version or "") if cluster else "",
        conditions=condition_rows(cluster) if cluster else (),
        faulty=faulty_rows(cluster, digests) if cluster else (),
        software=software_row(cluster) if cluster else None,
        tree=tree,
        omitted=omitted,
        events=events_about(snapshot, "InferenceCluster", "", row.name),
    )


@once_per_snapshot
def cluster_words(snapshot: DashboardSnapshot) -> Mapping[str, str]:
    """What a filter looks for, of each cluster."""
    return {row.name: _words(snapshot, row) for row in snapshot.overview.clusters}


def _words(snapshot: DashboardSnapshot, row: ClusterRow) -> str:
    manifest = snapshot.objects["InferenceCluster"]["", row.name]
    labels = labels_of(manifest)
    classes = (pool.class_name for pool in snapshot.pools.get(row.name, ()))
    tags = (f"{key}={value}" for key, value in labels.items())
    return " ".join((row.name, *row.pools, *classes, *tags, *row.taints, *marks(manifest), row.health.why))


def _card(
    snapshot: DashboardSnapshot, row: ClusterRow, digests: Mapping[str, ObjectPlace], most_nodes: int
) -> ClusterCard:
    manifest = snapshot.objects["InferenceCluster"]["", row.name]
    cluster = _decoded(manifest)
    status = cluster.status if cluster else InferenceClusterStatus()
    sizes = {pool.name: pool.nodes for pool in status.gpu_pools}
    loads = snapshot.pools.get(row.name, ())
    return ClusterCard(
        name=row.name,
        health=row.health,
        cordoned=row.cordoned,
        taints=row.taints,
        labels=dict(labels_of(manifest)),
        replicas=row.replicas,
        marks=tuple(marks(manifest)),
        drain=(status.drain.summary or "") if status.drain else "",
        price=sum_of_prices([load.price for load in loads]),
        pools=tuple(pool_map(load, sizes.get(load.pool, 0), status.bound_pods, digests, most_nodes) for load in loads),
    )


def _decoded(manifest: Manifest) -> InferenceCluster | None:
    """None where the cluster cannot be read: its row says so."""
    return next(iter(decode_readable(InferenceCluster, (manifest,))), None)


@dataclass(slots=True)
class _Node:
    name: str
    free: int
    held: dict[str, int] = field(default_factory=lambda: dict.fromkeys(("used", "others", "missing", "lost"), 0))
    pods: list[PodsOnNode] = field(default_factory=list)

    def take(self, who: str, devices: int) -> int:
        """Returns how many did not fit."""
        taken = min(self.free, devices)
        self.free -= taken
        self.held[who] += taken
        return devices - taken


def pool_map(
    load: PoolLoad, nodes: int, bound: Iterable[BoundPod], digests: Mapping[str, ObjectPlace], most: int
) -> PoolMap:
    """The nodes of a pool. Where it is not known which devices are used, none is shown."""
    if load.load.used is None or not nodes:
        return PoolMap(pool=load, nodes=(), omitted=nodes)
    per_node = load.load.devices // nodes
    named = _named_nodes([pod for pod in bound if pod.pool == load.pool], per_node, digests)
    unnamed = [_Node("", per_node) for _ in range(nodes - len(named))]
    counts = {"used": load.load.used, "others": load.load.others, "missing": load.load.missing, "lost": load.load.lost}
    for who, count in counts.items():
        left = count - sum(node.held[who] for node in named)
        for node in (*unnamed, *named):
            left = node.take(who, max(left, 0))
    every = [*named, *unnamed]
    return PoolMap(pool=load, nodes=tuple(_shown(node, per_node) for node in every[:most]), omitted=len(every[most:]))


def _named_nodes(bound: Sequence[BoundPod], per_node: int, digests: Mapping[str, ObjectPlace]) -> list[_Node]:
    found: dict[str, _Node] = {}
    for pod in sorted(bound, key=lambda each: each.node):
        node = found.setdefault(pod.node, _Node(pod.node, per_node))
        node.take("used" if pod.replica else "others", pod.devices * pod.pods)
        namespace, replica = digests.get(pod.replica or "", ("", ""))
        if replica or not pod.replica:
            node.pods.append(PodsOnNode(replica=replica, namespace=namespace, pods=pod.pods, devices=pod.devices))
    return list(found.values())


def _shown(node: _Node, per_node: int) -> NodeUse:
    return NodeUse(name=node.name, devices=per_node, **node.held, pods=tuple(node.pods))
