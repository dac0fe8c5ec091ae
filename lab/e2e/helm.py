"""The chart by genuine Helm: installed, upgraded under requests, rolled back, removed by mistake, and uninstalled.

What is typed is what the pages under docs/operations say, with these differences, which are all of them:

    registry.example.org/…     the lab's registry, which has no TLS: --plain-http
    the newer version          the next patch release: a copy of this checkout with another number and one field more
    make release               builds no images: nothing in the lab pulls one
    helm install               takes over provider-kubernetes, which the lab has from the start

The lab starts and ends function servers, as the Deployments of package revisions would.
"""

from __future__ import annotations

import asyncio
import re
import shutil
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from lab.client import Manifest, condition, name_of, text, value
from lab.control import FUNCTION_PORT
from lab.e2e import steps
from lab.e2e.desk import in_lab, type_all, type_line
from lab.e2e.steps import DEPLOYMENT, expect
from lab.e2e.upgrade import UNINSTALL, calls, is_next_called, nothing_is_left, requests, serving
from lab.e2e.world import OURS
from lab.next_release import FIELD, write_next
from lab.upgrade import following
from modelplane import __version__
from modelplane.api.definitions import definitions
from modelplane.crossplane.packaging import CONFIGURATION, FUNCTION

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from lab.e2e.upgrade import Traffic
    from lab.e2e.world import World

INSTALL, UPGRADE = Path("docs/operations/install.md"), Path("docs/operations/upgrade.md")
NEXT = following(__version__)
RELEASE = "make release REGISTRY=registry.example.org/team"
_PACKAGES = "pkg.crossplane.io/v1"
_DEFINITION = ("apiextensions.k8s.io/v1", "CustomResourceDefinition", "modeldeployments.modelplane.ai")
_WITHOUT_S = 10.0
_TAKES_OVER = ("--take-ownership", "--force-conflicts")

Identities = dict[tuple[str, str, str], str]


def lines_of(page: str, heading: str, *, version: str = "") -> Iterator[str]:
    """The commands under a heading of a page, for the lab. A version, where one is given, stands for the page's."""
    section = page.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    for block in re.findall(r"^```sh\n(.*?)^```$", section, re.DOTALL | re.MULTILINE):
        for line in block.splitlines():
            if line.startswith(("helm ", "kubectl ")):
                yield in_chart(line, version)


def in_chart(line: str, version: str = "") -> str:
    words = [in_lab(line)]
    if version:
        words = [re.sub(r"--version \S+", f"--version {version}", words[0])]
    if "oci://" in line:
        words.append("--plain-http")
    if line.startswith("helm install"):
        words += _TAKES_OVER
    return " ".join(words)


async def push(world: World) -> str:
    """Both releases, by the documented command."""
    copy = world.places.state / "next-release"
    await asyncio.to_thread(shutil.rmtree, copy, ignore_errors=True)
    await asyncio.to_thread(write_next, Path.cwd(), copy, (__version__, NEXT))
    for checkout in (Path.cwd(), copy):
        world.say(f"  {RELEASE} of {checkout.name}")
        await asyncio.to_thread(type_line, world, in_lab(RELEASE), checkout)
    listed = (copy / "dist" / "release" / "images.txt").read_text().split()
    expect(any(f"charts/modelplane:{NEXT}@" in each for each in listed), f"the next release is {listed}")
    return f"packages and charts {__version__} and {NEXT}"


async def install(world: World) -> str:
    """By the page; the lab then starts what a Deployment would."""
    await asyncio.to_thread(world.tell, "prepare")
    count = await _typed(world, _install_lines())
    await asyncio.to_thread(world.tell, "serve", mode=world.mode)
    await _runs(world, __version__)
    return f"{count} commands as documented: {await _release(world)}"


def _install_lines() -> list[str]:
    page = INSTALL.read_text()
    return [*(each for each in lines_of(page, "2. Install") if "helm" in each), *lines_of(page, "3. Check")]


async def upgrade(world: World) -> str:
    """Nothing that serves is touched, no request fails, and what the newer version adds is there."""
    before, pods = await identities(world), await serving(world)
    async with requests(world) as traffic:
        await asyncio.to_thread(world.tell, "next", mode=world.mode)
        await _typed(world, lines_of(_page(UPGRADE), "With the chart", version=NEXT))
        await _runs(world, NEXT)
        await world.wait("the newer field", lambda: _writes_field(world))
        await world.wait("the new function server called", is_next_called)
        await world.ready("ModelDeployment", DEPLOYMENT)
        await asyncio.to_thread(world.tell, "hold", name="function")
    expect(await _field(world), f"spec.{FIELD} is not kept by {NEXT}")
    return f"to {NEXT}: {await _untouched(world, before, pods, traffic)}; {await _release(world)}"


async def rollback(world: World) -> str:
    """Every composite is the one that it was. The newer field is gone, and nothing else is."""
    before, pods = await identities(world), await serving(world)
    spec = await _spec(world)
    async with requests(world) as traffic:
        await asyncio.to_thread(world.tell, "first")
        await _typed(world, lines_of(_page(UPGRADE), "Going back"))
        await _runs(world, __version__)
        await world.wait("the newer field gone", lambda: _lacks_field(world))
        await asyncio.to_thread(world.tell, "hold", name="function-next")
        await _is_acted_on(world)
    spec.pop(FIELD)
    after = await _spec(world)
    expect(after == spec, f"spec was {spec}, is {after}")
    told = await _untouched(world, before, pods, traffic)
    return f"back to {__version__}: {told}; of spec only {FIELD} is gone; {await _release(world)}"


