"""Requests, responses and streams between OpenAI's and Anthropic's APIs."""

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelplane.router.translation.requests import to_anthropic, to_openai
from modelplane.router.translation.responses import anthropic_error, completion_of, message_of, openai_error
from modelplane.router.translation.streams import AnthropicStream, OpenAiStream
from modelplane.router.translation.values import TranslationError

PIXEL = {"type": "base64", "media_type": "image/png", "data": "AAAA"}
ANTHROPIC = {
    "model": "m",
    "max_tokens": 9,
    "system": [{"type": "text", "text": "be kind"}],
    "stop_sequences": ["END"],
    "temperature": 0.5,
    "top_k": 3,
    "messages": [
        {"role": "user", "content": [{"type": "text", "text": "look"}, {"type": "image", "source": PIXEL}]},
        {
            "role": "assistant",
            "content": [
                {"type": "text", "text": "looking"},
                {"type": "tool_use", "id": "t1", "name": "zoom", "input": {"by": 2}},
            ],
        },
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "done"}]},
    ],
    "tools": [{"name": "zoom", "description": "zooms", "input_schema": {"type": "object"}}],
    "tool_choice": {"type": "any", "disable_parallel_tool_use": True},
}
OPENAI = {
    "model": "other",
    "messages": [
        {"role": "system", "content": "be kind"},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "look"},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
            ],
        },
        {
            "role": "assistant",
            "content": "looking",
            "tool_calls": [{"id": "t1", "type": "function", "function": {"name": "zoom", "arguments": '{"by":2}'}}],
        },
        {"role": "tool", "tool_call_id": "t1", "content": "done"},
    ],
    "temperature": 0.5,
    "max_tokens": 9,
    "stop": ["END"],
    "tools": [
        {"type": "function", "function": {"name": "zoom", "description": "zooms", "parameters": {"type": "object"}}}
    ],
    "tool_choice": "required",
    "parallel_tool_calls": False,
}


def test_a_request_of_anthropic_as_one_of_openai():
    assert json.loads(to_openai(json.dumps(ANTHROPIC).encode(), "other")) == OPENAI


def test_and_back_again():
    back = json.loads(to_anthropic(json.dumps(OPENAI).encode(), "m"))
    expected = {name: value for name, value in ANTHROPIC.items() if name != "top_k"}
    assert back == expected | {"system": "be kind"}


def test_a_stream_asks_for_its_usage():
    body = json.dumps({"messages": [], "stream": True}).encode()
    assert json.loads(to_openai(body, "m"))["stream_options"] == {"include_usage": True}


def test_turns_of_one_role_become_one_message():
    messages = [
        {"role": "user", "content": "a"},
        {"role": "user", "content": "b"},
        {"role": "developer", "content": "c"},
    ]
    made = json.loads(to_anthropic(json.dumps({"messages": messages}).encode(), "m"))
    assert made["messages"] == [{"role": "user", "content": [{"type": "text", "text": t} for t in "ab"]}]
    assert (made["system"], made["max_tokens"]) == ("c", 4096)


@pytest.mark.parametrize(
    "body", [b"[]", b"{", b'{"n": 2}', b'{"messages": [{"role": "user", "content": [{"type": "input_audio"}]}]}']
)
def test_what_cannot_be_translated_is_refused_with_a_sentence(body):
    with pytest.raises(TranslationError):
        to_anthropic(body, "m")


COMPLETION = {
    "id": "c1",
    "choices": [
        {
            "finish_reason": "tool_calls",
            "message": {
                "content": "ok",
                "tool_calls": [{"id": "t", "function": {"name": "zoom", "arguments": '{"by": 2}'}}],
            },
        }
    ],
    "usage": {"prompt_tokens": 7, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 4}},
}


def test_a_completion_as_a_message():
    assert json.loads(message_of(json.dumps(COMPLETION).encode(), "m")) == {
        "id": "msg_c1",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": [
            {"type": "text", "text": "ok"},
            {"type": "tool_use", "id": "t", "name": "zoom", "input": {"by": 2}},
        ],
        "stop_reason": "tool_use",
        "stop_sequence": None,
        "usage": {
            "input_tokens": 7,
            "output_tokens": 2,
            "cache_read_input_tokens": 4,
            "cache_creation_input_tokens": 0,
        },
    }


def test_a_message_as_a_completion():
    message = {
        "id": "m1",
        "content": [{"type": "text", "text": "ok"}, {"type": "tool_use", "id": "t", "name": "z", "input": {"by": 2}}],
        "stop_reason": "max_tokens",
        "usage": {"input_tokens": 3, "cache_read_input_tokens": 4, "output_tokens": 2},
    }
    assert json.loads(completion_of(json.dumps(message).encode(), "m", 12)) == {
        "id": "m1",
        "object": "chat.completion",
        "created": 12,
        "model": "m",
        "choices": [
            {
                "index": 0,
                "message": {
                    "role": "assistant",
                    "content": "ok",
                    "tool_calls": [{"id": "t", "type": "function", "function": {"name": "z", "arguments": '{"by":2}'}}],
                },
                "finish_reason": "length",
                "logprobs": None,
            }
        ],
        "usage": {
            "prompt_tokens": 7,
            "completion_tokens": 2,
            "total_tokens": 9,
            "prompt_tokens_details": {"cached_tokens": 4},
        },
    }


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        (b'{"error": {"message": "no"}}', "no"),
        (b'{"error": "no"}', "no"),
        (b'{"type": "error", "error": {"type": "x", "message": "no"}}', "no"),
        (b"bad gateway", "bad gateway"),
        (b"", "the model's server failed"),
    ],
)
def test_errors_keep_their_sentence(body, sentence):
    assert json.loads(anthropic_error(429, body))["error"] == {"type": "rate_limit_error", "message": sentence}
    assert json.loads(openai_error(503, body))["error"]["message"] == sentence


