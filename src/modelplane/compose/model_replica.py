"""ModelReplica: the objects of one serving instance on its cluster.

Each tenant has a namespace of its own there. A Deployment runs the pods of an engine that fits one node, a claim
template takes its devices, a Service finds its pods, and a route on the cluster's gateway leads to them by header.
"""

from modelplane.api.codec import decode, encode
from modelplane.api.conditions import Condition, ConditionType, fails, holds, summarise, unknown
from modelplane.api.labels import (
    CLUSTER_GATEWAY,
    DEPLOYMENT,
    ENGINE_CONTAINER,
    ENGINE_PORT,
    GPU_TAINT,
    POOL,
    REPLICA_HEADER,
    SERVING,
    SYSTEM_NAMESPACE,
    TENANT,
)
from modelplane.api.meta import ClusterName
from modelplane.api.models import Container, InferenceCluster, ModelReplica, ModelReplicaStatus, ReplicaMember
from modelplane.api.names import make_name
from modelplane.api.reasons import Reason
from modelplane.compose.contract import ComposeRequest, ComposeResult, Desired, ReadyWhen, Remote, Requirement, kept
from modelplane.compose.manifests import manifest

API_VERSION = "modelplane.ai/v1alpha1"
_CLUSTER, _WORKLOAD, _ROUTE = "cluster", "workload", "route"


def compose(request: ComposeRequest[ModelReplica]) -> ComposeResult:
    spec = request.resource.spec
    requirements = {_CLUSTER: Requirement(API_VERSION, "InferenceCluster", name=spec.cluster_name)}
    if len(spec.engines) > 1 or spec.engines[0].members[0].role != "Standalone":
        message = "only replicas of one engine on one node are rendered by this build; what runs stays"
        problem = fails(ConditionType.WORKLOAD_READY, Reason.NOT_SUPPORTED, message)
        return ComposeResult(
            desired=kept(request), conditions=(problem,), ready=summarise([problem]), requirements=requirements
        )
    desired = {
        key: Desired(target, ready=(seen := request.observed.get(key)) is not None and seen.ready)
        for key, target in _objects(request.resource).items()
    }
    address = _address(request)
    conditions = (_workload(desired), _routed(request, desired, address))
    return ComposeResult(
        desired=desired,
        status=ModelReplicaStatus(address=address),
        conditions=conditions,
        ready=summarise(conditions),
        requirements=requirements,
    )


def remote_namespace(namespace: str) -> str:
    """The tenant's namespace on workload clusters. Never `default`, and never another tenant's."""
    return make_name(f"mp-{namespace}", namespace)


def replica_header(replica: ModelReplica) -> str:
    """What the gateway's header carries. A slash cannot be part of either name, so no two replicas share it."""
    return f"{replica.metadata.namespace}/{replica.metadata.name}"


def _objects(replica: ModelReplica) -> dict[str, Remote]:
    namespace = remote_namespace(replica.metadata.namespace)
    objects = {
        _WORKLOAD: (_deployment(replica, namespace), ReadyWhen.AVAILABLE),
        "service": (_service(replica, namespace), ReadyWhen.CREATED),
        _ROUTE: (_http_route(replica, namespace), ReadyWhen.ROUTED),
    }
    if replica.spec.engines[0].members[0].device_requests:
        objects["claims"] = (_claim_template(replica, namespace), ReadyWhen.CREATED)
    cluster = ClusterName(replica.spec.cluster_name)
    tenant = manifest("v1", "Namespace", namespace, labels={TENANT: replica.metadata.namespace})
    own = {key: Remote(cluster, item, when) for key, (item, when) in objects.items()}
    return {"namespace": Remote(cluster, tenant, shared=True), **own}


def _labels(replica: ModelReplica) -> dict[str, str]:
    return {SERVING: replica.metadata.name, DEPLOYMENT: replica.metadata.labels.get(DEPLOYMENT, "")}


def _claim_template(replica: ModelReplica, namespace: str) -> dict[str, object]:
    requests = [
        {
            "name": wanted.name,
            "exactly": {
                "deviceClassName": wanted.device_class_name,
                "allocationMode": "ExactCount",
                "count": wanted.count,
                "selectors": [{"cel": {"expression": selector.cel}} for selector in wanted.selectors],
            },
        }
        for wanted in replica.spec.engines[0].members[0].device_requests
    ]
    return manifest(
        "resource.k8s.io/v1",
        "ResourceClaimTemplate",
        replica.metadata.name,
        namespace=namespace,
        labels=_labels(replica),
        spec={"spec": {"devices": {"requests": requests}}},
    )


