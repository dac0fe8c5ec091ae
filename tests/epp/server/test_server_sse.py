"""Usage and model names in responses that come in pieces cut anywhere."""

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelplane.epp.scheduling.response_usage import ResponseUsage
from modelplane.epp.server.sse import ModelRenamer, UsageReader, join, read_usage

OPENAI = (
    b'data: {"id":"1","choices":[{"delta":{"content":"usage \\"usage\\" {"}}],"usage":null}\n\n'
    b'data: {"choices":[],"usage":{"prompt_tokens":11,"completion_tokens":7,'
    b'"prompt_tokens_details":{"cached_tokens":4}}}\n\n'
    b"data: [DONE]\n\n"
)
ANTHROPIC = (
    b"event: message_start\r\n"
    b'data: {"type":"message_start","message":{"usage":{"input_tokens":25,"output_tokens":1,'
    b'"cache_read_input_tokens":9}}}'
    b"\r\n\r\n"
    b'event: content_block_delta\r\ndata: {"type":"content_block_delta","delta":{"text":"hi"}}\r\n\r\n'
    b'event: message_delta\r\ndata: {"type":"message_delta","usage":{"output_tokens":15}}\r\n\r\n'
)
RESPONSES = (
    b'event: response.completed\ndata: {"type":"response.completed","response":{"usage":'
    b'{"input_tokens":3,"input_tokens_details":{"cached_tokens":2},"output_tokens":5}}}\n\n'
)
STREAMS = {
    "OpenAI": (OPENAI, ResponseUsage(11, 7, 4)),
    "Anthropic": (ANTHROPIC, ResponseUsage(25, 15, 9)),
    "OpenAI's responses": (RESPONSES, ResponseUsage(3, 5, 2)),
    "no usage": (b"data: {}\n\ndata: [DONE]\n\n", ResponseUsage()),
    "no end of line": (OPENAI.removesuffix(b"\n\ndata: [DONE]\n\n"), ResponseUsage(11, 7, 4)),
    "a comment": (b': {"usage":{"prompt_tokens":1}}\n', ResponseUsage()),
}


@pytest.mark.parametrize(("stream", "expected"), STREAMS.values(), ids=STREAMS.keys())
@given(st.lists(st.integers(0, 500), max_size=20))
def test_usage_of_streams_cut_anywhere(stream, expected, cuts):
    reader = UsageReader(streaming=True)
    places = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]
    for begin, end in pairwise(places):
        reader.feed(stream[begin:end])
    assert reader.end() == expected


@pytest.mark.parametrize("size", [1, 2, 5])
def test_usage_of_streams_cut_into_crumbs(size):
    for stream, expected in STREAMS.values():
        reader = UsageReader(streaming=True)
        for place in range(0, len(stream), size):
            reader.feed(stream[place : place + size])
        assert reader.end() == expected


def test_usage_of_a_whole_body_in_pieces():
    body = json.dumps({"choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 2}}).encode()
    reader = UsageReader(streaming=False)
    for byte in body:
        reader.feed(bytes((byte,)))
    assert reader.end() == ResponseUsage(1, 2, -1)


def test_a_line_without_end_is_let_go_and_the_next_is_read():
    reader = UsageReader(streaming=True)
    for _ in range(40):
        reader.feed(b"x" * 100_000)
    assert len(reader._held) <= 1 << 20
    reader.feed(b'"usage"\ndata: {"usage":{"prompt_tokens":5}}\n')
    assert reader.end() == ResponseUsage(5, -1, -1)


def test_a_body_without_end_is_let_go():
    reader = UsageReader(streaming=False)
    for _ in range(100):
        reader.feed(b"x" * 100_000)
    assert len(reader._held) == 0
    assert reader.end() == ResponseUsage()


@pytest.mark.parametrize(
    "usage",
    ['"x"', "5", "null", "[]", "[1]", '{"prompt_tokens":"5"}', '{"prompt_tokens":null}', '{"prompt_tokens":-3}',
     '{"prompt_tokens":1.5}', '{"prompt_tokens":1e3}', '{"prompt_tokens":[1]}', '{"prompt_tokens":{}}',
     '{"prompt_tokens":99999999999999999999999}', '{"prompt_tokens_details":5}', '{"prompt_tokens_details":[1]}',
     '{"prompt_tokens":true}'],
)  # fmt: skip
def test_usage_of_the_wrong_type_is_ignored(usage):
    assert read_usage(f'{{"usage":{usage}}}'.encode()) == ResponseUsage()
    assert read_usage(f'{{"message":{{"usage":{usage}}}}}'.encode()) == ResponseUsage()
    assert read_usage(f'{{"message":{usage},"usage":{usage}}}'.encode()) == ResponseUsage()


@given(st.binary(max_size=200), st.booleans())
def test_any_bytes_are_a_response(data, streaming):
    reader = UsageReader(streaming=streaming)
    reader.feed(b'data: {"usage":' + data + b"\n")
    reader.feed(data)
    reader.end()


@given(st.binary(max_size=100))
def test_any_bytes_are_a_document(data):
    read_usage(data)
    read_usage(b'{"usage":' + data + b"}")


def test_later_numbers_join_earlier_ones():
    assert join(ResponseUsage(1, 2, -1), ResponseUsage(-1, 5, 3)) == ResponseUsage(1, 5, 3)


NAMED = b'{"model":"served/a","x":"\\"model\\":\\"served/a\\""}\n{"model": "served/a"} {"model":"served/ab"} "model'
RENAMED = b'{"model":"asked","x":"\\"model\\":\\"served/a\\""}\n{"model": "asked"} {"model":"served/ab"} "model'


@given(st.lists(st.integers(0, len(NAMED)), max_size=30))
def test_names_are_put_back_wherever_they_are_cut(cuts):
    renamer = ModelRenamer("served/a", "asked")
    places = [0, *sorted(cuts), len(NAMED)]
    pieces = [renamer.feed(NAMED[begin:end]) for begin, end in pairwise(places)]
    assert b"".join([*pieces, renamer.feed(b"", ends=True)]) == RENAMED


def test_little_is_held_back():
    renamer = ModelRenamer("m", "n")
    assert renamer.feed(b'data: {"mo') == b"data: {"
    assert renamer.feed(b"re") == b'"more'
