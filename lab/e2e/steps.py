"""The steps of the scenario on the core set. Each says what it saw; those that need others come after them."""

from __future__ import annotations

import asyncio
import base64
import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from lab.client import ApiError, Manifest, condition, items, name_of, text, until, value
from lab.e2e.commands import typed
from lab.e2e.world import EXAMPLES, OURS, World, clusters_of, conditions, pooled, running
from lab.manifests import read_folder
from lab.scenario import FailedError
from modelplane.api.labels import POOL, SYSTEM_NAMESPACE
from tests.support.rule_cases import RuleCase, rule_cases

if TYPE_CHECKING:
    from collections.abc import Iterable

RULES = Path("tests/api/rules.yaml")
DEPLOYMENT, SERVICE = "qwen3-8b", "chat"
REPLICAS = 2  # of the example, one GPU each
GANG_NODES = 2
_OK = 200
_CONFLICTS = 10
_GONE_WITHIN_S = 600.0
_SCALED_WITHIN_S = 600.0


def expect(holds: object, otherwise: str) -> None:
    if not holds:
        raise FailedError(otherwise)


async def install(world: World) -> str:
    await asyncio.to_thread(world.tell, "install", mode=world.mode)
    found = await world.control.list("apiextensions.crossplane.io/v2", "CompositeResourceDefinition")
    return f"Function and Configuration Healthy, {len(found)} definitions Established"


async def refusals(world: World) -> str:
    """The table of what the API accepts and refuses, on the real server, without keeping anything."""
    cases = list(rule_cases(RULES.read_text()))  # noqa: ASYNC240 - one small file, before anything waits
    wrong = [said for case in cases if (said := await _judged(world, case))]
    expect(not wrong, f"{len(wrong)} of {len(cases)} cases: {'; '.join(wrong[:5])}")
    refused = sum(bool(case.says) for case in cases)
    return f"{len(cases)} manifests: {refused} refused with our words, {len(cases) - refused} accepted"


async def _judged(world: World, case: RuleCase) -> str:
    """What is wrong with the server's judgement, or nothing."""
    manifest = dict(case.manifest)
    kind = await world.control.kind(str(manifest["apiVersion"]), str(manifest["kind"]))
    namespace = text(manifest, "metadata", "namespace") or "default"
    if case.before is not None:
        before = dict(case.before)
        await world.control.create(before, namespace=namespace)
    try:
        if case.before is None:
            await world.control.call("POST", kind.path(namespace), body=manifest, query={"dryRun": "All"})
        else:
            await _replace(world, kind.path(namespace, name_of(manifest)), manifest)
    except ApiError as refused:
        if not case.says:
            return f"{case.name}: refused, {refused.message}"
        return "" if case.says in refused.message else f"{case.name}: said {refused.message}, not {case.says}"
    finally:
        if case.before is not None:
            await _gone(world, [dict(case.before)])
    return f"{case.name}: accepted, expected {case.says}" if case.says else ""


async def _replace(world: World, path: str, manifest: Manifest) -> None:
    """Against the newest version; Crossplane writes to the object too, so a conflict only means to look again."""
    for _ in range(_CONFLICTS):
        known = await world.control.call("GET", path)
        metadata = {**_metadata(manifest), "resourceVersion": text(known, "metadata", "resourceVersion")}
        body = {**manifest, "metadata": metadata}
        try:
            await world.control.call("PUT", path, body=body, query={"dryRun": "All"})
        except ApiError as refused:
            if refused.reason != "Conflict":
                raise
        else:
            return
    raise FailedError(f"{path}: only conflicts")


def _metadata(manifest: Manifest) -> dict[str, object]:
    found = manifest.get("metadata")
    return dict(found) if isinstance(found, dict) else {}


async def fleet(world: World) -> str:
    waited = await adopt(world, _platform())
    clusters = await world.control.list(OURS, "InferenceCluster")
    free = {name_of(each): value(each, "status", "freeDevices") for each in clusters}
    return f"{len(clusters)} clusters Ready after {waited:.1f} s, free devices {json.dumps(free)}"


