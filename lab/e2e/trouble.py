"""Steps that make trouble: processes are killed, devices, nodes and whole clusters are lost."""

from __future__ import annotations

import asyncio

from lab.client import Manifest, condition, items, name_of, text, until, value
from lab.e2e.steps import DEPLOYMENT, REPLICAS, models
from lab.e2e.world import OURS, World, clusters_of, running

_KILLED_WITHIN_S = 600.0
_GRACE_S = 5
_LOST_WITHIN_S = 600.0


async def killed(world: World, program: str) -> str:
    """Kill -9 while a change is on its way; the supervisor starts it again, as a kubelet would."""
    before = len(await world.replicas(DEPLOYMENT))
    wanted = before + 1
    kind = await world.control.kind(OURS, "ModelDeployment")
    path = kind.path("default", DEPLOYMENT, "scale")
    body = {"spec": {"replicas": wanted}}
    await world.control.call("PATCH", path, body=body, content="application/merge-patch+json")
    await asyncio.to_thread(world.tell, "kill", name=program)

    async def converged() -> bool:
        found = await world.control.get(OURS, "ModelDeployment", DEPLOYMENT)
        pods = [pod for _, pod in await world.all_pods(DEPLOYMENT)]
        settled = condition(found, "Ready") == "True" and len(await world.replicas(DEPLOYMENT)) == wanted
        return settled and len(running(pods)) == len(pods) == wanted

    waited = await until(f"{wanted} replicas again", converged, within_s=_KILLED_WITHIN_S)
    return f"{before} to {wanted} replicas, converged {waited:.1f} s after {program} was killed"


async def device_taint(world: World) -> str:
    """A device that fails: its pod is evicted by the real controller and takes another device."""
    site, pod = (await world.all_pods(DEPLOYMENT))[0]
    claim = text(items(pod, "status", "resourceClaimStatuses")[0], "resourceClaimName")
    namespace = text(pod, "metadata", "namespace")
    found = await world.sites[site].get("resource.k8s.io/v1", "ResourceClaim", claim, namespace=namespace)
    held = items(found, "status", "allocation", "devices", "results")[0]
    await _taint(world, site, held, [{"key": "example.com/xid", "value": "79", "effect": "NoExecute"}])

    async def replaced() -> bool:
        pods = running([each for _, each in await world.all_pods(DEPLOYMENT)])
        return len(pods) == REPLICAS and text(pod, "metadata", "uid") not in {text(p, "metadata", "uid") for p in pods}

    try:
        waited = await world.wait("the pod replaced", replaced)
        await world.ready("ModelDeployment", DEPLOYMENT)
    finally:
        await _taint(world, site, held, [])
    return f"{name_of(pod)} lost {text(held, 'device')} on {site} and was replaced after {waited:.1f} s"


async def _taint(world: World, site: str, held: Manifest, taints: list[Manifest]) -> None:
    slices = await world.sites[site].list("resource.k8s.io/v1", "ResourceSlice")
    for each in slices:
        if text(each, "spec", "pool", "name") == held["pool"] and text(each, "spec", "driver") == held["driver"]:
            devices = [
                {**device, "taints": taints} if device["name"] == held["device"] else device
                for device in items(each, "spec", "devices")
            ]
            await world.sites[site].patch(each, {"spec": {"devices": devices}})


async def lost_node(world: World) -> str:
    """A node goes for good, with its devices: what ran there runs on another one."""
    site, pod = (await world.all_pods(DEPLOYMENT))[0]
    name = text(pod, "spec", "nodeName")
    api = world.sites[site]
    slices = [each for each in await api.list("resource.k8s.io/v1", "ResourceSlice") if _is_of(each, name)]
    node = await api.get("v1", "Node", name)
    for each in (*slices, *([node] if node else ())):
        await api.delete(each)

    async def elsewhere() -> bool:
        pods = await world.all_pods(DEPLOYMENT)
        there = [(where, text(each, "spec", "nodeName")) for where, each in pods]
        return len(running([each for _, each in pods])) == len(pods) == REPLICAS and (site, name) not in there

    try:
        waited = await world.wait("pods on other nodes", elsewhere, within_s=_LOST_WITHIN_S)
        await world.ready("ModelDeployment", DEPLOYMENT)
    finally:
        for each in (*([node] if node else ()), *slices):
            await api.apply(_anew(each))
    return f"{name} of {site} was lost; all pods run elsewhere after {waited:.1f} s"


def _is_of(item: Manifest, node: str) -> bool:
    return text(item, "spec", "nodeName") == node


def _anew(item: Manifest) -> Manifest:
    """The object as it could be applied to a cluster that never had it."""
    metadata = {key: value(item, "metadata", key) for key in ("name", "labels", "annotations")}
    kept = {key: inner for key, inner in metadata.items() if inner}
    return {key: inner for key, inner in item.items() if key != "status"} | {"metadata": kept}


async def lost_cluster(world: World) -> str:
    """A workload cluster stops answering: after the grace the other serves its replicas; then it comes back."""
    deployment = next(item for item in models() if item["kind"] == "ModelDeployment")
    patch = {"spec": {"replicas": REPLICAS, "failover": {"gracePeriodSeconds": _GRACE_S}}}
    await world.control.patch(deployment, patch)
    await world.ready("ModelDeployment", DEPLOYMENT)
    lost = min(clusters_of(await world.replicas(DEPLOYMENT)).values())
    (other,) = [site for site in world.sites if site != lost]
    await asyncio.to_thread(world.tell, "hold", name=f"{lost}-apiserver")

    async def moved() -> bool:
        return len(running(await world.pods(other, DEPLOYMENT))) == REPLICAS

    try:
        waited = await world.wait(f"{REPLICAS} pods on {other}", moved, within_s=_LOST_WITHIN_S)
    finally:
        await asyncio.to_thread(world.tell, "resume", name=f"{lost}-apiserver")

    async def tidied() -> bool:
        placed = clusters_of(await world.replicas(DEPLOYMENT))
        pods = [each for _, each in await world.all_pods(DEPLOYMENT)]
        return len(placed) == REPLICAS and len(pods) == len(running(pods)) == REPLICAS

    back = await world.wait("the lost replica removed", tidied, within_s=_LOST_WITHIN_S)
    return f"{lost} was lost: {REPLICAS} replicas on {other} after {waited:.1f} s; tidied {back:.1f} s after its return"
