"""Requests to a pool with a picker: a real Envoy calls our picker, and routes as it decides."""

import asyncio
from collections import Counter
from contextlib import asynccontextmanager

import pytest

from modelplane.envoy import GatewayView, free_port, render
from modelplane.epp.config.config import load
from modelplane.epp.datalayer.endpoints import StaticEndpoints
from modelplane.epp.scheduling.endpoints import Endpoint
from modelplane.epp.server.server import PickerServer, PickerSettings
from modelplane.sim.engine import Address

pytestmark = pytest.mark.e2e

HOST = "127.0.0.1"
CONFIG = "apiVersion: llm-d.ai/v1alpha1\nkind: EndpointPickerConfig\n"


@asynccontextmanager
async def picker(*chosen):
    """Picks these and no others."""
    pool = StaticEndpoints([Endpoint(f"team-a/pod-{at}", str(pod)) for at, pod in enumerate(chosen)])
    server = PickerServer(pool, load(CONFIG), PickerSettings(host=HOST, port=0, health_port=-1, drain_s=0.1))
    await server.start()
    try:
        yield Address(HOST, server.port)
    finally:
        await server.stop()


class PickedPool:
    """A gateway with one route to a pool of pods, and one to the same pods without a picker."""

    def __init__(self, build, pods, *, fails_open):
        self.port = free_port()
        self.url = f"http://{HOST}:{self.port}"
        self._build, self._pods = build, pods
        self._picker = {"name": "picker", "port": 9002, "failsOpen": fails_open}

    def config(self, *pickers):
        build = self._build
        pool = build.service("pool")
        pool["spec"]["picker"] = self._picker
        asked = build.service("picker", ports=({"name": "grpc", "port": 9002},))
        rules = [{"matches": [build.prefix("/v1")], "backendRefs": [{"name": "pool", "port": 80}]}]
        rules += [{"matches": [build.prefix("/health")], "backendRefs": [{"name": "plain", "port": 80}]}]
        slices = [build.endpoint_slice("pool", *self._pods), build.endpoint_slice("plain", *self._pods)]
        slices += [build.endpoint_slice("picker", *pickers, port_name="grpc")]
        view = GatewayView(
            name="edge",
            host=HOST,
            port=self.port,
            routes=(build.route("all", *rules),),
            services=(pool, asked, build.service("plain")),
            slices=tuple(piece for pieces in slices for piece in pieces),
        )
        return render([view])


async def served(world, url, times=12):
    answers = await asyncio.gather(*(world.chat(url, messages=long(number)) for number in range(times)))
    return Counter((answer.status, answer.served_by) for answer in answers)


def long(number):
    return [{"role": "user", "content": f"{number} " * 2000}]


@pytest.mark.parametrize("fails_open", [False, True])
def test_the_picker_selects_the_endpoint_for_each_request(play, build, fails_open):
    async def scenario(world):
        pods = [(await world.engine("east"))[1] for _ in range(3)]
        pool = PickedPool(build, pods, fails_open=fails_open)
        async with picker(pods[1]) as first, picker(pods[2]) as second:
            await world.envoy.start(pool.config(first))
            assert await served(world, pool.url) == {(200, "east/demo-1"): 12}
            assert (await world.get(f"{pool.url}/health")).status == 200
            await world.envoy.apply(pool.config(second))
            assert await served(world, pool.url) == {(200, "east/demo-2"): 12}

    play(scenario)


@pytest.mark.parametrize(("fails_open", "status"), [(True, 200), (False, 503)])
def test_without_its_picker_a_pool_follows_its_failure_mode(play, build, fails_open, status):
    async def scenario(world):
        pods = [(await world.engine("east"))[1] for _ in range(2)]
        pool = PickedPool(build, pods, fails_open=fails_open)
        gone = Address(HOST, free_port())
        await world.envoy.start(pool.config())
        assert {code for code, _ in await served(world, pool.url)} == {status}
        await world.envoy.apply(pool.config(gone))
        assert {code for code, _ in await served(world, pool.url)} == {status}

    play(scenario)


def test_a_picked_endpoint_that_refuses_is_retried_elsewhere(play, build):
    async def scenario(world):
        (engine, one), (_, two) = await world.engine("east"), await world.engine("east")
        pool = PickedPool(build, [one, two], fails_open=False)
        async with picker(one) as asked:
            await world.envoy.start(pool.config(asked))
            await engine.stop()
            assert await served(world, pool.url) == {(200, "east/demo-1"): 12}

    play(scenario)
