"""A client that is cheap enough to measure with: HTTP/1.1 over bare sockets, no parsing beyond where an answer ends.

Open loop: requests leave when they are due, whatever became of the earlier ones, on whichever connection is free or on
a new one. Closed loop: so many connections, each asking again once it was answered. A request is pulled from the
iterator in the moment in which it leaves, so that who makes them may look at the world first.
"""

import asyncio
import random
from collections.abc import Callable, Iterator
from typing import Final

import msgspec

_EVENT: Final = b"data: "
_OK: Final = b"HTTP/1.1 200"
_FEW: Final = 5
_REFUSED: Final = 0.01
"""A load of which more are refused measures nothing."""


class Sample(msgspec.Struct):
    """One exchange, in seconds after it was sent."""

    number: int
    first_s: float
    """Until the first event of a stream, or the first byte of another answer's body."""
    total_s: float
    answer: bytes


class ClientError(Exception):
    """An answer that is none."""


def post(body: bytes, path: str = "/v1/chat/completions", destination: str = "") -> bytes:
    named = f"x-gateway-destination-endpoint: {destination}\r\n" if destination else ""
    head = (
        f"POST {path} HTTP/1.1\r\nhost: bench\r\ncontent-type: application/json\r\n{named}"
        f"user-agent: OpenAI/Python 2.0\r\nauthorization: Bearer token\r\ncontent-length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


class _Connection(asyncio.Protocol):
    def __init__(self, ended: Callable[["_Connection", Sample], None], failed: Callable[[Exception], None]) -> None:
        self._ended = ended
        self._failed = failed
        self._now = asyncio.get_running_loop().time
        self._transport: asyncio.Transport | None = None
        self._number = self._length = self._body_at = -1
        self._sent_s = self._first_s = 0.0
        self._answer = bytearray()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        if isinstance(transport, asyncio.Transport):
            self._transport = transport

    def ask(self, number: int, question: bytes) -> None:
        if self._transport is None:
            raise ClientError("the connection is closed")
        self._number, self._sent_s, self._first_s, self._body_at = number, self._now(), 0.0, -1
        self._transport.write(question)

    def close(self) -> None:
        self._number = -1
        if self._transport is not None:
            self._transport.close()

    def data_received(self, data: bytes) -> None:
        answer = self._answer
        answer += data
        if self._body_at < 0 and not self._read_head():
            return
        if not self._first_s and self._has_begun():
            self._first_s = self._now() - self._sent_s
        if self._is_whole():
            number, self._number, self._answer = self._number, -1, bytearray()
            self._ended(self, Sample(number, self._first_s, self._now() - self._sent_s, bytes(answer)))

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        if self._number >= 0:
            self._failed(exc or ClientError("Envoy closed the connection"))

    def _read_head(self) -> bool:
        end = self._answer.find(b"\r\n\r\n")
        if end < 0:
            return False
        place = self._answer.find(b"content-length: ", 0, end)
        self._length = int(self._answer[place + 16 : self._answer.index(b"\r", place)]) if place >= 0 else -1
        self._body_at = end + 4
        return True

    def _has_begun(self) -> bool:
        return len(self._answer) > self._body_at and (
            self._length >= 0 or self._answer.find(_EVENT, self._body_at) >= 0
        )

    def _is_whole(self) -> bool:
        if self._length >= 0:
            return len(self._answer) - self._body_at >= self._length
        return self._answer.endswith(b"0\r\n\r\n")


class _Run:
    """The connections of one load, and what they brought."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._loop = asyncio.get_running_loop()
        self._idle: list[_Connection] = []
        self._all: list[_Connection] = []
        self.samples: list[Sample] = []
        self.refused = 0
        self.failure: asyncio.Future[None] = self._loop.create_future()
        self.answered: Callable[[_Connection], None] = self._idle.append

    async def connect(self, count: int) -> list[_Connection]:
        made = [await self._connection() for _ in range(count)]
        self._idle += made
        return made

    async def send(self, number: int, question: bytes) -> None:
        connection = self._idle.pop() if self._idle else await self._connection()
        connection.ask(number, question)

    async def _connection(self) -> _Connection:
        _, made = await self._loop.create_connection(
            lambda: _Connection(self._end, self._fail), "127.0.0.1", self._port
        )
        self._all.append(made)
        return made

    def _end(self, connection: _Connection, sample: Sample) -> None:
        self.samples.append(sample)
        if not sample.answer.startswith(_OK):
            self.refused += 1
            if self.refused > _FEW + len(self.samples) * _REFUSED:
                self._fail(ClientError(f"{self.refused} were refused: {sample.answer[:400].decode('latin-1')}"))
        self.answered(connection)

    def _fail(self, error: Exception) -> None:
        if not self.failure.done():
            self.failure.set_exception(error)

    def close(self) -> None:
        for connection in self._all:
            connection.close()
        if self.failure.done():
            self.failure.result()
        self.failure.cancel()


async def open_loop(
    port: int, questions: Iterator[bytes], *, rate: float, seconds: float, seed: int, patience_s: float = 60.0
) -> list[Sample]:
    """Arrivals as of many independent clients: the pauses are exponential, and the same for the same seed."""
    loop, chance, run = asyncio.get_running_loop(), random.Random(seed), _Run(port)  # noqa: S311  not a secret
    await run.connect(16)
    due = began = loop.time()
    sent = 0
    while due < began + seconds and not run.failure.done():
        if (pause := due - loop.time()) > 0:
            await asyncio.sleep(pause)
        await run.send(sent, next(questions))
        sent += 1
        due += chance.expovariate(rate)
    deadline = loop.time() + patience_s
    while len(run.samples) < sent and not run.failure.done() and loop.time() < deadline:  # noqa: ASYNC110  an event for each answer would cost more than the look
        await asyncio.sleep(0.02)
    run.close()
    if len(run.samples) < sent:
        raise ClientError(f"{sent - len(run.samples)} of {sent} requests had no answer after {patience_s:g} s")
    return run.samples


async def closed_loop(port: int, questions: Iterator[bytes], *, connections: int, seconds: float) -> list[Sample]:
    loop, run = asyncio.get_running_loop(), _Run(port)
    ends_s, numbers = loop.time() + seconds, iter(range(1 << 60))
    left = connections
    done = asyncio.Event()

    def again(connection: _Connection) -> None:
        nonlocal left
        if loop.time() < ends_s:
            connection.ask(next(numbers), next(questions))
            return
        left -= 1
        if not left:
            done.set()

    run.answered = again
    for connection in await run.connect(connections):
        connection.ask(next(numbers), next(questions))
    run.failure.add_done_callback(lambda _: done.set())
    await done.wait()
    run.close()
    return run.samples
