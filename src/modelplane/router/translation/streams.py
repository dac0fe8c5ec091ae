"""Server-sent events, from one API into the other, piece by piece.

OpenAI's chunks name what is added to a message; Anthropic's events open and close blocks of it. Towards Anthropic a
block is opened at its first piece and closed when another begins; usage comes in OpenAI's last chunk and goes into
`message_delta`, so that event waits for it. Towards OpenAI the usage of `message_start` and `message_delta` are joined.
"""

from collections.abc import Iterator
from typing import Final, Protocol

from modelplane.router.translation.events import EventSplitter
from modelplane.router.translation.responses import FINISH_REASONS, STOP_REASONS, anthropic_usage, openai_usage
from modelplane.router.translation.values import (
    Json,
    TranslationError,
    count_of,
    decode_object,
    encode,
    object_at,
    objects,
    text_of,
)

_DONE: Final = b"[DONE]"


class StreamTranslator(Protocol):
    """Feed the bytes of a response, get the bytes for the client."""

    def feed(self, piece: bytes, *, ends: bool = False) -> bytes: ...


class AnthropicStream:
    """OpenAI's chunks in, Anthropic's events out."""

    def __init__(self, model: str) -> None:
        self._model = model
        self._splitter = EventSplitter()
        self._started = False
        self._stopped = False
        self._block = -1
        self._kind = ""
        """What the open block is: empty, `text`, or the index of a tool call."""
        self._reason = "end_turn"
        self._usage: Json = {}

    def feed(self, piece: bytes, *, ends: bool = False) -> bytes:
        found = self._splitter.feed(piece)
        if ends:
            found += self._splitter.end()
        made = [event for data in found for event in self._events(data)]
        if ends:
            made.extend(self._finish())
        return b"".join(made)

    def _events(self, data: bytes) -> Iterator[bytes]:
        if data == _DONE:
            yield from self._finish()
            return
        try:
            chunk = decode_object(data)
        except TranslationError:
            return
        if "error" in chunk:
            yield _event({"type": "error", "error": {"type": "api_error", "message": _sentence(chunk)}})
            return
        yield from self._start(chunk)
        if chunk.get("usage"):
            self._usage = object_at(chunk, "usage")
        for choice in objects(chunk.get("choices"))[:1]:
            yield from self._delta(object_at(choice, "delta"))
            reason = text_of(choice, "finish_reason")
            if reason:
                self._reason = STOP_REASONS.get(reason, "end_turn")

    def _start(self, chunk: Json) -> Iterator[bytes]:
        if self._started:
            return
        self._started = True
        message: Json = {
            "id": f"msg_{text_of(chunk, 'id')}",
            "type": "message",
            "role": "assistant",
            "model": self._model,
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": anthropic_usage({}),
        }
        yield _event({"type": "message_start", "message": message})

    def _delta(self, delta: Json) -> Iterator[bytes]:
        text = text_of(delta, "content")
        if text:
            yield from self._open("text", {"type": "text", "text": ""})
            yield self._piece({"type": "text_delta", "text": text})
        for call in objects(delta.get("tool_calls")):
            function = object_at(call, "function")
            used: Json = {"type": "tool_use", "id": text_of(call, "id"), "name": text_of(function, "name"), "input": {}}
            yield from self._open(f"tool {count_of(call, 'index')}", used)
            arguments = text_of(function, "arguments")
            if arguments:
                yield self._piece({"type": "input_json_delta", "partial_json": arguments})

    def _open(self, kind: str, block: Json) -> Iterator[bytes]:
        if kind == self._kind:
            return
        yield from self._close()
        self._kind = kind
        self._block += 1
        yield _event({"type": "content_block_start", "index": self._block, "content_block": block})

    def _piece(self, delta: Json) -> bytes:
        return _event({"type": "content_block_delta", "index": self._block, "delta": delta})

    def _close(self) -> Iterator[bytes]:
        if self._kind:
            self._kind = ""
            yield _event({"type": "content_block_stop", "index": self._block})

    def _finish(self) -> Iterator[bytes]:
        if self._stopped or not self._started:
            return
        self._stopped = True
        yield from self._close()
        delta = {"stop_reason": self._reason, "stop_sequence": None}
        yield _event({"type": "message_delta", "delta": delta, "usage": anthropic_usage(self._usage)})
        yield _event({"type": "message_stop"})


