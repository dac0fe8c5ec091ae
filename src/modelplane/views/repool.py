"""The pools of a cluster after an edit: what the new spec and the classes say, with what was observed of the old.

A status describes the cluster that was. Of it, only what was seen is kept: nodes that are there, devices that are held,
conditions. Nodes that an edit adds or takes away are counted as added or gone.
"""

from collections.abc import Mapping

import msgspec

from modelplane.api.codec import decode, encode
from modelplane.api.errors import InputError
from modelplane.api.models import GpuPool, InferenceCluster, InferenceClusterStatus, NodePool, PoolDevice, PoolDomain
from modelplane.api.objects import Manifest
from modelplane.compose import inference_cluster
from modelplane.compose.contract import ComposeRequest


def pools_of(cluster: InferenceCluster, classes: Mapping[str, Manifest]) -> tuple[GpuPool, ...]:
    """The pools that a cluster would publish, by the composer that does so in a plane.

    A pool whose class is not among those given keeps what is known of it; where nothing is, that is refused.
    """
    known = {(pool.name, pool.class_name) for pool in cluster.status.gpu_pools}
    wanted = {pool.class_name for pool in cluster.spec.node_pools if (pool.name, pool.class_name) not in known}
    missing = sorted(wanted - classes.keys())
    if missing:
        raise InputError(f"InferenceCluster {cluster.metadata.name}: no InferenceClass named {', '.join(missing)}")
    required = {
        key: (classes[requirement.name],) if requirement.name in classes else ()
        for key, requirement in inference_cluster.compose(ComposeRequest(cluster)).requirements.items()
        if requirement.kind == "InferenceClass" and requirement.name is not None
    }
    status = inference_cluster.compose(ComposeRequest(cluster, required=required)).status
    return status.gpu_pools if isinstance(status, InferenceClusterStatus) else ()


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