async def mistake(world: World) -> str:
    """Uninstalled while a model serves, and installed again: nothing is lost."""
    before, pods = await identities(world), await serving(world)
    async with requests(world) as traffic:
        await _typed(world, [line for line in _uninstall_lines() if line.startswith("helm ")])
        await world.wait("the Function gone", lambda: _is_gone(world))
        await asyncio.sleep(_WITHOUT_S)
        without = await identities(world)
        expect(without == before, f"lost: {before.keys() - without.keys()}")
        await _typed(world, _install_lines())
        await _runs(world, __version__)
        await _is_acted_on(world)
    return f"{await _untouched(world, before, pods, traffic)}; {await _release(world)}"


async def uninstall(world: World) -> str:
    """As documented: what people made, then the chart, then what it leaves."""
    lines = re.findall(r"^```sh\n(.*?)^```$", _page(UNINSTALL), re.DOTALL | re.MULTILINE)[0].splitlines()
    end = next(at for at, line in enumerate(lines) if "delete configuration" in line)
    await _typed(world, [*lines[:end], *_uninstall_lines()])
    return await nothing_is_left(world)


def _uninstall_lines() -> list[str]:
    blocks = re.findall(r"^```sh\n(.*?)^```$", UNINSTALL.read_text(), re.DOTALL | re.MULTILINE)
    (block,) = [each for each in blocks if each.startswith("helm uninstall")]
    return [str(line) for line in block.splitlines()]


STEPS: tuple[tuple[str, Callable[[World], Awaitable[str]]], ...] = (
    ("two releases pushed as documented", push),
    ("the chart installed by Helm as documented", install),
    ("clusters become Ready", steps.fleet),
    ("a deployment is placed and served", steps.deploy),
    ("`helm upgrade` while a model serves", upgrade),
    ("`helm rollback` while a model serves", rollback),
    ("`helm uninstall` while a model serves, and `helm install`", mistake),
    ("uninstalling as documented", uninstall),
)


def _page(path: Path) -> str:
    return path.read_text()


async def _typed(world: World, lines: Iterator[str] | list[str]) -> int:
    return await asyncio.to_thread(type_all, world, list(lines))


async def identities(world: World) -> Identities:
    """Everything of our kinds, by uid: what was deleted and made again has another."""
    found: Identities = {}
    for definition in definitions().values():
        for item in await world.control.list(definition.api_version, definition.kind):
            key = (definition.kind, text(item, "metadata", "namespace"), name_of(item))
            found[key] = text(item, "metadata", "uid")
    return found


async def _untouched(world: World, before: Identities, pods: set[tuple[str, str, str]], traffic: Traffic) -> str:
    after, run = await identities(world), await serving(world)
    expect(
        after == before, f"was {sorted(before.items() - after.items())}, is {sorted(after.items() - before.items())}"
    )
    expect(run == pods, f"was {sorted(pods)}, is {sorted(run)}")
    expect(traffic.answered, "no request was answered")
    expect(not traffic.failed, f"{len(traffic.failed)} of {traffic.answered} requests: {traffic.failed[:3]}")
    return (
        f"{len(after)} objects of ours and {len(run)} pods and replicas untouched, "
        f"{traffic.answered} requests, none failed"
    )


async def _runs(world: World, version: str) -> None:
    """Both packages are Healthy, and their active revisions are of this version."""
    for kind, name in (("Function", FUNCTION), ("Configuration", CONFIGURATION)):
        await world.wait(f"{name} {version}", partial(_is_active, world, kind, name, version))


async def _is_active(world: World, kind: str, name: str, version: str) -> bool:
    package = await world.control.get(_PACKAGES, kind, name)
    if condition(package, "Healthy") != "True" or condition(package, "Installed") != "True":
        return False
    revision = await world.control.get(_PACKAGES, f"{kind}Revision", text(package, "status", "currentRevision"))
    return text(revision, "spec", "image").endswith(f":v{version}") and condition(revision, "RevisionHealthy") == "True"


async def _is_gone(world: World) -> bool:
    revisions = await world.control.list(_PACKAGES, "FunctionRevision")
    return not revisions and await world.control.get(_PACKAGES, "Function", FUNCTION) is None


async def _is_acted_on(world: World) -> None:
    """What changes now is composed by the function server of this version."""
    before = await calls(FUNCTION_PORT)

    async def composed() -> bool:
        return await calls(FUNCTION_PORT) > before

    await world.control.patch(_deployment(), {"metadata": {"annotations": {"example.org/touched": str(before)}}})
    await world.wait("the function server called", composed)
    await world.ready("ModelDeployment", DEPLOYMENT)


async def _spec(world: World) -> Manifest:
    found = value(await world.control.get(OURS, "ModelDeployment", DEPLOYMENT), "spec")
    return {key: each for key, each in found.items() if key != "crossplane"} if isinstance(found, dict) else {}


async def _field(world: World) -> object:
    return (await _spec(world)).get(FIELD)


async def _writes_field(world: World) -> bool:
    """An API server knows the field a little later than the definition has it, and drops it until then."""
    await world.control.patch(_deployment(), {"spec": {FIELD: "of the newer version"}})
    return bool(await _field(world))


async def _has_field(world: World) -> bool:
    definition = await world.control.get(*_DEFINITION)
    return f"'{FIELD}'" in str(definition)


async def _lacks_field(world: World) -> bool:
    return not await _has_field(world)


async def _release(world: World) -> str:
    """As Helm has it."""
    said = await asyncio.to_thread(type_line, world, "helm list")
    (line,) = [each for each in said.splitlines() if each.startswith("modelplane")]
    name, _, revision, *_, status, chart, _ = line.split()
    expect(status == "deployed", said)
    return f"{name} revision {revision}, {chart} {status}"


def _deployment() -> Manifest:
    return {"apiVersion": OURS, "kind": "ModelDeployment", "metadata": {"name": DEPLOYMENT}}