async def adopt(world: World, platform: Iterable[Manifest]) -> float:
    """The clusters of the lab, reached through Secrets with their kubeconfigs; how long the slowest took."""
    for site in world.sites:
        content = base64.b64encode(world.kubeconfigs[site].read_bytes()).decode()
        await world.control.apply(
            {
                "apiVersion": "v1",
                "kind": "Secret",
                "metadata": {"name": f"{site}-kubeconfig", "namespace": SYSTEM_NAMESPACE},
                "data": {"kubeconfig": content},
            }
        )
    for item in platform:
        await world.control.apply(item)
    waited = [await world.ready("InferenceCluster", site) for site in world.sites]
    await world.ready("InferenceGateway", "default")
    return max(waited)


def _platform() -> list[Manifest]:
    kinds = ("InferenceClass", "InferenceCluster", "InferenceGateway")
    return pooled(item for item in read_folder(EXAMPLES) if item["kind"] in kinds)


def models() -> list[Manifest]:
    return [item for item in read_folder(EXAMPLES) if item["kind"] in {"ModelDeployment", "ModelService"}]


async def deploy(world: World) -> str:
    for item in models():
        await world.control.apply(item)
    waited = await world.ready("ModelDeployment", DEPLOYMENT)
    await world.ready("ModelService", SERVICE)
    placed = clusters_of(await world.replicas(DEPLOYMENT))
    expect(len(placed) == REPLICAS, f"replicas: {placed}")
    return f"Ready after {waited:.1f} s, replicas on {', '.join(sorted(placed.values()))}"


async def claims(world: World) -> str:
    """The real allocator gave each pod devices of the pool that we pinned it to."""
    counted: Counter[str] = Counter()
    for site, pod in await world.all_pods(DEPLOYMENT):
        expect(text(pod, "status", "phase") == "Running", f"{name_of(pod)} is {text(pod, 'status', 'phase')}")
        node = await world.sites[site].get("v1", "Node", text(pod, "spec", "nodeName"))
        wanted = value(pod, "spec", "nodeSelector", POOL)
        expect(value(node, "metadata", "labels", POOL) == wanted, f"{name_of(pod)} is not on pool {wanted}")
        for each in items(pod, "status", "resourceClaimStatuses"):
            counted[site] += await _devices(world, site, pod, text(each, "resourceClaimName"))
    expect(sum(counted.values()) == REPLICAS, f"devices by cluster: {dict(counted)}")
    return f"{sum(counted.values())} devices allocated on pinned pools: {dict(counted)}"


async def _devices(world: World, site: str, pod: Manifest, claim: str) -> int:
    namespace = text(pod, "metadata", "namespace")
    found = await world.sites[site].get("resource.k8s.io/v1", "ResourceClaim", claim, namespace=namespace)
    results = items(found, "status", "allocation", "devices", "results")
    node = text(pod, "spec", "nodeName")
    expect(all(text(each, "pool") == node for each in results), f"{claim} holds devices of another node")
    return len(results)


async def scale(world: World) -> str:
    """By kubectl, and what an autoscaler then reads: the count, and a selector."""
    count = REPLICAS + 1
    await asyncio.to_thread(typed, world, ["kubectl", "scale", "modeldeployment", DEPLOYMENT, f"--replicas={count}"])
    told = await _scaled(world, count)
    shown = await world.control.call("GET", await _scale_path(world))
    expect(value(shown, "status", "replicas") == count, f"the scale shows {value(shown, 'status')}")
    selector = text(shown, "status", "selector")
    expect(selector, "the scale shows no selector")
    return f"kubectl scale: {told}; its scale selects {selector}"


async def shrink(world: World) -> str:
    """Back to what the example says, as an autoscaler does it: it reads the scale and writes it back whole.

    Of a change that is younger than 30 s the provider first waits to see its end.
    """
    path = await _scale_path(world)
    for _ in range(_CONFLICTS):
        shown = await world.control.call("GET", path)
        try:
            await world.control.call("PUT", path, body={**shown, "spec": {"replicas": REPLICAS}})
        except ApiError as error:
            if error.reason != "Conflict":
                raise
        else:
            return await _scaled(world, REPLICAS)
    raise FailedError(f"{path}: only conflicts")


async def _scale_path(world: World) -> str:
    kind = await world.control.kind(OURS, "ModelDeployment")
    return kind.path("default", DEPLOYMENT, "scale")


