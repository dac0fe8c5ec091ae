"""Who routes best to real engines: TTFT and prefix hits by policy, workload and load, side by side on one GPU.

The capacity of a workload is what the engines complete in a closed loop behind the default profile. Each policy then
gets the same prompts and arrivals at shares of it, by a seed, with caches emptied before.

    python -m gpu.engines FOLDER
    python -m gpu.compare FOLDER --workload groups --share 0.9 --policy default --policy go [--seconds 25] [--seed 7]
                          [--config FILE]…      # our picker with this EndpointPickerConfig, named by the file
"""

import argparse
import asyncio
import contextlib
import itertools
import json
import statistics
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec
from load.client import Sample, closed_loop, open_loop, post
from load.front import Way, front
from load.pickers import CONFIG, COUNTING, Which, picker

from gpu.engines import addresses, event_sockets
from gpu.relays import EVENTS_PORT, REPLAY_PORT, relays
from gpu.workloads import WORKLOADS, Workload, bodies

_SEED: Final = 7
_CONNECTIONS: Final = 160
"""More than the engines take at once of anything but short prompts, of which a step has at most 64 each."""
_WARM_S: Final = 8.0
_CALIBRATION_S: Final = 10.0
_SETTLE_S: Final = 3.0
_SKIPPED: Final = 0.3
"""Of a run: caches fill."""


class Policy(msgspec.Struct, frozen=True):
    way: Way
    which: Which | None = None
    config: str = ""
    events: bool = False
    """Whether it subscribes to the engines' KV events."""


_PRECISE: Final = f"""\
apiVersion: llm-d.ai/v1alpha1
kind: EndpointPickerConfig
plugins:
- type: precise-prefix-cache-producer
  parameters:
    tokenProcessorConfig: {{blockSizeTokens: 16}}
    kvEventsConfig:
      topicFilter: kv-events
      podDiscoveryConfig: {{socketPort: {EVENTS_PORT}, replaySocketPort: {REPLAY_PORT}}}
- type: failing-endpoint-filter
- {{type: active-request-scorer, parameters: {{minScaleRequests: 16, maxScaleRequests: 48}}}}
- {{type: prefix-cache-scorer, parameters: {{prefixMatchInfoProducerName: precise-prefix-cache-producer}}}}
- {{type: no-hit-tokens-scorer, parameters: {{prefixMatchInfoProducerName: precise-prefix-cache-producer}}}}
- type: max-score-picker
schedulingProfiles:
- name: default
  plugins:
  - {{pluginRef: failing-endpoint-filter}}
  - {{pluginRef: active-request-scorer, weight: 5}}
  - {{pluginRef: prefix-cache-scorer, weight: 4}}
  - {{pluginRef: no-hit-tokens-scorer, weight: 2}}
  - {{pluginRef: max-score-picker}}
"""
"""The default's scorers; what is cached is what the engines say."""
_NOTHING: Final = "apiVersion: llm-d.ai/v1alpha1\nkind: EndpointPickerConfig\n"
POLICIES: Final = {
    "default": Policy(Way.REQUESTS, Which.OWN, _NOTHING),
    "round robin": Policy(Way.ROUND_ROBIN),
    "ecosystem": Policy(Way.REQUESTS, Which.OWN, CONFIG),
    "counting": Policy(Way.REQUESTS, Which.OWN, COUNTING),
    "precise": Policy(Way.REQUESTS, Which.OWN, _PRECISE, events=True),
    "go": Policy(Way.BOTH_WAYS, Which.GO, CONFIG),
}


class Run(msgspec.Struct, frozen=True, kw_only=True):
    share: float
    rate: float
    seconds: float
    seed: int


class Row(msgspec.Struct, frozen=True, kw_only=True):
    workload: str
    policy: str
    share: float
    seed: int
    rate: float
    requests: int
    ttft_p50_ms: float
    ttft_p90_ms: float
    ttft_mean_ms: float
    total_p90_ms: float
    prefix_hits: float


@contextlib.asynccontextmanager
async def _path(policy: Policy, at: tuple[str, ...]):  # type: ignore[no-untyped-def]  # noqa: ANN202  a port
    await _until_idle(at)
    _empty_caches(at)
    async with contextlib.AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        port = 0
        if policy.events:
            await stack.enter_async_context(relays(event_sockets(len(at))))
        if policy.which is not None:
            port, _ = await stack.enter_async_context(picker(policy.which, folder, at, policy.config))
        running = await stack.enter_async_context(front(folder, policy.way, at, port))
        await asyncio.sleep(_SETTLE_S)
        yield running.port


async def capacity(workload: Workload, at: tuple[str, ...], policy: Policy, connections: int) -> float:
    """Requests a second that the engines complete, once their caches are warm and all connections wait for them."""
    ends: list[float] = []

    def each() -> Iterator[bytes]:
        for body in bodies(workload, _SEED):
            ends.append(time.monotonic())
            yield post(body)

    async with _path(policy, at) as port:
        loop = asyncio.create_task(closed_loop(port, each(), connections=connections, seconds=1e6))
        await asyncio.wait([loop], timeout=_WARM_S + _CALIBRATION_S)
        if loop.done():
            loop.result()
        loop.cancel()
    # A connection sends again when it was answered, so from then on as many are sent as are completed.
    return sum(end > ends[0] + _WARM_S for end in ends) / _CALIBRATION_S


