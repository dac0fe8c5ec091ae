"""How cases send requests and wait for what a picker does with them."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import count

from modelplane.conformance.epp.bench import OK, Bench, Failure, chat, expect, subset_of

IN_A_ROW, HELD = 12, 8
AGAIN_S = 0.1
_NUMBERS = count()


def fresh_number() -> int:
    """Another one each time, so that no prompt is one that a server has seen."""
    return next(_NUMBERS)


async def send(bench: Bench) -> str:
    """The endpoint that a request reaches whose prompt nobody has seen."""
    return (await bench.send(chat(f"question {fresh_number()}"))).reached.endpoint


async def expect_only(bench: Bench, wanted: str, otherwise: str) -> None:
    """Soon all requests reach one endpoint."""
    deadline_s = asyncio.get_running_loop().time() + bench.soon_s
    while asyncio.get_running_loop().time() < deadline_s:
        for _ in range(IN_A_ROW):
            if await send(bench) != wanted:
                break
        else:
            return
        await asyncio.sleep(AGAIN_S)
    raise Failure(f"{otherwise}: for {bench.soon_s:g} s, requests reached other endpoints than {wanted}")


async def expect_soon(bench: Bench, holds: Callable[[], Awaitable[bool]], otherwise: str) -> None:
    deadline_s = asyncio.get_running_loop().time() + bench.soon_s
    while asyncio.get_running_loop().time() < deadline_s:
        if await holds():
            return
        await asyncio.sleep(AGAIN_S)
    raise Failure(f"{otherwise} after {bench.soon_s:g} s")


async def expect_used(bench: Bench, wanted: str, why: str) -> None:
    """Soon a request reaches this endpoint."""

    async def reached() -> bool:
        return wanted in {await send(bench) for _ in range(IN_A_ROW)}

    await expect_soon(bench, reached, f"no request reached {wanted}, {why},")


@asynccontextmanager
async def streams_at(bench: Bench, addresses: Sequence[str], times: int) -> AsyncIterator[None]:
    """As many responses as `times` that do not end, at each of the addresses.

    In a mode that processes responses, for in others a picker cannot know when they end.
    """
    bench.upstreams.released.clear()
    try:
        async with AsyncExitStack() as held:
            for address in addresses:
                for _ in range(times):
                    response = await held.enter_async_context(bench.stream("both", subset_of([address])))
                    expect(response.status == OK, f"status {response.status}")
            yield
    finally:
        bench.upstreams.released.set()


async def expect_status(bench: Bench, wanted: int, why: str) -> None:
    """Soon requests get this status, and no other than it or 200 before."""

    async def gets() -> bool:
        found = (await bench.send(chat(f"question {fresh_number()}"))).status
        expect(found == wanted or OK in (found, wanted), f"{why}: status {found}")
        return found == wanted

    await expect_soon(bench, gets, f"{why}: requests do not get status {wanted}")
