"""What an engine container serves, read from its command line as vLLM would; and real engines behind pods."""

import asyncio
import json
from urllib.request import Request, urlopen

import pytest

from modelplane.api.errors import InputError
from modelplane.api.objects import manifest, name_of
from modelplane.apiserver.store.database import Database
from modelplane.reconcile.clock import SystemClock
from modelplane.reconcile.store import ObjectRef
from modelplane.sim.cluster import ClusterSettings, LocalEngines, Running, SimulatedCluster
from modelplane.sim.cluster.engines import GPUS, engine_config, with_gpus
from modelplane.sim.cluster.serve_arguments import ServeArguments
from modelplane.sim.engine import LLAMA_8B_H200
from modelplane.testing.cluster import (
    TENANT_NAMESPACE,
    claim_template,
    deployment,
    gateway,
    gpu_pool,
    route,
    service,
)
from tests.support.waiting import until


def pod(*, command=None, args=None, image="vllm/vllm-openai:v1"):
    container = {"name": "engine", "image": image, "command": command, "args": args}
    return {"metadata": {"name": "p", "namespace": "team"}, "spec": {"containers": [{"name": "side"}, container]}}


@pytest.mark.parametrize(
    ("case", "given", "expected"),
    [
        ("positional of the image's own entry point", {"args": ["Qwen/Qwen3-8B"]}, ("Qwen/Qwen3-8B",)),
        ("after serve", {"command": ["vllm", "serve", "meta/llama"], "args": ["--port", "80"]}, ("meta/llama",)),
        ("serve in args", {"command": ["vllm"], "args": ["serve", "meta/llama"]}, ("meta/llama",)),
        ("--model", {"command": ["python", "-m", "api_server"], "args": ["--model", "meta/llama"]}, ("meta/llama",)),
        ("--model=", {"args": ["--model=meta/llama"]}, ("meta/llama",)),
        (
            "served names win, all of them",
            {"args": ["Qwen/Qwen3-8B", "--served-model-name", "qwen", "chat", "--max-num-seqs", "8"]},
            ("qwen", "chat"),
        ),
        ("served name with =", {"args": ["Qwen/Qwen3-8B", "--served-model-name=qwen"]}, ("qwen",)),
        ("underscores", {"args": ["Qwen/Qwen3-8B", "--served_model_name", "qwen"]}, ("qwen",)),
        (
            "a shell script",
            {"command": ["sh", "-c"], "args": ["exec vllm serve meta/llama --served-model-name 'my model' # why"]},
            ("my model",),
        ),
        (
            "a shell script in the command",
            {"command": ["sh", "-c", "vllm serve meta/llama --served-model-name 'my model'"]},
            ("my model",),
        ),
        ("an option is no model", {"args": ["--port", "80"]}, ("vllm-openai",)),
        ("words of another program are no model", {"command": ["python", "server.py"]}, ("vllm-openai",)),
        ("nothing but an image", {"image": "registry:5000/team/my-engine:v2@sha256:abc"}, ("my-engine",)),
        ("nothing", {"image": ""}, ("model",)),
    ],
)
def test_which_models_are_served(case, given, expected):
    assert ServeArguments.of(pod(**given)).models == expected, case


@pytest.mark.parametrize(
    ("text", "expected"), [("32768", 32768), ("32k", 32_000), ("32K", 32_768), ("1.5k", 1500), ("1M", 1_048_576)]
)
def test_lengths_are_read_as_vllm_reads_them(text, expected):
    assert ServeArguments.of(pod(args=["m", "--max-model-len", text])).limits() == {"max_model_len": expected}


def test_a_length_that_is_none_is_refused():
    with pytest.raises(InputError, match=r"--max-model-len: 'long' is not a number"):
        ServeArguments.of(pod(args=["m", "--max-model-len", "long"]))


def test_nothing_given_means_the_engines_own_limits():
    assert ServeArguments.of(pod(args=["m", "--max-num-seqs", "4"])).limits() == {"max_num_seqs": 4}
    assert ServeArguments.of(pod()).limits() == {}


def test_an_engine_answers_until_it_is_stopped():
    async def main():
        engines = LocalEngines(speed=1000)
        running = await engines.start(pod(args=["tiny"]), "east")
        up = await engines.healthy(running), len(engines)
        await engines.stop(running, grace_s=1)
        return up, await engines.healthy(running), len(engines)

    assert asyncio.run(main()) == ((True, 1), False, 0)


