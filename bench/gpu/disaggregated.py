"""Prefill and decode apart on real engines: NIXL moves KV caches, our sidecar and our picker bring requests to both.

    VLLM_PYTHON=… python -m gpu.disaggregated FOLDER     # starts its own two engines; prints JSON lines

The same prompts go through the whole path and to the decode engine alone, at temperature 0. The model is small and its
weights matter (`gpu.small_model`), so that a cache that came over wrong would change the words.
"""

import asyncio
import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import traceback
import urllib.request
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from itertools import islice, takewhile
from pathlib import Path
from typing import Final

import aiohttp

from gpu.engines import Engine, await_ready, cache_options, launch
from gpu.small_model import BLOCK_BYTES, make_small_model
from gpu.steady import OK, Outcome, chain, send, words
from gpu.workloads import Workload, bodies
from modelplane.compose.picker import picker_config
from modelplane.conformance.epp.controls import KitEndpoint

_PREFILL: Final = "127.0.2.1"
_DECODE: Final = "127.0.2.2"
_BEHIND: Final = 8200
_PORT: Final = 8100
_REQUESTS: Final = 20
_TOGETHER: Final = 40
_TRANSFER: Final = json.dumps({"kv_connector": "NixlConnector", "kv_role": "kv_both"})
"""As our deployments render it."""
_WORKLOAD: Final = Workload(name="apart", says="", question_tokens=1_500, answer_tokens=(48, 48))
_SHOWN: Final = ("vllm:nixl", "vllm:external_prefix_cache", "vllm:prompt_tokens_total", "vllm:prompt_tokens_by_source")
Figures = dict[str, object]


def engines(model: Path) -> tuple[Engine, Engine]:
    """The one that computes prompts, and the one that answers."""
    options = (
        *("--enforce-eager", *cache_options(4_096, BLOCK_BYTES, 0.04)),
        *("--max-model-len", "8192", "--max-num-seqs", "32", "--kv-transfer-config", _TRANSFER),
    )

    def one(name: str, host: str, port: int, channel: int) -> Engine:
        sides = {"VLLM_NIXL_SIDE_CHANNEL_HOST": host, "VLLM_NIXL_SIDE_CHANNEL_PORT": str(channel)}
        return Engine(name=name, host=host, port=port, model=model, options=options, environment=sides)

    return one("prefill", _PREFILL, _PORT, 5800), one("decode", _DECODE, _BEHIND, 5900)


@contextlib.asynccontextmanager
async def _sidecar(log: Path) -> AsyncIterator[None]:
    words = [sys.executable, "-m", "modelplane", "picker", "sidecar", "--host", _DECODE, "--port", str(_PORT)]
    words += ["--decoder", f"{_DECODE}:{_BEHIND}", "--allow", f"{_PREFILL}:{_PORT}"]
    with log.open("wb") as out:
        process = await asyncio.create_subprocess_exec(*words, stdout=out, stderr=subprocess.STDOUT)
    try:
        async with asyncio.timeout(30):
            await _until_open(_DECODE, _PORT)
        yield
    finally:
        process.kill()
        await process.wait()


async def _until_open(host: str, port: int) -> None:
    while True:
        with contextlib.suppress(OSError):
            _, writer = await asyncio.open_connection(host, port)
            writer.close()
            return
        await asyncio.sleep(0.1)


