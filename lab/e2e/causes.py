"""Why pods do not start, on genuine components: each cause reaches its replica and its deployment, with one event."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lab.client import items, text, until
from lab.e2e.commands import refused, typed
from lab.e2e.steps import DEPLOYMENT, expect, remove
from lab.e2e.world import OURS
from lab.stages import CRASHING_IMAGE, LAST_LINE, MISSING_IMAGE

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from lab.client import Manifest
    from lab.e2e.world import World

_GOOD_IMAGE = "vllm/vllm-openai:v0.27.1"
_WITHIN_S = 240.0
_QUIET_S = 8.0
"""Long enough for two rounds of a back-off."""
_ONE_EACH = [1, 1]
_HELD = "usage.crossplane.io/deletion-attempt-with-policy"


@dataclass(frozen=True, slots=True)
class _Case:
    """A deployment whose pods do not start."""

    name: str
    reason: str
    words: str
    image: str = _GOOD_IMAGE
    container: Manifest = field(default_factory=dict)


_REFUSED_IMAGE, _REFUSAL = "refused.example/engine:1", "images of refused.example are not allowed"
_POLICY: tuple[Manifest, ...] = (
    {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": "no-refused-images"},
        "spec": {
            "matchConstraints": {
                "resourceRules": [
                    {
                        "apiGroups": ["apps"],
                        "apiVersions": ["v1"],
                        "operations": ["CREATE", "UPDATE"],
                        "resources": ["deployments"],
                    }
                ]
            },
            "validations": [
                {
                    "expression": "!object.spec.template.spec.containers.exists(c, c.image.startsWith('refused.'))",
                    "message": _REFUSAL,
                }
            ],
        },
    },
    {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": "no-refused-images"},
        "spec": {"policyName": "no-refused-images", "validationActions": ["Deny"]},
    },
)
"""Of the platform team of a workload cluster."""
_SECRET = {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "not-there", "key": "token"}}}
_CASES = (
    _Case("no-image", "ImagePullFailed", MISSING_IMAGE, MISSING_IMAGE),
    _Case("crashing", "CrashLooping", LAST_LINE, CRASHING_IMAGE),
    _Case("too-big", "Unschedulable", "Insufficient cpu", container={"resources": {"requests": {"cpu": "9000"}}}),
    _Case("no-secret", "SecretMissing", "not-there", container={"env": [_SECRET]}),
    _Case("refused", "WorkloadFailed", _REFUSAL, _REFUSED_IMAGE),
)


async def causes(world: World) -> str:
    """Five deployments that cannot start say why, once each; one of them starts when it is corrected."""
    for site in world.sites.values():
        for item in _POLICY:
            await site.apply(item)
    for case in _CASES:
        await world.control.apply(_deployment(case))
    waited = await until("each cause", lambda: _are_told(world), within_s=_WITHIN_S)
    # Crossplane writes events in its own time, some seconds after the status.
    await until("a Warning for each", lambda: _are_warned(world), within_s=_WITHIN_S)
    await asyncio.sleep(_QUIET_S)
    wrong = {case.name: told for case in _CASES if (told := await _warnings(world, case)) != _ONE_EACH}
    expect(not wrong, f"Warning events of deployment and replica: {wrong}")
    await world.control.patch(_deployment(_CASES[0]), _corrected(_CASES[0]))
    mended = await world.ready("ModelDeployment", _CASES[0].name)
    await remove(world, [_deployment(case) for case in _CASES])
    for site in world.sites.values():
        for item in reversed(_POLICY):
            await site.delete(item)
    reasons = ", ".join(case.reason for case in _CASES)
    return f"{reasons} after {waited:.1f} s, one Warning each; Ready {mended:.1f} s after the image was corrected"


def _deployment(case: _Case) -> Manifest:
    selector = 'device.driver == "gpu.nvidia.com"'
    container = {"name": "engine", "image": case.image, "args": ["example/small"], **case.container}
    return {
        "apiVersion": OURS,
        "kind": "ModelDeployment",
        "metadata": {"name": case.name, "namespace": "default"},
        "spec": {
            "replicas": 1,
            "nodeSelector": {"devices": [{"name": "gpu", "count": 1, "selectors": [{"cel": selector}]}]},
            "workers": {"template": {"spec": {"containers": [container]}}},
        },
    }


def _corrected(case: _Case) -> Manifest:
    container = {"name": "engine", "image": _GOOD_IMAGE, "args": ["example/small"], **case.container}
    return {"spec": {"workers": {"template": {"spec": {"containers": [container]}}}}}


async def _are_told(world: World) -> bool:
    return all([await _is_told(world, case) for case in _CASES])


async def _is_told(world: World, case: _Case) -> bool:
    replicas = await world.replicas(case.name)
    above = await world.control.get(OURS, "ModelDeployment", case.name)
    told = [*replicas, *([above] if above else ())]
    words = [text(each, "status", "message") for each in told]
    reasons = {text(each, "status", "reason") for each in told}
    return len(told) > 1 and reasons == {case.reason} and all(case.words in each for each in words)


async def _are_warned(world: World) -> bool:
    return all([min(await _warnings(world, case)) > 0 for case in _CASES])


async def _warnings(world: World, case: _Case) -> list[int]:
    """How often the reason was told of the deployment, and of its replica.

    The same words again are the same event: Crossplane repeats a pass whose write of the status was overtaken.
    """
    above = await world.control.get(OURS, "ModelDeployment", case.name)
    told = [*([above] if above else ()), *await world.replicas(case.name)]
    words: dict[str, set[str]] = {text(each, "metadata", "uid"): set() for each in told}
    for event in await world.control.list("v1", "Event"):
        about = words.get(text(event, "involvedObject", "uid"))
        if about is not None and event.get("type") == "Warning" and event.get("reason") == case.reason:
            about.add(text(event, "message"))
    return [len(each) for each in words.values()]


async def held(world: World) -> str:
    """A cluster and its class are refused their deletion while they are used, and `kubectl get` shows by whom."""
    cluster = min(text(each, "spec", "clusterName") for each in await world.replicas(DEPLOYMENT))
    found = await world.control.get(OURS, "InferenceCluster", cluster)
    class_name = text(items(found, "spec", "nodePools")[0], "className")
    users = {("inferencecluster", cluster): "ModelReplica default/", ("inferenceclass", class_name): cluster}
    for (kind, name), user in users.items():
        await asyncio.to_thread(refused, world, ["kubectl", "delete", kind, name, "--wait=false"], "in-use")
        await until(f"{kind} {name} says who holds it", _shows(world, kind, name, user), within_s=_WITHIN_S)
    shown = [await asyncio.to_thread(typed, world, _get(kind, name)) for kind, name in users]
    for kind, name in users:
        await asyncio.to_thread(typed, world, ["kubectl", "annotate", kind, name, f"{_HELD}-"])
        await until(f"{kind} {name} is held no more", _shows(world, kind, name, ""), within_s=_WITHIN_S)
    return "; ".join(shown)


def _get(kind: str, name: str) -> list[str]:
    path = '{.status.conditions[?(@.type=="Deletable")].message}'
    return ["kubectl", "get", kind, name, "-o", f"jsonpath={path}"]


def _shows(world: World, kind: str, name: str, words: str) -> Callable[[], Awaitable[bool]]:
    async def shows() -> bool:
        told = await asyncio.to_thread(typed, world, _get(kind, name))
        return words in told if words else not told

    return shows
