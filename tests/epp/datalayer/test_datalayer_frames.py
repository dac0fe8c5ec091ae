"""Messages on a stream: whole, one after the other, and bounded."""

import asyncio

import pytest

from modelplane.epp.datalayer.frames import FrameTooLong, framed, read_frame


def read_all(data, most=100):
    async def story():
        reader = asyncio.StreamReader()
        reader.feed_data(data)
        reader.feed_eof()
        found = []
        while not reader.at_eof():
            found.append(await read_frame(reader, most))
        return found

    return asyncio.run(story())


def test_what_is_framed_is_read_again():
    messages = [b"", b"one", b"x" * 100]
    assert read_all(b"".join(map(framed, messages))) == messages


@pytest.mark.parametrize(
    ("data", "error"), [(framed(b"x" * 101), FrameTooLong), (framed(b"abc")[:-1], EOFError), (b"\0\0", EOFError)]
)
def test_what_is_no_message(data, error):
    with pytest.raises(error):
        read_all(data)
