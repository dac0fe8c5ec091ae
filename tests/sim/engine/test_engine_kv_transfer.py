"""Prefill on one engine and decode on another, by the fields and over real HTTP as the sidecar would do it."""

import asyncio

import aiohttp
import pytest

from modelplane.sim.engine import EngineRegistry, KvTransfer, SimulatedEngine
from modelplane.sim.engine.kv_transfer import KvTransferParams, remote_cache
from tests.support.waiting import until

TRANSFER = KvTransfer(gb_per_s=1.0, latency_ms=100)
THERE = {
    "do_remote_prefill": True,
    "remote_engine_id": "p",
    "remote_request_id": "r",
    "remote_block_ids": [1, 2],
    "remote_num_tokens": 30,
}


class Shelf:
    def __init__(self, *kept):
        self.kept = set(kept)

    def keeps(self, request):
        return request in self.kept

    def release(self, request):
        self.kept.discard(request)


def cache(config, exchange=None, **changes):
    params = KvTransferParams(**{**THERE, **changes})
    return remote_cache(params, prompt_tokens=40, config=config, exchange=exchange or EngineRegistry())


def test_what_a_copy_takes(config):
    found = cache(config(kv_transfer=TRANSFER, kv_bytes_per_token=1_000_000, speed=2))
    assert (found.tokens, found.latency_s, found.seconds_per_token) == (30, 0.05, 0.0005)


@pytest.mark.parametrize(
    ("changes", "tokens"),
    [
        ({"remote_num_tokens": None}, 32),
        ({"remote_num_tokens": None, "remote_block_ids": [["a", "b", "c"]]}, 40),
        ({"remote_num_tokens": 1_000}, 40),
    ],
)
def test_how_many_tokens_there_are(config, changes, tokens):
    assert cache(config(kv_transfer=TRANSFER), **changes).tokens == tokens


@pytest.mark.parametrize(
    "changes", [{"do_remote_prefill": False}, {"remote_block_ids": None}, {"remote_block_ids": []}]
)
def test_nothing_to_fetch(config, changes):
    assert cache(config(kv_transfer=TRANSFER), **changes) is None


def test_an_engine_without_a_connector_ignores_the_fields(config):
    assert cache(config()) is None


def test_engines_find_each_other_and_others_are_believed(config):
    exchange, shelf = EngineRegistry(), Shelf("r")
    exchange.join("p", shelf)
    found = cache(config(kv_transfer=TRANSFER), exchange)
    assert found.is_there()
    found.fetched()
    assert (found.is_there(), shelf.kept) == (False, set())
    exchange.leave("p")
    believed = cache(config(kv_transfer=TRANSFER), exchange)
    believed.fetched()
    assert believed.is_there()


CHAT = {"model": "demo", "messages": [{"role": "user", "content": "a question that is long enough " * 20}]}
PREFILL = {**CHAT, "max_tokens": 1, "stream": False, "kv_transfer_params": {"do_remote_decode": True}}


async def ask(session, address, body):
    async with session.post(f"http://{address}/v1/chat/completions", json=body) as answer:
        return answer.status, await answer.json()


def disaggregated(config, scenario, **changes):
    async def main():
        exchange = EngineRegistry()
        engines = [
            SimulatedEngine(config(pod=pod, kv_transfer=KvTransfer(**changes)), exchange=exchange) for pod in ("p", "d")
        ]
        addresses = [await engine.start("127.0.0.1") for engine in engines]
        try:
            async with aiohttp.ClientSession() as session:
                await scenario(session, *addresses, engines)
        finally:
            await asyncio.gather(*(engine.stop(grace_s=0) for engine in engines))

    asyncio.run(main())


def usage_of(engine):
    return engine._service.core.gauges().kv_usage


def test_both_legs_over_http(config):
    async def scenario(session, prefill, decode, engines):
        status, first = await ask(session, prefill, PREFILL)
        params = first["kv_transfer_params"]
        assert (status, params["do_remote_prefill"], params["do_remote_decode"]) == (200, True, False)
        assert (params["remote_engine_id"], params["remote_port"]) == ("east/team-a/p", prefill.port)
        assert usage_of(engines[0]) > 0
        status, second = await ask(session, decode, {**CHAT, "kv_transfer_params": params})
        assert status == 200
        assert usage_of(engines[0]) == usage_of(engines[1]) == 0
        assert second["usage"]["prompt_tokens"] == first["usage"]["prompt_tokens"]
        assert engines[1]._service.core.stats.remote_hits == second["usage"]["prompt_tokens"]
        # The same decode leg again: the prefill engine keeps nothing any more.
        status, third = await ask(session, decode, {**CHAT, "kv_transfer_params": params, "cache_salt": "x"})
        assert (status, third["error"]["code"]) == (500, "kv_load_failed")

    disaggregated(config, scenario, lease_s=1e6)


def test_a_lost_cache_is_recomputed_if_configured(config):
    async def scenario(session, prefill, decode, engines):
        _, first = await ask(session, prefill, PREFILL)
        engines[0]._service.core.release(first["kv_transfer_params"]["remote_request_id"])
        status, _ = await ask(session, decode, {**CHAT, "kv_transfer_params": first["kv_transfer_params"]})
        assert (status, engines[1]._service.core.stats.remote_hits) == (200, 0)

    disaggregated(config, scenario, recompute=True, lease_s=1e6)


def test_a_lease_runs_out(config):
    async def scenario(session, prefill, _decode, engines):
        await ask(session, prefill, PREFILL)
        await until(lambda: usage_of(engines[0]) == 0)

    disaggregated(config, scenario, lease_s=30)