async def measure(workload: Workload, name: str, policy: Policy, at: tuple[str, ...], run: Run) -> Row:
    async with _path(policy, at) as port:
        before = _prefix_counters(at)
        asked = map(post, bodies(workload, run.seed))
        samples = await open_loop(port, asked, rate=run.rate, seconds=run.seconds, seed=run.seed, patience_s=120)
        after = _prefix_counters(at)
    return _row(workload, name, samples, run, _share(before, after))


def _row(workload: Workload, name: str, samples: list[Sample], run: Run, hits: float) -> Row:
    counted = [sample for sample in samples if sample.number >= len(samples) * _SKIPPED]
    firsts = [sample.first_s * 1e3 for sample in counted]
    tenths = statistics.quantiles(firsts, n=10)
    return Row(
        workload=workload.name,
        policy=name,
        share=run.share,
        seed=run.seed,
        rate=round(run.rate, 2),
        requests=len(counted),
        ttft_p50_ms=round(tenths[4], 1),
        ttft_p90_ms=round(tenths[8], 1),
        ttft_mean_ms=round(statistics.fmean(firsts), 1),
        total_p90_ms=round(statistics.quantiles([sample.total_s * 1e3 for sample in counted], n=10)[8], 1),
        prefix_hits=round(hits, 3),
    )


def _share(before: tuple[float, float], after: tuple[float, float]) -> float:
    return (after[0] - before[0]) / max(1.0, after[1] - before[1])


def _prefix_counters(at: tuple[str, ...]) -> tuple[float, float]:
    """Tokens found in the engines' prefix caches, and tokens looked for."""
    pages = [_get(f"http://{address}/metrics") for address in at]
    return _sum(pages, "vllm:prefix_cache_hits_total"), _sum(pages, "vllm:prefix_cache_queries_total")


def _sum(pages: list[str], name: str) -> float:
    lines = (line for page in pages for line in page.splitlines() if line.startswith(name))
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines)


def _get(url: str) -> str:
    with urllib.request.urlopen(url, timeout=10) as answer:  # noqa: S310  of this machine
        return str(answer.read().decode())


async def _until_idle(at: tuple[str, ...], patience_s: float = 20.0) -> None:
    """An engine does not empty a cache that requests use, also those that were just given up."""
    deadline = time.monotonic() + patience_s
    while time.monotonic() < deadline:
        pages = [_get(f"http://{address}/metrics") for address in at]
        if not _sum(pages, "vllm:num_requests_running") + _sum(pages, "vllm:num_requests_waiting{"):
            return
        await asyncio.sleep(0.2)


def _empty_caches(at: tuple[str, ...]) -> None:
    for address in at:
        request = urllib.request.Request(f"http://{address}/reset_prefix_cache", method="POST")
        urllib.request.urlopen(request, timeout=10).close()  # noqa: S310  of this machine


async def _run(chosen: argparse.Namespace) -> None:
    at = addresses(chosen.engines)
    known = chosen.folder / "capacity.json"
    capacities: dict[str, float] = json.loads(known.read_text()) if known.exists() else {}
    for name in chosen.workload:
        if name not in capacities:
            capacities[name] = await capacity(WORKLOADS[name], at, POLICIES["default"], chosen.connections)
            known.write_text(json.dumps(capacities))
            print(f"{name}: {capacities[name]:.1f} requests/s", flush=True)
    policies = {name: POLICIES[name] for name in chosen.policy or ()}
    policies |= {file.stem: Policy(Way.REQUESTS, Which.OWN, file.read_text()) for file in chosen.config or ()}
    with (chosen.folder / "rows.jsonl").open("a") as out:
        seeds = chosen.seed or [_SEED]
        for share, name, seed, policy in itertools.product(chosen.share, chosen.workload, seeds, policies):
            run = Run(share=share, rate=capacities[name] * share, seconds=chosen.seconds, seed=seed)
            try:
                row = await measure(WORKLOADS[name], policy, policies[policy], at, run)
            except Exception as error:  # noqa: BLE001  the other rows are still worth their time
                print(f"FAILED {name} {share} {policy} {seed}: {error!r}", flush=True)
                continue
            line = msgspec.json.encode(row).decode()
            print(line, flush=True)
            print(line, file=out, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--engines", type=int, default=4)
    parser.add_argument("--workload", action="append", choices=list(WORKLOADS), required=True)
    parser.add_argument("--policy", action="append", choices=list(POLICIES))
    parser.add_argument("--config", action="append", type=Path, help="a file: our picker with this configuration")
    parser.add_argument("--share", action="append", type=float, required=True)
    parser.add_argument("--seconds", type=float, default=25.0)
    parser.add_argument("--seed", action="append", type=int, help="of prompts and arrivals (default: 7)")
    parser.add_argument("--connections", type=int, default=_CONNECTIONS, help="of the closed loop (default: 160)")
    asyncio.run(_run(parser.parse_args()))


if __name__ == "__main__":
    main()
