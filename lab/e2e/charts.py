"""The software of a cluster, installed and removed by genuine provider-helm from the charts that can be had.

A cluster has all of it at once: what its devices, its backend and its stack need, and by overrides the rest of the
table, in the version that can be had. What no chart can be had of is turned off, and named.

There is no kubelet, so nothing listens behind the Services of a chart: KWOK says that its pods are ready, and webhooks
of charts are told to let everything pass. What the lab itself put on the cluster and a chart brings too goes first.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from lab.chart_sources import had_sources, repositories_of
from lab.charts import compare, had_version, packed_charts
from lab.client import ApiError, Manifest, condition, items, name_of, text, value
from lab.e2e import steps
from lab.e2e.steps import expect
from lab.e2e.world import OURS, conditions
from lab.manifests import read_folder
from lab.scenario import FailedError
from modelplane.api.labels import SYSTEM_NAMESPACE
from modelplane.catalog.stack import StackComponent, is_in_range, load_stack

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from lab.client import Api
    from lab.e2e.world import World

FLEET = Path("lab/fleets/charts")
SITE = "charts"
_PATIENCE_S = 900.0
_POLL_S = 0.5
_RELEASES = ("helm.m.crossplane.io/v1beta1", "Release")
_ADMISSION = "admissionregistration.k8s.io/v1"
_BROUGHT = (
    ("resource.k8s.io/v1", "DeviceClass", "gpu.nvidia.com"),
    ("resource.k8s.io/v1", "DeviceClass", "gpu.amd.com"),
    (_ADMISSION, "ValidatingAdmissionPolicy", "safe-upgrades.gateway.networking.k8s.io"),
    (_ADMISSION, "ValidatingAdmissionPolicyBinding", "safe-upgrades.gateway.networking.k8s.io"),
)
_STACKS: dict[str, Manifest] = {
    "Standard": {"backend": {"type": "KServe", "kserve": {"version": "0.20"}}},
    "Dynamo": {"backend": {"type": "Native"}, "scheduling": {"type": "KAI"}},
}
_ALONE = "volcano"
"""Nothing needs it, so that its version concerns nothing else."""
_UNKNOWN = "0.0.1"
_SHOWN = 300
_HOOKS = ("ValidatingWebhookConfiguration", "MutatingWebhookConfiguration")


async def compared(world: World) -> str:
    """Every chart renders with the values of the table, and knows each of them."""
    with tempfile.TemporaryDirectory() as folder:
        charts = await asyncio.to_thread(packed_charts)
        found = [await asyncio.to_thread(compare, world.places, chart, Path(folder)) for chart in charts]
    for each in found:
        world.say(f"  {each.component:<24} {each.version:<10} {each.verdict}")
    wrong = [f"{each.component} {each.version} {each.verdict}" for each in found if not each.agrees]
    expect(not wrong, "; ".join(wrong))
    objects = sum(sum(each.kinds.values()) for each in found)
    return f"{len(found)} charts, {objects} objects, no value that a chart does not know; {missing_charts()}"


def missing_charts() -> str:
    """What stands for a chart of the table that cannot be had."""
    had = had_versions()
    charts = [each for each in load_stack().components if each.chart is not None]
    other = [
        f"{had.get(each.name, 'nothing')} stands for {each.name} {each.chart.version}"
        for each in charts
        if each.chart is not None and had.get(each.name) != each.chart.version
    ]
    return "; ".join(other) or "all in the versions of the table"


def had_versions() -> dict[str, str]:
    """The version of each chart that can be had, by component."""
    components = {component.name: component for component in load_stack().components}
    sources = had_sources(repositories_of())
    return {source.component: had_version(components[source.component], source) for source in sources}


def overrides(stack: str, had: Mapping[str, str]) -> list[Manifest]:
    """Everything that a cluster of this stack can have, in the versions that can be had; the rest is off."""
    made: list[Manifest] = []
    for component in load_stack().components:
        if component.chart is None or not component.fits(stack, "Existing"):
            continue
        if component.name not in had or not _is_compatible(component, had):
            made.append({"name": component.name, "enabled": False})
        else:
            made.append({"name": component.name, "enabled": True, "version": had[component.name]})
    return made


def _is_compatible(component: StackComponent, had: Mapping[str, str]) -> bool:
    return all(is_in_range(had[name], versions) for name, versions in component.needs.items() if name in had)


async def installed(world: World, stack: str = "Standard") -> str:
    """Every component of the cluster becomes ready, in the order of what it needs."""
    await _apply(world, stack, had_versions())
    passing = asyncio.create_task(_let_pass(world))
    try:
        waited = await world.wait("RequirementsMet", lambda: _is_met(world), within_s=_PATIENCE_S)
    except Exception as error:
        raise FailedError(f"{error}; {await _state(world)}") from error
    finally:
        passing.cancel()
    releases = await world.control.list(*_RELEASES)
    for release in releases:
        expect(text(release, "status", "atProvider", "state") == "deployed", f"{name_of(release)} is not deployed")
    cluster = await world.control.get(OURS, "InferenceCluster", SITE)
    phase = value(cluster, "status", "software", "phase")
    expect(phase == "UpToDate", f"status.software says {value(cluster, 'status', 'software')}")
    made = sorted((text(each, "metadata", "creationTimestamp"), _component(each), _version(each)) for each in releases)
    await _expect_order(made)
    listed = ", ".join(f"{name} {version}" for _, name, version in made)
    return f"{len(made)} charts after {waited:.0f} s, in this order: {listed}"


async def _apply(world: World, stack: str, had: Mapping[str, str]) -> None:
    for version, kind, name in _BROUGHT:
        with contextlib.suppress(ApiError):
            await world.sites[SITE].delete({"apiVersion": version, "kind": kind, "metadata": {"name": name}})
    await world.control.apply(_kubeconfig(world))
    for item in read_folder(FLEET):
        await world.control.apply(_with_software(item, stack, had) if item["kind"] == "InferenceCluster" else item)


async def unknown_version(world: World) -> str:
    """A chart that no registry has: the cluster says so in Helm's words, and goes on once the version is corrected."""
    await _apply(world, "Dynamo", {**had_versions(), _ALONE: _UNKNOWN})

    async def is_said() -> bool:
        return f'{_ALONE}: failed to pull chart: chart "{_ALONE}" version "{_UNKNOWN}"' in await _requirements(world)

    waited = await world.wait("Helm's reason", is_said)
    said = await _requirements(world)
    expect(said.startswith("InstallationFailed: "), said)
    return f"after {waited:.0f} s {said[:_SHOWN]}"