def test_what_is_not_an_engine_is_not_healthy():
    async def main():
        async def refuse(_reader, writer):
            writer.write(b"HTTP/1.1 503 Service Unavailable\r\n\r\n")
            writer.close()

        async with await asyncio.start_server(refuse, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            return await LocalEngines().healthy(Running("127.0.0.1", port))

    assert asyncio.run(main()) is False


def test_stopping_twice_is_stopping():
    asyncio.run(LocalEngines().stop(Running("127.0.0.1", 1), grace_s=0))


def test_a_bad_command_line_leaves_nothing_behind():
    async def main():
        engines = LocalEngines()
        with pytest.raises(InputError):
            await engines.start(pod(args=["m", "--max-num-seqs", "0"]), "east")
        return len(engines)

    assert asyncio.run(main()) == 0


def engine_of(gpus, *args):
    made = pod(args=args)
    made["metadata"]["annotations"] = {GPUS: gpus}
    return engine_config(made, "east", speed=1.0, timing=LLAMA_8B_H200)


def test_the_gpus_of_a_pod_decide_how_fast_its_engine_is():
    h200 = engine_of("NVIDIA H200", "meta/llama-8b")
    slow = engine_of("NVIDIA L4", "meta/llama-8b")
    large = engine_of(",".join(["NVIDIA H200"] * 8), "meta/llama-70b", "--tensor-parallel-size", "8")
    assert h200.timing.decode_ms(sequences=1, kv_tokens=0) == pytest.approx(5.6, rel=0.02)
    assert slow.timing.decode_ms(sequences=1, kv_tokens=0) > 10 * h200.timing.decode_ms(sequences=1, kv_tokens=0)
    assert slow.kv_capacity_tokens < h200.kv_capacity_tokens < large.kv_capacity_tokens
    assert (large.tensor_parallel, large.kv_bytes_per_token) == (8, pytest.approx(327_680, rel=0.05))
    assert engine_of("Abacus 3000", "meta/llama-70b").timing == LLAMA_8B_H200


def test_a_cache_is_never_too_small_for_its_context():
    assert engine_of("NVIDIA L4", "meta/llama-70b", "--max-model-len", "128k").kv_capacity_tokens == 256_000


class Shelf:
    def __init__(self, *items):
        self.items = items

    def get(self, ref):
        return next((item for item in self.items if item["metadata"]["name"] == ref.name), None)

    def list(self, _group, kind):
        return [item for item in self.items if item["kind"] == kind]


def test_a_pod_is_shown_to_its_engine_with_the_gpus_of_its_claims():
    results = [{"driver": "gpu.nvidia.com", "pool": "node-1", "device": f"gpu-{index}"} for index in (0, 1)]
    claim = {
        "kind": "ResourceClaim",
        "metadata": {"name": "p-gpus", "namespace": "team"},
        "status": {"allocation": {"devices": {"results": results}}},
    }
    devices = [
        {"name": "gpu-0", "attributes": {"productName": {"string": "NVIDIA H200"}}},
        {"name": "gpu-1", "attributes": {"gpu.nvidia.com/productName": {"string": "NVIDIA H200"}}},
        {"name": "gpu-2", "attributes": {"productName": {"string": "NVIDIA L4"}}},
    ]
    pieces = {
        "kind": "ResourceSlice",
        "metadata": {"name": "slice"},
        "spec": {"driver": "gpu.nvidia.com", "pool": {"name": "node-1"}, "devices": devices},
    }
    plain = pod(args=["m"])
    made = {"name": "gpus", "resourceClaimTemplateName": "gpus"}
    holder = {
        **plain,
        "spec": {**plain["spec"], "resourceClaims": [made]},
        "status": {"resourceClaimStatuses": [{"name": "gpus", "resourceClaimName": "p-gpus"}]},
    }
    shared = {**plain, "spec": {**plain["spec"], "resourceClaims": [{"name": "gpus", "resourceClaimName": "p-gpus"}]}}
    store = Shelf(claim, pieces)
    assert with_gpus(holder, store)["metadata"]["annotations"] == {GPUS: "NVIDIA H200,NVIDIA H200"}
    assert with_gpus(shared, store)["metadata"]["annotations"] == {GPUS: "NVIDIA H200,NVIDIA H200"}
    assert with_gpus(plain, store) is plain
    assert with_gpus(holder, Shelf(claim)) is holder
    named = {**holder, "metadata": {**holder["metadata"], "annotations": {GPUS: "NVIDIA L4"}}}
    assert with_gpus(named, store) is named


SETTINGS = ClusterSettings(pull_s=0, load_s=0.05, drain_s=0.05, gateway_address="127.0.0.1:1")


async def started(database, engines):
    cluster = SimulatedCluster("east", database.store("east"), SystemClock(), engines, SETTINGS)
    cluster.set_pools([gpu_pool("h200", 1)])
    await cluster.start()
    if cluster.api.get(ObjectRef("", "Namespace", "", TENANT_NAMESPACE)) is None:
        cluster.api.create(manifest("v1", "Namespace", TENANT_NAMESPACE))
    return cluster


def ask(address):
    body = {"model": "tiny", "messages": [{"role": "user", "content": "hello"}], "max_tokens": 4}
    request = Request(
        f"http://{address}/v1/chat/completions",
        data=json.dumps(body).encode(),
        headers={"content-type": "application/json"},
    )
    with urlopen(request, timeout=5) as answer:  # noqa: S310  our own engine, on loopback
        return answer.headers["x-served-by"], json.load(answer)["choices"][0]["message"]["role"]


def addresses(cluster):
    view = cluster.gateway_view()
    return [] if view is None else [f"{s['endpoints'][0]['addresses'][0]}:{s['ports'][0]['port']}" for s in view.slices]


def running(address):
    host, _, port = address.rpartition(":")
    return Running(host, int(port))


@pytest.mark.e2e
def test_real_engines_answer_over_http_and_stop_with_their_pods(tmp_path):
    async def main():
        with Database(tmp_path / "store.db", clock=SystemClock()) as database:
            engines = LocalEngines(speed=100)
            cluster = await started(database, engines)
            made = deployment(replicas=2)
            made["spec"]["template"]["spec"]["containers"][0]["args"] = ["tiny"]
            for item in (claim_template(), made, service(), gateway(), route()):
                cluster.api.create(item)
            await until(lambda: len(addresses(cluster)) == 2)
            pods = {f"east/{name_of(item)}" for item in cluster.api.list("", "Pod")}
            answers = [await asyncio.to_thread(ask, address) for address in addresses(cluster)]
            before = addresses(cluster)
            cluster.api.delete(ObjectRef("apps", "Deployment", TENANT_NAMESPACE, "model"))
            await until(lambda: not cluster.api.list("", "Pod") and not len(engines))
            left = cluster.api.list("", "Pod"), addresses(cluster), len(engines)
            refused = [not await engines.healthy(running(address)) for address in before]
            await cluster.stop()
            return pods, answers, left, refused

    pods, answers, left, refused = asyncio.run(main())
    assert {served_by for served_by, _ in answers} == pods
    assert [role for _, role in answers] == ["assistant", "assistant"]
    assert left == ((), [], 0)
    assert refused == [True, True]


@pytest.mark.e2e
def test_a_process_that_starts_again_starts_the_engines_again(tmp_path):
    async def once(create):
        with Database(tmp_path / "store.db", clock=SystemClock()) as database:
            engines = LocalEngines(speed=100)
            cluster = await started(database, engines)
            if create:
                cluster.api.create(claim_template())
                cluster.api.create(deployment(replicas=2))
                cluster.api.create(service())
                cluster.api.create(gateway())
            await until(lambda: len(addresses(cluster)) == 2)
            health = [
                await engines.healthy(Running("127.0.0.1", int(a.rpartition(":")[2]))) for a in addresses(cluster)
            ]
            pods = cluster.api.list("", "Pod")
            await cluster.stop()
            restarts = [item["status"]["containerStatuses"][0]["restartCount"] for item in pods]
            return [name_of(item) for item in pods], restarts, health, len(engines)

    first = asyncio.run(once(create=True))
    second = asyncio.run(once(create=False))
    assert first == (first[0], [0, 0], [True, True], 0)
    assert second == (first[0], [1, 1], [True, True], 0)
