"""The usage of streams whose clients did not want it."""

import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelplane.router.translation.stream_usage import HidesUsage, with_usage


@pytest.mark.parametrize(
    ("body", "options"),
    [
        (b'{"model": "m", "stream": true}', {"include_usage": True}),
        (b'{"stream": true, "stream_options": {"x": 1}}', {"x": 1, "include_usage": True}),
        (b'{"stream": true, "stream_options": {"include_usage": false}}', {"include_usage": True}),
        (b'{"stream": true, "stream_options": {"include_usage": true}}', None),
        (b'{"stream": false}', None),
        (b"{}", None),
        (b"[", None),
        (b"", None),
    ],
)
def test_a_stream_is_made_to_say_what_it_used(body, options):
    made = with_usage(body)
    assert (None if made is None else json.loads(made)["stream_options"]) == options


def event(**chunk):
    return b"data: " + json.dumps(chunk).encode() + b"\n\n"


USAGE = event(choices=[], usage={"prompt_tokens": 3})
KEPT = (
    event(choices=[{"delta": {"content": '"usage"'}}], usage=None)
    + event(choices=[{"delta": {"content": "b"}}], usage={"prompt_tokens": 3})
    + b": a comment\n\n"
)
LAST = b"data: [DONE]\n\n"


def data_of(stream):
    return [line for line in stream.splitlines() if line]


@given(st.lists(st.integers(0, len(KEPT + USAGE + LAST)), max_size=6))
def test_only_the_chunk_with_the_usage_is_left_out_however_the_stream_is_cut(cuts):
    stream, hides = KEPT + USAGE + LAST, HidesUsage()
    hides.begin(200, {"content-type": "text/event-stream; charset=utf-8"})
    places = [0, *sorted(cuts), len(stream)]
    pieces = [stream[first:last] for first, last in itertools.pairwise(places)]
    made = b"".join(hides.feed(piece) for piece in pieces) + hides.feed(b"", ends=True)
    assert data_of(made) == data_of(KEPT + LAST)


def test_what_is_no_stream_passes():
    hides = HidesUsage()
    hides.begin(400, {"content-type": "application/json"})
    assert hides.feed(USAGE, ends=True) == USAGE
