"""KV events over real ZeroMQ sockets, with engines that lose batches and engines that start over."""

import asyncio
from collections import deque
from contextlib import asynccontextmanager

import msgspec
import pytest
import zmq
import zmq.asyncio

from modelplane.api.errors import InputError
from modelplane.envoy.ports import free_port
from modelplane.epp.datalayer.kv_events import KvEventSubscriber, KvSettings, KvTarget, settings_from, targets_of
from modelplane.epp.scheduling.endpoints import Endpoint
from modelplane.epp.scheduling.producers.precise import PreciseIndex
from modelplane.sim.engine.kv_events import BlockStoredEvent, KvEventLog
from tests.support.waiting import until

TOPIC = b"kv@pod@model"
END = (-1).to_bytes(8, "big", signed=True)


def tokens(block):
    return [block * 10, block * 10 + 1]


class Publisher:
    """A publisher as in an engine: numbered batches to subscribers, and a replay of the last ones."""

    def __init__(self, context, kept=100):
        self.events = context.socket(zmq.XPUB)
        self.port = self.events.bind_to_random_port("tcp://127.0.0.1")
        self.replay = context.socket(zmq.ROUTER)
        self.replay_port = self.replay.bind_to_random_port("tcp://127.0.0.1")
        self.kept = deque(maxlen=kept)
        self.next = self.asked = 0
        self.answers = True

    async def subscribed(self):
        async with asyncio.timeout(30):
            assert await self.events.recv() == b"\x01kv@"

    async def store(self, block, *, lose=False):
        """One more block, after the one before it."""
        stored = ["BlockStored", [100 + block], 100 + block - 1 if block else None, tokens(block), 2]
        payload = msgspec.msgpack.encode([0.0, [stored], None])
        sequence = self.next.to_bytes(8, "big")
        self.next += 1
        self.kept.append((sequence, payload))
        if not lose:
            await self.events.send_multipart([TOPIC, sequence, payload])

    async def serve_replays(self):
        while True:
            client, _, first = await self.replay.recv_multipart()
            self.asked += 1
            if not self.answers:
                continue
            for sequence, payload in list(self.kept):
                if sequence >= first:
                    await self.replay.send_multipart([client, b"", TOPIC, sequence, payload])
            await self.replay.send_multipart([client, b"", b"", END, b""])

    def close(self):
        self.events.close(linger=0)
        self.replay.close(linger=0)


@asynccontextmanager
async def publishing(**options):
    context = zmq.asyncio.Context()
    publisher = Publisher(context, **options)
    task = asyncio.create_task(publisher.serve_replays())
    try:
        yield publisher
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        publisher.close()
        context.destroy(linger=0)


@asynccontextmanager
async def listening(publisher, *, replay=True, idle_s=30.0):
    index, endpoint = PreciseIndex(block_tokens=2), Endpoint("default/pod", "127.0.0.1:8000")
    port = publisher.replay_port if replay else 0
    listener = KvEventSubscriber(index, KvSettings(publisher.port, port, replay_idle_s=idle_s, cooldown_s=0.0))
    listener.watch([endpoint])
    await listener.start()
    try:
        yield index, endpoint, listener
    finally:
        await listener.stop()


def matched(index, endpoint, blocks):
    return index.match([[token for block in range(blocks) for token in tokens(block)]], [endpoint]).matched[0]


def story(body, **options):
    async def main():
        async with publishing(**options) as publisher:
            await body(publisher)
        left = asyncio.all_tasks() - {asyncio.current_task()}
        assert not left

    asyncio.run(main())


def test_batches_reach_the_index():
    async def body(publisher):
        async with listening(publisher) as (index, endpoint, listener):
            await publisher.subscribed()
            for block in range(3):
                await publisher.store(block)
            await until(lambda: matched(index, endpoint, 5) == 3)
            assert (listener.counts.gaps, listener.counts.started_over) == (0, 0)

    story(body)


