"""Streams without a network: order, credit, and what happens to those that wait."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelplane.tunnel.frames import (
    MAX_PAYLOAD,
    WINDOW_BYTES,
    TunnelError,
    TunnelFrame,
    TunnelFrameType,
    decode_frame,
    encode_frame,
    window,
)
from modelplane.tunnel.streams import TunnelStreams


@given(st.sampled_from(TunnelFrameType), st.integers(0, 2**32 - 1), st.binary(max_size=200))
def test_a_frame_comes_back_as_it_was(kind, stream, payload):
    frame = TunnelFrame(kind, stream, payload)
    assert decode_frame(encode_frame(frame)) == frame


def test_a_frame_that_is_too_large_is_not_made():
    with pytest.raises(TunnelError, match="65536 are the most"):
        encode_frame(TunnelFrame(TunnelFrameType.BODY, 1, bytes(MAX_PAYLOAD + 1)))


@given(st.lists(st.binary(max_size=400_000), max_size=4))
def test_whatever_is_sent_arrives_whole_and_never_more_than_a_window_is_under_way(parts):
    async def story():
        held = 0

        async def to_far(frame):
            nonlocal held
            held += len(frame.payload) if frame.type is TunnelFrameType.BODY else 0
            assert held <= WINDOW_BYTES
            far_stream.on_frame(frame)

        async def to_near(frame):
            nonlocal held
            held -= frame.credit
            near_stream.on_frame(frame)

        near, far = TunnelStreams(to_far, most=1), TunnelStreams(to_near, most=1)
        near_stream, far_stream = near.open(), far.open()

        async def send():
            for part in parts:
                await near_stream.send(part)
            await near_stream.end()

        sending = asyncio.create_task(send())
        received = b"".join([part async for part in far_stream.chunks()])
        await sending
        return received

    assert asyncio.run(story()) == b"".join(parts)


async def nowhere(_):
    pass


def test_who_waits_for_credit_or_an_answer_is_freed_when_the_connection_ends():
    async def story():
        streams = TunnelStreams(nowhere, most=4)
        stream = streams.open()
        waits = [
            asyncio.create_task(stream.send(bytes(WINDOW_BYTES + 1))),
            asyncio.create_task(stream.head()),
            asyncio.create_task(anext(stream.chunks())),
        ]
        await asyncio.sleep(0)
        streams.fail_all("the agent disconnected")
        return [str(each) for each in await asyncio.gather(*waits, return_exceptions=True)]

    assert asyncio.run(story()) == ["the agent disconnected"] * 3


def test_what_arrived_before_a_reset_is_read_before_it():
    async def story():
        stream = TunnelStreams(nowhere, most=1).open()
        stream.on_frame(TunnelFrame(TunnelFrameType.BODY, 1, b"first"))
        stream.on_frame(TunnelFrame(TunnelFrameType.RESET, 1, b"gone"))
        parts = stream.chunks()
        assert await anext(parts) == b"first"
        with pytest.raises(TunnelError, match="gone"):
            await anext(parts)

    asyncio.run(story())


def test_credit_does_not_grow_beyond_the_window():
    async def story():
        sent = []

        async def keep(frame):
            sent.append(frame)

        stream = TunnelStreams(keep, most=1).open()
        for _ in range(5):
            stream.on_frame(window(1, 2**32 - 1))
        sending = asyncio.create_task(stream.send(bytes(2 * WINDOW_BYTES)))
        await asyncio.sleep(0.01)
        sending.cancel()
        return sum(len(frame.payload) for frame in sent)

    assert asyncio.run(story()) == WINDOW_BYTES


def test_frames_of_a_stream_that_was_closed_are_passed_over():
    async def story():
        streams = TunnelStreams(nowhere, most=1)
        stream = streams.open()
        streams.close(stream)
        assert streams.accept(TunnelFrame(TunnelFrameType.BODY, stream.number, b"late")) is None
        streams.hand(TunnelFrame(TunnelFrameType.HEAD, 99, b"{}"))
        assert len(streams) == 0

    asyncio.run(story())
