"""Kueue: its controller with the webhooks that hold pods back, for LeaderWorkerSets, Deployments, Jobs and plain pods.

Kueue makes the certificates of its webhooks itself and insists on the name of a Service. That Service is an alias of
this machine, and the port goes into every reference to it. The certificates are written to a Secret, from which a
kubelet would project them into files; the lab copies them.
"""

from __future__ import annotations

import asyncio
import base64
from typing import TYPE_CHECKING

import yaml

from lab.certificates import write_private
from lab.client import items, name_of, until, value
from lab.cluster import LOOPBACK, answers
from lab.components import KUEUE
from lab.schedulers.parts import READY_WITHIN_S, define, port, program

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from lab.client import Api, Manifest
    from lab.cluster import Cluster
    from lab.manifests import Sources
    from lab.supervisor import Program, Supervisor

_USER = "kueue"
_NAMESPACE, _SERVICE, _SECRET = "kueue-system", "kueue-webhook-service", "kueue-webhook-server-cert"
_FILES = ("ca.crt", "tls.crt", "tls.key")
# Its pods would run what the lab runs as a process; its other Services and the aggregated API have nothing behind them.
_LEFT_OUT = frozenset({"APIService", "Deployment", "ServiceAccount"})
_HOOKS = frozenset({"MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"})
_FRAMEWORKS = ("batch/job", "pod", "deployment", "statefulset", "leaderworkerset.x-k8s.io/leaderworkerset")


async def bring_up(supervisor: Supervisor, cluster: Cluster, api: Api, sources: Sources) -> None:
    made = await asyncio.to_thread(sources.kustomized, KUEUE, "config/default", cluster.binary("kubectl"))
    manifests = adapted(made, port(cluster, 0))
    await define(api, manifests)
    rest = [item for item in manifests if item["kind"] != "CustomResourceDefinition"]
    await api.apply_all(item for item in rest if item["kind"] == "Namespace")
    # Webhooks before their server: its rotator of certificates tells them whom to trust when it starts.
    await api.apply_all(item for item in rest if item["kind"] != "Namespace")
    folder = cluster.folder / "kueue"
    folder.mkdir(parents=True, exist_ok=True)
    async with asyncio.TaskGroup() as group:
        group.create_task(supervisor.start(_program(cluster, folder)))
        group.create_task(_project(api, folder))


def adapted(manifests: Iterable[Manifest], webhook: int) -> list[Manifest]:
    """Upstream's objects for a controller that is a user of the cluster and listens on a port of this machine."""
    return [_adapted(item, webhook) for item in manifests if not _is_left_out(item)]


def _is_left_out(item: Manifest) -> bool:
    return item["kind"] in _LEFT_OUT or (item["kind"] == "Service" and name_of(item) != _SERVICE)


def _adapted(item: Manifest, webhook: int) -> Manifest:
    kind = item["kind"]
    if kind == "Service":
        return {**item, "spec": {"type": "ExternalName", "externalName": "localhost"}}
    if kind in _HOOKS:
        return {**item, "webhooks": [_on_port(each, webhook) for each in items(item, "webhooks")]}
    if kind == "CustomResourceDefinition" and isinstance(hook := value(item, "spec", "conversion", "webhook"), dict):
        spec, conversion = _inner(item, "spec"), _inner(item, "spec", "conversion")
        return {**item, "spec": {**spec, "conversion": {**conversion, "webhook": _on_port(hook, webhook)}}}
    if kind in {"RoleBinding", "ClusterRoleBinding"}:
        user = {"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": _USER}
        return {**item, "subjects": [user]}
    return item


def _on_port(hook: Manifest, webhook: int) -> Manifest:
    service = {**_inner(hook, "clientConfig", "service"), "port": webhook}
    return {**hook, "clientConfig": {**_inner(hook, "clientConfig"), "service": service}}


def _inner(item: Manifest, *path: str) -> Manifest:
    found = value(item, *path)
    return dict(found) if isinstance(found, dict) else {}


def _program(cluster: Cluster, folder: Path) -> Program:
    health = port(cluster, 1)
    config = folder / "config.yaml"
    config.write_text(yaml.safe_dump(_config(port(cluster, 0), health, folder)))
    flags = (f"--config={config}", "--feature-gates=VisibilityOnDemand=false")
    return program(cluster, _USER, flags, answers(f"http://{LOOPBACK}:{health}/readyz"))


def _config(webhook: int, health: int, folder: Path) -> Manifest:
    return {
        "apiVersion": "config.kueue.x-k8s.io/v1beta2",
        "kind": "Configuration",
        "namespace": _NAMESPACE,
        "health": {"healthProbeBindAddress": f"{LOOPBACK}:{health}"},
        "metrics": {"bindAddress": "0"},
        "webhook": {"host": LOOPBACK, "port": webhook, "certDir": str(folder)},
        "leaderElection": {"leaderElect": False},
        "internalCertManagement": {"enable": True, "webhookServiceName": _SERVICE, "webhookSecretName": _SECRET},
        "integrations": {"frameworks": list(_FRAMEWORKS)},
        # What claims of this class count as in the quota of a queue.
        "resources": {"deviceClassMappings": [{"name": "nvidia.com/gpu", "deviceClassNames": ["gpu.nvidia.com"]}]},
    }


async def _project(api: Api, folder: Path) -> None:
    """What a kubelet does with a Secret that a pod mounts."""

    async def written() -> bool:
        found = await api.get("v1", "Secret", _SECRET, namespace=_NAMESPACE)
        data = _inner(found or {}, "data")
        if not all(data.get(name) for name in _FILES):
            return False
        for name in _FILES:
            write_private(folder / name, base64.b64decode(str(data[name])))
        return True

    await until("Kueue's certificates", written, within_s=READY_WITHIN_S)