async def _scaled(world: World, count: int) -> str:
    async def reached() -> bool:
        found = await world.control.get(OURS, "ModelDeployment", DEPLOYMENT)
        pods = [pod for _, pod in await world.all_pods(DEPLOYMENT)]
        return condition(found, "Ready") == "True" and len(pods) == len(running(pods)) == count

    waited = await world.wait(f"{count} replicas", reached, within_s=_SCALED_WITHIN_S)
    return f"{count} replicas after {waited:.1f} s"


def gang_of(name: str, *, nodes: int, replicas: int = 1, gpus: int = 8, copies: int = 1) -> Manifest:
    """A model on whole nodes of eight GPUs, or of as many as are said."""
    selector = 'device.driver == "gpu.nvidia.com"'
    container = {"name": "engine", "image": "vllm/vllm-openai:v0.27.1", "args": ["example/big"]}
    return {
        "apiVersion": OURS,
        "kind": "ModelDeployment",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "replicas": replicas,
            "nodeSelector": {"devices": [{"name": "gpu", "count": gpus, "selectors": [{"cel": selector}]}]},
            "workers": {
                "count": copies,
                "topology": {"tensor": gpus, "pipeline": nodes},
                "template": {"spec": {"containers": [container]}},
            },
        },
    }


async def gang(world: World) -> str:
    """Two whole nodes: the real LeaderWorkerSet controller forms the group."""
    await remove(world, models())
    await world.control.apply(gang_of("big", nodes=GANG_NODES))
    waited = await world.ready("ModelDeployment", "big")
    sites = {site for site, _ in await world.all_pods("big")}
    (site,) = sites
    sets = await world.sites[site].list("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet")
    expect(len(sets) == 1, f"{len(sets)} LeaderWorkerSets")
    return f"a gang of {len(await world.pods(site, 'big'))} pods on {site}, Ready after {waited:.1f} s"


async def race(world: World) -> str:
    """One cluster is taken by the gang; two more want the other's two nodes at the same time."""
    first, second = gang_of("one", nodes=GANG_NODES), gang_of("two", nodes=GANG_NODES)
    await asyncio.gather(world.control.apply(first), world.control.apply(second))
    names = ("one", "two")

    async def settled() -> bool:
        found = [await world.control.get(OURS, "ModelDeployment", name) for name in names]
        return sorted(condition(each, "ReplicasScheduled") for each in found) == ["False", "True"] and any(
            condition(each, "Ready") == "True" for each in found
        )

    waited = await world.wait("exactly one placed", settled)
    found = {name: await world.control.get(OURS, "ModelDeployment", name) for name in names}
    loser = next(name for name, each in found.items() if condition(each, "Ready") != "True")
    pods = {name: len(running([pod for _, pod in await world.all_pods(name)])) for name in names}
    expect(pods[loser] == 0 and sum(pods.values()) == GANG_NODES, f"pods: {pods}")
    return f"settled after {waited:.1f} s; {loser} says {conditions(found[loser])[:160]}"


async def served_again(world: World) -> str:
    """The gangs leave, and the model that left for them is back, with a replica on every cluster.

    A deployment is gone before its pods are, and those before the control plane has counted their devices: as long as
    a gang holds a cluster, both replicas go to the other.
    """
    await remove(world, _gangs())
    await world.wait("nothing left of the gangs", lambda: _no_models(world))
    await world.wait("every device counted as free", lambda: _are_free(world))
    told = await deploy(world)
    placed = set(clusters_of(await world.replicas(DEPLOYMENT)).values())
    expect(placed == set(world.sites), f"replicas on {sorted(placed)} alone")
    return told


async def _are_free(world: World) -> bool:
    for site in world.sites:
        cluster = await world.control.get(OURS, "InferenceCluster", site)
        pools = items(cluster, "status", "gpuPools")
        held = [value(each, "allocated") for pool in pools for each in items(pool, "devices")]
        if any(held) or value(cluster, "status", "replicas"):
            return False
    return True


def _gangs() -> list[Manifest]:
    return [gang_of(name, nodes=GANG_NODES) for name in ("big", "one", "two")]


async def remove(world: World, objects: Iterable[Manifest]) -> None:
    await _gone(world, list(objects))


