"""The pools of a cluster after an edit: what the new spec and the classes say, with what was observed of the old.

A status describes the cluster that was. Of it, only what was seen is kept: nodes that are there, devices that are held,
conditions. Nodes that an edit adds or takes away are counted as added or gone.
"""

from collections.abc import Mapping

import msgspec

from modelplane.api.codec import decode, encode
from modelplane.api.errors import InputError
from modelplane.api.models import (
    ClusterSource,
    GpuPool,
    InferenceClass,
    InferenceCluster,
    InferenceClusterStatus,
    NodePool,
    PoolDevice,
    PoolDomain,
)
from modelplane.api.objects import Manifest, mapping_at
from modelplane.compose import inference_cluster
from modelplane.compose.clouds import class_fault, cloud_of
from modelplane.compose.contract import ComposeRequest


def pools_of(cluster: InferenceCluster, classes: Mapping[str, Manifest]) -> tuple[GpuPool, ...]:
    """The pools that a cluster would publish, by the composer that does so in a plane.

    A pool whose class is not among those given keeps what is known of it; where nothing is, that is refused. Pools of
    a cluster on a cloud are those that it has once it is made.
    """
    known = {(pool.name, pool.class_name) for pool in cluster.status.gpu_pools}
    wanted = {pool.class_name for pool in cluster.spec.node_pools if (pool.name, pool.class_name) not in known}
    missing = sorted(wanted - classes.keys())
    if missing:
        raise InputError(f"InferenceCluster {cluster.metadata.name}: no InferenceClass named {', '.join(missing)}")
    _refuse_unmakable(cluster, classes)
    made = _as_made(cluster)
    required = {
        key: (classes[requirement.name],) if requirement.name in classes else ()
        for key, requirement in inference_cluster.compose(ComposeRequest(made)).requirements.items()
        if requirement.kind == "InferenceClass" and requirement.name is not None
    }
    status = inference_cluster.compose(ComposeRequest(made, required=required)).status
    return status.gpu_pools if isinstance(status, InferenceClusterStatus) else ()


def _as_made(cluster: InferenceCluster) -> InferenceCluster:
    spec = msgspec.structs.replace(cluster.spec, cluster=ClusterSource(source="Existing"))
    return cluster if cloud_of(cluster) is None else msgspec.structs.replace(cluster, spec=spec)


def as_equipped(manifest: Manifest) -> Manifest:
    """An InferenceCluster as it is once it is made and its software is installed; any other object as it is."""
    if manifest.get("kind") != "InferenceCluster":
        return manifest
    cluster = decode(InferenceCluster, manifest)
    existing = cluster.spec.cluster.existing
    secret = existing.secret_ref.name if existing is not None else f"{cluster.metadata.name}-kubeconfig"
    found = {"source": "Existing", "existing": {"secretRef": {"name": secret}}}
    return {**manifest, "spec": {**mapping_at(manifest, "spec"), "cluster": found}}


def _refuse_unmakable(cluster: InferenceCluster, classes: Mapping[str, Manifest]) -> None:
    cloud = cloud_of(cluster)
    for pool in cluster.spec.node_pools if cloud is not None else ():
        found = classes.get(pool.class_name)
        fault = class_fault(cloud, pool, decode(InferenceClass, found)) if cloud and found is not None else None
        if fault is not None:
            raise InputError(f"InferenceCluster {cluster.metadata.name}: {fault}")


def repooled(edited: Manifest, before: Manifest, classes: Mapping[str, Manifest]) -> Manifest:
    """A cluster with an edited spec or edited classes, and the status that goes with them."""
    cluster, was = decode(InferenceCluster, edited), decode(InferenceCluster, before)
    if not cluster.status.gpu_pools:
        return edited
    known = {pool.name: pool for pool in cluster.status.gpu_pools}
    counted = {pool.name: pool.node_count for pool in was.spec.node_pools}
    declared = {pool.name: pool for pool in cluster.spec.node_pools}
    pools = tuple(
        _observed(pool, declared[pool.name], known.get(pool.name), counted.get(pool.name))
        for pool in pools_of(cluster, classes)
    )
    return {**edited, "status": encode(msgspec.structs.replace(cluster.status, gpu_pools=pools))}


def _observed(pool: GpuPool, declared: NodePool, known: GpuPool | None, counted: int | None) -> GpuPool:
    nodes = declared.max_node_count if declared.max_node_count is not None else declared.node_count
    seen = known.observed_nodes if known is not None else None
    if seen is not None and counted is not None:
        seen = max(seen + declared.node_count - counted, 0)
    before = {device.name: device for device in known.devices} if known is not None else {}
    devices = tuple(_held(device, before.get(device.name), nodes) for device in pool.devices)
    domain = _domain(pool.domain, declared.node_count, counted)
    return msgspec.structs.replace(pool, nodes=nodes, observed_nodes=seen, devices=devices, domain=domain)


def _domain(domain: PoolDomain | None, nodes: int, counted: int | None) -> PoolDomain | None:
    """Domains that an edit adds or takes away are complete or gone."""
    if domain is None or domain.complete is None or counted is None:
        return domain
    added = nodes // domain.node_count - counted // domain.node_count
    return msgspec.structs.replace(domain, complete=max(domain.complete + added, 0))


def _held(device: PoolDevice, known: PoolDevice | None, nodes: int) -> PoolDevice:
    if known is None:
        return msgspec.structs.replace(device, allocated=0, free=nodes * device.count)
    taken = sum(amount or 0 for amount in (known.allocated, known.held_by_others, known.missing))
    return msgspec.structs.replace(
        device,
        allocated=known.allocated or 0,
        held_by_others=known.held_by_others,
        claims_of_others=known.claims_of_others,
        missing=known.missing,
        free=max(nodes * device.count - taken, 0),
    )
