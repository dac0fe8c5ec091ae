"""What runs beside the server, and how it begins and ends with it."""

import asyncio

import aiohttp

from modelplane.engine import Engine, EngineConfig
from modelplane.extproc.endpoints import StaticEndpoints
from modelplane.extproc.program import Program, Wishes
from modelplane.extproc.server import PickerSettings
from modelplane.picker.config import load
from modelplane.picker.endpoints import Endpoint

SETTINGS = PickerSettings(host="127.0.0.1", port=0, health_port=-1, drain_s=1.0)


class Kept:
    """Rules that note when they are started and stopped."""

    def __init__(self):
        self.steps = []
        self.priorities = {}

    def rewrite(self, _model, _chance):
        return None

    async def start(self):
        self.steps.append("start")

    async def stop(self):
        self.steps.append("stop")


async def page(program, path):
    url = f"http://127.0.0.1:{program.metrics_port}{path}"
    async with aiohttp.ClientSession() as client, client.get(url) as answer:
        return answer.status, await answer.text()


def test_metrics_health_and_rules(run):
    async def scenario():
        rules = Kept()
        wishes = Wishes(metrics_port=0, scrapes=False, pool="p", rules=rules)
        program = Program(StaticEndpoints([Endpoint("ns/a", "10.0.0.1:80")]), load(""), SETTINGS, wishes)
        await program.start()
        found = [await page(program, path) for path in ("/metrics", "/healthz", "/readyz")]
        await program.stop()
        return found, rules.steps

    (metrics, health, ready), steps = run(scenario())
    assert (metrics[0], health[0], ready[0]) == (200, 200, 200)
    assert 'llm_d_epp_ready_endpoints{name="p"} 1' in metrics[1]
    assert steps == ["start", "stop"]


def test_no_metrics_port(run):
    async def scenario():
        program = Program(StaticEndpoints(), load(""), SETTINGS, Wishes(metrics_port=-1, scrapes=False))
        await program.start()
        port = program.metrics_port
        await program.stop()
        return port

    assert run(scenario()) == -1


def test_the_load_of_endpoints_is_read(run):
    async def scenario():
        engine = Engine(EngineConfig(cluster="c", namespace="ns", pod="m-0", models=("m",), speed=1000))
        address = await engine.start("127.0.0.1")
        endpoint = Endpoint("ns/m-0", f"127.0.0.1:{address.port}")
        program = Program(StaticEndpoints([endpoint]), load(""), SETTINGS, Wishes(metrics_port=-1))
        await program.start()
        for _ in range(3000):
            if endpoint.load.seen_s > 0:
                break
            await asyncio.sleep(0.01)
        program.server.reload(load(""))
        await program.stop()
        await engine.stop()
        return endpoint.load

    load_seen = run(scenario())
    assert load_seen.seen_s > 0
    assert load_seen.block_size > 0
