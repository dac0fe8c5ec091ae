"""The dashboard of a fleet of 1,000 clusters and 10,000 replicas.

How long a snapshot takes and how long it keeps the event loop, how long views take over HTTP, and, where a chromium is
installed, how long a person waits in it: from a key to the view that is drawn. And what `modelplane up` costs while the
page is open and nothing happens; the baseline is the same with the page closed.
"""

import asyncio
import os
import re
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

import aiohttp
from yarl import URL

from modelplane.api.objects import Manifest
from modelplane.apiserver.store.database import Database, SqliteStore
from modelplane.envoy.recent_traffic import RecentTraffic
from modelplane.reconcile.clock import SystemClock
from modelplane.reconcile.collector import calm_collector
from modelplane.web.live import LiveSnapshot
from modelplane.web.page_token import PageToken
from modelplane.web.server import serve
from modelplane.web.source import DashboardSource

CLUSTERS, DEPLOYMENTS, REPLICAS = 1000, 1000, 10
ROUNDS = 20
TOKEN = "t"  # noqa: S105  of a server that ends with the measurement
INTERACT_MS = 100.0
IDLE_S, IDLE_SETTLES_S = 20.0, 15.0
IDLE_PERCENT = 5.0
VIEWS = {
    "overview": "overview",
    "fleet": "fleet?limit=12",
    "fleet_filtered": "fleet?limit=12&q=cluster-09",
    "cluster": "cluster?name=cluster-0500",
    "deployments": "deployments",
    "deployment": "deployment?namespace=default&name=model-0500",
    "services": "services",
    "events": "events?limit=100",
}
Row = dict[str, object]


def fleet() -> Iterator[Manifest]:
    from tests.support import dashboard_fleet as made

    yield made.inference_class()
    for number in range(CLUSTERS):
        pools = [made.pool(f"pool-{pool}", nodes=4, allocated=3) for pool in range(4)]
        lost = number % 50 == 0
        condition = made.not_ready(made.LOST, "no answer") if lost else made.ready()
        labels = {"region": f"region-{number % 10}"}
        yield made.cluster(f"cluster-{number:04}", *pools, condition=condition, labels=labels, replicas=10)
    for number in range(DEPLOYMENTS):
        name = f"model-{number:04}"
        placement = {"summary": "10 on 10 clusters", "candidates": []}
        yield made.deployment(
            name, REPLICAS, replicas=10, readyReplicas=10, conditions=[made.ready("AllReady")], placement=placement
        )
        for index in range(REPLICAS):
            at = f"cluster-{(number + index * 97) % CLUSTERS:04}"
            yield made.replica(f"{name}-{index}", name, at, index)
            yield made.endpoint(f"{name}-{index}", f"{name}-{index}", at, name)
        entries = [{"name": f"{name}-{index}", "cluster": "c", "sharePermille": 100} for index in range(REPLICAS)]
        yield made.service(name, name, [{"priority": 0, "sharePercent": 100, "endpoints": entries}])
    for number in range(2000):
        subject = f"model-{number % DEPLOYMENTS:04}"
        yield made.event(f"e{number}", "ModelDeployment", subject, "Placed", "1 replica", "2026-08-29T10:31:00Z")


def made_store() -> SqliteStore:
    store = Database(None, clock=SystemClock()).store("plane")
    for item in fleet():
        store.create(item)
    return store


def rows() -> list[Row]:
    return asyncio.run(_measure())


async def _measure() -> list[Row]:
    store = made_store()
    calm_collector()  # as `modelplane up` does
    found = await _snapshots(store)
    page = await serve(DashboardSource(store, traffic=RecentTraffic()), token=PageToken.printed(TOKEN))
    try:
        found += await _views(URL(page.url))
        found += await _browser(page.url)
    finally:
        await page.close()
    return [*found, *await _idle()]


async def _snapshots(store: SqliteStore) -> list[Row]:
    """The time of a snapshot, and the longest that another task of the loop had to wait meanwhile."""
    took, blocked = [], []
    for _ in range(3):
        live = LiveSnapshot(DashboardSource(store, traffic=RecentTraffic()), SystemClock())
        stalls: list[float] = []
        ticking = asyncio.create_task(_tick(stalls))
        await asyncio.sleep(0.05)
        started = time.perf_counter()
        await live.current()
        took.append(time.perf_counter() - started)
        ticking.cancel()
        blocked.append(max(stalls))
        await live.close()
    return [
        _row("dashboard.snapshot_s", statistics.median(took), "s", 10),
        _row("dashboard.loop_blocked_ms", statistics.median(blocked) * 1000, "ms", 250),
    ]


async def _tick(stalls: list[float]) -> None:
    while True:
        before = time.perf_counter()
        await asyncio.sleep(0.001)
        stalls.append(time.perf_counter() - before - 0.001)


