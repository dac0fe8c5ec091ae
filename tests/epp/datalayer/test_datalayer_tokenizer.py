"""Prompts in tokens: the requests, and decisions without a response."""

import asyncio
import contextlib
import json

import pytest
from aiohttp import web

from modelplane.epp.datalayer.endpoints import StaticEndpoints
from modelplane.epp.datalayer.tokenizer import Tokenizer, TokenizerSettings
from modelplane.epp.scheduling.endpoints import Endpoint
from modelplane.epp.scheduling.requests import InferenceApi
from modelplane.sim.engine import EngineConfig, SimulatedEngine

CHAT = json.dumps({"model": "m", "messages": [{"role": "user", "content": "hi"}], "temperature": 1}).encode()


@contextlib.asynccontextmanager
async def asked(tokenizer):
    await tokenizer.start()
    try:
        yield tokenizer
    finally:
        await tokenizer.stop()


async def tokens_of(tokenizer, api, body):
    heard = asyncio.get_running_loop().create_future()
    return await heard if tokenizer.tokenize(api, body, heard.set_result) else None


@contextlib.asynccontextmanager
async def server(answer):
    """A tokenizer that records its requests."""
    questions = []

    async def handle(request):
        questions.append((request.path, await request.json()))
        return await answer()

    application = web.Application()
    application.router.add_post("/{path:.*}", handle)
    runner = web.AppRunner(application, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}/", questions
    finally:
        await runner.cleanup()


async def counted():
    return web.json_response({"tokens": [1, 2, 3], "count": 3})


@pytest.mark.parametrize(
    ("api", "body", "questions", "expected"),
    [
        (InferenceApi.CHAT, CHAT, [{"model": "m", "messages": [{"role": "user", "content": "hi"}]}], ((1, 2, 3),)),
        (InferenceApi.COMPLETIONS, b'{"model":"m","prompt":"a"}', [{"model": "m", "prompt": "a"}], ((1, 2, 3),)),
        (InferenceApi.COMPLETIONS, b'{"prompt":["a","b"]}', [{"prompt": "a"}, {"prompt": "b"}], ((1, 2, 3), (1, 2, 3))),
        (InferenceApi.COMPLETIONS, b'{"prompt":[7,8]}', [], ((7, 8),)),
        (InferenceApi.COMPLETIONS, b'{"prompt":[[7],[8]]}', [], ((7,), (8,))),
        (InferenceApi.COMPLETIONS, b'{"prompt":""}', [], None),
        (InferenceApi.COMPLETIONS, b'{"prompt":{}}', [], None),
        (InferenceApi.COMPLETIONS, b"junk", [], None),
        (InferenceApi.MESSAGES, CHAT, [], None),
    ],
)
def test_requests_and_tokens(run, api, body, questions, expected):
    async def scenario():
        async with server(counted) as (url, noted), asked(Tokenizer(TokenizerSettings(url=url))) as tokenizer:
            return await tokens_of(tokenizer, api, body), noted

    found, noted = run(scenario())
    assert found == expected
    assert sorted(noted, key=str) == [("/tokenize", question) for question in questions]


async def _refuses():
    return web.Response(status=500)


async def _babbles():
    return web.Response(text="junk")


async def _nests():
    return web.Response(text='{"other":' + "[" * 100_000)


async def _overflows():
    return web.Response(text="x", headers={"Content-Length": str(1 << 40)})


async def _hangs():
    await asyncio.sleep(60)
    return web.Response()


@pytest.mark.parametrize("answer", [_refuses, _babbles, _nests, _overflows, _hangs])
def test_after_a_failure_requests_continue_and_skip_the_tokenizer(run, answer):
    async def scenario():
        async with server(answer) as (url, noted):
            settings = TokenizerSettings(url=url, timeout_s=0.2, pause_s=600.0)
            async with asked(Tokenizer(settings)) as tokenizer:
                found = [await tokens_of(tokenizer, InferenceApi.CHAT, CHAT) for _ in range(3)]
                return found, len(noted), tokenizer.failures

    assert run(scenario()) == ([(), None, None], 1, 1)


def test_without_a_url_the_pool_tokenizes(run):
    async def scenario():
        engine = SimulatedEngine(EngineConfig(cluster="c", namespace="ns", pod="m-0", models=("m",), speed=1000))
        address = await engine.start("127.0.0.1")
        pool = StaticEndpoints([])
        tokenizer = Tokenizer()
        tokenizer.follow(pool)
        async with asked(tokenizer):
            nobody = await tokens_of(tokenizer, InferenceApi.CHAT, CHAT)
            pool.replace([Endpoint("ns/m-0", f"127.0.0.1:{address.port}")])
            found = await tokens_of(tokenizer, InferenceApi.CHAT, CHAT)
        await engine.stop()
        return nobody, found

    nobody, found = run(scenario())
    assert nobody is None
    assert len(found) == 1
    assert all(isinstance(token, int) for token in found[0])


def test_a_question_can_be_taken_back_and_none_outlives_the_tokenizer(run):
    async def scenario():
        heard = []
        async with (
            server(_hangs) as (url, _),
            asked(Tokenizer(TokenizerSettings(url=url, timeout_s=30.0))) as tokenizer,
        ):
            tokenizer.tokenize(InferenceApi.CHAT, CHAT, heard.append)()
            assert tokenizer.tokenize(InferenceApi.CHAT, CHAT, heard.append) is not None
            await asyncio.sleep(0)
        return heard, tokenizer.tokenize(InferenceApi.CHAT, CHAT, heard.append)

    assert run(scenario()) == ([], None)
