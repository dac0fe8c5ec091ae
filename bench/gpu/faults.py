"""What happens to requests while engines leave and return: through a real Envoy and our picker, to real engines.

    VLLM_PYTHON=… python -m gpu.faults FOLDER [PART…]     # where `gpu.engines FOLDER` runs; parts: all of them

drain      a pod is deleted: from then on it gets no requests, and finishes those that it has
kill       an engine is killed and started again
adapters   a LoRA adapter is loaded on two of four engines and unloaded, one after the other
metrics    what the picker reads of vLLM is on the pages of the engines

Each part prints one JSON object, and appends it to FOLDER/faults.jsonl.
"""

import asyncio
import json
import os
import sys
import tempfile
import time
import traceback
import urllib.request
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Final

import aiohttp

from gpu.engines import Engine, addresses, await_ready, cache_options, kill, launch, whole_engine
from gpu.small_model import BLOCK_BYTES, make_adapter, make_small_model
from gpu.steady import OK, Outcome, SteadyLoad, chain, send, words
from gpu.workloads import WORKLOADS, bodies
from modelplane.conformance.epp.controls import KitEndpoint, PodState
from modelplane.epp.datalayer.scrape.engines import BUILT_IN, DEFAULT_ENGINE

_RATE: Final = 8.0
_COUNT: Final = 4
_BEFORE_S: Final = 5.0
_AFTER_S: Final = 12.0
_BACK_S: Final = 8.0
_ADAPTER: Final = "style"
_REQUESTS: Final = 12
_POLL_S: Final = 2.5
"""More than the picker's interval for lists of models, as configured here."""
_DEFAULT: Final = "apiVersion: llm-d.ai/v1alpha1\nkind: EndpointPickerConfig\n"
_BY_MODEL: Final = """\
apiVersion: llm-d.ai/v1alpha1
kind: EndpointPickerConfig
plugins:
- {type: models-data-source, parameters: {interval: 1s}}
- type: model-filter
- type: failing-endpoint-filter
- type: active-request-scorer
- type: lora-affinity-scorer
- type: max-score-picker
schedulingProfiles:
- name: default
  plugins:
  - {pluginRef: model-filter}
  - {pluginRef: failing-endpoint-filter}
  - {pluginRef: active-request-scorer, weight: 2}
  - {pluginRef: lora-affinity-scorer, weight: 1}
  - {pluginRef: max-score-picker}
"""
Figures = dict[str, object]
_STARTING: Final[dict[Path, asyncio.Task[list[Engine]]]] = {}


def _prompts() -> Iterator[bytes]:
    return bodies(WORKLOADS["short"], 5)


async def drain(_folder: Path, scratch: Path) -> Figures:
    at = addresses(_COUNT)
    gone = at[1]
    async with chain(scratch, tuple(map(KitEndpoint, at)), _DEFAULT) as path:
        async with SteadyLoad(path.url, _prompts(), _RATE) as load:
            await asyncio.sleep(_BEFORE_S)
            left_s = time.monotonic()
            path.pool.replace(
                [KitEndpoint(each, PodState.TERMINATING if each == gone else PodState.READY) for each in at]
            )
            await asyncio.sleep(_AFTER_S)
        last_sent = [each.sent_s for each in load.outcomes if each.served_by == gone and each.sent_s > left_s]
        last_ended = [each.ended_s for each in load.outcomes if each.served_by == gone]
    return {
        **_summary(load.outcomes),
        "unfinished when it left": sum(
            each.served_by == gone and each.sent_s < left_s < each.ended_s for each in load.outcomes
        ),
        "sent there afterwards": len(last_sent),
        "last sent there, s": _after(max(last_sent, default=left_s), left_s),
        "last finished there, s": _after(max(last_ended, default=left_s), left_s),
    }


async def killed(folder: Path, scratch: Path) -> Figures:
    at = addresses(_COUNT)
    engine = whole_engine(folder / "model", 1)
    async with (
        chain(scratch, tuple(map(KitEndpoint, at)), _DEFAULT) as path,
        SteadyLoad(path.url, _prompts(), _RATE) as load,
    ):
        await asyncio.sleep(_BEFORE_S)
        kill(folder, engine.name)
        killed_s = time.monotonic()
        process = launch(folder, engine)
        await asyncio.to_thread(await_ready, engine, process)
        ready_s = time.monotonic()
        await asyncio.sleep(_BACK_S)
    lost = [each for each in load.outcomes if each.status != OK]
    later = [each.sent_s for each in lost if each.sent_s > killed_s]
    served = [each.sent_s for each in load.outcomes if each.served_by == engine.address and each.sent_s > ready_s]
    return {
        **_summary(load.outcomes),
        "lost that were there": len(lost) - len(later),
        "lost that were sent later": len(later),
        "last lost one sent, s": _after(max(later, default=killed_s), killed_s),
        "it answers /health, s": _after(ready_s, killed_s),
        "first request there, s": _after(min(served), killed_s) if served else None,
        "requests there afterwards": len(served),
    }


