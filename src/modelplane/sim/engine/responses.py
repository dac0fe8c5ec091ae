"""OpenAI's Responses API, as far as an engine without memory has it: texts and messages in, one message out.

A request is converted to a chat, so the response is chat's. Nothing is stored: references to an earlier response and
background mode are rejected, as are inputs that are not text.
"""

from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct

from modelplane.sim.engine import errors
from modelplane.sim.engine.completions import TokenUsage
from modelplane.sim.engine.config import EngineConfig
from modelplane.sim.engine.protocol import ChatBody, ChatMessage, TextPart, decode
from modelplane.sim.engine.requests import GenerationRequest, read_conversation
from modelplane.sim.engine.text import FinishReason

_Json = dict[str, object]
_encode = msgspec.json.Encoder().encode


class _Part(Struct):
    type: Literal["input_text", "output_text", "text"]
    text: str


class _Item(Struct):
    """A message; its type may be left out."""

    role: Literal["system", "developer", "user", "assistant"]
    content: str | list[_Part]
    type: Literal["message"] = "message"

    def message(self) -> ChatMessage:
        if isinstance(self.content, str):
            return ChatMessage(self.role, self.content)
        return ChatMessage(self.role, [TextPart(part.text) for part in self.content])


class ResponsesBody(Struct, kw_only=True):
    model: str
    input: str | Annotated[list[_Item], Meta(min_length=1)]
    instructions: str | None = None
    max_output_tokens: Annotated[int, Meta(ge=1)] | None = None
    stream: bool | None = None
    previous_response_id: str | None = None
    background: bool | None = None
    temperature: Annotated[float, Meta(ge=0, le=2)] | None = None
    top_p: Annotated[float, Meta(ge=0, le=1)] | None = None
    ignore_eos: bool = False
    tools: list[msgspec.Raw] | None = None


def read_response(body: bytes, config: EngineConfig, adapters: Container[str] = ()) -> GenerationRequest:
    decoded = decode(body, ResponsesBody)
    for name in ("previous_response_id", "background"):
        if getattr(decoded, name):
            raise errors.not_simulated(name, "a simulated engine stores no responses")
    given = (
        [ChatMessage("user", decoded.input)]
        if isinstance(decoded.input, str)
        else [item.message() for item in decoded.input]
    )
    if decoded.instructions:
        given.insert(0, ChatMessage("system", decoded.instructions))
    chat = ChatBody(
        model=decoded.model,
        messages=given,
        stream=decoded.stream,
        max_completion_tokens=decoded.max_output_tokens,
        ignore_eos=decoded.ignore_eos,
        tools=decoded.tools,
    )
    return read_conversation(chat, config, adapters)


@dataclass(slots=True, kw_only=True)
class ResponsesEncoder:
    """The bodies of one response: whole, or as the events of its making, each with a number."""

    number: str
    created: int
    model: str
    _texts: list[str] = field(default_factory=list)
    _events: int = 0
    _reason: FinishReason = "stop"

    def whole(
        self, answers: Iterable[tuple[str, FinishReason]], usage: TokenUsage, _transfer: _Json | None = None
    ) -> bytes:
        ((text, reason),) = answers
        return _encode(self._response(text, reason, usage))

    def opening(self, _index: int = 0) -> Iterator[bytes]:
        for name in ("response.created", "response.in_progress"):
            yield self._event(name, response=self._envelope("in_progress"))
        yield self._event("response.output_item.added", output_index=0, item=self._message(None, "in_progress"))
        yield self._event("response.content_part.added", **self._place(), part=_part(""))

    def tokens(self, texts: Sequence[str], _index: int = 0) -> bytes:
        """One event for each, in one piece."""
        self._texts += texts
        deltas = (self._event("response.output_text.delta", **self._place(), delta=text, logprobs=[]) for text in texts)
        return b"".join(deltas)

    def closing(self, reason: FinishReason, _index: int = 0) -> bytes:
        text, self._reason = "".join(self._texts), reason
        return b"".join(
            (
                self._event("response.output_text.done", **self._place(), text=text, logprobs=[]),
                self._event("response.content_part.done", **self._place(), part=_part(text)),
                self._event("response.output_item.done", output_index=0, item=self._message(text, _status(reason))),
            )
        )

    def ending(self, usage: TokenUsage) -> Iterator[bytes]:
        name = "response.completed" if self._reason == "stop" else "response.incomplete"
        yield self._event(name, response=self._response("".join(self._texts), self._reason, usage))

    def _event(self, name: str, **fields: object) -> bytes:
        body = _encode({"type": name, "sequence_number": self._events, **fields})
        self._events += 1
        return b"event: %b\ndata: %b\n\n" % (name.encode(), body)

    def _place(self) -> _Json:
        return {"item_id": f"msg_{self.number}", "output_index": 0, "content_index": 0}

    def _response(self, text: str, reason: FinishReason, usage: TokenUsage) -> _Json:
        cut = None if reason == "stop" else {"reason": "max_output_tokens"}
        return {
            **self._envelope(_status(reason)),
            "incomplete_details": cut,
            "output": [self._message(text, _status(reason))],
            "usage": _usage(usage),
        }

    def _envelope(self, status: str) -> _Json:
        return {
            "id": f"resp_{self.number}",
            "object": "response",
            "created_at": self.created,
            "status": status,
            "error": None,
            "incomplete_details": None,
            "instructions": None,
            "metadata": {},
            "model": self.model,
            "output": [],
            "parallel_tool_calls": True,
            "tool_choice": "auto",
            "tools": [],
            "usage": None,
        }

    def _message(self, text: str | None, status: str) -> _Json:
        content = [] if text is None else [_part(text)]
        return {
            "id": f"msg_{self.number}",
            "type": "message",
            "role": "assistant",
            "status": status,
            "content": content,
        }


def _part(text: str) -> _Json:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def _status(reason: FinishReason) -> str:
    return "completed" if reason == "stop" else "incomplete"


def _usage(usage: TokenUsage) -> _Json:
    return {
        "input_tokens": usage.prompt_tokens,
        "input_tokens_details": {"cached_tokens": usage.cached_tokens},
        "output_tokens": usage.completion_tokens,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
    }
