import asyncio
import json
import shutil

import aiohttp
import pytest

from modelplane.sim.engine import Faults
from tests.support.waiting import until

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

        async def idle():
            text = (await call(address, "GET", "/metrics"))[2]
            return metric(text, "num_requests_running") == 0 and text

        text = await until(idle)
        assert metric(text, "kv_cache_usage_perc") == 0
        assert metric(text, 'request_success_total{engine="0",model_name="demo",finished_reason="abort"') == 1

    play(scenario, speed=1)


def test_requests_over_the_batch_size_wait_their_turn(play):
    async def scenario(_engine, address):
        long = {**CHAT, "max_tokens": 64, "ignore_eos": True}
        asks = [asyncio.create_task(call(address, "POST", "/v1/chat/completions", json=long)) for _ in range(3)]
        seen = set()
        while not all(ask.done() for ask in asks):
            text = (await call(address, "GET", "/metrics"))[2]
            seen.add((metric(text, "num_requests_running"), metric(text, "num_requests_waiting")))
            await asyncio.sleep(0.02)
        assert (1, 2) in seen
        assert max(running for running, _ in seen) == 1
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


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_curl_sees_a_dropped_connection(play):
    async def scenario(_engine, address):
        body = json.dumps({**CHAT, "stream": True, "max_tokens": 50, "ignore_eos": True})
        curl = await asyncio.create_subprocess_exec(
            *("curl", "-sN", f"http://{address}/v1/chat/completions", "-H", "x-sim-fault: cut=3", "-d", body),
            stdout=asyncio.subprocess.PIPE,
        )
        output, _ = await curl.communicate()
        assert curl.returncode in {18, 56}
        assert output.count(b"data: ") <= 4

    play(scenario)


def test_paths_around_the_model(play):
    async def scenario(_engine, address):
        assert (await call(address, "POST", "/ping"))[0] == 200
        assert json.loads((await call(address, "GET", "/load"))[2]) == {"server_load": 0}
        status, _, body = await call(address, "POST", "/tokenize", json={"prompt": "hello there"})
        assert (status, json.loads(body)) == (200, {"count": 2, "max_model_len": 32768, "tokens": [52870, 10782]})
        assert (await call(address, "POST", "/reset_prefix_cache"))[0] == 200

    play(scenario)


def test_the_cache_is_reported_in_usage_and_metrics_and_can_be_reset(play):
    async def scenario(_engine, address):
        long = {**CHAT, "messages": [{"role": "user", "content": "hello " * 50}]}
        cached = []
        for _ in range(2):
            _, _, body = await call(address, "POST", "/v1/chat/completions", json=long)
            cached.append(json.loads(body)["usage"]["prompt_tokens_details"]["cached_tokens"])
        await call(address, "POST", "/reset_prefix_cache")
        _, _, body = await call(address, "POST", "/v1/chat/completions", json=long)
        cached.append(json.loads(body)["usage"]["prompt_tokens_details"]["cached_tokens"])
        assert cached == [0, 48, 0]
        text = (await call(address, "GET", "/metrics"))[2]
        assert metric(text, "prefix_cache_hits_total") == 48

    play(scenario)


def test_a_cache_in_use_is_not_reset(play):
    async def scenario(_engine, address):
        endless = {**CHAT, "stream": True, "ignore_eos": True}
        url = f"http://{address}/v1/chat/completions"
        async with aiohttp.ClientSession() as session, session.post(url, json=endless) as got:
            await got.content.readline()
            status, _, body = await call(address, "POST", "/reset_prefix_cache")
        assert (status, json.loads(body)["error"]["code"]) == (409, "cache_in_use")

    play(scenario, speed=1)


def test_adapters_are_loaded_used_listed_and_unloaded(play):
    async def scenario(_engine, address):
        adapter = {"lora_name": "tuned", "lora_path": "/adapters/tuned"}
        assert (await call(address, "POST", "/v1/chat/completions", json={**CHAT, "model": "tuned"}))[0] == 404
        status, _, body = await call(address, "POST", "/v1/load_lora_adapter", json=adapter)
        assert (status, body) == (200, b"Success: LoRA adapter 'tuned' added successfully.")
        assert (await call(address, "POST", "/v1/load_lora_adapter", json=adapter))[0] == 400
        _, _, body = await call(address, "GET", "/v1/models")
        assert [model["id"] for model in json.loads(body)["data"]] == ["demo", "demo-alias", "tuned"]
        _, _, body = await call(address, "POST", "/v1/chat/completions", json={**CHAT, "model": "tuned"})
        assert json.loads(body)["model"] == "tuned"
        assert b'vllm:lora_requests_info{max_lora="1"' in (await call(address, "GET", "/metrics"))[2]
        assert (await call(address, "POST", "/v1/unload_lora_adapter", json={"lora_name": "tuned"}))[0] == 200
        assert (await call(address, "POST", "/v1/unload_lora_adapter", json={"lora_name": "tuned"}))[0] == 404

    play(scenario, max_loras=1)


@pytest.mark.parametrize("changes", [{}, {"max_loras": 1, "runtime_lora": False}])
def test_an_engine_that_may_not_load_adapters_has_no_such_path(play, changes):
    async def scenario(_engine, address):
        adapter = {"lora_name": "tuned", "lora_path": "/adapters/tuned"}
        assert (await call(address, "POST", "/v1/load_lora_adapter", json=adapter))[0] == 404

    play(scenario, **changes)


