"""The selector that calls readers itself, under asyncio's loop; and connections that are read through it."""

import asyncio
import selectors
import socket

import pytest

from modelplane.epp.transport.calls import Settings
from modelplane.epp.transport.h2.server import H2Server
from modelplane.epp.transport.loop import _Selector, make_loop

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
SETTINGS = b"\x00\x00\x00\x04\x00\x00\x00\x00\x00"
PING = b"\x00\x00\x08\x06\x00\x00\x00\x00\x00"
PONG = b"\x00\x00\x08\x06\x01\x00\x00\x00\x00"


async def until(condition):
    for _ in range(20_000):
        if condition():
            return
        await asyncio.sleep(0.002)
    raise AssertionError("it did not come to pass")


@pytest.fixture
def pair():
    here, there = socket.socketpair()
    for end in (here, there):
        end.setblocking(False)
    with here, there:
        yield here, there


@pytest.fixture
def selector():
    with _Selector() as made:
        yield made


def test_what_nobody_reads_directly_is_reported_to_the_loop(selector, pair):
    here, there = pair
    key = selector.register(here, selectors.EVENT_READ | selectors.EVENT_WRITE, "data")
    assert selector.select(0) == [(key, selectors.EVENT_WRITE)]
    there.send(b"x")
    assert selector.select(0) == [(key, selectors.EVENT_READ | selectors.EVENT_WRITE)]
    assert (selector.get_key(here), list(selector.get_map())) == (key, [here.fileno()])
    reading = selector.modify(here, selectors.EVENT_READ, "other")
    assert selector.select(0) == [(reading, selectors.EVENT_READ)]
    assert selector.unregister(here) == reading
    assert selector.select(0) == []


def test_a_reader_is_called_and_the_loop_hears_nothing(selector, pair):
    here, there = pair
    read = []
    selector.register(here, selectors.EVENT_READ)
    selector.direct.add_reader(here.fileno(), lambda: read.append(here.recv(10)) is None)
    there.send(b"x")
    assert (selector.select(0.01), read) == ([], [b"x"])


def test_what_a_reader_leaves_is_told(selector, pair):
    here, there = pair
    key = selector.register(here, selectors.EVENT_READ)
    selector.direct.add_reader(here.fileno(), lambda: False)
    there.send(b"x")
    assert selector.select(10) == [(key, selectors.EVENT_READ)]
    selector.direct.remove_reader(here.fileno())
    assert selector.select(10) == [(key, selectors.EVENT_READ)]


def test_it_returns_once_the_loop_has_got_something_to_do(selector, pair):
    here, there = pair

    def read():
        here.recv(10)
        selector.direct.has_work = True
        return True

    selector.register(here, selectors.EVENT_READ)
    selector.direct.add_reader(here.fileno(), read)
    there.send(b"x")
    assert selector.select(None) == []


def test_it_returns_in_time_however_much_there_is_to_read(selector, pair):
    here, there = pair
    selector.register(here, selectors.EVENT_READ)
    selector.register(there, selectors.EVENT_READ)
    selector.direct.add_reader(here.fileno(), lambda: here.send(here.recv(10)) > 0)
    selector.direct.add_reader(there.fileno(), lambda: there.send(there.recv(10)) > 0)
    there.send(b"x")
    assert selector.select(0.02) == []


@pytest.mark.parametrize("loop_factory", [make_loop, asyncio.SelectorEventLoop])
def test_a_connection_fares_alike_on_both_loops(loop_factory):
    async def ask():
        server = H2Server({}, Settings(host="127.0.0.1", port=0))
        reader, writer = await asyncio.open_connection("127.0.0.1", await server.start())
        writer.write(PREFACE + SETTINGS)
        for number in range(3):
            writer.write(PING + bytes([number] * 8))
            while True:
                head = await reader.readexactly(9)
                payload = await reader.readexactly(int.from_bytes(head[:3]))
                if head == PONG:
                    break
            assert payload == bytes([number] * 8)
        writer.close()
        await server.stop(5.0)
        return True

    with asyncio.Runner(loop_factory=loop_factory) as runner:
        assert runner.run(ask())


def test_timers_threads_and_callbacks_go_on_beside_what_is_read_directly():
    async def scenario():
        server = H2Server({}, Settings(host="127.0.0.1", port=0))
        _reader, writer = await asyncio.open_connection("127.0.0.1", await server.start())
        writer.write(PREFACE + SETTINGS + PING + b"12345678")
        await asyncio.sleep(0.01)
        found = await asyncio.to_thread(lambda: "from a thread")
        writer.close()
        await server.stop(5.0)
        return found

    with asyncio.Runner(loop_factory=make_loop) as runner:
        assert runner.run(scenario()) == "from a thread"


def test_what_a_socket_does_not_take_is_written_in_its_order():
    pieces = [bytes([number]) * size for number, size in enumerate((10, 3 << 20, 10, 2 << 20, 1000))]

    async def scenario():
        server = H2Server({}, Settings(host="127.0.0.1", port=0))
        reader, writer = await asyncio.open_connection("127.0.0.1", await server.start())
        writer.write(PREFACE + SETTINGS)
        greeting = await reader.readexactly(9)
        (link,) = server._links
        for piece in pieces:
            link._connection._outbound.queue(piece)
            link.flush()
            await asyncio.sleep(0)
        found = bytearray(greeting)
        while not found.endswith(pieces[-1]):
            found += await reader.read(1 << 16)
        writer.close()
        await server.stop(5.0)
        return bytes(found)

    with asyncio.Runner(loop_factory=make_loop) as runner:
        assert runner.run(asyncio.wait_for(scenario(), 60)).endswith(b"".join(pieces))


def test_a_peer_that_resets_is_gone():
    async def scenario():
        server = H2Server({}, Settings(host="127.0.0.1", port=0))
        with socket.create_connection(("127.0.0.1", await server.start())) as peer:
            peer.sendall(PREFACE + SETTINGS)
            await until(lambda: server._links)
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")
        await until(lambda: not server._links)
        await server.stop(5.0)
        return asyncio.get_running_loop().direct._readers

    with asyncio.Runner(loop_factory=make_loop) as runner:
        assert runner.run(asyncio.wait_for(scenario(), 60)) == {}
