"""A workload cluster: scheduler, KWOK in the place of kubelets, LeaderWorkerSet with its webhooks, and hardware.

Manifests are upstream's own, read from the modules that the programs were built from. What changes is how webhooks are
reached (an address instead of a Service, which nothing would route) and who the roles are bound to (users).
"""

from __future__ import annotations

import asyncio
import base64
from typing import TYPE_CHECKING

import yaml

from lab.client import Api, Manifest, condition, items, name_of, text, until
from lab.cluster import LOOPBACK, Cluster, answers
from lab.components import GATEWAY_API, INFERENCE_EXTENSION, KWOK, LWS
from lab.gateway_kinds import envoy_gateway_kinds
from lab.hardware import hardware
from lab.stages import failing_pods, without_loaders
from lab.supervisor import Program, Supervisor

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from lab.manifests import Sources
    from modelplane.sim.cluster.pools import NodePoolSpec

_STAGES = (
    "node/fast/node-initialize",
    "node/heartbeat-with-lease/node-heartbeat-with-lease",
    "node/chaos/node-not-ready",
    "pod/fast/pod-ready",
    "pod/fast/pod-complete",
    "pod/fast/pod-delete",
    "pod/chaos/pod-container-running-failed",
)
_LWS_PODS = {"matchExpressions": [{"key": "leaderworkerset.sigs.k8s.io/name", "operator": "Exists"}]}
_POD_WEBHOOKS = ("mpod.kb.io", "vpod.kb.io")


async def bring_up(
    supervisor: Supervisor,
    cluster: Cluster,
    pools: Sequence[NodePoolSpec],
    *,
    pod_range: str,
    sources: Sources,
    say: Callable[[str], None],
) -> None:
    """Returns when nodes are Ready, LeaderWorkerSets are admitted and everything serves."""
    async with asyncio.TaskGroup() as group:
        for program in (cluster.etcd(), cluster.api_server()):
            group.create_task(supervisor.start(program))
        for program in (cluster.controller_manager(workloads=True), cluster.scheduler()):
            group.create_task(supervisor.start(program))
        group.create_task(_furnish(supervisor, cluster, pools, pod_range, sources))
    say(f"{cluster.name}: {sum(pool.nodes for pool in pools)} nodes with devices Ready, LeaderWorkerSet serving")


async def _furnish(
    supervisor: Supervisor,
    cluster: Cluster,
    pools: Sequence[NodePoolSpec],
    pod_range: str,
    sources: Sources,
) -> None:
    await supervisor.wait_ready(cluster.program("apiserver"))
    async with Api(cluster.access("admin", "system:masters")) as api, asyncio.TaskGroup() as group:
        group.create_task(_nodes(supervisor, cluster, api, pools, pod_range, sources))
        group.create_task(_leader_worker_sets(supervisor, cluster, api, sources))
        group.create_task(_gateway_kinds(api, sources))
        group.create_task(until("the default ServiceAccount", lambda: _exists(api, "ServiceAccount", "default")))


async def _exists(api: Api, kind: str, name: str) -> bool:
    return await api.get("v1", kind, name) is not None


async def _nodes(
    supervisor: Supervisor, cluster: Cluster, api: Api, pools: Sequence[NodePoolSpec], pod_range: str, sources: Sources
) -> None:
    await api.apply_all(bound_roles(sources.read(KWOK, "kustomize/rbac/role.yaml"), "kwok-controller"))
    stages = [item for name in _STAGES for item in sources.read(KWOK, f"kustomize/stage/{name}.yaml")]
    config = cluster.folder / "kwok-stages.yaml"
    config.write_text(yaml.safe_dump_all([*without_loaders(stages), *failing_pods()]))
    command = (
        str(cluster.binary("kwok")),
        f"--kubeconfig={cluster.write_kubeconfig('kwok', cluster.access('kwok-controller'))}",
        f"--config={config}",
        "--manage-all-nodes=true",
        f"--cidr={pod_range}",
        "--node-ip=10.0.0.1",
        "--node-lease-duration-seconds=40",
        f"--server-address={LOOPBACK}:{cluster.ports.kwok}",
    )
    probe = answers(f"http://{LOOPBACK}:{cluster.ports.kwok}/healthz")
    await supervisor.start(Program(cluster.program("kwok"), command, probe))
    await publish(api, hardware(pools))
    await until(f"nodes of {cluster.name} Ready", lambda: _nodes_ready(api))


