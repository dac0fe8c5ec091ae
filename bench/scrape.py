"""What it costs to know the load of model servers.

The pages are those of our simulated engines, which run in a process of their own; what is measured is the CPU time of
the process that looks. The baseline beside each figure is the usual way in Python: prometheus_client's parser, and
aiohttp's client in front of it.
"""

import asyncio
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from statistics import median

import aiohttp
from prometheus_client.parser import text_string_to_metric_families

from modelplane.epp.datalayer.scrape import Scraper
from modelplane.epp.datalayer.scrape.connections import ScrapeConnection
from modelplane.epp.datalayer.scrape.engines import BUILT_IN
from modelplane.epp.datalayer.scrape.extractor import MetricsExtractor
from modelplane.epp.datalayer.scrape.targets import ScrapeTarget
from modelplane.epp.scheduling.endpoints import Endpoint
from modelplane.sim.engine import Address, EngineConfig, SimulatedEngine
from modelplane.sim.engine.metrics import CacheConfigInfo, EngineGauges, LoraGauge, exposition
from modelplane.sim.engine.stats import EngineStats

_PAGES = 64
_LOOKS = 300
_IDLE_S = 8.0
_SETTLE_S = 6.0


def rows() -> list[dict[str, object]]:
    return [*_parsing(), *asyncio.run(_looking())]


def _parsing() -> list[dict[str, object]]:
    baseline = _median_us(lambda page: list(text_string_to_metric_families(page.decode())), _pages()[:8])
    plain = MetricsExtractor(BUILT_IN[0])
    adapters = MetricsExtractor(BUILT_IN[0])
    same = MetricsExtractor(BUILT_IN[0])
    return [
        _row("scrape.parse_changed", _median_us(plain.read, _pages() * 20), "us/page", 30, baseline),
        _row("scrape.parse_changed_lora", _median_us(adapters.read, _pages(lora=True) * 20), "us/page", 60, baseline),
        _row("scrape.parse_same", _median_us(same.read, _pages()[:1] * 1000), "us/page", 20, baseline),
    ]


def _pages(*, lora: bool = False) -> list[bytes]:
    """Pages of one busy server, each different from the one before."""
    stats, model = EngineStats(131_072), "meta-llama/Llama-3.1-8B-Instruct"
    cache = CacheConfigInfo(block_size=16, blocks=40_960, prefix_caching=True)
    pages = []
    for at in range(_PAGES):
        stats.prompt_tokens += 997 * at
        gauges = EngineGauges(running=at % 7, waiting=at % 11, kv_usage=at / 100)
        gauge = LoraGauge(max_loras=4, running=("a", f"b{at}"), waiting=("c",), at=1.7e9 + at) if lora else None
        pages.append(exposition(model, stats, gauges, cache, gauge).encode())
    return pages


def _median_us(read: Callable[[bytes], object], pages: list[bytes]) -> float:
    """CPU time a page: the median of several passes."""
    passes = []
    for _ in range(5):
        started = time.process_time()
        for page in pages:
            read(page)
        passes.append((time.process_time() - started) / len(pages) * 1e6)
    return round(median(passes), 1)


async def _looking() -> list[dict[str, object]]:
    engines = subprocess.Popen([sys.executable, __file__, "100"], stdout=subprocess.PIPE, text=True)  # noqa: ASYNC220, S603 - our own file
    try:
        ports = [int(port) for port in (engines.stdout.readline() if engines.stdout else "").split()]
        look_us, usual_us = await _look_us(ports[0]), await _usual_look_us(ports[0])
        hundred, ten = await _idle_cores(ports), await _idle_cores(ports[:10])
    finally:
        engines.terminate()
        engines.wait()
    # The ecosystem's picker looks at every endpoint twenty times a second.
    return [
        _row("scrape.look", look_us, "us/look", round(usual_us / 10, 1), usual_us),
        _row("scrape.idle_100", hundred, "cores", 0.05, round(usual_us * 20 * 100 / 1e6, 2)),
        _row("scrape.idle_10", ten, "cores", 0.056, 0.56),
    ]


async def _look_us(port: int) -> float:
    connection, reader = ScrapeConnection(ScrapeTarget("127.0.0.1", port), timeout_s=30), MetricsExtractor(BUILT_IN[0])
    loop = asyncio.get_running_loop()

    async def look() -> None:
        answer: asyncio.Future[bytes | None] = loop.create_future()
        connection.fetch(lambda page, _: answer.set_result(page))
        page = await answer
        reader.read(page or b"")

    spent = await _spent_us(look)
    connection.close()
    return spent


async def _usual_look_us(port: int) -> float:
    async with aiohttp.ClientSession() as session:

        async def look() -> None:
            async with session.get(f"http://127.0.0.1:{port}/metrics") as response:
                list(text_string_to_metric_families(await response.text()))

        return await _spent_us(look)


async def _spent_us(look: Callable[[], Awaitable[None]]) -> float:
    await look()
    started = time.process_time()
    for _ in range(_LOOKS):
        await look()
    return round((time.process_time() - started) / _LOOKS * 1e6, 1)


async def _idle_cores(ports: list[int]) -> float:
    endpoints = [Endpoint(f"default/pod-{port}", f"127.0.0.1:{port}") for port in ports]
    scraper = Scraper()
    scraper.watch(endpoints)
    await scraper.start()
    await asyncio.sleep(_SETTLE_S)
    started = time.process_time()
    await asyncio.sleep(_IDLE_S)
    spent = time.process_time() - started
    stale = scraper.stale()
    await scraper.stop()
    if stale:
        raise SystemExit(f"{len(stale)} of {len(ports)} endpoints were not read: the figure would be worth nothing")
    return round(spent / _IDLE_S, 4)


def _row(name: str, value: float, unit: str, limit: float, baseline: float) -> dict[str, object]:
    return {"id": name, "value": value, "unit": unit, "limit": limit, "ok": value <= limit, "baseline": baseline}


async def _serve(count: int) -> None:
    addresses: list[Address] = []
    for number in range(count):
        config = EngineConfig(cluster="east", namespace="default", pod=f"pod-{number}", models=("demo",))
        addresses.append(await SimulatedEngine(config).start("127.0.0.1"))
    print(*(address.port for address in addresses), flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(_serve(int(sys.argv[1])))