class OpenAiStream:
    """Anthropic's events in, OpenAI's chunks out."""

    def __init__(self, model: str, created_s: int, *, shows_usage: bool = False) -> None:
        self._model = model
        self._created_s = created_s
        self._shows_usage = shows_usage
        self._splitter = EventSplitter()
        self._id = ""
        self._tools: dict[int, int] = {}
        """The index of each tool call by that of its block."""
        self._usage: Json = {}
        self._stopped = False

    def feed(self, piece: bytes, *, ends: bool = False) -> bytes:
        found = self._splitter.feed(piece)
        if ends:
            found += self._splitter.end()
        return b"".join(chunk for data in found for chunk in self._chunks(data))

    def _chunks(self, data: bytes) -> Iterator[bytes]:
        try:
            event = decode_object(data)
        except TranslationError:
            return
        match text_of(event, "type"):
            case "message_start":
                message = object_at(event, "message")
                self._id = text_of(message, "id")
                self._usage |= object_at(message, "usage")
                yield self._chunk({"role": "assistant", "content": ""})
            case "content_block_start":
                yield from self._begin(event)
            case "content_block_delta":
                yield from self._delta(event)
            case "message_delta":
                self._usage |= object_at(event, "usage")
                reason = text_of(object_at(event, "delta"), "stop_reason")
                yield self._chunk({}, FINISH_REASONS.get(reason, "stop"))
            case "message_stop":
                yield from self._finish()
            case "error":
                yield _data({"error": {"message": _sentence(event), "type": "server_error", "code": None}})

    def _begin(self, event: Json) -> Iterator[bytes]:
        block = object_at(event, "content_block")
        if block.get("type") != "tool_use":
            return
        at = self._tools[count_of(event, "index")] = len(self._tools)
        function = {"name": text_of(block, "name"), "arguments": ""}
        call = {"index": at, "id": text_of(block, "id"), "type": "function", "function": function}
        yield self._chunk({"tool_calls": [call]})

    def _delta(self, event: Json) -> Iterator[bytes]:
        delta = object_at(event, "delta")
        match text_of(delta, "type"):
            case "text_delta":
                yield self._chunk({"content": text_of(delta, "text")})
            case "input_json_delta":
                at = self._tools.get(count_of(event, "index"), 0)
                call = {"index": at, "function": {"arguments": text_of(delta, "partial_json")}}
                yield self._chunk({"tool_calls": [call]})
            case _:
                return

    def _finish(self) -> Iterator[bytes]:
        if self._stopped:
            return
        self._stopped = True
        if self._shows_usage:
            yield _data(self._head() | {"choices": [], "usage": openai_usage(self._usage)})
        yield b"data: [DONE]\n\n"

    def _chunk(self, delta: Json, reason: str | None = None) -> bytes:
        return _data(self._head() | {"choices": [{"index": 0, "delta": delta, "finish_reason": reason}]})

    def _head(self) -> Json:
        return {
            "id": self._id,
            "object": "chat.completion.chunk",
            "created": self._created_s,
            "model": self._model,
        }


def _event(value: Json) -> bytes:
    return b"event: " + str(value["type"]).encode() + b"\n" + _data(value)


def _data(value: Json) -> bytes:
    return b"data: " + encode(value) + b"\n\n"


def _sentence(event: Json) -> str:
    error = event.get("error")
    return error if isinstance(error, str) else text_of(object_at(event, "error"), "message") or "the stream failed"