async def publish(api: Api, made: Sequence[Manifest]) -> None:
    """Nodes carry their resources in a subresource, which an apply of the object leaves out."""
    await api.apply_all(made)
    for item in made:
        if item["kind"] == "Node":
            await api.patch(item, {"status": item["status"]}, subresource="status")


async def _nodes_ready(api: Api) -> bool:
    nodes = await api.list("v1", "Node")
    return bool(nodes) and all(condition(node, "Ready") == "True" for node in nodes)


async def _leader_worker_sets(supervisor: Supervisor, cluster: Cluster, api: Api, sources: Sources) -> None:
    await api.apply_all(sources.read(LWS, "config/crd/bases"))
    await api.apply_all(bound_roles(sources.read(LWS, "config/rbac/role.yaml"), "lws-controller"))
    for version, kind in (("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet"), ("disaggregatedset.x-k8s.io/v1", "")):
        await until(f"{version} served", lambda version=version, kind=kind: _served(api, version, kind))  # type: ignore[misc]  # bound early on purpose
    config = cluster.folder / "lws.yaml"
    config.write_text(yaml.safe_dump(_lws_config(cluster)))
    command = (
        str(cluster.binary("lws")),
        f"--kubeconfig={cluster.write_kubeconfig('lws', cluster.access('lws-controller'))}",
        f"--config={config}",
        "--zap-log-level=info",
    )
    probe = answers(f"http://{LOOPBACK}:{cluster.ports.lws_health}/readyz")
    await supervisor.start(Program(cluster.program("lws"), command, probe))
    hooks = sources.read(LWS, "config/webhook/manifests.yaml")
    await api.apply_all(addressed(hooks, cluster.ports.lws_webhook, cluster.keys.authority.pair.certificate))


def _lws_config(cluster: Cluster) -> Manifest:
    return {
        "apiVersion": "config.lws.x-k8s.io/v1alpha1",
        "kind": "Configuration",
        "leaderElection": {"leaderElect": False},
        "internalCertManagement": {"enable": False},
        "webhook": {"host": LOOPBACK, "port": cluster.ports.lws_webhook, "certDir": str(cluster.folder / "keys")},
        "metrics": {"bindAddress": "0"},
        "health": {"healthProbeBindAddress": f"{LOOPBACK}:{cluster.ports.lws_health}"},
    }


async def _served(api: Api, api_version: str, kind: str) -> bool:
    found = await api.call("GET", f"/apis/{api_version}")
    return any(not kind or text(each, "kind") == kind for each in items(found, "resources"))


async def _gateway_kinds(api: Api, sources: Sources) -> None:
    await api.apply_all(sources.read(GATEWAY_API, "config/crd/standard"))
    await api.apply_all(sources.read(INFERENCE_EXTENSION, "config/crd/bases"))
    await envoy_gateway_kinds(api, sources)


def bound_roles(roles: Iterable[Manifest], user: str) -> list[Manifest]:
    """Upstream's ClusterRoles under names of their own, bound to a user."""
    made: list[Manifest] = []
    for role in roles:
        if role["kind"] != "ClusterRole":
            continue
        name = f"lab:{user}:{name_of(role)}"
        made.append({**role, "metadata": {"name": name}})
        made.append(binding(name, {"kind": "User", "name": user, "apiGroup": "rbac.authorization.k8s.io"}))
    return made


def binding(role: str, subject: Manifest) -> Manifest:
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": role},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
        "subjects": [subject],
    }


def addressed(hooks: Iterable[Manifest], port: int, authority: bytes) -> list[Manifest]:
    """Webhook configurations that reach their server by address.

    Hooks on pods see those of LeaderWorkerSets only: upstream narrows them in its kustomize patches, without which
    every pod would wait for this controller.
    """
    bundle = base64.b64encode(authority).decode()
    made = []
    for hook in hooks:
        webhooks = [_by_address(each, port, bundle) for each in items(hook, "webhooks")]
        made.append({**hook, "metadata": {"name": f"lab-{name_of(hook)}"}, "webhooks": webhooks})
    return made


def _by_address(webhook: Manifest, port: int, bundle: str) -> Manifest:
    path = text(webhook, "clientConfig", "service", "path")
    reached: Manifest = {**webhook, "clientConfig": {"url": f"https://{LOOPBACK}:{port}{path}", "caBundle": bundle}}
    if webhook["name"] in _POD_WEBHOOKS:
        reached["objectSelector"] = _LWS_PODS
    return reached