def _deployment(replica: ModelReplica, namespace: str) -> dict[str, object]:
    engine = replica.spec.engines[0]
    member = engine.members[0]
    labels = _labels(replica)
    extra = member.template.metadata
    metadata: dict[str, object] = {"labels": {**(extra.labels if extra else {}), **labels}}
    if extra and extra.annotations:
        metadata["annotations"] = dict(extra.annotations)
    return manifest(
        "apps/v1",
        "Deployment",
        replica.metadata.name,
        namespace=namespace,
        labels=labels,
        spec={
            "replicas": engine.copies,
            "selector": {"matchLabels": {SERVING: replica.metadata.name}},
            "template": {"metadata": metadata, "spec": _pod(replica, member)},
        },
    )


def _pod(replica: ModelReplica, member: ReplicaMember) -> dict[str, object]:
    claims = bool(member.device_requests)
    template = member.template.spec
    pod: dict[str, object] = {
        "nodeSelector": {POOL: member.node_pool_name},
        "enableServiceLinks": False,
        "automountServiceAccountToken": False,
        "containers": [_container(container, claims=claims) for container in template.containers],
    }
    if claims:
        pod["tolerations"] = [{"key": GPU_TAINT, "operator": "Exists", "effect": "NoSchedule"}]
        pod["resourceClaims"] = [{"name": "devices", "resourceClaimTemplateName": replica.metadata.name}]
    if replica.spec.priority:
        pod["priorityClassName"] = replica.spec.priority
    if template.image_pull_secrets:
        pod["imagePullSecrets"] = [{"name": secret.name} for secret in template.image_pull_secrets]
    if template.termination_grace_period_seconds is not None:
        pod["terminationGracePeriodSeconds"] = template.termination_grace_period_seconds
    return pod


def _container(container: Container, *, claims: bool) -> dict[str, object]:
    rendered = encode(container)
    if container.name != ENGINE_CONTAINER:
        return rendered
    port = container.ports[0].container_port if container.ports else ENGINE_PORT
    rendered["ports"] = [{"name": "http", "containerPort": port}, *(encode(p) for p in container.ports[1:])]
    rendered["readinessProbe"] = {"httpGet": {"path": "/health", "port": port}, "periodSeconds": 5}
    if claims:
        resources = rendered.get("resources")
        rendered["resources"] = {**(resources if isinstance(resources, dict) else {}), "claims": [{"name": "devices"}]}
    return rendered


def _service(replica: ModelReplica, namespace: str) -> dict[str, object]:
    return manifest(
        "v1",
        "Service",
        replica.metadata.name,
        namespace=namespace,
        labels=_labels(replica),
        spec={
            "selector": {SERVING: replica.metadata.name},
            "ports": [{"name": "http", "port": 80, "targetPort": "http", "protocol": "TCP"}],
        },
    )


def _http_route(replica: ModelReplica, namespace: str) -> dict[str, object]:
    header = {"type": "Exact", "name": REPLICA_HEADER, "value": replica_header(replica)}
    rule = {
        "matches": [{"path": {"type": "PathPrefix", "value": "/"}, "headers": [header]}],
        "backendRefs": [{"name": replica.metadata.name, "port": 80}],
        "timeouts": {"request": "0s"},
    }
    return manifest(
        "gateway.networking.k8s.io/v1",
        "HTTPRoute",
        replica.metadata.name,
        namespace=namespace,
        labels=_labels(replica),
        spec={"parentRefs": [{"name": CLUSTER_GATEWAY, "namespace": SYSTEM_NAMESPACE}], "rules": [rule]},
    )


def _address(request: ComposeRequest[ModelReplica]) -> str | None:
    """Where the cluster's gateway answers. What was known stays while the cluster cannot be read."""
    found = request.fetched(_CLUSTER)
    if not found:
        return request.resource.status.address
    gateway = decode(InferenceCluster, found[0]).status.gateway
    return f"http://{gateway.address}" if gateway and gateway.address else request.resource.status.address


def _workload(desired: dict[str, Desired]) -> Condition:
    if desired[_WORKLOAD].ready:
        return holds(ConditionType.WORKLOAD_READY, Reason.WORKLOAD_AVAILABLE)
    return fails(ConditionType.WORKLOAD_READY, Reason.WORKLOAD_STARTING, "its pods are not available yet")


def _routed(request: ComposeRequest[ModelReplica], desired: dict[str, Desired], address: str | None) -> Condition:
    if address is None:
        if request.fetched(_CLUSTER) is None:
            return unknown(ConditionType.ROUTE_READY, Reason.UNRESOLVED, "its cluster was not read yet")
        return fails(ConditionType.ROUTE_READY, Reason.WAITING_FOR_GATEWAY, "its cluster's gateway has no address")
    if desired[_ROUTE].ready:
        return holds(ConditionType.ROUTE_READY, Reason.ROUTE_CONFIGURED, address)
    return fails(ConditionType.ROUTE_READY, Reason.ROUTE_PENDING, "its route is not in force yet")
