"""Warm-up of an engine: what is sent, when the pod is ready, and what an engine that does not answer gets."""

import argparse
import asyncio
import json
from contextlib import asynccontextmanager

import aiohttp
import pytest
from aiohttp import web

from modelplane.api.errors import InputError
from modelplane.epp.sidecar.warm_up import (
    WarmUpError,
    WarmUpPlan,
    WarmUpRequest,
    WarmUpServer,
    add_arguments,
    parse_plan,
    plan_of,
    warm_up,
)
from tests.support.waiting import until


class Engine:
    """Answers as an engine does, and fails as often as it is told to."""

    def __init__(self):
        self.failures = 0
        self.received = []

    async def handle(self, request):
        if request.path == "/health":
            return web.Response()
        if request.path == "/v1/models":
            return web.json_response({"data": [{"id": "qwen3-8b"}]})
        if self.failures:
            self.failures -= 1
            return web.json_response({"error": "loading"}, status=503)
        self.received.append((request.path, await request.json()))
        return web.json_response({"object": "text_completion"})


@asynccontextmanager
async def serving(engine, port=0):
    server = web.ServerRunner(web.Server(engine.handle, access_log=None))
    await server.setup()
    site = web.TCPSite(server, "127.0.0.1", port)
    await site.start()
    try:
        yield f"127.0.0.1:{server.addresses[0][1]}"
    finally:
        await server.cleanup()


def test_prompts_grow_and_requests_are_sent_as_they_are():
    async def main():
        engine = Engine()
        engine.failures = 1
        plan = WarmUpPlan(2, (WarmUpRequest("/v1/embeddings", '{"input": "a"}'),), 30.0)
        async with serving(engine) as address:
            assert await warm_up(address, plan) == 3
        (embedded, first, second) = engine.received
        assert embedded == ("/v1/embeddings", {"input": "a"})
        assert (first[0], first[1]["model"]) == ("/v1/completions", "qwen3-8b")
        assert len(second[1]["prompt"]) > len(first[1]["prompt"])

    asyncio.run(main())


def test_an_engine_that_does_not_answer_in_time_is_an_error_with_its_words():
    async def main():
        engine = Engine()
        engine.failures = 1000
        async with serving(engine) as address:
            with pytest.raises(WarmUpError) as found:
                await warm_up(address, WarmUpPlan(1, timeout_s=2.0))
        last = 'the next failed: POST /v1/completions: 503 {"error": "loading"}'
        assert str(found.value) == f"0 warm-up requests were answered in 2 s; {last}"

    asyncio.run(main())


@pytest.mark.timeout(30)
def test_the_pod_is_ready_after_the_requests_and_again_after_a_restart():
    async def main():
        engine = Engine()
        async with serving(Engine()) as free:
            own = int(free.rpartition(":")[2])
        async with serving(engine) as address:
            port = int(address.rpartition(":")[2])
            server = WarmUpServer(address, WarmUpPlan(1))
            task = asyncio.create_task(server.run("127.0.0.1", own))
            await until(lambda: server.ready)
            assert await status(own) == 200
        await until(lambda: not server.ready)
        assert await status(own) == 503
        async with serving(engine, port):
            await until(lambda: server.ready)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        assert len(engine.received) == 2

    async def status(port):
        async with aiohttp.ClientSession() as session, session.get(f"http://127.0.0.1:{port}/ready") as answer:
            return answer.status

    asyncio.run(main())


def test_the_command_line_of_a_container_is_the_plan():
    body = json.dumps({"input": "a=b"})
    words = ["--engine-port=8001", "--port=9010", "--prompts=2", "--timeout=60", f"--request=/v1/embeddings={body}"]
    expected = WarmUpPlan(2, (WarmUpRequest("/v1/embeddings", body),), 60.0)
    assert parse_plan(words) == expected
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    assert plan_of(parser.parse_args(words)) == expected


def test_a_request_without_a_body_is_refused():
    with pytest.raises(InputError, match="'embeddings' is not PATH=BODY"):
        parse_plan(["--request=embeddings"])
