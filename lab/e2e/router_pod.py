"""Plays the pod of a composed fleet router: the control cluster runs no pods.

The program runs with the arguments of the composed Deployment, on an address of the lab's. The composed plans are
mounted as a kubelet would mount them, and an EndpointSlice of the composed Service names the address.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import aiohttp

from lab.client import ApiError, Manifest, items, text, value
from lab.cluster import answers
from lab.install import ROUTER_ADDRESS as ADDRESS
from modelplane.api.labels import SYSTEM_NAMESPACE
from modelplane.compose.router_objects import ADMIN_PORT, GRPC_PORT, PLANS_PATH

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from lab.e2e.world import World

ROUTER = "modelplane-router"
_MOUNT_S = 1.0


class RouterPod:
    """One that can be killed and started again. `folder` has the mounted plans and the program's output."""

    def __init__(self, world: World, folder: Path) -> None:
        """Nothing runs before `start`."""
        self._world = world
        self._plans = folder / "plans"
        self._log = folder / "router.log"
        self._plans.mkdir()
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        """Returns when it has plans and an EndpointSlice names it."""
        deployment = await self._world.control.get("apps/v1", "Deployment", ROUTER, namespace=SYSTEM_NAMESPACE)
        (container,) = items(deployment, "spec", "template", "spec", "containers")
        given = value(container, "args")
        words = [str(each) for each in given] if isinstance(given, list) else []
        placed = [str(self._plans) if word == PLANS_PATH else word for word in words]
        command = (sys.executable, "-m", "modelplane", *placed, "--host", ADDRESS)
        with self._log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(*command, stdout=log, stderr=log)
        await self._world.wait("the router", answers(f"http://{ADDRESS}:{ADMIN_PORT}/healthz"))
        await self._world.control.apply(_slice())

    async def kill(self) -> None:
        """With SIGKILL; the EndpointSlice stays, as it does until somebody notices."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            await process.wait()

    async def mount(self) -> None:
        """The files of the composed ConfigMaps, as they are now."""
        found = await self._world.control.list("v1", "ConfigMap", namespace=SYSTEM_NAMESPACE)
        held = [value(each, "data") for each in found if text(each, "metadata", "name").startswith(f"{ROUTER}-plans-")]
        files = {str(name): str(content) for each in held if isinstance(each, dict) for name, content in each.items()}
        await asyncio.to_thread(self._write, files)

    async def keep_mounted(self) -> None:
        """Until it is cancelled."""
        while True:
            with contextlib.suppress(ApiError, OSError):
                await self.mount()
            await asyncio.sleep(_MOUNT_S)

    def _write(self, files: dict[str, str]) -> None:
        for path in self._plans.iterdir():
            if path.name not in files:
                path.unlink()
        for name, content in files.items():
            path = self._plans / name
            if not path.exists() or path.read_text() != content:
                path.with_suffix(".new").write_text(content)
                path.with_suffix(".new").replace(path)

    async def serves(self, endpoint: str) -> bool:
        """Whether its plans have the endpoint, ready. They are mounted a moment after they were composed."""
        url = f"http://{ADDRESS}:{ADMIN_PORT}/endpoints"
        async with aiohttp.ClientSession() as session, session.get(url) as response:
            found = items(await response.json(), "endpoints")
        return any(each.get("endpoint") == endpoint and each.get("ready") is True for each in found)

    def usage(self) -> list[Manifest]:
        """The records that it wrote, oldest first."""
        lines = self._log.read_text().splitlines()
        return [json.loads(line) for line in lines if line.startswith('{"time"')]

    def said(self) -> str:
        return self._log.read_text()[-2000:]


@contextlib.asynccontextmanager
async def router_pod(world: World) -> AsyncIterator[RouterPod]:
    """Serves between entering and leaving."""
    with tempfile.TemporaryDirectory() as folder:
        pod = RouterPod(world, Path(folder))
        await pod.mount()
        mounted = asyncio.create_task(pod.keep_mounted(), name="mount plans")
        try:
            await pod.start()
            yield pod
        finally:
            mounted.cancel()
            await asyncio.gather(mounted, return_exceptions=True)
            await pod.kill()
            await world.control.delete(_slice())


def _slice() -> Manifest:
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "name": f"{ROUTER}-lab",
            "namespace": SYSTEM_NAMESPACE,
            "labels": {"kubernetes.io/service-name": ROUTER},
        },
        "addressType": "IPv4",
        "ports": [{"name": "grpc", "port": GRPC_PORT, "protocol": "TCP"}],
        "endpoints": [{"addresses": [ADDRESS], "conditions": {"ready": True}}],
    }
