"""Pods of others on a simulated cluster: they hold devices that Modelplane did not ask for.

A Deployment in the namespace `others` for each pool, with a claim for each pod. The cluster's own scheduler places
them, so that they take what is free and wait for what is not.
"""

from collections.abc import Iterable, Sequence

from modelplane.api.errors import InputError, NotFoundError
from modelplane.api.labels import POOL
from modelplane.api.objects import Json, labels_of, manifest
from modelplane.reconcile.store import ObjectRef, ref_of
from modelplane.sim.cluster.controller import ClusterStore
from modelplane.sim.cluster.deployments import APPS
from modelplane.sim.cluster.node_lifecycle import node_of
from modelplane.sim.cluster.nodes import RESOURCE_API, RESOURCE_GROUP
from modelplane.sim.cluster.pools import NodePoolSpec

NAMESPACE = "others"
_IMAGE = "modelplane/foreign-workload:latest"
_KINDS = ((APPS, "Deployment"), (RESOURCE_GROUP, "ResourceClaimTemplate"))


def set_foreign_pods(store: ClusterStore, pools: Sequence[NodePoolSpec], pool: str, *, gpus: int, count: int) -> None:
    """Have `count` pods of others on a pool, each with `gpus` devices; none removes them."""
    wanted = list(_objects(_pool(pools, pool), gpus, count)) if count else []
    refs = {ref_of(item) for item in wanted}
    with store.batch():
        if store.get(ObjectRef("", "Namespace", "", NAMESPACE)) is None:
            store.create(manifest("v1", "Namespace", NAMESPACE))
        for group, kind in _KINDS:
            for known in store.list(group, kind, namespace=NAMESPACE, labels={POOL: pool}):
                if ref_of(known) not in refs:
                    store.delete(ref_of(known))
        for item in wanted:
            before = store.get(ref_of(item))
            store.create(item) if before is None else store.replace({**before, "spec": item["spec"]})


def foreign_pods(store: ClusterStore, pool: str) -> tuple[int, int]:
    """How many pods of others a pool has, and how many of them are bound."""
    pods = [pod for pod in store.list("", "Pod", namespace=NAMESPACE) if labels_of(pod).get(POOL) == pool]
    return len(pods), sum(bool(node_of(pod)) for pod in pods)


def _pool(pools: Iterable[NodePoolSpec], name: str) -> NodePoolSpec:
    found = next((pool for pool in pools if pool.name == name), None)
    if found is None:
        raise NotFoundError(f"pool {name} not found")
    if not found.claimable:
        raise InputError(f"pool {name} has no devices")
    return found


def _objects(pool: NodePoolSpec, gpus: int, count: int) -> Iterable[Json]:
    labels = {POOL: pool.name, "app": f"foreign-{pool.name}"}
    template = f"foreign-{pool.name}-{gpus}"
    device_request = {
        "deviceClassName": pool.claimable[0].device_class_name,
        "allocationMode": "ExactCount",
        "count": gpus,
    }
    claim = {"spec": {"devices": {"requests": [{"name": "gpu", "exactly": device_request}]}}}
    yield manifest(RESOURCE_API, "ResourceClaimTemplate", template, namespace=NAMESPACE, labels=labels, spec=claim)
    pod = {
        "nodeSelector": {POOL: pool.name},
        "tolerations": [{"operator": "Exists"}],
        "containers": [{"name": "work", "image": _IMAGE}],
        "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": template}],
    }
    spec = {
        "replicas": count,
        "selector": {"matchLabels": labels},
        "strategy": {"type": "Recreate"},
        "template": {"metadata": {"labels": labels}, "spec": pod},
    }
    yield manifest("apps/v1", "Deployment", f"foreign-{pool.name}", namespace=NAMESPACE, labels=labels, spec=spec)
