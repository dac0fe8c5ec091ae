"""Five times the load that a pool can serve, for a minute: who is served, how fast the others are refused, and memory.

Real Envoy, our picker with flow control, and four simulated engines that take eight sequences each. What they can
serve is measured first, by as many clients as there are places. Then requests arrive at five times that rate: a tenth
has the highest priority, half as much as can be served, and the rest is of two lower ones. A refusal is an answer 429,
whether it came at once or after a time in a queue: where one is full, a request of another tenant displaces the newest
of the tenant that has most of it.

    python bench/run.py overload            60 s
"""

import asyncio
import random
import statistics
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import aiohttp
import msgspec
from load.accounts import resident_mib
from load.front import Way, addresses, front
from load.pickers import Which, picker
from load.pool import MODEL, engine_pool

_ENGINES, _SEQUENCES, _TOKENS = 4, 8, 128
_TIMES, _SECONDS, _WARM_S = 5.0, 60.0, 10.0
_SETTLE_S: Final = 2.0
_SERVED, _SHED = 200, 429
_SHARES: Final = {"urgent": 0.1, "usual": 0.45, "batch": 0.45}
_PRIORITIES: Final = {"urgent": 10, "usual": 0, "batch": -1}
_SERVED_LEAST, _SHED_MOST_MS, _GROWTH_MOST_MIB = 0.95, 50.0, 64.0
_CONFIG: Final = f"""\
apiVersion: llm-d.ai/v1alpha1
kind: EndpointPickerConfig
featureGates: [flowControl]
plugins:
- type: active-request-scorer
- type: max-score-picker
- type: concurrency-detector
  parameters: {{maxConcurrency: {_SEQUENCES}}}
schedulingProfiles:
- name: default
  plugins: [{{pluginRef: active-request-scorer}}, {{pluginRef: max-score-picker}}]
flowControl:
  defaultRequestTTL: 30s
  saturationDetector: {{pluginRef: concurrency-detector}}
  defaultPriorityBand: {{maxRequests: 32}}
"""


class Exchange(msgspec.Struct, frozen=True):
    objective: str
    status: int
    seconds: float


def rows() -> list[dict[str, object]]:
    with tempfile.TemporaryDirectory(prefix="bench-overload-") as folder:
        return asyncio.run(_measure(Path(folder)))


async def _measure(folder: Path) -> list[dict[str, object]]:
    policies = folder / "policies.yaml"
    policies.write_text("---\n".join(_objective(name, priority) for name, priority in _PRIORITIES.items()))
    pool = addresses(_ENGINES)
    async with (
        engine_pool(pool, _SEQUENCES),
        picker(Which.OWN, folder, pool, _CONFIG, flags=("--policies", str(policies))) as (port, pid),
        front(folder, Way.REQUESTS, pool, port) as proxy,
        _session() as session,
    ):
        await asyncio.sleep(_SETTLE_S)
        client = Client(session, f"http://127.0.0.1:{proxy.port}/v1/chat/completions")
        capacity = await client.saturate(_ENGINES * _SEQUENCES, _WARM_S)
        before = resident_mib(pid)
        async with _peak(pid) as most:
            exchanges = await client.arrivals(_TIMES * capacity, _SECONDS)
        return _rows(exchanges, capacity, most[0] - before)


def _objective(name: str, priority: int) -> str:
    return (
        "apiVersion: llm-d.ai/v1alpha2\nkind: InferenceObjective\n"
        f"metadata: {{name: {name}}}\nspec: {{priority: {priority}}}\n"
    )


@asynccontextmanager
async def _session() -> AsyncIterator[aiohttp.ClientSession]:
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(total=120)) as session:
        yield session


@asynccontextmanager
async def _peak(pid: int) -> AsyncIterator[list[float]]:
    """The most that the process has resident meanwhile."""
    most = [resident_mib(pid)]

    async def watch() -> None:
        while True:
            most[0] = max(most[0], resident_mib(pid))
            await asyncio.sleep(0.2)

    task = asyncio.create_task(watch())
    try:
        yield most
    finally:
        task.cancel()


class Client:
    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        self._session, self._url = session, url

    async def send(self, objective: str, number: int) -> Exchange:
        message = {"role": "user", "content": f"Question {number}: what is a fleet?"}
        body = {"model": MODEL, "messages": [message], "max_tokens": _TOKENS, "ignore_eos": True}
        headers = {"x-llm-d-inference-objective": objective, "x-llm-d-inference-fairness-id": f"team-{number % 5}"}
        started = time.perf_counter()
        async with self._session.post(self._url, json=body, headers=headers) as answer:
            await answer.read()
            return Exchange(objective, answer.status, time.perf_counter() - started)

    async def saturate(self, clients: int, seconds: float) -> float:
        """Requests a second that are served while each place has a client."""
        ends = time.perf_counter() + seconds
        served = 0

        async def again(number: int) -> None:
            nonlocal served
            while time.perf_counter() < ends:
                ended = await self.send("urgent", number)
                served += ended.status == _SERVED

        started = time.perf_counter()
        await asyncio.gather(*(again(number) for number in range(clients)))
        return served / (time.perf_counter() - started)

    async def arrivals(self, rate: float, seconds: float) -> list[Exchange]:
        """As of many independent clients: the pauses are exponential, and the same each time."""
        chance = random.Random(7)  # noqa: S311  not a secret
        tasks: list[asyncio.Task[Exchange]] = []
        due = began = time.perf_counter()
        while due < began + seconds:
            if (pause := due - time.perf_counter()) > 0:
                await asyncio.sleep(pause)
            (objective,) = chance.choices(list(_SHARES), list(_SHARES.values()))
            tasks.append(asyncio.create_task(self.send(objective, len(tasks))))
            due += chance.expovariate(rate)
        return await asyncio.gather(*tasks)


def _rows(exchanges: list[Exchange], capacity: float, grown_mib: float) -> list[dict[str, object]]:
    others = sorted({each.status for each in exchanges} - {_SERVED, _SHED})
    if others:
        raise SystemExit(f"bench set overload: answers {others} beside 200 and 429")
    served = {name: _served(exchanges, name) for name in _SHARES}
    shed_ms = [each.seconds * 1000 for each in exchanges if each.status == _SHED]
    p99 = round(statistics.quantiles(shed_ms, n=100)[98], 1)
    load = {"what": f"requests a second that the pool serves, of {_TIMES:g} times as many", "value": round(capacity, 1)}
    kept = {"what": "of the next and the lowest priority", "value": [served["usual"], served["batch"]]}
    refused = {"what": "median of them", "value": round(statistics.median(shed_ms), 1), "unit": "ms"}
    least, most, growth = _SERVED_LEAST, _SHED_MOST_MS, _GROWTH_MOST_MIB
    return [
        {**_row("served", served["urgent"], "of the highest priority", least), "better": "higher", "baseline": kept},
        {**_row("shed", p99, f"ms p99 of {len(shed_ms)} refusals", most), "baseline": refused},
        {**_row("memory", round(grown_mib, 1), "MiB more than before", growth), "baseline": load},
    ]


def _served(exchanges: list[Exchange], objective: str) -> float:
    sent = [each for each in exchanges if each.objective == objective]
    return round(sum(each.status == _SERVED for each in sent) / len(sent), 4)


def _row(name: str, value: float, unit: str, limit: float) -> dict[str, object]:
    ok = value >= limit if name == "served" else value <= limit
    return {"id": f"overload.{name}", "value": value, "unit": unit, "limit": limit, "ok": ok}
