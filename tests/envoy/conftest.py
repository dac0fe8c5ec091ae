import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

import aiohttp
import pytest

from modelplane.envoy import EnvoyConfig, EnvoyProcess, GatewayView, free_port, render
from modelplane.sim.engine import Address, EngineConfig, SimulatedEngine

HOST = "127.0.0.1"
NAMESPACE = "team-a"


def _object(api: str, kind: str, name: str, namespace: str = NAMESPACE, **more: object) -> dict[str, object]:
    return {"apiVersion": api, "kind": kind, "metadata": {"name": name, "namespace": namespace}, **more}


def service(name: str, *, namespace: str = NAMESPACE, ports: tuple[dict, ...] = ({"name": "http", "port": 80},)):
    return _object("v1", "Service", name, namespace, spec={"ports": list(ports)})


def endpoint_slice(name: str, *members: Address, ready: bool | None = True, port_name: str | None = "http"):
    """The slices of one Service, one for each port number, as Kubernetes splits them."""
    return tuple(
        {
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {
                "name": f"{name}-{member.port}",
                "namespace": NAMESPACE,
                "labels": {"kubernetes.io/service-name": name},
            },
            "addressType": "IPv4",
            "endpoints": [{"addresses": [member.host], "conditions": {"ready": ready}}],
            "ports": [{"name": port_name, "port": member.port, "protocol": "TCP"}],
        }
        for member in members
    )


def backend(name: str, *endpoints: dict, namespace: str = NAMESPACE):
    return _object("gateway.envoyproxy.io/v1alpha1", "Backend", name, namespace, spec={"endpoints": list(endpoints)})


def route(name: str, *rules: dict, namespace: str = NAMESPACE):
    return _object("gateway.networking.k8s.io/v1", "HTTPRoute", name, namespace, spec={"rules": list(rules)})


def prefix(path: str, kind: str = "PathPrefix") -> dict:
    return {"path": {"type": kind, "value": path}}


def rewrite(to: str) -> dict:
    return {"type": "URLRewrite", "urlRewrite": {"path": {"type": "ReplacePrefixMatch", "replacePrefixMatch": to}}}


def headers(**changes: object) -> dict:
    return {"type": "RequestHeaderModifier", "requestHeaderModifier": changes}


def fleet(port: int, edges: dict[str, tuple[int, int]]) -> GatewayView:
    """The fleet's front door: `edges` has the edge port and the weight of each replica of one service."""
    refs = [
        {
            "group": "gateway.envoyproxy.io",
            "kind": "Backend",
            "name": replica,
            "weight": weight,
            "filters": [headers(set=[{"name": "modelplane-replica", "value": f"{NAMESPACE}/{replica}"}])],
        }
        for replica, (_, weight) in edges.items()
    ]
    rule = {
        "matches": [prefix(f"/{NAMESPACE}/demo")],
        "filters": [rewrite("/")],
        "backendRefs": refs,
        "timeouts": {"request": "0s"},
    }
    backends = (backend(name, {"ip": {"address": HOST, "port": edge}}) for name, (edge, _) in edges.items())
    return GatewayView(name="fleet", host=HOST, port=port, routes=(route("demo", rule),), backends=tuple(backends))


def edge(name: str, port: int, replicas: dict[str, tuple[Address, ...]]) -> GatewayView:
    """A cluster's edge: each replica is a Service, reached by the header that the fleet sets."""
    rules = {
        replica: {
            "matches": [{"headers": [{"name": "modelplane-replica", "value": f"{NAMESPACE}/{replica}"}]}],
            "backendRefs": [{"name": replica, "port": 80}],
        }
        for replica in replicas
    }
    return GatewayView(
        name=name,
        host=HOST,
        port=port,
        routes=tuple(route(replica, rule) for replica, rule in rules.items()),
        services=tuple(service(replica) for replica in replicas),
        slices=tuple(piece for replica, pods in replicas.items() for piece in endpoint_slice(replica, *pods)),
    )


@pytest.fixture(name="build")
def builders() -> SimpleNamespace:
    """Kubernetes objects and whole gateways, in few words."""
    return SimpleNamespace(
        service=service,
        endpoint_slice=endpoint_slice,
        backend=backend,
        route=route,
        prefix=prefix,
        rewrite=rewrite,
        headers=headers,
        fleet=fleet,
        edge=edge,
    )


class Answer(NamedTuple):
    status: int
    served_by: str | None
    body: bytes

    @property
    def error(self) -> dict[str, object]:
        return json.loads(self.body)["error"]


class World:
    """One Envoy, the engines behind it and a client in front of it; `close` ends them all."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.envoy = EnvoyProcess(directory)
        self.session = aiohttp.ClientSession()
        self.engines: list[SimulatedEngine] = []

    async def engine(self, cluster: str, *, speed: float = 1000) -> tuple[SimulatedEngine, Address]:
        pod = f"demo-{len(self.engines)}"
        engine = SimulatedEngine(
            EngineConfig(cluster=cluster, namespace=NAMESPACE, pod=pod, models=("demo",), speed=speed)
        )
        self.engines.append(engine)
        return engine, await engine.start(HOST)

    async def chat(self, url: str, *, send: dict[str, str] | None = None, **fields: object) -> Answer:
        body = {"model": "demo", "messages": [{"role": "user", "content": "hello"}], "max_tokens": 4, **fields}
        async with self.session.post(f"{url}/v1/chat/completions", json=body, headers=send) as answer:
            return Answer(answer.status, answer.headers.get("x-served-by"), await answer.read())

    async def get(self, url: str, **sent: str) -> Answer:
        async with self.session.get(url, headers=sent) as answer:
            return Answer(answer.status, answer.headers.get("x-served-by"), await answer.read())

    async def close(self) -> None:
        await self.session.close()
        await self.envoy.stop()
        await asyncio.gather(*(engine.stop(grace_s=0) for engine in self.engines))


@pytest.fixture(name="play")
def play_scenario(tmp_path: Path) -> Callable[[Callable[[World], Awaitable[None]]], None]:
    """Run a scenario in a world of its own, then end the world and check that nothing of it is left."""

    async def run(scenario: Callable[[World], Awaitable[None]]) -> None:
        world = World(tmp_path / "envoy")
        try:
            await scenario(world)
        finally:
            await world.close()
        await asyncio.sleep(0)
        left = asyncio.all_tasks() - {asyncio.current_task()}
        assert not left, f"tasks outlive the world: {left}"

    return lambda scenario: asyncio.run(run(scenario))


@pytest.fixture(name="simple")
def simple_config() -> Callable[..., EnvoyConfig]:
    """A gateway with one route to one address."""

    def simple(port: int | None = None, *, upstream: int = 9, name: str = "one") -> EnvoyConfig:
        rule = {"backendRefs": [{"group": "gateway.envoyproxy.io", "kind": "Backend", "name": "up"}]}
        up = backend("up", {"ip": {"address": HOST, "port": upstream}})
        view = GatewayView(name=name, host=HOST, port=port or free_port(), routes=(route("all", rule),), backends=(up,))
        return render([view])

    return simple
