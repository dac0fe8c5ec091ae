"""The loop whose selector reads connections itself, beside asyncio's own."""

import asyncio
import selectors
import socket
import threading
import time

import pytest

from modelplane.epp.transport.calls import Settings
from modelplane.epp.transport.h2.frames import END_HEADERS, PREFACE, FrameType, frame
from modelplane.epp.transport.h2.hpack import literal
from modelplane.epp.transport.h2.server import H2Server
from modelplane.epp.transport.loop import ReadingSelector, make_loop
from tests.support.waiting import until

BEGIN = PREFACE + frame(FrameType.SETTINGS, 0, 0)
PONG = b"\x00\x00\x08\x06\x01\x00\x00\x00\x00"


@pytest.fixture
def pair():
    here, there = socket.socketpair()
    with here, there:
        yield here, there


@pytest.fixture
def selector():
    with ReadingSelector() as made:
        yield made


def test_what_has_no_reader_is_left_to_asyncio(selector, pair):
    here, there = pair
    key = selector.register(here, selectors.EVENT_READ | selectors.EVENT_WRITE, "data")
    assert selector.select(0) == [(key, selectors.EVENT_WRITE)]
    there.send(b"x")
    assert selector.select(0) == [(key, selectors.EVENT_READ | selectors.EVENT_WRITE)]
    reading = selector.modify(here, selectors.EVENT_READ, "other")
    assert selector.select(None) == [(reading, selectors.EVENT_READ)]
    there.close()
    assert selector.select(10) == [(reading, selectors.EVENT_READ)]
    selector.unregister(here)
    assert selector.select(0.001) == []


def test_a_reader_is_called_and_what_it_leaves_is_asyncios(selector, pair):
    here, there = pair
    received = []

    def read():
        received.append(here.recv(1))
        return received[-1] != b"z"

    key = selector.register(here, selectors.EVENT_READ)
    selector.direct_reads.readers[here.fileno()] = read
    there.send(b"xyz")
    assert (selector.select(None), received) == ([(key, selectors.EVENT_READ)], [b"x", b"y", b"z"])


def test_readers_are_called_until_asyncio_has_something_to_do(selector, pair):
    here, there = pair
    received = []

    def read():
        received.append(here.recv(1))
        selector.direct_reads.has_work = received[-1] == b"y"
        return True

    selector.register(here, selectors.EVENT_READ)
    selector.direct_reads.readers[here.fileno()] = read
    there.send(b"xyz")
    assert (selector.select(None), received) == ([], [b"x", b"y"])
    assert (selector.select(0), received) == ([], [b"x", b"y", b"z"])


def test_readers_that_are_always_busy_do_not_delay_a_timer(selector, pair):
    here, there = pair

    def read():
        there.send(here.recv(1))
        return True

    selector.register(here, selectors.EVENT_READ)
    selector.direct_reads.readers[here.fileno()] = read
    here.send(b"x")
    there.send(b"x")
    began = time.monotonic()
    assert selector.select(0.05) == []
    assert time.monotonic() - began >= 0.05


GIVEN_TO_DO = {
    "a call": lambda loop, done: loop.call_soon(done),
    "a timer": lambda loop, done: loop.call_later(0.001, done),
    "a result that is awaited": lambda loop, done: loop.create_task(_later(done)),
    "a call from a thread": lambda loop, done: loop.run_in_executor(None, lambda: loop.call_soon_threadsafe(done)),
}


async def _later(done):
    await asyncio.sleep(0)
    done()


@pytest.mark.parametrize("given", GIVEN_TO_DO.values(), ids=GIVEN_TO_DO)
def test_what_a_reader_gives_the_loop_to_do_is_done_at_once(pair, given):
    here, there = pair

    async def scenario():
        loop = asyncio.get_running_loop()
        done = loop.create_future()

        def read():
            here.recv(1)
            given(loop, lambda: done.set_result("done"))
            return True

        loop.add_reader(here, lambda: None)
        loop.direct_readers[here.fileno()] = read
        threading.Timer(0.05, there.send, [b"x"]).start()
        return await done

    # No other timer is there that would end a wait for it.
    with asyncio.Runner(loop_factory=make_loop) as runner:
        assert runner.run(scenario()) == "done"


def test_a_reader_may_stop_the_loop(pair):
    here, there = pair
    loop = make_loop()
    loop.add_reader(here, lambda: None)

    def read():
        here.recv(1)
        loop.stop()
        return True

    loop.direct_readers[here.fileno()] = read
    there.send(b"x")
    loop.run_forever()
    loop.close()


@pytest.mark.parametrize("loop_factory", [make_loop, asyncio.SelectorEventLoop])
def test_a_connection_fares_alike_on_both_loops(loop_factory):
    async def scenario():
        server = H2Server({}, Settings(host="127.0.0.1", port=0))
        reader, writer = await asyncio.open_connection("127.0.0.1", await server.start())
        writer.write(BEGIN)
        for number in range(3):
            payload = bytes([number] * 8)
            writer.write(frame(FrameType.PING, 0, 0, payload))
            await reader.readuntil(PONG + payload)
        found = await asyncio.to_thread(lambda: "from a thread")
        writer.close()
        await until(lambda: not server._links)
        await server.stop(5.0)
        return found, getattr(asyncio.get_running_loop(), "direct_readers", {})

    with asyncio.Runner(loop_factory=loop_factory) as runner:
        assert runner.run(asyncio.wait_for(scenario(), 60)) == ("from a thread", {})


def test_what_a_socket_does_not_take_is_written_in_its_order():
    pieces = [bytes([number]) * size for number, size in enumerate((10, 3 << 20, 10, 2 << 20, 1000))]

    async def scenario():
        server = H2Server({}, Settings(host="127.0.0.1", port=0))
        reader, writer = await asyncio.open_connection("127.0.0.1", await server.start())
        writer.write(BEGIN)
        found = bytearray(await reader.readexactly(9))
        (link,) = server._links
        for piece in pieces:
            link._connection._outbound.queue(piece)
            link.flush()
            await asyncio.sleep(0)
        while not found.endswith(pieces[-1]):
            found += await reader.read(1 << 16)
        writer.close()
        await server.stop(5.0)
        return bytes(found)

    with asyncio.Runner(loop_factory=make_loop) as runner:
        assert runner.run(asyncio.wait_for(scenario(), 60)).endswith(b"".join(pieces))


class Broken(dict):
    def get(self, *_path):
        raise RuntimeError("no methods")


def test_a_defect_ends_its_connection_and_not_the_loop(caplog):
    head = ((b":method", b"POST"), (b":scheme", b"http"), (b":path", b"/a/b"), (b":authority", b"x"),
            (b"content-type", b"application/grpc"), (b"te", b"trailers"))  # fmt: skip
    block = b"".join(literal(name, value) for name, value in head)

    async def scenario():
        server = H2Server(Broken(), Settings(host="127.0.0.1", port=0))
        port, ends = await server.start(), []
        for _ in range(2):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(BEGIN + frame(FrameType.HEADERS, END_HEADERS, 1, block))
            ends.append(bytes(await reader.read())[3:4])
            writer.close()
        await server.stop(5.0)
        return ends

    with asyncio.Runner(loop_factory=make_loop) as runner:
        assert runner.run(asyncio.wait_for(scenario(), 60)) == [bytes([FrameType.SETTINGS])] * 2
    assert [record.message for record in caplog.records] == ["a connection failed"] * 2
