"""The body of a response or of an error, from one API into the other."""

from collections.abc import Iterator
from typing import Final

from modelplane.router.translation.values import (
    Json,
    TranslationError,
    count_of,
    decode_object,
    encode,
    object_at,
    objects,
    parsed_arguments,
    text_of,
)

STOP_REASONS: Final = {
    "stop": "end_turn",
    "length": "max_tokens",
    "tool_calls": "tool_use",
    "function_call": "tool_use",
    "content_filter": "refusal",
}
FINISH_REASONS: Final = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "pause_turn": "stop",
    "max_tokens": "length",
    "tool_use": "tool_calls",
    "refusal": "content_filter",
}
_ERROR_TYPES: Final = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
    529: "overloaded_error",
}


def message_of(body: bytes, model: str) -> bytes:
    """A chat completion as a message of Anthropic's."""
    given = decode_object(body)
    choice = next(iter(objects(given.get("choices"))), {})
    usage = object_at(given, "usage")
    made = {
        "id": f"msg_{text_of(given, 'id')}",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": list(_blocks(object_at(choice, "message"))),
        "stop_reason": STOP_REASONS.get(text_of(choice, "finish_reason"), "end_turn"),
        "stop_sequence": None,
        "usage": anthropic_usage(usage),
    }
    return encode(made)


def completion_of(body: bytes, model: str, created_s: int) -> bytes:
    """A message of Anthropic's as a chat completion."""
    given = decode_object(body)
    choice = {
        "index": 0,
        "message": _openai_message(given),
        "finish_reason": FINISH_REASONS.get(text_of(given, "stop_reason"), "stop"),
        "logprobs": None,
    }
    made = {
        "id": text_of(given, "id"),
        "object": "chat.completion",
        "created": created_s,
        "model": model,
        "choices": [choice],
        "usage": openai_usage(object_at(given, "usage")),
    }
    return encode(made)


def anthropic_error(status: int, body: bytes) -> bytes:
    """An error in Anthropic's shape."""
    kind = _ERROR_TYPES.get(status, "api_error")
    return encode({"type": "error", "error": {"type": kind, "message": _message(body)}})


def openai_error(status: int, body: bytes) -> bytes:
    """An error in OpenAI's shape."""
    kind = "invalid_request_error" if 400 <= status < 500 else "server_error"  # noqa: PLR2004  HTTP's classes
    return encode({"error": {"message": _message(body), "type": kind, "param": None, "code": None}})


def anthropic_usage(usage: Json) -> Json:
    return {
        "input_tokens": count_of(usage, "prompt_tokens"),
        "output_tokens": count_of(usage, "completion_tokens"),
        "cache_read_input_tokens": count_of(object_at(usage, "prompt_tokens_details"), "cached_tokens"),
        "cache_creation_input_tokens": 0,
    }


def openai_usage(usage: Json) -> Json:
    """Anthropic counts cached prompt tokens apart, OpenAI among the prompt's."""
    cached = count_of(usage, "cache_read_input_tokens")
    prompt = count_of(usage, "input_tokens") + cached + count_of(usage, "cache_creation_input_tokens")
    output = count_of(usage, "output_tokens")
    return {
        "prompt_tokens": prompt,
        "completion_tokens": output,
        "total_tokens": prompt + output,
        "prompt_tokens_details": {"cached_tokens": cached},
    }


def _blocks(message: Json) -> Iterator[Json]:
    text = text_of(message, "content")
    calls = objects(message.get("tool_calls"))
    if text or not calls:
        yield {"type": "text", "text": text}
    for call in calls:
        function = object_at(call, "function")
        used = {"type": "tool_use", "id": text_of(call, "id"), "name": text_of(function, "name")}
        yield used | {"input": parsed_arguments(text_of(function, "arguments"))}


def _openai_message(given: Json) -> Json:
    blocks = objects(given.get("content"))
    text = "".join(text_of(block, "text") for block in blocks if block.get("type") == "text")
    calls = [_call(block) for block in blocks if block.get("type") == "tool_use"]
    made: Json = {"role": "assistant", "content": text or (None if calls else "")}
    return made | {"tool_calls": calls} if calls else made


def _call(block: Json) -> Json:
    function = {"name": text_of(block, "name"), "arguments": encode(block.get("input") or {}).decode()}
    return {"id": text_of(block, "id"), "type": "function", "function": function}


def _message(body: bytes) -> str:
    """The sentence of an error, whichever API wrote it; the text itself where none did."""
    try:
        given = decode_object(body)
    except TranslationError:
        return body[:500].decode("utf-8", "replace").strip() or "the model's server failed"
    error = given.get("error")
    if isinstance(error, str):
        return error
    return text_of(object_at(given, "error"), "message") or text_of(given, "message") or "the model's server failed"
