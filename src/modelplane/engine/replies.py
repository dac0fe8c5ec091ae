"""The bodies of answers: whole, or as server-sent events, for chat and for plain completions."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import msgspec

from modelplane.engine.text import FinishReason

DONE = b"data: [DONE]\n\n"

_Json = dict[str, object]


@dataclass(frozen=True, slots=True)
class Usage:
    prompt_tokens: int
    completion_tokens: int

    def body(self) -> _Json:
        return {
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": self.completion_tokens,
            "total_tokens": self.prompt_tokens + self.completion_tokens,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """The envelope that all parts of one answer share."""

    kind: Literal["chat", "text"]
    number: str
    created: int
    model: str
    include_usage: bool = False

    def whole(self, text: str, reason: FinishReason, usage: Usage) -> bytes:
        choice: _Json = {"index": 0, "finish_reason": reason, "logprobs": None}
        if self.kind == "chat":
            choice["message"] = {"role": "assistant", "content": text, "refusal": None}
        else:
            choice["text"] = text
        name = "chat.completion" if self.kind == "chat" else "text_completion"
        return msgspec.json.encode(self._envelope(name) | {"choices": [choice], "usage": usage.body()})

    def opening(self) -> Iterator[bytes]:
        if self.kind == "chat":
            yield self._event([_delta({"role": "assistant", "content": ""}, None)])

    def token(self, text: str) -> bytes:
        return self._event([_delta({"content": text}, None) if self.kind == "chat" else _piece(text, None)])

    def closing(self, reason: FinishReason, usage: Usage) -> Iterator[bytes]:
        yield self._event([_delta({}, reason) if self.kind == "chat" else _piece("", reason)])
        if self.include_usage:
            yield self._event([], usage.body())
        yield DONE

    def _event(self, choices: list[_Json], usage: _Json | None = None) -> bytes:
        name = "chat.completion.chunk" if self.kind == "chat" else "text_completion"
        body = self._envelope(name) | {"choices": choices}
        if self.include_usage:
            body["usage"] = usage
        return b"data: %b\n\n" % msgspec.json.encode(body)

    def _envelope(self, name: str) -> _Json:
        prefix = "chatcmpl" if self.kind == "chat" else "cmpl"
        return {"id": f"{prefix}-{self.number}", "object": name, "created": self.created, "model": self.model}


def models_body(names: tuple[str, ...], *, created: int, max_model_len: int) -> bytes:
    def entry(name: str) -> _Json:
        return {
            "id": name,
            "object": "model",
            "created": created,
            "owned_by": "modelplane",
            "root": names[0],
            "parent": None,
            "max_model_len": max_model_len,
        }

    return msgspec.json.encode({"object": "list", "data": [entry(name) for name in names]})


def _delta(delta: _Json, reason: FinishReason | None) -> _Json:
    return {"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}


def _piece(text: str, reason: FinishReason | None) -> _Json:
    return {"index": 0, "text": text, "logprobs": None, "finish_reason": reason}