async def _views(url: URL) -> list[Row]:
    async with aiohttp.ClientSession(cookies={f"modelplane-{url.port}": TOKEN}) as session:

        async def get(path: str) -> None:
            async with session.get(f"{url.origin()}/{path}") as answer:
                await answer.read()

        await get("api/summary")
        floor = round(await _p95_ms(partial(get, "app.css")), 2)
        return [
            _row(f"dashboard.view.{name}", await _p95_ms(partial(get, f"api/{path}")), "ms", INTERACT_MS, floor)
            for name, path in VIEWS.items()
        ]


async def _p95_ms(call: Callable[[], Coroutine[None, None, None]]) -> float:
    times = []
    for _ in range(ROUNDS):
        started = time.perf_counter()
        await call()
        times.append(time.perf_counter() - started)
    return sorted(times)[int(ROUNDS * 0.95) - 1] * 1000


DRAWN = """new Promise((done) => {
  const started = performance.now();
  const seen = new MutationObserver(() => {
    if (main.getAttribute("aria-busy") !== "false" || !(%s)) return;
    seen.disconnect();
    requestAnimationFrame(() => setTimeout(() => done(performance.now() - started)));
  });
  seen.observe(document.body, { subtree: true, childList: true, attributes: true, characterData: true });
  location.hash = "%s";
})"""
FRAME = """new Promise((done) => {
  const started = performance.now();
  requestAnimationFrame(() => setTimeout(() => done(performance.now() - started)));
})"""
STEPS = (
    ("fleet", "#/fleet", "document.querySelectorAll('.cluster').length === 12"),
    ("next_page", "#/fleet?offset=12", "main.textContent.includes('13\u201324')"),
    ("filter", "#/fleet?q=cluster-09", "main.textContent.includes('of 100')"),
    ("cluster", "#/cluster/cluster-0500", "document.querySelector('h1').textContent === 'cluster-0500'"),
    ("deployments", "#/deployments", "document.querySelectorAll('tbody tr').length === 50"),
    ("deployment", "#/deployment/default/model-0500", "main.querySelector('h1').textContent.endsWith('model-0500')"),
    ("overview", "#/overview", "main.textContent.includes('of 10,000 ready')"),
)


async def _browser(url: str) -> list[Row]:
    from tests.support.chromium import CHROMIUM, browser_page

    if CHROMIUM is None:
        print("     dashboard: no chromium, so nothing is measured in a browser")
        return []
    times: dict[str, list[float]] = {name: [] for name, *_ in STEPS}
    async with browser_page() as tab:
        await tab.open(url)
        await tab.until("main.getAttribute('aria-busy') === 'false'")
        for _ in range(ROUNDS // 2):
            for name, route, drawn in STEPS:
                times[name].append(await tab.eval(DRAWN % (drawn, route)))
        frames = [await tab.eval(FRAME) for _ in range(ROUNDS)]
    frame = round(statistics.median(frames), 2)
    return [
        _row(f"dashboard.browser.{name}", statistics.median(found), "ms", INTERACT_MS, frame)
        for name, found in times.items()
    ]


async def _idle() -> list[Row]:
    """The processor's share that `modelplane up` with all its processes takes when nothing happens, page open."""
    with tempfile.TemporaryDirectory() as folder:
        words = [sys.executable, "-m", "modelplane", "up", "-f", "examples/quickstart", "--data", folder]
        up = await asyncio.create_subprocess_exec(*words, stdout=asyncio.subprocess.PIPE, start_new_session=True)
        try:
            url = await _page_of(up)
            await asyncio.sleep(IDLE_SETTLES_S)
            closed = await _share(up.pid)
            async with aiohttp.ClientSession() as session, session.get(url):
                stream = f"{url.origin()}/api/stream?view=overview"
                async with session.get(stream, timeout=aiohttp.ClientTimeout(None)) as opened:
                    await opened.content.readuntil(b"\n\n")
                    share = await _share(up.pid)
        finally:
            up.terminate()
            await up.wait()
    return [_row("dashboard.idle_cpu_percent", share, "%", IDLE_PERCENT, round(closed, 2))]


async def _page_of(up: asyncio.subprocess.Process) -> URL:
    async with asyncio.timeout(120):
        while line := await up.stdout.readline() if up.stdout is not None else b"":
            found = re.search(rb"(?:dashboard|page)\s+(http://\S+)", line)
            if found:
                return URL(found.group(1).decode())
    raise RuntimeError("modelplane up ended before it had a page")


async def _share(session: int) -> float:
    """Percent of one processor, of all processes of a session."""
    before = _ticks(session)
    await asyncio.sleep(IDLE_S)
    return (_ticks(session) - before) / os.sysconf("SC_CLK_TCK") / IDLE_S * 100


def _ticks(session: int) -> int:
    total = 0
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            fields = path.read_text().rpartition(")")[2].split()
            total += int(fields[11]) + int(fields[12]) if int(fields[3]) == session else 0
    return total


def _row(name: str, value: float, unit: str, limit: float, baseline: float | None = None) -> Row:
    """The baseline of a view is a file that the same server sends; that of a step, a frame in which nothing changes."""
    shown = round(value, 2)
    return {"id": name, "value": shown, "unit": unit, "limit": limit, "ok": value <= limit, "baseline": baseline}
