"""From objects to the fleet that placement looks at."""

from collections import Counter
from collections.abc import Iterable, Mapping

import msgspec

from modelplane.api.codec import decode
from modelplane.api.meta import ClusterName, Key, PoolName, Uid
from modelplane.api.models import ClassDevice, InferenceClass, InferenceCluster, ModelReplica, PoolDevice
from modelplane.compose.contract import Manifest
from modelplane.compose.readiness import has_condition
from modelplane.dra.device import Device
from modelplane.fleet.snapshot import Cluster, DeviceKind, Fleet, Holding, Pool


def class_kinds(resource: InferenceClass) -> tuple[DeviceKind, ...]:
    return tuple(_kind(device) for device in resource.spec.devices)


def cluster_of(resource: InferenceCluster, manifest: Manifest) -> Cluster:
    """A cluster as placement sees it: by what its status publishes, not by what its spec hopes for."""
    pools = tuple(
        Pool(PoolName(pool.name), pool.nodes, tuple(_kind(device) for device in pool.devices))
        for pool in resource.status.gpu_pools
    )
    return Cluster(
        name=ClusterName(resource.metadata.name),
        labels=resource.metadata.labels,
        ready=has_condition(manifest, "Ready"),
        cordoned=resource.spec.cordoned,
        pools=pools,
    )


def holding_of(resource: ModelReplica) -> Holding:
    """The place that a replica holds, whether or not it runs."""
    spec = resource.spec
    nodes: Counter[PoolName] = Counter()
    for engine in spec.engines:
        for member in engine.members:
            nodes[PoolName(member.node_pool_name)] += engine.copies * member.nodes
    owner = spec.deployment
    return Holding(
        deployment=Key(resource.metadata.namespace, owner.name if owner else "", Uid((owner and owner.uid) or "")),
        cluster=ClusterName(spec.cluster_name),
        index=spec.index,
        pools={engine.name: PoolName(engine.members[0].node_pool_name) for engine in spec.engines},
        nodes=dict(nodes),
    )


def fleet_of(clusters: Iterable[Manifest], replicas: Iterable[Manifest]) -> Fleet:
    found = (cluster_of(decode(InferenceCluster, item), item) for item in clusters)
    held = (holding_of(decode(ModelReplica, item)) for item in replicas)
    return Fleet(
        clusters={cluster.name: cluster for cluster in sorted(found, key=lambda c: c.name)},
        holdings=tuple(sorted(held, key=lambda h: (h.deployment, h.cluster, h.index))),
    )


def _kind(device: ClassDevice | PoolDevice) -> DeviceKind:
    claimable = device.claim != "Synthetic"
    return DeviceKind(
        name=device.name,
        device=Device.from_dict(
            device.driver, {"attributes": _plain(device.attributes), "capacity": _plain(device.capacity)}
        ),
        count=device.count,
        device_class=device.device_class_name if claimable else None,
    )


def _plain(values: Mapping[str, msgspec.Struct]) -> dict[str, object]:
    return {name: msgspec.to_builtins(value) for name, value in values.items()}
