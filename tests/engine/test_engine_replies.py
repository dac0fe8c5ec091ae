import json

from modelplane.engine.replies import DONE, Reply, Usage, models_body

USAGE = Usage(3, 2)
USAGE_BODY = {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}


def reply(kind, **changes):
    return Reply(**{"kind": kind, "number": "7", "created": 9, "model": "demo", **changes})


def events(parts):
    return [part if part == DONE else json.loads(part.removeprefix(b"data: ").removesuffix(b"\n\n")) for part in parts]


def chunk(choices, **more):
    envelope = {"id": "chatcmpl-7", "object": "chat.completion.chunk", "created": 9, "model": "demo"}
    return {**envelope, "choices": choices, **more}


def delta(content, reason=None):
    return {"index": 0, "delta": content, "logprobs": None, "finish_reason": reason}


def test_a_whole_chat_answer():
    assert json.loads(reply("chat").whole("hi", "stop", USAGE)) == {
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
    assert json.loads(reply("text").whole("hi", "length", USAGE)) == {
        "id": "cmpl-7",
        "object": "text_completion",
        "created": 9,
        "model": "demo",
        "choices": [{"index": 0, "text": "hi", "logprobs": None, "finish_reason": "length"}],
        "usage": USAGE_BODY,
    }


def test_a_streamed_chat_answer():
    stream = reply("chat")
    assert events([*stream.opening(), stream.token("hi"), *stream.closing("stop", USAGE)]) == [
        chunk([delta({"role": "assistant", "content": ""})]),
        chunk([delta({"content": "hi"})]),
        chunk([delta({}, "stop")]),
        DONE,
    ]


def test_usage_comes_last_and_is_null_before():
    stream = reply("chat", include_usage=True)
    assert events([stream.token("hi"), *stream.closing("stop", USAGE)]) == [
        chunk([delta({"content": "hi"})], usage=None),
        chunk([delta({}, "stop")], usage=None),
        chunk([], usage=USAGE_BODY),
        DONE,
    ]


def test_a_streamed_completion_has_no_role():
    stream = reply("text")
    envelope = {"id": "cmpl-7", "object": "text_completion", "created": 9, "model": "demo"}
    assert events([*stream.opening(), stream.token("hi"), *stream.closing("length", USAGE)]) == [
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
