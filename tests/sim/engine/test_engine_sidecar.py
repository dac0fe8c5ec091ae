"""A decode engine behind its routing sidecar: where prompts are computed, and that answers are the same."""

import asyncio
import json

import aiohttp
import pytest

from modelplane.sim.engine import EngineRegistry, KvTransfer, SimulatedEngine
from modelplane.sim.engine.sidecar import PREFILL_HEADER, PREFILLED_BY

BODY = {"model": "demo", "messages": [{"role": "user", "content": "one two three " * 60}], "max_tokens": 5}


def run(config, story, **prefill):
    async def main():
        exchange, asked = EngineRegistry(), []
        transfer = KvTransfer(latency_ms=0.01, lease_s=1e6)
        first = SimulatedEngine(config(pod="prefill-0", kv_transfer=transfer, **prefill), exchange=exchange)
        there = await first.start("127.0.0.1")

        def prefillers(named):
            asked.append(named)
            return None if named == "gone:1" else str(there)

        second = SimulatedEngine(config(pod="decode-0", kv_transfer=transfer), exchange=exchange, prefillers=prefillers)
        here = await second.start("127.0.0.1")
        try:
            async with aiohttp.ClientSession(f"http://{here}") as client:
                return await story(client, first, f"http://{there}"), asked
        finally:
            await second.stop(grace_s=0)
            await first.stop(grace_s=0)

    return asyncio.run(main())


async def ask(client, body=BODY, path="/v1/chat/completions", **headers):
    async with client.post(path, json=body, headers=headers) as answer:
        return answer.status, answer.headers.get(PREFILLED_BY, ""), await answer.text()


async def metric(client, name, base=""):
    async with client.get(f"{base}/metrics") as answer:
        lines = [line for line in (await answer.text()).splitlines() if line.startswith(f"vllm:{name}{{")]
        return sum(float(line.rpartition(" ")[2]) for line in lines)


def test_the_prompt_is_computed_by_the_prefill_engine_and_the_answer_here(config):
    async def story(client, _first, there):
        found = await ask(client, **{PREFILL_HEADER: "10.128.0.7:8000", "x-request-id": "mine"})
        async with aiohttp.ClientSession(there) as other:
            prompt = await metric(other, "prompt_tokens_total")
        return found, prompt, await metric(client, "external_prefix_cache_hits_total")

    ((status, by, text), prompt, fetched), asked = run(config, story)
    assert (status, by, asked) == (200, "east/prefill-0", ["10.128.0.7:8000"])
    answer = json.loads(text)
    assert answer["usage"]["completion_tokens"] == 5
    assert answer["usage"]["prompt_tokens"] == prompt == fetched > 100


@pytest.mark.parametrize("stream", [False, True])
def test_the_answer_is_the_one_that_a_single_engine_gives(config, stream):
    async def story(client, _first, there):
        mine = await ask(client, {**BODY, "stream": stream})
        async with aiohttp.ClientSession(there) as other:
            return mine, await ask(other, {**BODY, "stream": stream})

    (mine, alone), _ = run(config, story)
    assert (mine[0], mine[1], alone[1]) == (200, "east/prefill-0", "")
    assert spoken(mine[2]) == spoken(alone[2])


def spoken(text):
    lines = [line.removeprefix("data: ") for line in text.splitlines() if line and "[DONE]" not in line]
    choices = [choice for line in lines for choice in json.loads(line)["choices"]]
    return "".join(each.get("delta", each.get("message", {})).get("content") or "" for each in choices)


@pytest.mark.parametrize(
    ("body", "headers", "faults"),
    [
        (BODY, {PREFILL_HEADER: "gone:1"}, {}),
        ({**BODY, "kv_transfer_params": {"do_remote_decode": False}}, {}, {}),
        (BODY, {}, {"fault_header": True}),
    ],
)
def test_what_no_prefill_engine_takes_is_computed_here(config, body, headers, faults):
    async def story(client, first, _there):
        if faults:
            await first.stop(grace_s=0)
        return await ask(client, body, **headers)

    (status, by, text), _ = run(config, story)
    assert (status, by) == (200, "")
    assert json.loads(text)["usage"]["completion_tokens"] == 5


def test_what_cannot_be_read_is_refused_as_without_a_sidecar(config):
    async def story(client, _first, _there):
        async with client.post("/v1/completions", data=b"[1]") as answer:
            return answer.status

    assert run(config, story) == (400, [])