async def _gone(world: World, objects: list[Manifest]) -> None:
    """What is used by something that is on its way out may be deleted a moment later: the webhook says not yet."""

    async def asked() -> bool:
        for item in objects:
            await world.control.delete(item)
        return True

    async def gone() -> bool:
        found = [
            await world.control.get(
                str(item["apiVersion"]), str(item["kind"]), name_of(item), namespace=_namespace(item)
            )
            for item in objects
        ]
        return all(each is None for each in found)

    await until("deletion allowed", asked, within_s=_GONE_WITHIN_S)
    await until("deleted objects gone", gone, within_s=_GONE_WITHIN_S)


def _namespace(item: Manifest) -> str:
    return text(item, "metadata", "namespace") or "default"


async def removal(world: World) -> str:
    """Delete everything that was applied: nothing of it is left in any cluster."""
    began = asyncio.get_running_loop().time()
    await remove(world, [*models(), *_gangs()])
    try:
        await world.wait("nothing left of the models", lambda: _no_models(world))
    except Exception as error:
        raise FailedError(f"left: {', '.join(await remains_of_models(world))}") from error
    await cordon(world, _platform())
    await remove(world, [item for item in _platform() if item["kind"] != "InferenceClass"])
    await remove(world, [item for item in _platform() if item["kind"] == "InferenceClass"])
    await world.wait("nothing composed is left", lambda: _nothing_composed(world))
    left = await remains(world)
    expect(not left, f"left: {', '.join(left)}")
    return f"nothing left in {1 + len(world.sites)} clusters after {asyncio.get_running_loop().time() - began:.1f} s"


async def _nothing_composed(world: World) -> bool:
    """Whether provider-kubernetes has let go of everything, so that no access to a cluster is needed any more."""
    version = "kubernetes.m.crossplane.io/v1alpha1"
    return not (
        await world.control.list(version, "Object") or await world.control.list(version, "ClusterProviderConfig")
    )


async def cordon(world: World, objects: Iterable[Manifest]) -> None:
    """A cluster that replicas ran on can be deleted once it is cordoned."""
    for item in objects:
        if item["kind"] == "InferenceCluster":
            await world.control.patch(item, {"spec": {"cordoned": True}})


async def _no_models(world: World) -> bool:
    return not await remains_of_models(world)


async def remains_of_models(world: World) -> list[str]:
    """What is left beside the namespaces of tenants: those stay until their InferenceCluster is deleted."""
    return [item for item in await remains(world) if " Namespace " not in item]


async def remains(world: World) -> list[str]:
    found = [f"control {each['kind']} {name_of(each)}" for each in await _ours_left(world)]
    for site, api in world.sites.items():
        for version, kind in _REMOTE:
            found += [
                f"{site} {kind} {name_of(item)}"
                for item in await api.list(version, kind)
                if any(key.startswith("modelplane.ai/") for key in _labels(item)) and kind != "Node"
            ]
    return found


_REMOTE = (
    ("apps/v1", "Deployment"),
    ("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet"),
    ("v1", "Pod"),
    ("v1", "Service"),
    ("v1", "Namespace"),
    ("resource.k8s.io/v1", "ResourceClaimTemplate"),
    ("resource.k8s.io/v1", "ResourceClaim"),
    ("gateway.networking.k8s.io/v1", "HTTPRoute"),
    ("networking.k8s.io/v1", "NetworkPolicy"),
    ("policy/v1", "PodDisruptionBudget"),
    ("inference.networking.k8s.io/v1", "InferencePool"),
    ("v1", "ConfigMap"),
    ("v1", "Secret"),
    ("v1", "ServiceAccount"),
    ("rbac.authorization.k8s.io/v1", "Role"),
    ("rbac.authorization.k8s.io/v1", "RoleBinding"),
)


def _labels(item: Manifest) -> dict[str, object]:
    found = value(item, "metadata", "labels")
    return found if isinstance(found, dict) else {}


async def _ours_left(world: World) -> list[Manifest]:
    kinds = ("ModelDeployment", "ModelReplica", "ModelEndpoint", "ModelService")
    return [item for kind in kinds for item in await world.control.list(OURS, kind)]
