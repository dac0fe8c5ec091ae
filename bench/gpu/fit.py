"""How far the simulated engine's times are from those of a real one, alone on its GPU.

    python -m gpu.fit FOLDER NAME=HOST:PORT…     # engines with the shape of an 8B Llama; prints JSON lines

Prompts of several lengths that share nothing, one at a time: the time to the first token. Batches of several sizes: the
median time between two tokens while all of them decode. Beside each what `LLAMA_8B_H200` says, which has no time of the
host in it; and what it says with so much overhead a step as makes the errors smallest, which is what an engine adds.
"""

import asyncio
import json
import random
import statistics
import string
import sys
import time
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Final

import aiohttp
import msgspec

from modelplane.sim.engine import LLAMA_8B_H200

_PROMPTS: Final = (500, 1_000, 2_000, 4_000, 7_000)
_BATCHES: Final = (1, 4, 8, 16, 32)
_REPEATS: Final = 5
_CONTEXT: Final = 300
_ANSWER: Final = 96
_FIRST: Final = 24
"""Tokens of each answer that are not counted: the others may still be reading their prompts."""


class Point(msgspec.Struct, frozen=True):
    what: str
    size: int
    measured_ms: float
    simulated_ms: float


async def measure(address: str) -> list[Point]:
    chance = random.Random(time.time_ns())  # noqa: S311  prompts that no cache has
    limit = aiohttp.ClientTimeout(total=60)
    async with aiohttp.ClientSession(timeout=limit, connector=aiohttp.TCPConnector(limit=0)) as session:
        await _stream(session, address, _text(chance, 1_000), 8)
        found = []
        for tokens in _PROMPTS:
            firsts = [(await _stream(session, address, _text(chance, tokens), 1))[0] for _ in range(_REPEATS)]
            found.append(_point("prompt", tokens, firsts, LLAMA_8B_H200.prefill_ms(tokens)))
        for batch in _BATCHES:
            prompts = [_text(chance, _CONTEXT) for _ in range(batch)]
            streams = await asyncio.gather(*(_stream(session, address, each, _ANSWER) for each in prompts))
            gaps = [later - earlier for times in streams for earlier, later in pairwise(times[_FIRST:])]
            held = batch * (_CONTEXT + (_FIRST + _ANSWER) // 2)
            found.append(_point("decode", batch, gaps, LLAMA_8B_H200.decode_ms(sequences=batch, kv_tokens=held)))
        return found


def _point(what: str, size: int, times_s: Sequence[float], simulated_ms: float) -> Point:
    return Point(what, size, round(statistics.median(times_s) * 1e3, 2), round(simulated_ms, 2))


async def _stream(session: aiohttp.ClientSession, address: str, prompt: str, tokens: int) -> list[float]:
    """Seconds until each event."""
    body = {
        "model": "demo",
        "prompt": prompt,
        "max_tokens": tokens,
        "ignore_eos": True,
        "temperature": 0,
        "stream": True,
    }
    began = time.perf_counter()
    async with session.post(f"http://{address}/v1/completions", json=body) as answer:
        answer.raise_for_status()
        return [time.perf_counter() - began async for line in answer.content if line.startswith(b"data: {")]


def _text(chance: random.Random, tokens: int) -> str:
    return "".join(chance.choices(string.ascii_lowercase, k=tokens))


def summary(points: list[Point]) -> dict[str, object]:
    """Errors of what is simulated against what was measured, as it is and with an overhead of its own."""
    added = statistics.median(each.measured_ms - each.simulated_ms for each in points if each.what == "decode")
    return {
        "worst error as it is": _worst(points, 0.0),
        "overhead that an engine adds, ms": round(added, 2),
        "worst error with it": _worst(points, added),
    }


def _worst(points: list[Point], added: float) -> dict[str, float]:
    found: dict[str, float] = {}
    for each in points:
        error = (each.simulated_ms + added) / each.measured_ms - 1
        found[each.what] = max(found.get(each.what, 0.0), error, key=abs)
    return {what: round(error, 3) for what, error in found.items()}


async def _run(folder: Path, engines: list[str]) -> None:
    with (folder / "fit.jsonl").open("a") as out:
        for named in engines:
            name, _, address = named.partition("=")
            try:
                points = await measure(address)
                rows = [msgspec.to_builtins(each) for each in points] + [summary(points)]
            except (aiohttp.ClientError, TimeoutError, statistics.StatisticsError) as error:
                rows = [{"failed": repr(error)}]
            for row in rows:
                line = json.dumps({"engine": name, **row})
                print(line, flush=True)
                print(line, file=out, flush=True)


if __name__ == "__main__":
    asyncio.run(_run(Path(sys.argv[1]), sys.argv[2:]))
