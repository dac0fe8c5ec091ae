import json

from modelplane.sim.engine import Adapter
from modelplane.sim.engine.completions import DONE, CompletionEncoder, TokenUsage, embeddings_body, models_body

USAGE = TokenUsage(3, 2, 1)
USAGE_BODY = {
    "prompt_tokens": 3,
    "completion_tokens": 2,
    "total_tokens": 5,
    "prompt_tokens_details": {"cached_tokens": 1},
}


def encoder(kind, **changes):
    return CompletionEncoder(**{"kind": kind, "number": "7", "created": 9, "model": "demo", **changes})


def events(parts):
    return [part if part == DONE else json.loads(part.removeprefix(b"data: ").removesuffix(b"\n\n")) for part in parts]


def chunk(choices, **more):
    envelope = {"id": "chatcmpl-7", "object": "chat.completion.chunk", "created": 9, "model": "demo"}
    return {**envelope, "choices": choices, **more}


def delta(content, reason=None):
    return {"index": 0, "delta": content, "logprobs": None, "finish_reason": reason}


def test_a_whole_chat_answer():
    assert json.loads(encoder("chat").whole([("hi", "stop")], USAGE)) == {
        "id": "chatcmpl-7",
        "object": "chat.completion",
        "created": 9,
        "model": "demo",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": "hi", "refusal": None},
                "logprobs": None,
                "finish_reason": "stop",
            }
        ],
        "usage": USAGE_BODY,
    }


def test_a_whole_completion():
    assert json.loads(encoder("text").whole([("hi", "length")], USAGE)) == {
        "id": "cmpl-7",
        "object": "text_completion",
        "created": 9,
        "model": "demo",
        "choices": [{"index": 0, "text": "hi", "logprobs": None, "finish_reason": "length"}],
        "usage": USAGE_BODY,
    }


def test_a_streamed_chat_answer():
    stream = encoder("chat")
    assert events([*stream.opening(), stream.tokens(["hi"]), stream.closing("stop"), *stream.ending(USAGE)]) == [
        chunk([delta({"role": "assistant", "content": ""})]),
        chunk([delta({"content": "hi"})]),
        chunk([delta({}, "stop")]),
        DONE,
    ]


def test_usage_comes_last_and_is_null_before():
    stream = encoder("chat", include_usage=True)
    assert events([stream.tokens(["hi"]), stream.closing("stop"), *stream.ending(USAGE)]) == [
        chunk([delta({"content": "hi"})], usage=None),
        chunk([delta({}, "stop")], usage=None),
        chunk([], usage=USAGE_BODY),
        DONE,
    ]


def test_a_streamed_completion_has_no_role():
    stream = encoder("text")
    envelope = {"id": "cmpl-7", "object": "text_completion", "created": 9, "model": "demo"}
    assert events([*stream.opening(), stream.tokens(["hi"]), stream.closing("length"), *stream.ending(USAGE)]) == [
        {**envelope, "choices": [{"index": 0, "text": "hi", "logprobs": None, "finish_reason": None}]},
        {**envelope, "choices": [{"index": 0, "text": "", "logprobs": None, "finish_reason": "length"}]},
        DONE,
    ]


def test_the_list_of_models():
    entry = {"object": "model", "created": 9, "owned_by": "modelplane", "root": "a", "parent": None, "max_model_len": 8}
    assert json.loads(models_body(("a", "b"), created=9, max_model_len=8)) == {
        "object": "list",
        "data": [{"id": "a", **entry}, {"id": "b", **entry}],
    }


def test_several_tokens_are_several_events_in_one_piece():
    texts = ["a", '"', "\u00e9", "\u0000token\u0000"]
    pieces = encoder("chat").tokens(texts, 2).split(b"\n\n")
    assert pieces[-1] == b""
    assert [json.loads(piece.removeprefix(b"data: ")) for piece in pieces[:-1]] == [
        chunk([{**delta({"content": text}), "index": 2}]) for text in texts
    ]


def test_several_choices_are_numbered():
    body = json.loads(encoder("text").whole([("a", "stop"), ("b", "length")], USAGE))
    assert [(choice["index"], choice["text"], choice["finish_reason"]) for choice in body["choices"]] == [
        (0, "a", "stop"),
        (1, "b", "length"),
    ]


def test_a_prefill_response_has_transfer_params():
    body = json.loads(encoder("text").whole([("a", "length")], USAGE, {"remote_port": 5}))
    assert body["kv_transfer_params"] == {"remote_port": 5}


def test_embeddings():
    assert json.loads(embeddings_body([[0.5], "AAAA"], model="m", prompt_tokens=4)) == {
        "object": "list",
        "data": [
            {"object": "embedding", "index": 0, "embedding": [0.5]},
            {"object": "embedding", "index": 1, "embedding": "AAAA"},
        ],
        "model": "m",
        "usage": {"prompt_tokens": 4, "total_tokens": 4},
    }


def test_adapters_are_models_with_a_parent():
    body = json.loads(models_body(("m",), [Adapter("a", "/a")], created=1, max_model_len=2))
    assert [(model["id"], model["root"], model["parent"]) for model in body["data"]] == [
        ("m", "m", None),
        ("a", "/a", "m"),
    ]
