"""From one version of the product to the next, through the real package manager, while everything runs.

The next version is this one under another name: its packages have another digest, and its function server is another
process. What a cluster with containers does is done by hand in the same order: the new server is up before calls go to
it, and the old one ends after.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from lab.client import Api, Manifest, text, until
from lab.cluster import ADMIN, LOOPBACK
from lab.control import FUNCTION_PORT, REGISTRY_PORT, package_healthy
from lab.install import REPOSITORY, apply_as_documented, definitions_established, function_server
from modelplane import __version__
from modelplane.crossplane.packaging import CONFIGURATION, FUNCTION, configuration, function_meta

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lab.control import Control, Runtime
    from lab.supervisor import Supervisor

NEXT_PORT = FUNCTION_PORT + 2
_NEXT = "function-next"
_KINDS = {"Function": FUNCTION, "Configuration": CONFIGURATION}


def following(version: str) -> str:
    """The next patch release."""
    major, minor, patch = version.split(".")[:3]
    digits = "".join(letter for letter in patch if letter.isdigit())
    return f"{major}.{minor}.{int(digits) + 1}"


async def upgrade(
    supervisor: Supervisor, control: Control, runtime: Runtime, say: Callable[[str], None], *, mode: str
) -> dict[str, object]:
    """Returns when the packages of the next version are Healthy and the old server has ended; says which revisions."""
    version = following(__version__)
    _publish(control, version)
    async with Api(control.cluster.access(*ADMIN)) as api:
        before = {kind: await _revision(api, kind) for kind in _KINDS}
        await serve_next(supervisor, control, runtime, mode=mode)
        say(f"function server {version} ready")
        await asyncio.to_thread(apply_as_documented, control, version)
        for kind, name in _KINDS.items():
            await until(f"{name} of another revision", lambda kind=kind: _switched(api, kind, before[kind]))  # type: ignore[misc]  # bound early
            await until(f"{name} Healthy", lambda kind=kind, name=name: package_healthy(api, kind, name))  # type: ignore[misc]  # bound early
        await definitions_established(api)
        after = {kind: await _revision(api, kind) for kind in _KINDS}
    await supervisor.hold("function")
    say(f"packages {version} Healthy")
    return {"version": version, "before": before, "after": after}


async def serve_next(supervisor: Supervisor, control: Control, runtime: Runtime, *, mode: str) -> None:
    """Calls go to the server of the next version once it is ready. That of this version still runs."""
    folder = control.cluster.folder
    server = function_server(folder / FUNCTION, folder / "function.kubeconfig", mode, name=_NEXT, port=NEXT_PORT)
    await supervisor.start(server)
    runtime.endpoints[FUNCTION] = f"{LOOPBACK}:{NEXT_PORT}"


async def serve_first(supervisor: Supervisor, runtime: Runtime) -> None:
    """And back."""
    await supervisor.resume("function")
    runtime.endpoints[FUNCTION] = f"{LOOPBACK}:{FUNCTION_PORT}"


def _publish(control: Control, version: str) -> None:
    function = f"{LOOPBACK}:{REGISTRY_PORT}/{REPOSITORY}/{FUNCTION}"
    contents: dict[str, Sequence[Manifest]] = {
        CONFIGURATION: [dict(item) for item in configuration(version, function)],
        FUNCTION: [_renamed(dict(function_meta()), version)],
    }
    for name, manifests in contents.items():
        control.registry.add_manifests(f"{REPOSITORY}/{name}", f"v{version}", list(manifests))


def _renamed(meta: Manifest, version: str) -> Manifest:
    """Something in it must differ, or it would be the same package."""
    metadata = meta["metadata"]
    known = metadata if isinstance(metadata, dict) else {}
    annotations = {**known.get("annotations", {}), "meta.crossplane.io/readme": f"version {version}"}
    return {**meta, "metadata": {**known, "annotations": annotations}}


async def _revision(api: Api, kind: str) -> str:
    return text(await api.get("pkg.crossplane.io/v1", kind, _KINDS[kind]), "status", "currentRevision")


async def _switched(api: Api, kind: str, before: str) -> bool:
    return await _revision(api, kind) not in {"", before}