async def _requirements(world: World) -> str:
    cluster = await world.control.get(OURS, "InferenceCluster", SITE)
    found = [each for each in items(cluster, "status", "conditions") if each.get("type") == "RequirementsMet"]
    return "".join(f"{text(each, 'reason')}: {text(each, 'message')}" for each in found)


async def dynamo(world: World) -> str:
    """The other stack, on the same cluster."""
    return await installed(world, "Dynamo")


def _with_software(cluster: Manifest, stack: str, had: Mapping[str, str]) -> Manifest:
    spec, software = value(cluster, "spec"), value(cluster, "spec", "software")
    known: Manifest = spec if isinstance(spec, dict) else {}
    rest: Manifest = software if isinstance(software, dict) else {}
    chosen = {**rest, "overrides": overrides(stack, had)}
    return {**cluster, "spec": {**known, **_STACKS[stack], "stack": stack, "software": chosen}}


async def _expect_order(made: list[tuple[str, str, str]]) -> None:
    began = {name: at for at, name, _ in made}
    for component in load_stack().components:
        for needed in component.needs.keys() & began.keys() if component.name in began else ():
            expect(began[needed] <= began[component.name], f"{component.name} came before {needed}")


async def removed(world: World) -> str:
    """The cluster is deleted: each release goes before what it needs, and nothing of them is left."""
    cluster = next(item for item in read_folder(FLEET) if item["kind"] == "InferenceCluster")
    before = {_component(each) for each in await world.control.list(*_RELEASES)}
    await world.control.delete(cluster)
    went: dict[str, int] = {}  # what goes between two readings has one place

    async def gone() -> bool:
        left = {_component(each) for each in await world.control.list(*_RELEASES)}
        went.update(dict.fromkeys(sorted(before - left - went.keys()), len(went)))
        return not left and await world.control.get(OURS, "InferenceCluster", SITE) is None

    passing = asyncio.create_task(_let_pass(world))
    try:
        waited = await world.wait("releases gone", gone, within_s=_PATIENCE_S)
    except Exception as error:
        raise FailedError(f"{error}; gone: {list(went)}; {await _state(world)}") from error
    finally:
        passing.cancel()
    for component in load_stack().components:
        for needed in component.needs.keys() & before if component.name in before else ():
            expect(went[component.name] <= went[needed], f"{needed} went before {component.name}: {list(went)}")
    secrets = await world.sites[SITE].list("v1", "Secret", labels="owner=helm")
    expect(not secrets, f"Helm still knows {[name_of(each) for each in secrets]}")
    return f"{len(went)} charts after {waited:.0f} s, in this order: {', '.join(went)}"


