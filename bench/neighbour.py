"""What a call of the function takes while another call computes for seconds.

A real server without --live, in a process of its own, as it is shipped. The neighbour is a ModelDeployment of thousands
of replicas whose fleet comes with the call. Beside it ModelReplicas are called at a steady pace, each timed from the
message that is sent to the one that comes back. The baseline is the same pace without a neighbour.

    python bench/run.py neighbour
"""

import asyncio
import statistics
import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import grpc  # type: ignore[import-untyped]  # it has no types
from crossplane.function.proto.v1 import run_function_pb2 as fnv1
from function import _cluster, _deployment, _World

from modelplane.crossplane.caches import FunctionCaches
from modelplane.envoy import free_port

if TYPE_CHECKING:
    from modelplane.api.objects import Manifest

_METHOD: Final = "/apiextensions.fn.proto.v1.FunctionRunnerService/RunFunction"
_LIMIT_MS: Final = 100.0
_NEIGHBOUR_LEAST_S: Final = 10.0
_PACE_S: Final = 0.02
_QUIET_S: Final = 5.0
_START_S: Final = 30.0
_CLUSTERS, _REPLICAS = 1_500, 36_000


def rows() -> list[dict[str, object]]:
    return asyncio.run(_measure())


async def _measure() -> list[dict[str, object]]:
    world = _World(2)
    small = [world.request(item).SerializeToString() for item in world.composites("ModelReplica")]
    large = _neighbour()
    port = free_port("127.0.0.1")
    command = [sys.executable, "-m", "modelplane", "function", "--insecure", "--call-timeout", "300"]
    places = ["--address", f"127.0.0.1:{port}", "--admin-address", f"127.0.0.1:{free_port('127.0.0.1')}"]
    server = await asyncio.create_subprocess_exec(*command, *places, stderr=asyncio.subprocess.DEVNULL)
    try:
        async with grpc.aio.insecure_channel(
            f"127.0.0.1:{port}", options=[("grpc.max_send_message_length", -1)]
        ) as way:
            await asyncio.wait_for(way.channel_ready(), _START_S)
            call = way.unary_unary(_METHOD)
            await _paced(call, small, asyncio.create_task(asyncio.sleep(1.0)))
            quiet = await _paced(call, small, asyncio.create_task(asyncio.sleep(_QUIET_S)))
            started = time.perf_counter()
            beside = await _paced(call, small, asyncio.create_task(_ended(call, large)))
            took_s = time.perf_counter() - started
    finally:
        server.terminate()
        await server.wait()
    if took_s < _NEIGHBOUR_LEAST_S:
        raise SystemExit(f"bench set neighbour: the neighbour took {took_s:.1f} s, not {_NEIGHBOUR_LEAST_S:g}")
    p99 = _p99_ms(beside)
    unit = f"ms p99 of {len(beside)} calls beside one of {took_s:.1f} s"
    baseline = {"without": _p99_ms(quiet), "median": round(statistics.median(beside) * 1000, 1)}
    return [
        {
            "id": "neighbour.p99",
            "value": p99,
            "unit": unit,
            "limit": _LIMIT_MS,
            "ok": p99 <= _LIMIT_MS,
            "baseline": baseline,
        }
    ]


def _neighbour() -> bytes:
    """A deployment whose fleet comes with the call: clusters, and neither replicas nor caches yet."""
    caches, request = FunctionCaches(), fnv1.RunFunctionRequest()
    deployment = _deployment(0)
    spec = {**deployment["spec"], "replicas": _REPLICAS}  # type: ignore[dict-item]  # made above
    caches.structs.encode_into(request.observed.composite.resource, {**deployment, "spec": spec})
    found: dict[str, list[Manifest]] = {
        "clusters": [_cluster(f"cluster-{number:04d}") for number in range(_CLUSTERS)],
        "caches": [],
        "replicas": [],
    }
    for name, items in found.items():
        listed = request.required_resources[name]
        listed.SetInParent()
        for item in items:
            caches.structs.encode_into(listed.items.add().resource, item)
    return bytes(request.SerializeToString())


async def _ended(call: "grpc.aio.UnaryUnaryMultiCallable", message: bytes) -> None:
    await call(message)


async def _paced(
    call: "grpc.aio.UnaryUnaryMultiCallable", messages: Sequence[bytes], until: "asyncio.Task[None]"
) -> list[float]:
    """The seconds of each call, one started every 20 ms whatever the others take."""

    async def timed(message: bytes, due: float) -> float:
        await call(message)
        return time.perf_counter() - due

    tasks: list[asyncio.Task[float]] = []
    due = time.perf_counter()
    while not until.done():
        tasks.append(asyncio.create_task(timed(messages[len(tasks) % len(messages)], due)))
        due += _PACE_S
        await asyncio.sleep(max(0.0, due - time.perf_counter()))
    await until
    return await asyncio.gather(*tasks)


def _p99_ms(seconds: Sequence[float]) -> float:
    return round(statistics.quantiles(seconds, n=100)[98] * 1000, 1)
