"""Cases about a picker that stops. They run last: each stops the picker and starts it again."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import aiohttp

from modelplane.conformance.epp.bench import CHAT, OK, Bench, Failure, HttpResponse, chat, expect
from modelplane.conformance.epp.proxy import MODES, OPEN
from modelplane.conformance.epp.registry import CaseLevel, CaseNeed, case
from modelplane.conformance.epp.sending import AGAIN_S, expect_soon
from modelplane.conformance.epp.upstreams import STRAY

_STREAMS = 4
_DRAINING_S = 0.5
_LAST = b"data: [DONE]\n\n"


@asynccontextmanager
async def _stopping(bench: Bench) -> AsyncIterator["asyncio.Task[None]"]:
    """The picker is stopped meanwhile, and runs again afterwards."""
    stopping = asyncio.create_task(bench.process.stop())
    try:
        yield stopping
    finally:
        bench.upstreams.released.set()
        await stopping
        await bench.process.start()
        await _picks_again(bench)


async def _picks_again(bench: Bench) -> None:
    async def picks() -> bool:
        answer = await bench.send()
        return answer.status == OK and answer.reached.endpoint in bench.pool

    await expect_soon(bench, picks, "the picker was started again and does not pick")


@case(CaseLevel.SHOULD, CaseNeed.PROCESS)
async def responses_in_flight_end_whole(bench: Bench) -> None:
    """Lets responses end that are under way when it is stopped.

    Pickers are rolled out while they serve: with the call to the picker, Envoy cuts the response.
    """
    bench.upstreams.released.clear()
    async with AsyncExitStack() as held:
        streams = [await held.enter_async_context(bench.stream("both")) for _ in range(_STREAMS)]
        expect(all(stream.status == OK for stream in streams), f"status {[each.status for each in streams]}")
        async with _stopping(bench):
            await asyncio.sleep(_DRAINING_S)
            bench.upstreams.released.set()
            for stream in streams:
                expect(await _ends(stream), "a response was cut when the picker was stopped")


async def _ends(stream: aiohttp.ClientResponse) -> bool:
    try:
        return (await stream.read()).endswith(_LAST)
    except aiohttp.ClientError:
        return False


@case(CaseLevel.MUST, CaseNeed.PROCESS)
async def nothing_passes_unpicked(bench: Bench) -> None:
    """Lets no request pass without a pick while it stops and after, where the gateway fails closed.

    A call that ends without an error means to Envoy that nothing is to be done, and the request goes anywhere.
    """
    async with AsyncExitStack() as held:
        halves = [await held.enter_async_context(_half_sent(bench, mode)) for mode in ("full", "both", "buffered")]
        async with _stopping(bench) as stopping:
            while not stopping.done():
                await _none_passes(bench)
                await asyncio.sleep(AGAIN_S)
            await _none_passes(bench)
            for half in halves:
                status, body = await half.rest(bench.soon_s)
                expect(STRAY.encode() not in body, f"{half.mode}: a request that was half sent passed, status {status}")


async def _none_passes(bench: Bench) -> None:
    for mode in MODES:
        try:
            answer = await bench.send(mode=mode)
        except aiohttp.ClientError:
            continue  # a connection that is cut passes nothing
        passed = answer.status == OK and answer.reached.endpoint == STRAY
        expect(not passed, f"{mode}: a request passed unpicked while the picker was stopped")


class _HalfSent:
    """A request of which the first half was sent."""

    def __init__(self, mode: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, rest: bytes) -> None:
        self.mode = mode
        self._reader, self._writer, self._rest = reader, writer, rest

    async def rest(self, soon_s: float) -> tuple[str, bytes]:
        """Send the second half. Returns the status line and the rest of the response."""
        try:
            self._writer.write(self._rest)
            async with asyncio.timeout(soon_s):
                status, _, rest = (await self._reader.read(-1)).partition(b"\r\n")
        except TimeoutError:
            raise Failure(f"{self.mode}: a request that was half sent gets no response after {soon_s:g} s") from None
        except ConnectionError:
            return "", b""
        return status.decode(), rest


@asynccontextmanager
async def _half_sent(bench: Bench, mode: str) -> AsyncIterator[_HalfSent]:
    body = json.dumps(chat("half a question")).encode()
    head = f"POST {CHAT} HTTP/1.1\r\nhost: kit\r\ncontent-type: application/json\r\nconnection: close\r\n"
    reader, writer = await asyncio.open_connection("127.0.0.1", bench.proxy.port(mode))
    try:
        writer.write(f"{head}content-length: {len(body)}\r\n\r\n".encode() + body[:20])
        await writer.drain()
        await asyncio.sleep(AGAIN_S)
        yield _HalfSent(mode, reader, writer, body[20:])
    finally:
        writer.close()


@case(CaseLevel.SHOULD, CaseNeed.PROCESS)
async def fail_open_passes_and_recovers(bench: Bench) -> None:
    """Once it has ended, lets requests pass at once where the gateway fails open, and picks once it runs again.

    A port that still accepts and never answers holds requests until they time out, whatever the failure mode.
    """
    async with _stopping(bench) as stopping:
        await stopping
        try:
            async with asyncio.timeout(bench.soon_s):
                answer = await _send_open(bench)
        except TimeoutError:
            raise Failure(f"the gateway fails open, and a request has no response after {bench.soon_s:g} s") from None
        expect(answer.status == OK, f"the gateway fails open, and a request gets status {answer.status}")

    async def picks() -> bool:
        return (await _send_open(bench)).reached.endpoint in bench.pool

    await expect_soon(bench, picks, "the picker was started again, and requests pass unpicked")


async def _send_open(bench: Bench) -> HttpResponse:
    """Without a body, which a picker that knows full duplex only would wait for in this mode."""
    return await bench.send(mode=OPEN, method="GET", path="/v1/models")