def test_a_late_subscriber_requests_a_replay():
    async def body(publisher):
        for block in range(3):
            await publisher.store(block, lose=True)
        async with listening(publisher) as (index, endpoint, listener):
            await until(lambda: matched(index, endpoint, 5) == 3)
            assert (listener.counts.replayed, listener.counts.batches) == (3, 0)

    story(body)


def test_a_gap_is_filled_by_replay():
    async def body(publisher):
        async with listening(publisher) as (index, endpoint, listener):
            await publisher.subscribed()
            await publisher.store(0)
            await until(lambda: matched(index, endpoint, 5) == 1)
            await publisher.store(1, lose=True)
            await publisher.store(2, lose=True)
            await publisher.store(3)
            await until(lambda: matched(index, endpoint, 5) == 4)
            await publisher.store(4)
            await until(lambda: matched(index, endpoint, 5) == 5)
            assert (listener.counts.gaps, listener.counts.started_over) == (1, 0)

    story(body)


@pytest.mark.parametrize("how", ["no replay port", "no answer", "forgotten"])
def test_a_gap_without_replay_resets_the_index(how):
    async def body(publisher):
        idle_s = 0.3 if how == "no answer" else 30.0
        async with listening(publisher, replay=how != "no replay port", idle_s=idle_s) as (index, endpoint, listener):
            await publisher.subscribed()
            await publisher.store(0)
            await until(lambda: matched(index, endpoint, 5) == 1)
            publisher.answers = how != "no answer"
            for block in range(1, 6):
                await publisher.store(block, lose=True)
            await publisher.store(0)
            await until(lambda: listener.counts.started_over == 1)
            await publisher.store(1)
            await until(lambda: matched(index, endpoint, 5) == 2)

    story(body, kept=2)


def test_an_engine_that_was_started_over_is_forgotten_and_learned_again():
    async def body(publisher):
        async with listening(publisher) as (index, endpoint, listener):
            await publisher.subscribed()
            for block in range(4):
                await publisher.store(block)
            await until(lambda: matched(index, endpoint, 5) == 4)
            publisher.next = 0
            publisher.kept.clear()
            await publisher.store(0, lose=True)
            await publisher.store(1)
            await until(lambda: matched(index, endpoint, 5) == 2)
            assert listener.counts.started_over == 1
            await publisher.store(2)
            await until(lambda: matched(index, endpoint, 5) == 3)
            assert listener.counts.started_over == 1

    story(body)


def test_malformed_messages_are_counted_and_passed_over():
    async def body(publisher):
        async with listening(publisher) as (index, endpoint, listener):
            await publisher.subscribed()
            for frames in ([TOPIC], [TOPIC, b"1", b"x"], [TOPIC, bytes(8), b"\xc1"], [TOPIC, bytes(8), b"\x01"]):
                await publisher.events.send_multipart(frames)
            await publisher.store(0)
            await until(lambda: matched(index, endpoint, 5) == 1)
            assert listener.counts.malformed == 4

    story(body)


def test_an_endpoint_that_leaves_is_no_longer_listened_to():
    async def body(publisher):
        async with listening(publisher) as (_, _, listener):
            await publisher.subscribed()
            listener.watch([])
            async with asyncio.timeout(30):
                assert await publisher.events.recv() == b"\x00kv@"

    story(body)


def test_events_of_a_simulated_engine():
    async def body(publisher):
        log = KvEventLog(enabled=True, wall_clock=lambda: 1.0)
        batches = []
        log.listen(batches.append)
        log.add(BlockStoredEvent((7,), None, tuple(tokens(0)), 2))
        log.publish()
        async with listening(publisher) as (index, endpoint, _):
            await publisher.subscribed()
            for batch in batches:
                events = [msgspec.to_builtins(event) for event in batch.events]
                payload = msgspec.msgpack.encode([batch.ts, events, None])
                await publisher.events.send_multipart([TOPIC, batch.seq.to_bytes(8, "big"), payload])
            await until(lambda: matched(index, endpoint, 5) == 1)

    story(body)


