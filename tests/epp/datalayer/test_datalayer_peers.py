"""Pickers of one pool that share what they have in flight and which prompts went where, over real sockets."""

import asyncio
from contextlib import AsyncExitStack, asynccontextmanager, suppress

import msgspec
import pytest

from modelplane.epp.datalayer.endpoints import StaticEndpoints
from modelplane.epp.datalayer.frames import framed
from modelplane.epp.datalayer.peers import PeerOptions, PeerSync, PeerUpdate, named_peers
from modelplane.epp.scheduling.endpoints import Endpoint
from modelplane.epp.scheduling.parameters import ApproxPrefixParameters
from modelplane.epp.scheduling.producers.approx_producer import ApproxPrefixProducer
from modelplane.epp.scheduling.requests import Request
from tests.support.waiting import until

HOST = "127.0.0.1"


class Picker:
    """What PeerSync needs of a picker: its own endpoint objects and its own index."""

    def __init__(self, everyone):
        self.everyone = everyone
        self.a, self.b = Endpoint("pool/a", "10.0.0.1:8000"), Endpoint("pool/b", "10.0.0.2:8000")
        self.source = StaticEndpoints((self.a, self.b))
        self.producer = ApproxPrefixProducer("prefix", ApproxPrefixParameters())

        async def find():
            return set(everyone)

        self.sync = PeerSync(self.source, PeerOptions(find, 0, HOST, 0.02))
        self.sync.state.share_prompts(self.producer)

    def send(self, prompt, endpoint):
        """As a request that is sent there: counted and recorded."""
        request = Request(id="r", model="m", prompts=(prompt,))
        match = self.producer.index.match(request, self.source.current)
        endpoint.count(1, 100)
        self.producer.index.record(request, (endpoint,), match)
        self.producer.on_record((endpoint,), match)

    def held(self, prompt):
        return list(
            self.producer.index.match(Request(id="r", model="m", prompts=(prompt,)), self.source.current).matched
        )

    @property
    def loads(self):
        return [(each.requests_in_flight, each.tokens_in_flight) for each in (self.a, self.b)]


@asynccontextmanager
async def pickers(count):
    everyone = set()
    made = [Picker(everyone) for _ in range(count)]
    async with AsyncExitStack() as stack:
        for each in made:
            await each.sync.start()
            stack.push_async_callback(each.sync.stop)
            everyone.add((HOST, each.sync.port))
        await until(lambda: all(each.sync.peers == count - 1 for each in made))
        yield made


def test_what_one_has_in_flight_counts_for_all_until_it_ends():
    async def story():
        async with pickers(3) as (one, two, three):
            one.a.count(2, 500)
            two.a.count(1, 50)
            await until(lambda: [each.loads for each in (one, two, three)] == [[(3, 550), (0, 0)]] * 3)
            one.a.count(-2, -500)
            await until(lambda: [each.loads for each in (one, two, three)] == [[(1, 50), (0, 0)]] * 3)

    asyncio.run(story())


def test_a_picker_that_ends_has_nothing_in_flight():
    async def story():
        async with pickers(2) as (one, two):
            one.b.count(4, 40)
            await until(lambda: two.loads == [(0, 0), (4, 40)])
            await one.sync.stop()
            await until(lambda: two.loads == [(0, 0), (0, 0)] and two.sync.peers == 0)

    asyncio.run(story())


def test_a_picker_that_comes_later_is_told_everything_that_is_in_flight():
    async def story():
        async with pickers(2) as (one, two):
            one.a.count(3, 30)
            await until(lambda: two.loads == [(3, 30), (0, 0)])
            three = Picker(one.everyone)
            three.b.count(1, 1)
            await three.sync.start()
            three.everyone.add((HOST, three.sync.port))
            await until(lambda: [each.loads for each in (one, two, three)] == [[(3, 30), (1, 1)]] * 3)
            await three.sync.stop()

    asyncio.run(story())


def test_a_prompt_that_one_sent_is_a_hit_for_the_others():
    prompt = b"You are a helpful assistant. " * 200

    async def story():
        async with pickers(2) as (one, two):
            assert two.held(prompt) == [0, 0]
            one.send(prompt, one.b)
            await until(lambda: two.held(prompt)[1] > 0)
            assert two.held(prompt) == one.held(prompt)

    asyncio.run(story())


def test_loads_are_not_shared_where_the_configuration_says_so():
    async def story():
        async with pickers(2) as (one, two):
            one.sync.share_loads(shared=False)
            one.a.count(2, 20)
            two.b.count(1, 10)
            one.send(b"x" * 4096, one.a)
            await until(lambda: sum(two.held(b"x" * 4096)) > 0)
            assert (one.loads, two.loads) == ([(3, 120), (0, 0)], [(0, 0), (1, 10)])

    asyncio.run(story())


async def talk(picker, frame):
    """Send a frame as a peer would: the greeting, and what comes after it."""
    reader, writer = await asyncio.open_connection(HOST, picker.sync.port)
    try:
        greeting = await reader.read(8)
        writer.write(frame)
        return greeting, await reader.read() if greeting else b""
    finally:
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()


def test_a_chain_that_no_prompt_has_is_cut():
    picker = Picker(set())
    picker.producer.index.record_chains(picker.a, 64, [range(1, 5000)])
    assert 0 < picker.producer.index.landmarks < 5000


NEWS = msgspec.msgpack.encode(PeerUpdate({"pool/a": (9, 9)}))
NEGATIVE = msgspec.msgpack.encode([{}, [["pool/a", 64, [[-1]], [1]]]])


@pytest.mark.parametrize(
    "frame",
    [
        pytest.param(b"\xff\xff\xff\xff", id="too long"),
        pytest.param(b"\x00\x00\x00\x02\xc1\xc1", id="no msgpack"),
        pytest.param(len(NEGATIVE).to_bytes(4) + NEGATIVE, id="a hash that is none"),
    ],
)
def test_a_peer_that_sends_nonsense_is_left_alone(frame):
    async def story():
        async with pickers(2) as (one, _two):
            greeting, answer = await talk(one, frame)
            assert (len(greeting), answer) == (8, b"")
            assert one.loads == [(0, 0), (0, 0)]
            assert one.sync.peers == 1

    asyncio.run(story())


def test_an_address_that_is_no_peers_is_not_read():
    async def story():
        async with pickers(2) as (one, _two):
            one.everyone.clear()
            await until(lambda: not one.sync._found)
            assert await talk(one, b"") == (b"", b"")
            assert one.loads == [(0, 0), (0, 0)]

    asyncio.run(story())


def test_names_are_resolved_to_the_addresses_of_peers():
    assert asyncio.run(named_peers([("localhost", 9004), ("127.0.0.2", 1)])()) >= {(HOST, 9004), ("127.0.0.2", 1)}


def test_a_picker_stops_though_an_update_comes_in_the_same_moment():
    async def story():
        reader = asyncio.StreamReader()
        reading = asyncio.create_task(Picker(set()).sync._read(reader))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        reader.feed_data(framed(msgspec.msgpack.encode(PeerUpdate({}, ()))))
        reading.cancel()
        await asyncio.wait([reading], timeout=5)
        return reading.cancelled()

    assert asyncio.run(story())