async def dynamo_removed(world: World) -> str:
    """That of the other stack, whose step has a name of its own."""
    return await removed(world)


STEPS: tuple[tuple[str, Callable[[World], Awaitable[str]]], ...] = (
    ("charts rendered by Helm's library with the values of our table", compared),
    ("packages through the real package manager", steps.install),
    ("software is installed by provider-helm", installed),
    ("software is removed in its order", removed),
    ("a chart that no registry has", unknown_version),
    ("the Dynamo stack is installed by provider-helm", dynamo),
    ("the Dynamo stack is removed in its order", dynamo_removed),
)


def _kubeconfig(world: World) -> Manifest:
    content = base64.b64encode(world.kubeconfigs[SITE].read_bytes()).decode()
    metadata = {"name": f"{SITE}-kubeconfig", "namespace": SYSTEM_NAMESPACE}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": {"kubeconfig": content}}


async def _is_met(world: World) -> bool:
    return condition(await world.control.get(OURS, "InferenceCluster", SITE), "RequirementsMet") == "True"


async def _let_pass(world: World) -> None:
    """Webhooks of charts fail open: their servers are pods that do not run."""
    site = world.sites[SITE]
    while True:
        for kind in _HOOKS:
            with contextlib.suppress(ApiError):
                for found in await site.list(_ADMISSION, kind):
                    if not name_of(found).startswith("lab-"):
                        await _open(site, {**found, "apiVersion": _ADMISSION, "kind": kind})
        await asyncio.sleep(_POLL_S)


async def _open(site: Api, found: Manifest) -> None:
    hooks = items(found, "webhooks")
    if any(each.get("failurePolicy") != "Ignore" for each in hooks):
        opened = [{**each, "failurePolicy": "Ignore", "timeoutSeconds": 1} for each in hooks]
        await site.patch(found, {"webhooks": opened})


def _component(release: Manifest) -> str:
    return text(release, "metadata", "annotations", "crossplane.io/external-name").removeprefix("mp-")


def _version(release: Manifest) -> str:
    return text(release, "spec", "forProvider", "chart", "version")


async def _state(world: World) -> str:
    cluster = await world.control.get(OURS, "InferenceCluster", SITE)
    releases = await world.control.list(*_RELEASES)
    return "; ".join(
        [f"the cluster says {conditions(cluster)}", *(f"{_component(each)}: {conditions(each)}" for each in releases)]
    )
