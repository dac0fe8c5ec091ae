"""Several pickers before one pool: how many there are, how they find each other, and what keeps them apart.

All of them answer, and each shares what it knows with the others (design/0049), so one may be lost or replaced and the
pool goes on. They find each other by a headless Service. They spread over nodes where there are several, and an
eviction takes one at a time.

Pickers of our own release know how to share. Of an image that a cluster names we do not know that: it runs once, as
before, unless the cluster says how many.
"""

from modelplane.api.models import InferenceCluster
from modelplane.compose.context import Context
from modelplane.compose.contract import Remote
from modelplane.compose.images import named_image

PEER_PORT = 9004
_REPLICAS = 2


def picker_count(cluster: InferenceCluster) -> int:
    declared = cluster.spec.backend.picker_replicas
    if declared is not None:
        return declared
    return 1 if named_image(cluster, "picker") is not None else _REPLICAS


def replicas_spec(context: Context) -> dict[str, object]:
    """Of their Deployment, which is available while half of them are: one of two serves the pool."""
    count = picker_count(context.cluster)
    if count == 1:
        return {"replicas": 1}
    update = {"maxSurge": 1, "maxUnavailable": "50%"}
    return {"replicas": count, "strategy": {"type": "RollingUpdate", "rollingUpdate": update}}


def peer_arguments(context: Context) -> list[str]:
    """By the whole name: what a short one resolves to depends on the pod's search domains."""
    if picker_count(context.cluster) == 1:
        return []
    return [f"--peers={_service_name(context)}.{context.namespace}.svc:{PEER_PORT}", f"--peer-port={PEER_PORT}"]


def peer_ports(context: Context) -> list[dict[str, object]]:
    return [{"name": "peers", "containerPort": PEER_PORT}] if picker_count(context.cluster) > 1 else []


def peer_objects(context: Context, pods: dict[str, str]) -> dict[str, Remote]:
    """`pods` are the labels of the pickers."""
    if picker_count(context.cluster) == 1:
        return {}
    port = {"name": "peers", "port": PEER_PORT, "targetPort": PEER_PORT, "protocol": "TCP"}
    # A picker that is not ready yet learns from those that are.
    service = {"clusterIP": "None", "publishNotReadyAddresses": True, "selector": pods, "ports": [port]}
    budget = {"maxUnavailable": 1, "unhealthyPodEvictionPolicy": "AlwaysAllow", "selector": {"matchLabels": pods}}
    name = _service_name(context)
    objects = {
        "picker-peers": context.object("v1", "Service", name, spec=service),
        "picker-disruption": context.object("policy/v1", "PodDisruptionBudget", name, spec=budget),
    }
    return {key: context.remote(item) for key, item in objects.items()}


def node_spread(context: Context, pods: dict[str, str]) -> dict[str, object]:
    """Pickers of one version on different nodes, where there are such: one node is no reason to have none."""
    if picker_count(context.cluster) == 1:
        return {}
    constraint = {
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": pods},
        "matchLabelKeys": ["pod-template-hash"],
    }
    return {"topologySpreadConstraints": [constraint]}


def _service_name(context: Context) -> str:
    return context.child_name("picker", "peers")
