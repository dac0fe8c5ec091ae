"""What a request must become for the endpoint that was chosen, and its response for the client."""

import time
from collections.abc import Callable, Mapping
from typing import Final

from modelplane.compose.service_plan import PlanEndpoint
from modelplane.epp.scheduling.requests import InferenceApi
from modelplane.epp.server.parsing import rename
from modelplane.router.addressing import FrontPath
from modelplane.router.front_values import BodyTranslator, UpstreamRequest
from modelplane.router.messages import Headers
from modelplane.router.translation.requests import to_anthropic, to_openai
from modelplane.router.translation.responses import anthropic_error, completion_of, message_of, openai_error
from modelplane.router.translation.stream_usage import HidesUsage, with_usage
from modelplane.router.translation.streams import AnthropicStream, OpenAiStream, StreamTranslator
from modelplane.router.translation.values import TranslationError, decode_object, object_at

ANTHROPIC: Final = "Anthropic"
OPENAI: Final = "OpenAI"
ANTHROPIC_VERSION: Final = "2023-06-01"
_CHAT: Final = "/v1/chat/completions"
_MESSAGES: Final = "/v1/messages"
_OK: Final = 200
_EVENTS: Final = "text/event-stream"
_LARGEST: Final = 32 << 20
_STREAMS_USAGE: Final = frozenset((InferenceApi.CHAT, InferenceApi.COMPLETIONS))


def can_serve(api: InferenceApi, schema: str) -> bool:
    """Whether requests of an API reach an endpoint of a schema, as they are or translated."""
    if api is InferenceApi.MESSAGES:
        return True
    return schema != ANTHROPIC or api in {InferenceApi.CHAT, InferenceApi.OTHER}


def upstream_request(
    path: FrontPath, endpoint: PlanEndpoint, requested: str, model: str, body: bytes, *, counts_tokens: bool = False
) -> UpstreamRequest:
    """TranslationError where the request cannot be put into the endpoint's API.

    `requested` is the model's name for the client, `model` its name at the endpoint; empty: the client's is kept. Where
    tokens are counted, a stream says how many there were, and the client does not see it unless it wants to.
    """
    if path.api is InferenceApi.MESSAGES and endpoint.schema == OPENAI:
        made = to_openai(body, model or requested)
        translator: BodyTranslator = ToAnthropic(requested)
        return UpstreamRequest(_CHAT, made, translator)
    if path.api is InferenceApi.CHAT and endpoint.schema == ANTHROPIC:
        made = to_anthropic(body, model or requested)
        versioned = (("anthropic-version", ANTHROPIC_VERSION),)
        shows_usage = object_at(decode_object(body), "stream_options").get("include_usage") is True
        translator = ToOpenAi(requested, shows_usage=shows_usage)
        return UpstreamRequest(_MESSAGES, made, translator, versioned)
    if not can_serve(path.api, endpoint.schema):
        raise TranslationError(f"{path.rest.partition('?')[0]} is not served by the model's provider")
    renamed = rename(body, model) if body and model and model != requested else None
    counted = with_usage(renamed or body) if counts_tokens and path.api in _STREAMS_USAGE else None
    if counted is not None:
        return UpstreamRequest(path.rest, counted, HidesUsage())
    return UpstreamRequest(path.rest, renamed)


class _Whole:
    """Translates a body that comes at once, or a stream of events."""

    def __init__(self) -> None:
        self._status = 0
        self._held = bytearray()
        self._stream: StreamTranslator | None = None

    def begin(self, status: int, headers: Mapping[str, str], /) -> Headers:
        self._status = status
        if status == _OK and headers.get("content-type", "").startswith(_EVENTS):
            self._stream = self._make_stream()
            return ()
        return (("content-type", "application/json"),)

    def feed(self, piece: bytes, *, ends: bool = False) -> bytes:
        if self._stream is not None:
            return self._stream.feed(piece, ends=ends)
        self._held += piece
        if len(self._held) > _LARGEST:
            self._held.clear()
        if not ends:
            return b""
        return self._finish(bytes(self._held))

    def _finish(self, body: bytes) -> bytes:
        try:
            return self._translate(body) if self._status == _OK else self._error(body)
        except TranslationError:
            return self._error(b"the model's server sent a response that is no JSON")

    def _make_stream(self) -> StreamTranslator:
        raise NotImplementedError

    def _translate(self, body: bytes) -> bytes:
        raise NotImplementedError

    def _error(self, body: bytes) -> bytes:
        raise NotImplementedError


class ToAnthropic(_Whole):
    """Responses of OpenAI's chat completions, for a client of Anthropic's messages."""

    def __init__(self, model: str) -> None:
        super().__init__()
        self._model = model

    def _make_stream(self) -> StreamTranslator:
        return AnthropicStream(self._model)

    def _translate(self, body: bytes) -> bytes:
        return message_of(body, self._model)

    def _error(self, body: bytes) -> bytes:
        return anthropic_error(self._status, body)


class ToOpenAi(_Whole):
    """Responses of Anthropic's messages, for a client of OpenAI's chat completions."""

    def __init__(self, model: str, *, shows_usage: bool = False, clock: Callable[[], float] = time.time) -> None:
        super().__init__()
        self._model = model
        self._shows_usage = shows_usage
        self._created_s = int(clock())

    def _make_stream(self) -> StreamTranslator:
        return OpenAiStream(self._model, self._created_s, shows_usage=self._shows_usage)

    def _translate(self, body: bytes) -> bytes:
        return completion_of(body, self._model, self._created_s)

    def _error(self, body: bytes) -> bytes:
        return openai_error(self._status, body)
