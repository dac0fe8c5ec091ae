"""Bodies of every API, hostile ones, and the promise that conversations which begin alike begin with the same bytes."""

import json
import time

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelplane.epp.scheduling.requests import InferenceApi
from modelplane.epp.server.parsing import Parsed, ParseError, PathParsers, find_api, parse, rename
from modelplane.framework import PluginFault


@pytest.mark.parametrize(
    ("path", "api"),
    [
        ("/v1/chat/completions", InferenceApi.CHAT),
        ("/prefix/v1/chat/completions?api-version=1", InferenceApi.CHAT),
        ("/v1/chat/completions/", InferenceApi.CHAT),
        ("/v1/chat/completions/render", InferenceApi.CHAT),
        ("/v1/completions", InferenceApi.COMPLETIONS),
        ("/v1/mychat/completions", InferenceApi.COMPLETIONS),
        ("/v1/responses", InferenceApi.RESPONSES),
        ("/v1/embeddings", InferenceApi.EMBEDDINGS),
        ("/v1/messages", InferenceApi.MESSAGES),
        ("/messages", InferenceApi.OTHER),
        ("/inference/v1/generate", InferenceApi.GENERATE),
        ("/generate", InferenceApi.GENERATE),
        ("/v1/models", InferenceApi.OTHER),
        ("/v1/xcompletions", InferenceApi.OTHER),
        ("/", InferenceApi.OTHER),
        ("", InferenceApi.OTHER),
    ],
)
def test_the_longest_end_of_a_path_that_is_known_decides(path, api):
    assert find_api(path) is api


USER = {"role": "user", "content": "hi"}
IMAGE = {"type": "image_url", "image_url": {"url": "http://a/b.png"}}
LONG_IMAGE = {"type": "image_url", "image_url": {"url": "data:" + "x" * 1000}}

BODIES = {
    "chat": (
        InferenceApi.CHAT,
        {"model": "m", "messages": [{"role": "system", "content": "be"}, USER], "stream": True, "max_tokens": 5},
        Parsed("m", (b"\nsystem\nbe\nuser\nhi",), streaming=True, max_output_tokens=5),
    ),
    "chat with parts": (
        InferenceApi.CHAT,
        {"model": "m", "messages": [{"role": "user", "content": [{"type": "text", "text": "a"}, IMAGE]}]},
        Parsed("m", (b'\nuser\na{"url": "http://a/b.png"}',), has_media=True),
    ),
    "chat with tools, salt and two limits": (
        InferenceApi.CHAT,
        {
            "model": "m",
            "messages": [USER],
            "tools": [{"type": "x"}],
            "cache_salt": "s",
            "max_completion_tokens": 7,
            "max_tokens": 5,
        },
        Parsed("m", (b'[{"type": "x"}]\nuser\nhi',), max_output_tokens=7, salt="s"),
    ),
    "chat with calls of tools": (
        InferenceApi.CHAT,
        {"model": "m", "messages": [{"role": "assistant", "content": None, "tool_calls": [1]}]},
        Parsed("m", (b"\nassistant\n[1]",)),
    ),
    "chat without messages": (InferenceApi.CHAT, {"model": "m"}, Parsed("m", (b"",))),
    "chat with a limit that is no whole number": (
        InferenceApi.CHAT,
        {"model": "m", "max_tokens": 5.0},
        Parsed("m", (b"",), max_output_tokens=5),
    ),
    "chat with a limit out of this world": (
        InferenceApi.CHAT,
        {"model": "m", "max_tokens": 1e300},
        Parsed("m", (b"",)),
    ),
    "completion": (InferenceApi.COMPLETIONS, {"model": "m", "prompt": "añb"}, Parsed("m", ("añb".encode(),))),
    "completions": (InferenceApi.COMPLETIONS, {"model": "m", "prompt": ["a", "b"]}, Parsed("m", (b"a", b"b"))),
    "completion of tokens": (
        InferenceApi.COMPLETIONS,
        {"model": "m", "prompt": [1, 258]},
        Parsed("m", (b"\x01\0\0\0\x02\x01\0\0",)),
    ),
    "completions of tokens": (
        InferenceApi.COMPLETIONS,
        {"model": "m", "prompt": [[1], [2]]},
        Parsed("m", (b"\x01\0\0\0", b"\x02\0\0\0")),
    ),
    "completion without a prompt": (InferenceApi.COMPLETIONS, {"model": "m"}, Parsed("m")),
    "response to a text": (
        InferenceApi.RESPONSES,
        {"model": "m", "input": "hi", "instructions": "be", "max_output_tokens": 9, "stream": False},
        Parsed("m", (b"\nsystem\nbe\nuser\nhi",), max_output_tokens=9),
    ),
    "response to items": (
        InferenceApi.RESPONSES,
        {
            "model": "m",
            "input": [
                {
                    "role": "user",
                    "content": [{"type": "input_text", "text": "a"}, {"type": "input_image", "image_url": "u"}],
                },
                {"type": "function_call", "arguments": "{}"},
                {"type": "function_call_output", "output": "x"},
            ],
        },
        Parsed("m", (b'\nuser\na"u"\nfunction_call\n{}\nfunction_call_output\n"x"',), has_media=True),
    ),
    "embedding": (InferenceApi.EMBEDDINGS, {"model": "m", "input": ["a", "b"]}, Parsed("m", (b"a", b"b"))),
    "embedding of a chat": (InferenceApi.EMBEDDINGS, {"model": "m", "messages": [USER]}, Parsed("m", (b"\nuser\nhi",))),
    "Anthropic": (
        InferenceApi.MESSAGES,
        {
            "model": "m",
            "system": [{"type": "text", "text": "be"}],
            "messages": [
                USER,
                {
                    "role": "assistant",
                    "content": [{"type": "thinking", "thinking": "t"}, {"type": "tool_use", "input": {}}],
                },
                {
                    "role": "user",
                    "content": [{"type": "tool_result", "content": "r"}, {"type": "image", "source": {"a": 1}}],
                },
            ],
            "max_tokens": 3,
            "tools": [],
        },
        Parsed(
            "m",
            (b'[]\nsystem\nbe\nuser\nhi\nassistant\nt{}\nuser\n"r"{"a": 1}',),
            max_output_tokens=3,
            has_media=True,
        ),
    ),
    "vLLM generate": (
        InferenceApi.GENERATE,
        {"token_ids": [1], "sampling_params": {"max_tokens": 4}, "features": {"a": 1}, "model": None},
        Parsed("", (b"\x01\0\0\0",), max_output_tokens=4, has_media=True),
    ),
    "SGLang generate": (
        InferenceApi.GENERATE,
        {"text": "hi", "sampling_params": {"max_new_tokens": 4}, "stream": True},
        Parsed("", (b"hi",), max_output_tokens=4, streaming=True),
    ),
}


