"""Who routes best to real engines: TTFT and prefix hits by policy, workload and load, side by side on one GPU.

The capacity of a workload is what the engines complete in a closed loop behind the default profile. Each policy then
gets the same prompts and arrivals at shares of it, with caches emptied before.

    python -m gpu.engines FOLDER
    python -m gpu.compare FOLDER --workload groups --share 0.9 --policy default --policy go [--seconds 25]
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
from pathlib import Path
from typing import Final

import msgspec
from load.client import Sample, closed_loop, open_loop, post
from load.front import Way, front
from load.pickers import CONFIG, COUNTING, Which, picker

from gpu.engines import addresses
from gpu.workloads import WORKLOADS, Workload, bodies

_SEED: Final = 7
_CONNECTIONS: Final = 48
_CALIBRATION_S: Final = 14.0
_SETTLE_S: Final = 5.0
_SKIPPED: Final = 0.3
"""Of a run: caches fill."""


class Policy(msgspec.Struct, frozen=True):
    way: Way
    which: Which | None = None
    config: str = ""


_NOTHING: Final = "apiVersion: llm-d.ai/v1alpha1\nkind: EndpointPickerConfig\n"
POLICIES: Final = {
    "default": Policy(Way.REQUESTS, Which.OWN, _NOTHING),
    "round robin": Policy(Way.ROUND_ROBIN),
    "ecosystem": Policy(Way.REQUESTS, Which.OWN, CONFIG),
    "counting": Policy(Way.REQUESTS, Which.OWN, COUNTING),
    "go": Policy(Way.BOTH_WAYS, Which.GO, CONFIG),
}


class Row(msgspec.Struct, frozen=True, kw_only=True):
    workload: str
    policy: str
    share: float
    rate: float
    requests: int
    ttft_p50_ms: float
    ttft_p90_ms: float
    ttft_mean_ms: float
    total_p90_ms: float
    prefix_hits: float


@contextlib.asynccontextmanager
async def _path(policy: Policy, at: tuple[str, ...]):  # type: ignore[no-untyped-def]  # noqa: ANN202  a port
    _empty_caches(at)
    async with contextlib.AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        port = 0
        if policy.which is not None:
            port, _ = await stack.enter_async_context(picker(policy.which, folder, at, policy.config))
        running = await stack.enter_async_context(front(folder, policy.way, at, port))
        await asyncio.sleep(_SETTLE_S)
        yield running.port


async def capacity(workload: Workload, at: tuple[str, ...], policy: Policy) -> float:
    """Requests a second that the engines complete, once their caches are warm."""
    async with _path(policy, at) as port:
        asked = map(post, bodies(workload, _SEED))
        await closed_loop(port, itertools.islice(asked, 400), connections=_CONNECTIONS, seconds=_CALIBRATION_S / 2)
        began = time.monotonic()
        samples = await closed_loop(port, asked, connections=_CONNECTIONS, seconds=_CALIBRATION_S)
        return len(samples) / (time.monotonic() - began)


async def measure(
    workload: Workload, name: str, at: tuple[str, ...], *, share: float, rate: float, seconds: float
) -> Row:
    async with _path(POLICIES[name], at) as port:
        before = _prefix_counters(at)
        asked = map(post, bodies(workload, _SEED))
        samples = await open_loop(port, asked, rate=rate, seconds=seconds, seed=3, patience_s=120)
        after = _prefix_counters(at)
    return _row(workload, name, samples, share=share, rate=rate, hits=_share(before, after))


def _row(workload: Workload, name: str, samples: list[Sample], *, share: float, rate: float, hits: float) -> Row:
    counted = [sample for sample in samples if sample.number >= len(samples) * _SKIPPED]
    firsts = [sample.first_s * 1e3 for sample in counted]
    tenths = statistics.quantiles(firsts, n=10)
    return Row(
        workload=workload.name,
        policy=name,
        share=share,
        rate=round(rate, 2),
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
            capacities[name] = await capacity(WORKLOADS[name], at, POLICIES["counting"])
            known.write_text(json.dumps(capacities))
            print(f"{name}: {capacities[name]:.1f} requests/s", flush=True)
    with (chosen.folder / "rows.jsonl").open("a") as out:
        for share, name, policy in itertools.product(chosen.share, chosen.workload, chosen.policy):
            rate = capacities[name] * share
            try:
                row = await measure(WORKLOADS[name], policy, at, share=share, rate=rate, seconds=chosen.seconds)
            except Exception as error:  # noqa: BLE001  the other rows are still worth their time
                print(f"FAILED {name} {share} {policy}: {error!r}", flush=True)
                continue
            line = msgspec.json.encode(row).decode()
            print(line, flush=True)
            print(line, file=out, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--engines", type=int, default=4)
    parser.add_argument("--workload", action="append", choices=list(WORKLOADS), required=True)
    parser.add_argument("--policy", action="append", choices=list(POLICIES), required=True)
    parser.add_argument("--share", action="append", type=float, required=True)
    parser.add_argument("--seconds", type=float, default=25.0)
    asyncio.run(_run(parser.parse_args()))


if __name__ == "__main__":
    main()