async def measure(folder: Path) -> AsyncIterator[Figures]:
    model = make_small_model(folder, os.environ["VLLM_PYTHON"])
    both = engines(model)
    started = [(engine, launch(folder, engine)) for engine in both]
    for engine, process in started:
        yield {
            "engine": engine.name,
            "serves after, s": round(await asyncio.to_thread(await_ready, engine, process), 1),
        }
    members = (KitEndpoint(f"{_PREFILL}:{_PORT}", role="prefill"), KitEndpoint(f"{_DECODE}:{_PORT}", role="decode"))
    config = json.dumps(picker_config(disaggregated=True))
    limit = aiohttp.ClientTimeout(total=60)
    with tempfile.TemporaryDirectory() as scratch:
        async with (
            _sidecar(folder / "sidecar.log"),
            chain(Path(scratch), members, config) as path,
            aiohttp.ClientSession(timeout=limit) as session,
        ):
            alone = await _in_turn(session, f"http://{both[1].address}")
            yield {"what": "the decode engine alone", **_figures(alone)}
            _empty(both)
            before = {engine.name: _counters(engine) for engine in both}
            apart = await _in_turn(session, path.url)
            yield {"what": "apart", **_figures(apart), "same words": _same(alone, apart)}
            yield {"what": "counters of the engines", **{each.name: _since(before, each) for each in both}}
            together = await asyncio.gather(*(send(session, path.url, body) for body in _prompts(17, _TOGETHER)))
            yield {"what": f"{_TOGETHER} at once", **_figures(together)}


def _prompts(seed: int, count: int) -> Iterator[bytes]:
    return islice(bodies(_WORKLOAD, seed), count)


async def _in_turn(session: aiohttp.ClientSession, url: str) -> list[Outcome]:
    """One at a time, so that batches are the same and rounding with them."""
    return [await send(session, url, body) for body in _prompts(11, _REQUESTS)]


def _figures(outcomes: list[Outcome]) -> Figures:
    good = [each.ended_s - each.sent_s for each in outcomes if each.status == OK]
    return {
        "requests": len(outcomes),
        "statuses": dict(Counter(each.status for each in outcomes)),
        "whole answer p50, ms": round(statistics.median(good) * 1e3, 1) if good else None,
        "first failure": next((each.text[:300] for each in outcomes if each.status != OK), None),
    }


def _same(alone: list[Outcome], apart: list[Outcome]) -> Figures:
    """Answers that are the same, and letters (one is one token) until the first one that is not."""
    pairs = [(words(one), words(two)) for one, two in zip(alone, apart, strict=True)]
    agreed = [sum(1 for _ in takewhile(lambda two: two[0] == two[1], zip(*pair, strict=False))) for pair in pairs]
    return {
        "answers": sum(one == two for one, two in pairs),
        "of": len(pairs),
        "letters": sum(agreed),
        "of letters": sum(len(one) for one, _ in pairs),
        "different answers among those alone": len({one for one, _ in pairs}),
    }


def _counters(engine: Engine) -> dict[str, float]:
    with urllib.request.urlopen(f"http://{engine.address}/metrics", timeout=10) as answer:
        lines = answer.read().decode().splitlines()
    shown = [line for line in lines if line.startswith(_SHOWN) and "_bucket" not in line and "_created" not in line]
    return {line.rsplit(" ", 1)[0]: float(line.rsplit(" ", 1)[1]) for line in shown}


def _since(before: dict[str, dict[str, float]], engine: Engine) -> dict[str, float]:
    return {name: value - before[engine.name].get(name, 0.0) for name, value in _counters(engine).items()}


def _empty(both: tuple[Engine, Engine]) -> None:
    for engine in both:
        request = urllib.request.Request(f"http://{engine.address}/reset_prefix_cache", method="POST")
        urllib.request.urlopen(request, timeout=10).close()  # noqa: S310  of this machine


async def _run(folder: Path) -> None:
    began = time.monotonic()
    with (folder / "disaggregated.jsonl").open("a") as out:
        try:
            async for figures in measure(folder):
                line = json.dumps({"at, s": round(time.monotonic() - began, 1), **figures})
                print(line, flush=True)
                print(line, file=out, flush=True)
        except Exception as error:  # noqa: BLE001  what was measured stays
            traceback.print_exc()
            print(json.dumps({"failed": repr(error)}), file=out, flush=True)


if __name__ == "__main__":
    Path(sys.argv[1]).mkdir(parents=True, exist_ok=True)
    asyncio.run(_run(Path(sys.argv[1])))