def test_kv_events_are_streamed_from_any_number_on(play):
    async def scenario(engine, address):
        heard = []
        leave = engine.on_kv_events(heard.append)
        long = {**CHAT, "messages": [{"role": "user", "content": "hello " * 50}]}
        await call(address, "POST", "/v1/chat/completions", json=long)
        leave()
        async with aiohttp.ClientSession() as session, session.get(f"http://{address}/sim/kv-events") as stream:
            first = json.loads(await stream.content.readline())
            assert (first["seq"], first["events"][0]["type"]) == (0, "BlockStored")
            assert len(first["events"]) == len(heard[0].events)
            for _ in heard[1:]:
                await stream.content.readline()
            await call(address, "POST", "/reset_prefix_cache")
            last = json.loads(await stream.content.readline())
        assert (last["seq"], last["events"]) == (len(heard), [{"type": "AllBlocksCleared"}])
        assert (await call(address, "GET", "/sim/kv-events?from=x"))[0] == 400

    play(scenario, kv_events=True)


def test_an_engine_without_events_returns_404(play):
    async def scenario(_engine, address):
        status, _, body = await call(address, "GET", "/sim/kv-events")
        assert (status, json.loads(body)["error"]["code"]) == (404, "kv_events_off")

    play(scenario)


@pytest.mark.parametrize(
    ("fault", "status", "code"),
    [
        ("error=429", 429, "simulated_failure"),
        ("error=500", 500, "simulated_failure"),
        ("nonsense", 400, "invalid_value"),
    ],
)
def test_a_request_can_inject_a_fault(play, fault, status, code):
    async def scenario(_engine, address):
        got, _, body = await call(address, "POST", "/v1/completions", json=CHAT, headers={"x-sim-fault": fault})
        assert (got, json.loads(body)["error"]["code"]) == (status, code)

    play(scenario)


def test_the_header_can_be_switched_off(play):
    async def scenario(_engine, address):
        headers = {"x-sim-fault": "error=500"}
        assert (await call(address, "POST", "/v1/chat/completions", json=CHAT, headers=headers))[0] == 200

    play(scenario, fault_header=False)


def test_faults_change_while_the_engine_runs(play):
    async def scenario(_engine, address):
        status, _, body = await call(address, "POST", "/sim/faults", json={"error_rate": 1, "error_status": 500})
        assert (status, json.loads(body)["error_status"]) == (200, 500)
        assert (await call(address, "POST", "/v1/chat/completions", json=CHAT))[0] == 500
        await call(address, "POST", "/sim/faults", json={})
        assert json.loads((await call(address, "GET", "/sim/faults"))[2])["error_rate"] == 0
        assert (await call(address, "POST", "/v1/chat/completions", json=CHAT))[0] == 200

    play(scenario)


def test_a_stalled_engine_is_healthy_and_does_not_respond(play):
    async def scenario(_engine, address):
        await call(address, "POST", "/sim/faults", json={"stalled": True})
        asked = asyncio.create_task(call(address, "POST", "/v1/chat/completions", json=CHAT))
        await asyncio.sleep(0.1)
        assert not asked.done()
        assert (await call(address, "GET", "/health"))[0] == 200
        await call(address, "POST", "/sim/faults", json={})
        assert (await asked)[0] == 200

    play(scenario)


def test_faults_of_one_seed_hit_the_same_requests(play):
    def statuses():
        found = []

        async def scenario(_engine, address):
            answers = [await call(address, "POST", "/v1/chat/completions", json=CHAT) for _ in range(20)]
            found.extend(status for status, _, _ in answers)

        play(scenario, faults=Faults(error_rate=0.5), seed=3)
        return found

    first = statuses()
    assert first == statuses()
    assert {200, 503} == set(first)


def test_delays_and_drips_take_their_time(play):
    async def scenario(_engine, address):
        loop = asyncio.get_running_loop()
        for fault, stream, least in (("delay=0.1", False, 0.1), ("drip=0.02", True, 0.1), ("drip=0.02", False, 0.1)):
            before = loop.time()
            body = {**CHAT, "stream": stream, "max_tokens": 5, "ignore_eos": True}
            status, _, _ = await call(
                address, "POST", "/v1/chat/completions", json=body, headers={"x-sim-fault": fault}
            )
            assert (status, loop.time() - before >= least) == (200, True), fault

    play(scenario)


@pytest.mark.parametrize("stream", [True, False])
def test_a_cut_answer_is_not_complete(play, stream):
    async def scenario(_engine, address):
        body = {**CHAT, "stream": stream, "max_tokens": 5, "ignore_eos": True}
        with pytest.raises(aiohttp.ClientError):
            await call(address, "POST", "/v1/chat/completions", json=body, headers={"x-sim-fault": "cut=2"})
        assert metric((await call(address, "GET", "/metrics"))[2], "num_requests_running") == 0

    play(scenario)


def test_a_hanging_request_blocks_no_other(play):
    async def scenario(engine, address):
        hung = asyncio.create_task(
            call(address, "POST", "/v1/chat/completions", json=CHAT, headers={"x-sim-fault": "hang"})
        )
        await asyncio.sleep(0.05)
        assert (await call(address, "POST", "/v1/chat/completions", json=CHAT))[0] == 200
        await engine.stop(grace_s=0.05)
        with pytest.raises(aiohttp.ClientError):
            await hung

    play(scenario)


def test_embeddings_count_and_take_prompt_tokens(play):
    async def scenario(_engine, address):
        asked = {"model": "demo", "input": ["hello there", "hello"], "dimensions": 8}
        status, _, body = await call(address, "POST", "/v1/embeddings", json=asked)
        answer = json.loads(body)
        assert (status, answer["usage"]) == (200, {"prompt_tokens": 3, "total_tokens": 3})
        assert [len(item["embedding"]) for item in answer["data"]] == [8, 8]
        assert metric((await call(address, "GET", "/metrics"))[2], "prompt_tokens_total") == 3

    play(scenario)
