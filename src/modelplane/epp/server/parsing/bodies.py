"""The fields of each API that matter to the picker.

A body that the engines would refuse for its shape is refused here with a sentence, before it waits anywhere: the model
has the wrong type, messages are no list. What the picker does not need it does not judge.
"""

from collections.abc import Callable
from typing import Final

import msgspec

from modelplane.epp.scheduling.parsed import Parsed
from modelplane.epp.scheduling.requests import InferenceApi
from modelplane.epp.server.parsing import text
from modelplane.epp.server.parsing.request_types import (
    ABSENT,
    Chat,
    Common,
    Completions,
    Embeddings,
    Generate,
    Messages,
    Number,
    PromptMessage,
    Responses,
    Sampling,
)

_LARGEST: Final = 1 << 31
# A body is read on the event loop. More of either is in no prompt that an engine has room for.
_MAX_BRACES: Final = 1 << 18
_MAX_COMMAS: Final = 1 << 20
_PromptFields = tuple[tuple[bytes, ...], bool, Number]
"""Prompts, whether they have media, and the maximum of output tokens."""


class ParseError(ValueError):
    """The body is not one of its API; the sentence is for the client."""


def _read_chat(body: Chat) -> _PromptFields:
    messages = body.messages
    prompt = text.conversation(body.tools, None, messages)
    return (prompt,), text.has_media(messages), body.max_completion_tokens or body.max_tokens


def _read_completions(body: Completions) -> _PromptFields:
    return text.prompts(body.prompt), False, body.max_tokens


def _read_responses(body: Responses) -> _PromptFields:
    turns = [PromptMessage("user", body.input)] if isinstance(body.input, str) else body.input or []
    prompt = text.conversation(body.tools, body.instructions, turns)
    return (prompt,), text.has_media(turns), body.max_output_tokens


def _read_embeddings(body: Embeddings) -> _PromptFields:
    if body.messages:
        prompt = text.conversation(ABSENT, None, body.messages)
        return (prompt,), text.has_media(body.messages), body.max_tokens
    return text.prompts(body.input), False, body.max_tokens


def _read_messages(body: Messages) -> _PromptFields:
    prompt = text.conversation(body.tools, body.system, body.messages)
    return (prompt,), text.has_media(body.messages), body.max_tokens


def _read_generate(body: Generate) -> _PromptFields:
    prompt = body.token_ids or body.input_ids or body.text or body.prompt
    media = body.features is not ABSENT and bytes(body.features) not in {b"null", b"{}", b"[]"}
    sampling = body.sampling_params or Sampling()
    return text.prompts(prompt), media, sampling.max_tokens or sampling.max_new_tokens or body.max_tokens


_Reader = Callable[..., _PromptFields]
_APIS: Final[dict[InferenceApi, tuple[msgspec.json.Decoder[Common], _Reader]]] = {
    InferenceApi.CHAT: (msgspec.json.Decoder(Chat), _read_chat),
    InferenceApi.COMPLETIONS: (msgspec.json.Decoder(Completions), _read_completions),
    InferenceApi.RESPONSES: (msgspec.json.Decoder(Responses), _read_responses),
    InferenceApi.EMBEDDINGS: (msgspec.json.Decoder(Embeddings), _read_embeddings),
    InferenceApi.MESSAGES: (msgspec.json.Decoder(Messages), _read_messages),
    InferenceApi.GENERATE: (msgspec.json.Decoder(Generate), _read_generate),
}
_OTHER: Final = InferenceApi.OTHER
_NEEDS_MODEL: Final = frozenset(
    (
        InferenceApi.CHAT,
        InferenceApi.COMPLETIONS,
        InferenceApi.RESPONSES,
        InferenceApi.EMBEDDINGS,
        InferenceApi.MESSAGES,
    )
)
_OBJECT: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])


def parse(api: InferenceApi, body: bytes) -> Parsed:
    """Parse a body of this API. Raises ParseError with a message for the client."""
    if api is _OTHER:
        return Parsed()
    decoder, reader = _APIS[api]
    if len(body) > _MAX_BRACES:
        _check_size(body)
    try:
        found = decoder.decode(body)
        prompts, has_media, most = reader(found)
    except RecursionError:
        raise ParseError("the body nests too deeply") from None
    except OverflowError:
        raise ParseError("a token id of the prompt is out of range") from None
    except (msgspec.DecodeError, TypeError, UnicodeError) as error:
        raise ParseError(_message(body, error)) from None
    model = found.model or ""
    if not model and api in _NEEDS_MODEL:
        raise ParseError("the body names no model")
    most_tokens = int(most) if most is not None and 0 < most < _LARGEST else 0
    return Parsed(model, prompts, found.stream is True, most_tokens, found.cache_salt or "", has_media)


def _check_size(body: bytes) -> None:
    """Refuses a body of very many tiny values, which takes long to read for its size."""
    for character, most in ((b"{", _MAX_BRACES), (b",", _MAX_COMMAS)):
        found = body.count(character)
        if found > most:
            raise ParseError(f"the body has {found} times {character.decode()!r}; {most} are accepted")


def rename(body: bytes, model: str) -> bytes:
    """The same body for another model. Raises ParseError if it is not an object."""
    try:
        fields = _OBJECT.decode(body)
    except (msgspec.DecodeError, RecursionError, UnicodeError) as error:
        raise ParseError(_message(body, error)) from None
    return msgspec.json.encode({**fields, "model": model})


def _message(body: bytes, error: Exception) -> str:
    if not body.strip():
        return "the body is empty"
    return f"the body is not acceptable: {error}"