def chunk(delta, **more):
    return {"id": "c", "choices": [{"index": 0, "delta": delta, **more}]}


def events(*values):
    return b"".join(b"data: " + json.dumps(value).encode() + b"\n\n" for value in values)


OPENAI_STREAM = (
    events(
        chunk({"role": "assistant", "content": ""}),
        chunk({"content": "he"}),
        chunk({"content": "llo"}),
        chunk({"tool_calls": [{"index": 0, "id": "t", "function": {"name": "zoom", "arguments": ""}}]}),
        chunk({"tool_calls": [{"index": 0, "function": {"arguments": '{"by":'}}]}),
        chunk({"tool_calls": [{"index": 0, "function": {"arguments": "2}"}}]}),
        chunk({}, finish_reason="tool_calls"),
        {"id": "c", "choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 4}},
    )
    + b"data: [DONE]\n\n"
)


def read(stream):
    found = [line[6:] for line in stream.split(b"\n") if line.startswith(b"data: ")]
    return [json.loads(line) if line != b"[DONE]" else "DONE" for line in found]


def pieces(stream, cuts):
    places = sorted({min(cut, len(stream)) for cut in cuts})
    bounds = [0, *places, len(stream)]
    return [stream[a:b] for a, b in pairwise(bounds)]


def fed(translator, stream, cuts=()):
    parts = pieces(stream, cuts)
    made = b"".join(translator.feed(part) for part in parts[:-1])
    return made + translator.feed(parts[-1], ends=True)


def test_a_stream_of_openai_as_one_of_anthropic():
    found = read(fed(AnthropicStream("m"), OPENAI_STREAM))
    assert [event["type"] for event in found] == [
        "message_start",
        "content_block_start", "content_block_delta", "content_block_delta", "content_block_stop",
        "content_block_start", "content_block_delta", "content_block_delta", "content_block_stop",
        "message_delta",
        "message_stop",
    ]  # fmt: skip
    assert found[5]["content_block"] == {"type": "tool_use", "id": "t", "name": "zoom", "input": {}}
    assert found[9]["delta"]["stop_reason"] == "tool_use"
    assert found[9]["usage"]["output_tokens"] == 4


@given(st.lists(st.integers(0, len(OPENAI_STREAM)), max_size=12))
def test_a_stream_is_the_same_however_it_is_cut(cuts):
    assert fed(AnthropicStream("m"), OPENAI_STREAM, cuts) == fed(AnthropicStream("m"), OPENAI_STREAM)
    translated = fed(AnthropicStream("m"), OPENAI_STREAM)
    whole = fed(OpenAiStream("m", 1, shows_usage=True), translated)
    assert fed(OpenAiStream("m", 1, shows_usage=True), translated, cuts) == whole


def test_a_stream_of_anthropic_as_one_of_openai():
    translated = fed(AnthropicStream("m"), OPENAI_STREAM)
    found = read(fed(OpenAiStream("m", 1, shows_usage=True), translated))
    assert found[-1] == "DONE"
    assert found[-2]["usage"]["completion_tokens"] == 4
    deltas = [each["choices"][0]["delta"] for each in found[:-2]]
    assert "".join(delta.get("content", "") for delta in deltas) == "hello"
    calls = [call for delta in deltas for call in delta.get("tool_calls", [])]
    assert "".join(call["function"]["arguments"] for call in calls) == '{"by":2}'
    assert found[-3]["choices"][0]["finish_reason"] == "tool_calls"
    assert "usage" not in json.dumps(read(fed(OpenAiStream("m", 1), translated)))


def test_a_stream_that_ends_in_the_middle_is_closed():
    cut = OPENAI_STREAM[: OPENAI_STREAM.index(b"llo")]
    assert [event["type"] for event in read(fed(AnthropicStream("m"), cut))][-3:] == [
        "content_block_stop",
        "message_delta",
        "message_stop",
    ]


def test_an_error_in_a_stream_is_passed_on():
    assert read(fed(AnthropicStream("m"), events({"error": {"message": "no"}}))) == [
        {"type": "error", "error": {"type": "api_error", "message": "no"}}
    ]
    assert read(fed(OpenAiStream("m", 1), events({"type": "error", "error": {"message": "no"}}))) == [
        {"error": {"message": "no", "type": "server_error", "code": None}}
    ]


@given(st.binary(max_size=200))
def test_no_bytes_break_a_translator(data):
    for translator in (AnthropicStream("m"), OpenAiStream("m", 1)):
        translator.feed(data + b"\n\n")
        translator.feed(data, ends=True)
