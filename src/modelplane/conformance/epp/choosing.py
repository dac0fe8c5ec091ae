"""Cases about the choice: what a picker makes of load and of prefixes.

They judge by what reaches the servers. Wherever a rule leaves one endpoint, many requests in a row have to reach it, so
that luck does not pass: a picker that picks at random among three reaches one twelve times in a row once in half a
million.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from modelplane.conformance.epp.bench import OK, SATURATED, Bench, chat, expect, subset_of
from modelplane.conformance.epp.registry import CaseLevel, case
from modelplane.conformance.epp.sending import (
    AGAIN_S,
    HELD,
    expect_only,
    expect_soon,
    expect_status,
    expect_used,
    fresh_number,
    send,
    streams_at,
)
from modelplane.conformance.epp.upstreams import ShownLoad

_ENDED, _FREE = 40, 30
_TURNS = 10
_STEADY = 25


@asynccontextmanager
async def _loads(bench: Bench, loads: dict[str, ShownLoad]) -> AsyncIterator[None]:
    bench.upstreams.loads = loads
    try:
        yield
    finally:
        bench.upstreams.loads = {}


@case(CaseLevel.SHOULD)
async def requests_in_flight_count(bench: Bench) -> None:
    """Prefers the endpoint where it has no request in flight, though metrics show the same load everywhere.

    Metrics are a scrape old: by them alone a burst goes to one endpoint.
    """
    await _prefers_idle(bench, "")


@case(CaseLevel.SHOULD)
async def ended_requests_do_not_count(bench: Bench) -> None:
    """Prefers an endpoint whose requests have ended to others that have requests in flight.

    A count that does not fall takes an endpoint out of service for good.
    """
    headers = subset_of([bench.pool[-1]])
    await asyncio.gather(*(bench.send(mode="both", headers=headers) for _ in range(_ENDED)))
    await _prefers_idle(bench, f", and {_ENDED} have ended there")


@case(CaseLevel.SHOULD)
async def aborted_requests_do_not_count(bench: Bench) -> None:
    """Prefers an endpoint whose clients disconnected to others that have requests in flight.

    Clients that disconnect are common, and no response tells their end.
    """
    async with streams_at(bench, [bench.pool[-1]], _ENDED):
        pass
    await _prefers_idle(bench, f", and {_ENDED} were aborted there")


async def _prefers_idle(bench: Bench, past: str) -> None:
    """Requests reach the last endpoint and go on to do so: scrapes, which show no load anywhere, change nothing."""
    *busy, idle = bench.pool
    why = f"{HELD} requests are in flight at each other endpoint{past}"
    async with streams_at(bench, busy, HELD):
        await expect_only(bench, idle, why)
        for _ in range(_STEADY):
            reached = await send(bench)
            expect(reached == idle, f"{why}: a request reached {reached} instead of {idle}")
            await asyncio.sleep(AGAIN_S)


@case(CaseLevel.SHOULD)
async def queues_are_read(bench: Bench) -> None:
    """Follows the queues that servers show in their metrics.

    Other pickers and clients send requests, too: only the server knows its queue.
    """
    for idle in (bench.pool[-1], bench.pool[0]):
        busy = {address: ShownLoad(running=40, waiting=40) for address in bench.pool if address != idle}
        async with _loads(bench, busy):
            await expect_only(bench, idle, "40 requests wait at each other endpoint")


@case(CaseLevel.SHOULD)
async def kv_cache_usage_is_read(bench: Bench) -> None:
    """Follows the use of the KV cache that servers show in their metrics.

    A server without free KV blocks preempts requests to run another.
    """
    for idle in (bench.pool[-1], bench.pool[0]):
        full = {address: ShownLoad(kv_cache_usage=0.98) for address in bench.pool if address != idle}
        async with _loads(bench, full):
            await expect_only(bench, idle, "98 % of the KV cache is in use at each other endpoint")


@case(CaseLevel.SHOULD)
async def stale_metrics_are_not_believed(bench: Bench) -> None:
    """Uses an endpoint again whose metrics showed a queue and hang since.

    An engine that is busy may not serve its metrics; its last numbers must not keep requests away for ever.
    """
    frozen, *others = bench.pool
    async with _loads(bench, {frozen: ShownLoad(waiting=12)}):
        await _without(bench, frozen)
        bench.upstreams.answering_metrics.clear()
        try:
            async with streams_at(bench, others, HELD):
                await expect_used(bench, frozen, "whose metrics hang")
        finally:
            bench.upstreams.answering_metrics.set()


async def _without(bench: Bench, avoided: str) -> None:
    async def avoids() -> bool:
        return avoided not in {await send(bench) for _ in range(_FREE)}

    await expect_soon(bench, avoids, f"requests reached {avoided}, where 12 requests wait,")


@case(CaseLevel.SHOULD)
async def conversations_return(bench: Bench) -> None:
    """Sends the turns of a conversation to the endpoint that has its prefix cached.

    A cached prefix saves most of the time to the first token.
    """
    words = f"conversation {fresh_number()} " + "and so it went on and on " * 300
    reached = set()
    for turn in range(_TURNS):
        words += f"turn {turn} " + "with some more words " * 20
        reached.add((await bench.send(chat(words))).reached.endpoint)
    expect(len(reached) == 1, f"{_TURNS} turns of one conversation reached {len(reached)} endpoints")


@case(CaseLevel.MAY)
async def saturated_pool_is_shed(bench: Bench) -> None:
    """Returns 429 while every endpoint is far over its limit, and picks again once one is not.

    A request that fails at once can go elsewhere; one that waits behind 5,000 others cannot. A plugin of llm-d
    (`utilization-filter`): by default its pickers shed requests of a negative priority only.
    """
    async with _loads(bench, {address: ShownLoad(100, 5000, 1.0) for address in bench.pool}):
        await expect_status(bench, SATURATED, "5000 requests wait at each endpoint")
    await expect_status(bench, OK, "no request waits at any endpoint")
    for address in bench.pool:
        await expect_used(bench, address, "where no request waits any more")