async def adapters(folder: Path, scratch: Path) -> Figures:
    """The same prompts for the adapter and for its base model, while two, one and none of the engines have it."""
    engines = await _adapter_engines(folder)
    adapter = await asyncio.to_thread(make_adapter, folder, os.environ["VLLM_PYTHON"])
    members = tuple(KitEndpoint(each.address) for each in engines)
    limit = aiohttp.ClientTimeout(total=60)
    found: Figures = {}
    async with chain(scratch, members, _BY_MODEL) as path, aiohttp.ClientSession(timeout=limit) as session:
        for engine in engines[:2]:
            body = {"lora_name": _ADAPTER, "lora_path": str(adapter)}
            found[f"load on {engine.name}"] = await _post(session, engine, "load_lora_adapter", body)
        await asyncio.sleep(_POLL_S)
        base = await _several(session, path.url, "demo")
        found["base model"] = _summary(base) | _servers(base)
        answered = await _several(session, path.url, _ADAPTER)
        differ = sum(words(one) != words(two) for one, two in zip(answered, base, strict=True))
        found["on two"] = _summary(answered) | _servers(answered) | {"answers unlike the base model's": differ}
        for engine, left in zip(engines[:2], ("on one", "on none"), strict=True):
            body = {"lora_name": _ADAPTER}
            found[f"unload on {engine.name}"] = await _post(session, engine, "unload_lora_adapter", body)
            await asyncio.sleep(_POLL_S)
            answered = await _several(session, path.url, _ADAPTER)
            found[left] = _summary(answered) | _servers(answered)
    return found


def _servers(outcomes: list[Outcome]) -> Figures:
    return {"served by": dict(Counter(each.served_by for each in outcomes))}


def _adapter_engines(folder: Path) -> asyncio.Task[list[Engine]]:
    """Started once, and early: they take longer than what is measured before them."""
    if folder not in _STARTING:
        _STARTING[folder] = asyncio.create_task(asyncio.to_thread(_start_adapter_engines, folder))
    return _STARTING[folder]


def _start_adapter_engines(folder: Path) -> list[Engine]:
    model = make_small_model(folder, os.environ["VLLM_PYTHON"])
    options = (
        *("--enforce-eager", *cache_options(2_048, BLOCK_BYTES, 0.04)),
        *("--max-model-len", "2048", "--max-num-seqs", "16", "--enable-lora", "--max-loras", "2"),
        *("--max-lora-rank", "8"),
    )
    engines = [
        Engine(
            name=f"lora-{at}",
            host=f"127.0.1.{at + 1}",
            model=model,
            options=options,
            environment={"VLLM_ALLOW_RUNTIME_LORA_UPDATING": "True"},
        )
        for at in range(_COUNT)
    ]
    started = [(engine, launch(folder, engine)) for engine in engines]
    for engine, process in started:
        await_ready(engine, process)
    return engines


async def metrics(folder: Path, _scratch: Path) -> Figures:
    """`lora_requests_info` is on the page of engines that serve adapters."""
    reads = next(each for each in BUILT_IN if each.name == DEFAULT_ENGINE)
    found: Figures = {}
    for name, address in (("vllm-0", addresses(1)[0]), ("lora-0", f"127.0.1.1:{addresses(1)[0].rpartition(':')[2]}")):
        try:
            page = await asyncio.to_thread(_page, address)
        except OSError as error:
            found[name] = repr(error)
            continue
        (folder / f"metrics-{name}.txt").write_text(page)
        names = {line.split("{")[0].split(" ")[0] for line in page.splitlines() if not line.startswith("#")}
        found[name] = {each.name: each.name in names for each in reads.metrics}
    return found


def _page(address: str) -> str:
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=10) as answer:
        return str(answer.read().decode())


async def _several(session: aiohttp.ClientSession, url: str, model: str) -> list[Outcome]:
    """All at once; in the order of the prompts."""
    named = [
        json.dumps({**json.loads(body), "model": model, "max_tokens": 24}) for body in islice(_prompts(), _REQUESTS)
    ]
    return await asyncio.gather(*(send(session, url, body.encode()) for body in named))


async def _post(session: aiohttp.ClientSession, engine: Engine, path: str, body: dict[str, str]) -> str:
    async with session.post(f"http://{engine.address}/v1/{path}", json=body) as answer:
        return f"{answer.status} {(await answer.text())[:200]}"


def _summary(outcomes: list[Outcome]) -> Figures:
    lost = [each for each in outcomes if each.status != OK]
    return {"requests": len(outcomes), "lost": len(lost), "how": dict(Counter(each.status for each in lost))}


def _after(later_s: float, earlier_s: float) -> float:
    return round(later_s - earlier_s, 2)


PARTS: Final[dict[str, Callable[[Path, Path], Awaitable[Figures]]]] = {
    "drain": drain,
    "adapters": adapters,
    "metrics": metrics,
    "kill": killed,
}


async def _run(folder: Path, chosen: list[str]) -> None:
    parts = chosen or list(PARTS)
    if "adapters" in parts:
        _adapter_engines(folder)
    with (folder / "faults.jsonl").open("a") as out:
        for name in parts:
            began = time.monotonic()
            with tempfile.TemporaryDirectory() as scratch:
                try:
                    figures = await PARTS[name](folder, Path(scratch))
                except Exception as error:  # noqa: BLE001  the other parts are still worth their time
                    traceback.print_exc()
                    figures = {"failed": repr(error)}
            line = json.dumps({"part": name, "seconds": _after(time.monotonic(), began), **figures})
            print(line, flush=True)
            print(line, file=out, flush=True)


if __name__ == "__main__":
    asyncio.run(_run(Path(sys.argv[1]), sys.argv[2:]))
