"""A step about the fleet router behind genuine Envoy Gateway: composed by its gateway, run here, and stopped.

The control cluster runs no pods, so the step plays the router's pod: it mounts the composed plans as a folder, serves
at an address of the lab's, and puts that into an EndpointSlice of the composed Service.
"""

from __future__ import annotations

import contextlib
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import aiohttp

from lab.client import Manifest, items, text, value
from lab.e2e.picking import address_of
from lab.e2e.steps import SERVICE, expect
from lab.e2e.world import OURS, World
from modelplane.api.labels import DEFAULT_GATEWAY, SYSTEM_NAMESPACE
from modelplane.compose.router_objects import GRPC_PORT
from modelplane.router.server import RouterServer, RouterSettings

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

_ROUTER = "modelplane-router"
_ADDRESS = "10.244.255.53"  # in the range of the fleet's gateways
_MODEL = f"default/{SERVICE}"
_GATEWAY: Manifest = {"apiVersion": OURS, "kind": "InferenceGateway", "metadata": {"name": DEFAULT_GATEWAY}}
_OK, _NOT_FOUND, _UNAVAILABLE = 200, 404, 503


async def routed(world: World) -> str:
    """By the model's name with the router, by the service's address without it."""
    address = await address_of(world, SERVICE)
    base = address.removesuffix(f"/{_MODEL}")
    await world.control.patch(_GATEWAY, {"spec": {"router": {"image": "lab"}}})
    try:
        plans = await _plans(world)
        async with _router(world, plans) as router:
            await world.wait("an answer by the model's name", lambda: _answers(base, _MODEL, _OK))
            expect(await _answers(base, "nobody/nothing", _NOT_FOUND), "a model that nobody declares is not 404")
            expect(_MODEL in await _models(base), "GET /v1/models does not list the service")
            served = sum(bool(each.attempts) for each in router.director.ring.latest(20, 0.0))
        expect(await _answers(address, "qwen3-8b", _OK), "without the router the service's own address fails")
        expect(await _answers(base, _MODEL, _UNAVAILABLE), "without the router POST /v1 is not 503")
    finally:
        await world.control.patch(_GATEWAY, {"spec": {"router": None}})
    return f"the router decided {served} requests; without it the service's address answered, and /v1 said 503"


async def _plans(world: World) -> dict[str, str]:
    """The files of the composed ConfigMap, once the service and both its replicas are in it."""
    found: dict[str, str] = {}

    async def composed() -> bool:
        held = await world.control.get("v1", "ConfigMap", f"{_ROUTER}-plans-0", namespace=SYSTEM_NAMESPACE)
        data = value(held, "data")
        found.update({str(name): str(content) for name, content in data.items()} if isinstance(data, dict) else {})
        return f"default.{SERVICE}.json" in found and await _is_called(world)

    await world.wait("the router's plans", composed)
    return found


async def _is_called(world: World) -> bool:
    """Whether Envoy Gateway took the policy that calls the router."""
    policy = await world.control.get(
        "gateway.envoyproxy.io/v1alpha1", "EnvoyExtensionPolicy", _ROUTER, namespace=SYSTEM_NAMESPACE
    )
    told = [each for ancestor in items(policy, "status", "ancestors") for each in items(ancestor, "conditions")]
    return any(text(each, "type") == "Accepted" and text(each, "status") == "True" for each in told)


@contextlib.asynccontextmanager
async def _router(world: World, plans: dict[str, str]) -> AsyncIterator[RouterServer]:
    slices = _slice()
    with tempfile.TemporaryDirectory() as folder:
        for name, content in plans.items():
            (Path(folder) / name).write_text(content)
        settings = RouterSettings(host=_ADDRESS, port=GRPC_PORT, plans=Path(folder), probes=False, drain_s=1.0)
        router = RouterServer(settings)
        await router.start()
        await world.control.apply(slices)
        try:
            yield router
        finally:
            await world.control.delete(slices)
            await router.stop()


def _slice() -> Manifest:
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "name": f"{_ROUTER}-lab",
            "namespace": SYSTEM_NAMESPACE,
            "labels": {"kubernetes.io/service-name": _ROUTER},
        },
        "addressType": "IPv4",
        "ports": [{"name": "grpc", "port": GRPC_PORT, "protocol": "TCP"}],
        "endpoints": [{"addresses": [_ADDRESS], "conditions": {"ready": True}}],
    }


async def _answers(base: str, model: str, status: int) -> bool:
    body = {"model": model, "messages": [{"role": "user", "content": "hello"}], "max_tokens": 4}
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{base}/v1/chat/completions", json=body) as response,
    ):
        return response.status == status


async def _models(base: str) -> list[str]:
    async with aiohttp.ClientSession() as session, session.get(f"{base}/v1/models") as response:
        return [str(each["id"]) for each in (await response.json())["data"]]
