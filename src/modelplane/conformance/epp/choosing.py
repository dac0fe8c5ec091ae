"""Cases about the choice: what a picker makes of load, of prefixes and of changes of its pool.

They judge by what reaches the servers. Wherever a rule leaves one endpoint, many requests in a row have to reach it, so
that luck does not pass: a picker that picks at random among three reaches one twelve times in a row once in half a
million.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import count

from modelplane.conformance.epp.cases import Bench, CaseLevel, Failure, case, chat, expect, subset_of
from modelplane.conformance.epp.upstreams import ShownLoad

_IN_A_ROW = 12
_HELD, _ENDED, _FREE = 8, 40, 30
_TURNS = 10
_STEADY, _AGAIN_S = 25, 0.1
_OK, _SATURATED, _UNAVAILABLE = 200, 429, 503
_NUMBERS = count()


async def _send(bench: Bench) -> str:
    """The endpoint that a request reaches whose prompt nobody has seen."""
    return (await bench.send(chat(f"question {next(_NUMBERS)}"))).reached.endpoint


async def _only(bench: Bench, wanted: str, otherwise: str) -> None:
    """Soon all requests reach one endpoint."""
    deadline_s = asyncio.get_running_loop().time() + bench.soon_s
    while asyncio.get_running_loop().time() < deadline_s:
        for _ in range(_IN_A_ROW):
            if await _send(bench) != wanted:
                break
        else:
            return
        await asyncio.sleep(_AGAIN_S)
    raise Failure(f"{otherwise}: for {bench.soon_s:g} s, requests reached other endpoints than {wanted}")


async def _soon(bench: Bench, holds: Callable[[], Awaitable[bool]], otherwise: str) -> None:
    deadline_s = asyncio.get_running_loop().time() + bench.soon_s
    while asyncio.get_running_loop().time() < deadline_s:
        if await holds():
            return
        await asyncio.sleep(_AGAIN_S)
    raise Failure(f"{otherwise} after {bench.soon_s:g} s")


async def _used(bench: Bench, wanted: str, why: str) -> None:
    """Soon a request reaches this endpoint."""

    async def reached() -> bool:
        return wanted in {await _send(bench) for _ in range(_IN_A_ROW)}

    await _soon(bench, reached, f"no request reached {wanted}, {why},")


@asynccontextmanager
async def _streams_at(bench: Bench, addresses: Sequence[str], times: int) -> AsyncIterator[None]:
    """As many responses as `times` that do not end, at each of the addresses.

    In a mode that processes responses, for in others a picker cannot know when they end.
    """
    bench.upstreams.released.clear()
    try:
        async with AsyncExitStack() as held:
            for address in addresses:
                for _ in range(times):
                    response = await held.enter_async_context(bench.stream("both", subset_of([address])))
                    expect(response.status == _OK, f"status {response.status}")
            yield
    finally:
        bench.upstreams.released.set()


@asynccontextmanager
async def _loads(bench: Bench, loads: dict[str, ShownLoad]) -> AsyncIterator[None]:
    bench.upstreams.loads = loads
    try:
        yield
    finally:
        bench.upstreams.loads = {}


@case(CaseLevel.SHOULD)
async def requests_in_flight_count(bench: Bench) -> None:
    """Prefers the endpoint where it has no request in flight, though metrics show the same load everywhere."""
    await _prefers_idle(bench, "")


@case(CaseLevel.SHOULD)
async def ended_requests_do_not_count(bench: Bench) -> None:
    """Prefers an endpoint whose requests have ended to others that have requests in flight."""
    headers = subset_of([bench.pool[-1]])
    await asyncio.gather(*(bench.send(mode="both", headers=headers) for _ in range(_ENDED)))
    await _prefers_idle(bench, f", and {_ENDED} have ended there")


@case(CaseLevel.SHOULD)
async def aborted_requests_do_not_count(bench: Bench) -> None:
    """Prefers an endpoint whose clients disconnected to others that have requests in flight."""
    async with _streams_at(bench, [bench.pool[-1]], _ENDED):
        pass
    await _prefers_idle(bench, f", and {_ENDED} were aborted there")


async def _prefers_idle(bench: Bench, past: str) -> None:
    """Requests reach the last endpoint and go on to do so: scrapes, which show no load anywhere, change nothing."""
    *busy, idle = bench.pool
    why = f"{_HELD} requests are in flight at each other endpoint{past}"
    async with _streams_at(bench, busy, _HELD):
        await _only(bench, idle, why)
        for _ in range(_STEADY):
            reached = await _send(bench)
            expect(reached == idle, f"{why}: a request reached {reached} instead of {idle}")
            await asyncio.sleep(_AGAIN_S)


@case(CaseLevel.SHOULD)
async def queues_are_read(bench: Bench) -> None:
    """Follows the queues that servers show in their metrics."""
    for idle in (bench.pool[-1], bench.pool[0]):
        busy = {address: ShownLoad(running=40, waiting=40) for address in bench.pool if address != idle}
        async with _loads(bench, busy):
            await _only(bench, idle, "40 requests wait at each other endpoint")


@case(CaseLevel.SHOULD)
async def kv_cache_usage_is_read(bench: Bench) -> None:
    """Follows the use of the KV cache that servers show in their metrics."""
    for idle in (bench.pool[-1], bench.pool[0]):
        full = {address: ShownLoad(kv_cache_usage=0.98) for address in bench.pool if address != idle}
        async with _loads(bench, full):
            await _only(bench, idle, "98 % of the KV cache is in use at each other endpoint")


@case(CaseLevel.SHOULD)
async def stale_metrics_are_not_believed(bench: Bench) -> None:
    """Uses an endpoint again whose metrics showed a queue and hang since."""
    frozen, *others = bench.pool
    async with _loads(bench, {frozen: ShownLoad(waiting=12)}):
        await _without(bench, frozen)
        bench.upstreams.answering_metrics.clear()
        try:
            async with _streams_at(bench, others, _HELD):
                await _used(bench, frozen, "whose metrics hang")
        finally:
            bench.upstreams.answering_metrics.set()


async def _without(bench: Bench, avoided: str) -> None:
    async def avoids() -> bool:
        return avoided not in {await _send(bench) for _ in range(_FREE)}

    await _soon(bench, avoids, f"requests reached {avoided}, where 12 requests wait,")


@case(CaseLevel.SHOULD)
async def conversations_return(bench: Bench) -> None:
    """Sends the turns of a conversation to the endpoint that has its prefix cached."""
    words = f"conversation {next(_NUMBERS)} " + "and so it went on and on " * 300
    reached = set()
    for turn in range(_TURNS):
        words += f"turn {turn} " + "with some more words " * 20
        reached.add((await bench.send(chat(words))).reached.endpoint)
    expect(len(reached) == 1, f"{_TURNS} turns of one conversation reached {len(reached)} endpoints")


@case(CaseLevel.SHOULD)
async def saturated_pool_is_shed(bench: Bench) -> None:
    """Returns 429 while every endpoint is far over its limit, and picks again once one is not."""
    async with _loads(bench, {address: ShownLoad(100, 5000, 1.0) for address in bench.pool}):
        await _status(bench, _SATURATED, "5000 requests wait at each endpoint")
    await _status(bench, _OK, "no request waits at any endpoint")
    for address in bench.pool:
        await _used(bench, address, "where no request waits any more")


@case(CaseLevel.MUST, changes_pool=True)
async def pool_changes_are_followed(bench: Bench) -> None:
    """Picks endpoints that were added to the pool, and none that was removed."""
    last = bench.pool[-1]
    async with _changed_pool(bench, [last]):
        await _only(bench, last, "the other endpoints were removed from the pool")
    for address in bench.pool:
        await _used(bench, address, "which was added to the pool")


@case(CaseLevel.MUST, changes_pool=True)
async def pool_without_endpoints_is_rejected(bench: Bench) -> None:
    """Returns 503 while the pool has no endpoint."""
    async with _changed_pool(bench, []):
        await _status(bench, _UNAVAILABLE, "the pool has no endpoint")
    await _status(bench, _OK, "the pool has endpoints again")


@asynccontextmanager
async def _changed_pool(bench: Bench, addresses: Sequence[str]) -> AsyncIterator[None]:
    control = bench.pool_control
    if control is None:
        raise Failure("the kit cannot change the pool")
    control.replace(addresses)
    try:
        yield
    finally:
        control.replace(bench.pool)


async def _status(bench: Bench, wanted: int, why: str) -> None:
    """Soon requests get this status, and no other than it or 200 before."""

    async def gets() -> bool:
        found = (await bench.send(chat(f"question {next(_NUMBERS)}"))).status
        expect(found == wanted or _OK in (found, wanted), f"{why}: status {found}")
        return found == wanted

    await _soon(bench, gets, f"{why}: requests do not get status {wanted}")
