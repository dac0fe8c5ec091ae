"""What a workload cluster runs to be reached through its agent, and the kubeconfig of the hub for it.

The agent has the shipped role and the pod's own token, which the kubelet rotates. No token is kept in a Secret, and the
join token is worth nothing once the agent has joined.
"""

from modelplane.api.labels import SYSTEM_NAMESPACE
from modelplane.api.objects import Json, manifest
from modelplane.compose.tenancy import RESTRICTED
from modelplane.views.workload_rights import workload_role

AGENT = "modelplane-agent"
ACCOUNT = "modelplane"
HUB_SERVER = f"https://modelplane-hub.{SYSTEM_NAMESPACE}.svc:8444"


def agent_objects(cluster: str, *, hub: str, authority: str, image: str, join_token: str) -> tuple[Json, ...]:
    """To apply on the workload cluster. `authority` is the hub's, as PEM."""
    rights = [item for item in workload_role(ACCOUNT) if item["kind"] != "Secret"]
    data = {"ca.crt": authority, "join-token": join_token}
    secret = manifest("v1", "Secret", AGENT, namespace=SYSTEM_NAMESPACE, type="Opaque", stringData=data)
    deployment = manifest(
        "apps/v1", "Deployment", AGENT, namespace=SYSTEM_NAMESPACE, spec=_deployment(cluster, hub, image)
    )
    return (*rights, secret, deployment)


def _deployment(cluster: str, hub: str, image: str) -> Json:
    labels = {"app.kubernetes.io/name": AGENT}
    token = {"secretKeyRef": {"name": AGENT, "key": "join-token"}}
    container = {
        "name": "agent",
        "image": image,
        "args": [f"--hub={hub}", "--hub-ca=/hub/ca.crt", f"--cluster={cluster}"],
        "env": [{"name": "MODELPLANE_JOIN_TOKEN", "valueFrom": token}],
        "resources": {"requests": {"cpu": "50m", "memory": "96Mi"}, "limits": {"memory": "512Mi"}},
        "securityContext": dict(RESTRICTED),
        "volumeMounts": [
            {"name": "hub", "mountPath": "/hub", "readOnly": True},
            {"name": "tmp", "mountPath": "/tmp"},  # noqa: S108  the pod's own
        ],
    }
    volumes = [
        {"name": "hub", "secret": {"secretName": AGENT, "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        {"name": "tmp", "emptyDir": {"sizeLimit": "16Mi"}},
    ]
    pod = {"serviceAccountName": ACCOUNT, "containers": [container], "volumes": volumes}
    return {
        "replicas": 1,
        "strategy": {"type": "Recreate"},
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": pod},
    }


def hub_kubeconfig(cluster: str, *, authority: str, proxy_token: str) -> Json:
    """What providers and the function server reach the cluster with. `authority` is in base64, as a Secret has it."""
    server = {"server": f"{HUB_SERVER}/clusters/{cluster}", "certificate-authority-data": authority}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": cluster,
        "contexts": [{"name": cluster, "context": {"cluster": cluster, "user": "hub"}}],
        "clusters": [{"name": cluster, "cluster": server}],
        "users": [{"name": "hub", "user": {"token": proxy_token}}],
    }