@pytest.mark.parametrize(("api", "body", "expected"), BODIES.values(), ids=BODIES.keys())
def test_what_bodies_say(api, body, expected):
    assert parse(api, json.dumps(body, ensure_ascii=False).encode()) == expected


def test_anything_may_pass_where_no_api_is_known():
    assert parse(InferenceApi.OTHER, b"\xff\x00 not JSON") == Parsed()


def test_long_media_differ_by_digest():
    def prompt(image):
        chat = {"model": "m", "messages": [{"role": "user", "content": [image]}]}
        return parse(InferenceApi.CHAT, json.dumps(chat).encode()).prompts[0]

    other = {"type": "image_url", "image_url": {"url": "data:" + "y" * 1000}}
    assert len(prompt(LONG_IMAGE)) == len("\nuser\n") + 16
    assert prompt(LONG_IMAGE) != prompt(other)
    assert prompt(LONG_IMAGE) == prompt(LONG_IMAGE)


HOSTILE = {
    "empty": (b"", "the body is empty"),
    "blank": (b"  \n", "the body is empty"),
    "no JSON": (b"hello", "malformed"),
    "cut off": (b'{"model": "m", "messages": [', "truncated"),
    "a list": (b"[]", "Expected `object`"),
    "null": (b"null", "Expected `object`"),
    "no model": (b'{"messages": []}', "names no model"),
    "an empty model": (b'{"model": "", "messages": []}', "names no model"),
    "a model that is a number": (b'{"model": 5}', "$.model"),
    "messages that are a text": (b'{"model": "m", "messages": "x"}', "$.messages"),
    "a message that is a text": (b'{"model": "m", "messages": ["x"]}', "$.messages[0]"),
    "content that is a number": (b'{"model": "m", "messages": [{"role": "user", "content": 5}]}', "content"),
    "a part that is a number": (b'{"model": "m", "messages": [{"content": [5]}]}', "content"),
    "stream that is a text": (b'{"model": "m", "stream": "yes"}', "$.stream"),
    "no UTF-8": (b'{"model": "\xff"}', "not acceptable"),
    "half a surrogate": (b'{"model": "m", "messages": [{"content": "\\ud800"}]}', "not acceptable"),
    "two documents": (b'{"model": "m"} {"model": "n"}', "trailing"),
    "deep": (b'{"model": "m", "tools": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", "too deeply"),
}


@pytest.mark.parametrize(("body", "sentence"), HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_bodies(body, sentence):
    with pytest.raises(ParseError) as refused:
        parse(InferenceApi.CHAT, body)
    assert sentence in str(refused.value)


@pytest.mark.parametrize("prompt", [[1, "a"], ["a", 1], [[1], 2], [-1], [1 << 40], [[-1]], {"a": 1}, [["a"]]])
def test_prompts_that_are_none(prompt):
    with pytest.raises(ParseError):
        parse(InferenceApi.COMPLETIONS, json.dumps({"model": "m", "prompt": prompt}).encode())


@given(st.binary(max_size=200), st.sampled_from(list(InferenceApi)))
def test_any_bytes_are_parsed_or_rejected(body, api):
    try:
        parse(api, body)
    except ParseError:
        return


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=10,
)
fields = st.sampled_from(
    [
        "model",
        "messages",
        "prompt",
        "input",
        "tools",
        "stream",
        "max_tokens",
        "system",
        "instructions",
        "token_ids",
        "text",
        "sampling_params",
    ]
)


@given(st.dictionaries(fields, json_values, max_size=6), st.sampled_from(list(InferenceApi)))
def test_wrong_types_are_parsed_or_rejected(document, api):
    try:
        parse(api, json.dumps(document).encode())
    except ParseError:
        return


turns = st.lists(
    st.fixed_dictionaries(
        {
            "role": st.sampled_from(["system", "user", "assistant"]),
            "content": st.text(max_size=20)
            | st.lists(st.fixed_dictionaries({"type": st.just("text"), "text": st.text(max_size=9)}), max_size=3),
        }
    ),
    max_size=5,
)


@given(turns, turns, st.sampled_from([InferenceApi.CHAT, InferenceApi.MESSAGES]))
def test_a_conversation_that_goes_on_begins_as_it_began(before, after, api):
    def prompt(messages, **style):
        return parse(api, json.dumps({"model": "m", "messages": messages}, **style).encode()).prompts[0]

    first = prompt(before)
    assert prompt(before + after).startswith(first)
    assert prompt(before, indent=1, ensure_ascii=False, sort_keys=True) == first


def test_another_model_in_the_same_body():
    body = b'{ "a": [1, {"model": "x"}], "model": "old", "b": 1.50 }'
    assert json.loads(rename(body, "new")) == {"a": [1, {"model": "x"}], "model": "new", "b": 1.5}
    with pytest.raises(ParseError):
        rename(b"[]", "new")


@pytest.mark.parametrize(
    ("body", "message"),
    [
        pytest.param(
            {"messages": [{"role": "user", "content": "x"}] * 100_000},
            "the body is not acceptable: the conversation has 100000 messages and parts; 16384 are accepted",
            id="messages",
        ),
        pytest.param(
            {"messages": [{"role": "user", "content": [{"type": "text", "text": "x"}] * 9_000}] * 2},
            "the body is not acceptable: the conversation has 18002 messages and parts; 16384 are accepted",
            id="parts",
        ),
        pytest.param(
            {"messages": [{}] * 300_000}, "the body has 300001 times '{'; 262144 are accepted", id="tiny messages"
        ),
        pytest.param(
            {"messages": [[]] * 1_100_000}, "the body has 1100000 times ','; 1048576 are accepted", id="tiny lists"
        ),
    ],
)
def test_a_body_that_takes_long_to_read_is_refused(body, message):
    started = time.process_time()
    with pytest.raises(ParseError) as refused:
        parse(InferenceApi.CHAT, msgspec.json.encode({"model": "m", **body}))
    assert str(refused.value) == message
    assert time.process_time() - started < 0.5  # 0.04 s where nothing else runs


def test_a_long_conversation_and_a_long_text_are_read():
    turns = [{"role": "user", "content": "x"}] * 16_384
    assert len(parse(InferenceApi.CHAT, msgspec.json.encode({"model": "m", "messages": turns})).prompts[0]) > 16_384
    text = "{a, b}" * 200_000
    assert parse(InferenceApi.COMPLETIONS, msgspec.json.encode({"model": "m", "prompt": text})).prompts == (
        text.encode(),
    )


class Lines:
    """A parser of another package: a line is a prompt."""

    def __init__(self, name, *paths):
        self.name = name
        self.paths = paths

    def parse(self, body):
        if body == b"break":
            raise KeyError("lines")
        text = body.decode("ascii")
        return text if text == "nonsense" else Parsed(self.name, tuple(text.encode().split(b"\n")))


PATH_PARSERS = PathParsers([Lines("long", "/v2/lines"), Lines("short", "lines", "v2/lines")])


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/v2/lines", "long"),
        ("/tenant/v2/lines/?a=/lines", "long"),
        ("/v1/lines", "short"),
        ("/lines", "short"),
        ("/headlines", None),
        ("/lines/1", None),
        ("", None),
    ],
)
def test_the_longest_end_of_a_path_and_then_the_first_parser_counts(path, name):
    assert PATH_PARSERS.parse(path, b"a\nb") == (Parsed(name, (b"a", b"b")) if name else None)


@pytest.mark.parametrize(
    ("body", "kind", "sentence"),
    [
        (b"\xff", ParseError, "'ascii' codec can't decode byte 0xff in position 0: ordinal not in range(128)"),
        (b"break", PluginFault, "plugin short: raised KeyError: 'lines'"),
        (b"nonsense", PluginFault, "plugin short: returned 'nonsense', which is no Parsed"),
    ],
)
def test_a_body_that_is_wrong_and_a_parser_that_is(body, kind, sentence):
    with pytest.raises(kind) as raised:
        PATH_PARSERS.parse("/lines", body)
    assert str(raised.value) == sentence
