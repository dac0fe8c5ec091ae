import asyncio
import json
import shutil

import aiohttp
import pytest

CHAT = {"model": "demo", "messages": [{"role": "user", "content": "hello"}]}


async def call(address, method, path, **arguments):
    url = f"http://{address}{path}"
    async with aiohttp.ClientSession() as session, session.request(method, url, **arguments) as got:
        return got.status, got.headers, await got.read()


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/", 404, "unknown_url"),
        ("GET", "/v1/nothing", 404, "unknown_url"),
        ("GET", "/v1/chat/completions", 405, "method_not_supported"),
        ("DELETE", "/v1/models", 405, "method_not_supported"),
        ("POST", "/health", 405, "method_not_supported"),
        ("POST", "/v1/chat/completions", 400, "invalid_json"),
        ("POST", "/v1/completions", 400, "invalid_json"),
    ],
)
def test_what_is_not_served_is_refused_in_openais_shape(play, method, path, status, code):
    async def scenario(_engine, address):
        got, headers, body = await call(address, method, path)
        error = json.loads(body)["error"]
        assert (got, error["code"], error["type"]) == (status, code, "invalid_request_error")
        assert headers["x-served-by"] == "east/demo-0"
        assert ("Allow" in headers) == (status == 405)

    play(scenario)


@pytest.mark.parametrize("chunked", [False, True])
def test_a_body_over_the_limit_is_refused(play, chunked):
    async def chunks():
        for _ in range(3):
            yield b"x" * 100

    async def scenario(_engine, address):
        body = chunks() if chunked else b"x" * 201
        status, _, answer = await call(address, "POST", "/v1/chat/completions", data=body)
        assert (status, json.loads(answer)["error"]["code"]) == (413, "request_too_large")

    play(scenario, max_body_bytes=200)


def test_health_and_version(play):
    async def scenario(_engine, address):
        assert (await call(address, "GET", "/health"))[0] == 200
        _, _, body = await call(address, "GET", "/version")
        assert json.loads(body)["version"].startswith("modelplane-engine ")

    play(scenario)


def test_answers_carry_who_served_and_the_callers_request_id(play):
    async def scenario(_engine, address):
        path = "/v1/chat/completions"
        _, headers, body = await call(address, "POST", path, json=CHAT, headers={"x-request-id": "mine"})
        assert (headers["x-served-by"], headers["x-request-id"]) == ("east/demo-0", "mine")
        _, headers, again = await call(address, "POST", path, json=CHAT)
        assert json.loads(again)["id"] == f"chatcmpl-{headers['x-request-id']}"
        assert json.loads(again)["choices"] == json.loads(body)["choices"]

    play(scenario)


def metric(text, name):
    line = next(line for line in text.decode().splitlines() if line.startswith(f"vllm:{name}"))
    return float(line.rpartition(" ")[2])


def test_metrics_count_what_was_answered(play):
    async def scenario(_engine, address):
        _, _, body = await call(address, "POST", "/v1/chat/completions", json={**CHAT, "max_tokens": 4})
        await call(address, "POST", "/v1/chat/completions", json={**CHAT, "max_tokens": 4, "stream": True})
        _, headers, text = await call(address, "GET", "/metrics")
        assert headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
        assert metric(text, "prompt_tokens_total") == 2 * json.loads(body)["usage"]["prompt_tokens"]
        assert metric(text, "generation_tokens_total") == 8
        assert metric(text, 'request_success_total{engine="0",model_name="demo",finished_reason="length"') == 2
        assert metric(text, "num_requests_running") == 0

    play(scenario)


def test_a_client_that_leaves_frees_its_place(play):
    async def scenario(_engine, address):
        endless = {**CHAT, "stream": True, "ignore_eos": True}
        url = f"http://{address}/v1/chat/completions"
        async with aiohttp.ClientSession() as session, session.post(url, json=endless) as got:
            await got.content.readline()
            assert metric((await call(address, "GET", "/metrics"))[2], "num_requests_running") == 1
        for _ in range(100):
            text = (await call(address, "GET", "/metrics"))[2]
            if metric(text, "num_requests_running") == 0:
                break
            await asyncio.sleep(0.01)
        assert metric(text, "kv_cache_usage_perc") == 0
        assert metric(text, 'request_success_total{engine="0",model_name="demo",finished_reason="abort"') == 1

    play(scenario, speed=1)


def test_requests_over_the_batch_size_wait_their_turn(play):
    async def scenario(_engine, address):
        asks = [asyncio.create_task(call(address, "POST", "/v1/chat/completions", json=CHAT)) for _ in range(3)]
        await asyncio.sleep(0.1)
        text = (await call(address, "GET", "/metrics"))[2]
        assert (metric(text, "num_requests_running"), metric(text, "num_requests_waiting")) == (1, 2)
        assert [status for status, _, _ in await asyncio.gather(*asks)] == [200, 200, 200]

    play(scenario, speed=1, max_num_seqs=1)


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_curl_streams(play):
    async def scenario(_engine, address):
        body = json.dumps({**CHAT, "stream": True, "max_tokens": 2})
        curl = await asyncio.create_subprocess_exec(
            *("curl", "-sN", f"http://{address}/v1/chat/completions", "-H", "Expect: 100-continue", "-d", body),
            stdout=asyncio.subprocess.PIPE,
        )
        output, _ = await curl.communicate()
        lines = [line for line in output.decode().split("\n\n") if line]
        assert [line[:6] for line in lines] == ["data: "] * 5
        assert lines[-1] == "data: [DONE]"

    play(scenario)