def test_ranks_with_their_own_ports_publish_on_as_many_ports():
    endpoints = [Endpoint(name, name) for name in ("10.0.0.1:8001", "10.0.0.1:8000", "[fd00::1]:8000", "nonsense")]
    found = targets_of(endpoints, KvSettings(5557, 6000))
    assert [found.get(id(endpoint)) for endpoint in endpoints] == [
        KvTarget("tcp://10.0.0.1:5558", "tcp://10.0.0.1:6001"),
        KvTarget("tcp://10.0.0.1:5557", "tcp://10.0.0.1:6000"),
        KvTarget("tcp://[fd00::1]:5557", "tcp://[fd00::1]:6000"),
        None,
    ]


def test_the_configuration_of_the_ecosystem():
    config = {
        "topicFilter": "kv@x",
        "concurrency": 4,
        "discoverPods": True,
        "podDiscoveryConfig": {"podLabelSelector": "a=b", "socketPort": 7000, "replaySocketPort": 7001},
    }
    assert settings_from(config) == KvSettings(7000, 7001, "kv@x")
    assert settings_from({}) == KvSettings(5557, 0, "kv@")
    assert settings_from({"discoverPods": False}) == KvSettings(bind="tcp://*:5557")
    assert settings_from({"discoverPods": False, "zmqEndpoint": "tcp://*:9"}) == KvSettings(bind="tcp://*:9")


def stored(block, rank=None):
    event = ["BlockStored", [100 + block], 100 + block - 1 if block else None, tokens(block), 2]
    return msgspec.msgpack.encode([0.0, [event], rank])


def test_connecting_engines_are_identified_by_topic():
    async def main():
        pool = [
            Endpoint("default/one", "10.0.0.1:8000"),
            Endpoint("default/two:8001", "10.0.0.2:8001"),
            Endpoint("default/two:8000", "10.0.0.2:8000"),
        ]
        index, context, port = PreciseIndex(block_tokens=2), zmq.asyncio.Context(), free_port()
        listener = KvEventSubscriber(index, KvSettings(bind=f"tcp://127.0.0.1:{port}"))
        listener.watch(pool)
        await listener.start()
        engine = context.socket(zmq.XPUB)
        engine.connect(f"tcp://127.0.0.1:{port}")
        async with asyncio.timeout(30):
            assert await engine.recv() == b"\x01kv@"
        reported = [
            (b"kv@10.0.0.1:8000@m", 0, stored(0)),
            (b"kv@one@m", 1, stored(1)),
            (b"kv@10.0.0.2@m", 0, stored(0, rank=1)),
            (b"kv@default/two:8000@m", 0, stored(0)),
            (b"kv@somebody@m", 0, stored(0)),
            (b"kv@10.0.0.2@m", 0, stored(0, rank=7)),
            (b"kv@one@m", 9, stored(2)),
        ]
        for topic, number, payload in reported:
            await engine.send_multipart([topic, number.to_bytes(8, "big"), payload])
        await until(lambda: listener.counts.started_over == 1)
        found = [matched(index, endpoint, 3) for endpoint in pool]
        await listener.stop()
        engine.close(linger=0)
        context.destroy(linger=0)
        return found, listener.counts

    found, counts = asyncio.run(main())
    assert found == [0, 1, 1]
    assert (counts.batches, counts.unknown, counts.gaps) == (5, 2, 1)


def test_a_socket_in_use_is_reported():
    async def main():
        context = zmq.asyncio.Context()
        taken = context.socket(zmq.SUB)
        port = taken.bind_to_random_port("tcp://127.0.0.1")
        listener = KvEventSubscriber(PreciseIndex(block_tokens=2), KvSettings(bind=f"tcp://127.0.0.1:{port}"))
        try:
            with pytest.raises(InputError, match=r"zmqEndpoint: .*: Address already in use"):
                await listener.start()
        finally:
            await listener.stop()
            taken.close(linger=0)
            context.destroy(linger=0)

    asyncio.run(main())
