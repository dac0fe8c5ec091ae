"""Encodes responses of chat and text completions: in full, or as server-sent events."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

import msgspec

from modelplane.sim.engine.config import Adapter
from modelplane.sim.engine.text import FinishReason

DONE = b"data: [DONE]\n\n"

_Json = dict[str, object]
# The placeholder of a token's text in an event that is otherwise the same for all tokens of a choice.
_HOLE = "\u0000token\u0000"
_encode = msgspec.json.Encoder().encode
_HOLE_BYTES = _encode(_HOLE)


@dataclass(frozen=True, slots=True)
class TokenUsage:
    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int = 0

    def body(self) -> _Json:
        return {
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": self.completion_tokens,
            "total_tokens": self.prompt_tokens + self.completion_tokens,
            "prompt_tokens_details": {"cached_tokens": self.cached_tokens},
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletionEncoder:
    """Encodes one response; all parts share its envelope."""

    kind: Literal["chat", "text"]
    number: str
    created: int
    model: str
    include_usage: bool = False
    _frames: dict[int, tuple[bytes, bytes]] = field(default_factory=dict, repr=False, compare=False)

    def whole(
        self, answers: Iterable[tuple[str, FinishReason]], usage: TokenUsage, transfer: _Json | None = None
    ) -> bytes:
        choices = [self._choice(index, text, reason) for index, (text, reason) in enumerate(answers)]
        name = "chat.completion" if self.kind == "chat" else "text_completion"
        body = self._envelope(name) | {"choices": choices, "usage": usage.body()}
        return _encode(body if transfer is None else body | {"kv_transfer_params": transfer})

    def opening(self, index: int = 0) -> Iterator[bytes]:
        if self.kind == "chat":
            yield self._event([_delta(index, {"role": "assistant", "content": ""}, None)])

    def tokens(self, texts: Sequence[str], index: int = 0) -> bytes:
        """One event for each, in one piece."""
        before, after = self._frames.get(index) or self._frame(index)
        return b"".join(before + _encode(text) + after for text in texts)

    def closing(self, reason: FinishReason, index: int = 0) -> bytes:
        return self._event([_delta(index, {}, reason) if self.kind == "chat" else _piece(index, "", reason)])

    def ending(self, usage: TokenUsage) -> Iterator[bytes]:
        if self.include_usage:
            yield self._event([], usage.body())
        yield DONE

    def _choice(self, index: int, text: str, reason: FinishReason) -> _Json:
        choice: _Json = {"index": index, "finish_reason": reason, "logprobs": None}
        if self.kind == "chat":
            return choice | {"message": {"role": "assistant", "content": text, "refusal": None}}
        return choice | {"text": text}

    def _frame(self, index: int) -> tuple[bytes, bytes]:
        choice = _delta(index, {"content": _HOLE}, None) if self.kind == "chat" else _piece(index, _HOLE, None)
        before, _, after = self._event([choice]).partition(_HOLE_BYTES)
        self._frames[index] = before, after
        return before, after

    def _event(self, choices: list[_Json], usage: _Json | None = None) -> bytes:
        name = "chat.completion.chunk" if self.kind == "chat" else "text_completion"
        body = self._envelope(name) | {"choices": choices}
        if self.include_usage:
            body["usage"] = usage
        return b"data: %b\n\n" % _encode(body)

    def _envelope(self, name: str) -> _Json:
        prefix = "chatcmpl" if self.kind == "chat" else "cmpl"
        return {"id": f"{prefix}-{self.number}", "object": name, "created": self.created, "model": self.model}


def embeddings_body(vectors: Iterable[Sequence[float] | str], *, model: str, prompt_tokens: int) -> bytes:
    data = [{"object": "embedding", "index": index, "embedding": vector} for index, vector in enumerate(vectors)]
    usage = {"prompt_tokens": prompt_tokens, "total_tokens": prompt_tokens}
    return _encode({"object": "list", "data": data, "model": model, "usage": usage})


def models_body(names: tuple[str, ...], adapters: Iterable[Adapter] = (), *, created: int, max_model_len: int) -> bytes:
    def entry(name: str, root: str, parent: str | None) -> _Json:
        return {
            "id": name,
            "object": "model",
            "created": created,
            "owned_by": "modelplane",
            "root": root,
            "parent": parent,
            "max_model_len": max_model_len,
        }

    models = [entry(name, names[0], None) for name in names]
    models += [entry(adapter.name, adapter.path, names[0]) for adapter in adapters]
    return _encode({"object": "list", "data": models})


def _delta(index: int, delta: _Json, reason: FinishReason | None) -> _Json:
    return {"index": index, "delta": delta, "logprobs": None, "finish_reason": reason}


def _piece(index: int, text: str, reason: FinishReason | None) -> _Json:
    return {"index": index, "text": text, "logprobs": None, "finish_reason": reason}
