"""The fields of each API that matter to the picker.

A body that the engines would refuse for its shape is refused here with a sentence, before it waits anywhere: the model
has the wrong type, messages are no list. What the picker does not need it does not judge.
"""

from collections.abc import Callable
from typing import Final

import msgspec

from modelplane.extproc.parsing import text
from modelplane.extproc.parsing.text import ABSENT, Content, Message, Prompt
from modelplane.picker.requests import Api

_Number = int | float | None
_LARGEST: Final = 1 << 31


class ParseError(ValueError):
    """The body is not one of its API; the sentence is for the client."""


class Parsed(msgspec.Struct, frozen=True):
    """What a body says."""

    model: str = ""
    prompts: tuple[bytes, ...] = ()
    streaming: bool = False
    most_output_tokens: int = 0
    salt: str = ""
    has_media: bool = False


class _Common(msgspec.Struct):
    model: str | None = None
    stream: bool | None = None
    max_tokens: _Number = None
    cache_salt: str | None = None

    @property
    def most(self) -> _Number:
        return self.max_tokens


class _Chat(_Common):
    messages: list[Message] = msgspec.field(default_factory=list)
    tools: msgspec.Raw = ABSENT
    max_completion_tokens: _Number = None

    @property
    def most(self) -> _Number:
        return self.max_completion_tokens or self.max_tokens


class _Completions(_Common):
    prompt: Prompt = None


class _Responses(_Common):
    input: str | list[Message] | None = None
    instructions: Content = None
    tools: msgspec.Raw = ABSENT
    max_output_tokens: _Number = None

    @property
    def most(self) -> _Number:
        return self.max_output_tokens


class _Embeddings(_Common):
    input: Prompt = None
    messages: list[Message] = msgspec.field(default_factory=list)


class _Messages(_Common):
    messages: list[Message] = msgspec.field(default_factory=list)
    system: Content = None
    tools: msgspec.Raw = ABSENT


class _Sampling(msgspec.Struct):
    max_tokens: _Number = None
    max_new_tokens: _Number = None


class _Generate(_Common):
    token_ids: Prompt = None
    input_ids: Prompt = None
    text: Prompt = None
    prompt: Prompt = None
    sampling_params: _Sampling | None = None
    features: msgspec.Raw = ABSENT

    @property
    def most(self) -> _Number:
        sampling = self.sampling_params or _Sampling()
        return sampling.max_tokens or sampling.max_new_tokens or self.max_tokens


def _read_chat(body: _Chat) -> tuple[tuple[bytes, ...], bool]:
    return (text.conversation(body.tools, None, body.messages),), text.has_media(body.messages)


def _read_completions(body: _Completions) -> tuple[tuple[bytes, ...], bool]:
    return text.prompts(body.prompt), False


def _read_responses(body: _Responses) -> tuple[tuple[bytes, ...], bool]:
    turns = [Message("user", body.input)] if isinstance(body.input, str) else body.input or []
    return (text.conversation(body.tools, body.instructions, turns),), text.has_media(turns)


def _read_embeddings(body: _Embeddings) -> tuple[tuple[bytes, ...], bool]:
    if body.messages:
        return (text.conversation(ABSENT, None, body.messages),), text.has_media(body.messages)
    return text.prompts(body.input), False


def _read_messages(body: _Messages) -> tuple[tuple[bytes, ...], bool]:
    return (text.conversation(body.tools, body.system, body.messages),), text.has_media(body.messages)


def _read_generate(body: _Generate) -> tuple[tuple[bytes, ...], bool]:
    prompt = body.token_ids or body.input_ids or body.text or body.prompt
    media = body.features is not ABSENT and bytes(body.features) not in {b"null", b"{}", b"[]"}
    return text.prompts(prompt), media


_Reader = Callable[..., tuple[tuple[bytes, ...], bool]]
_SHAPES: Final[dict[Api, tuple[msgspec.json.Decoder[_Common], _Reader]]] = {
    Api.CHAT: (msgspec.json.Decoder(_Chat), _read_chat),
    Api.COMPLETIONS: (msgspec.json.Decoder(_Completions), _read_completions),
    Api.RESPONSES: (msgspec.json.Decoder(_Responses), _read_responses),
    Api.EMBEDDINGS: (msgspec.json.Decoder(_Embeddings), _read_embeddings),
    Api.MESSAGES: (msgspec.json.Decoder(_Messages), _read_messages),
    Api.GENERATE: (msgspec.json.Decoder(_Generate), _read_generate),
}
_NEEDS_MODEL: Final = frozenset((Api.CHAT, Api.COMPLETIONS, Api.RESPONSES, Api.EMBEDDINGS, Api.MESSAGES))
_OBJECT: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])


def parse(api: Api, body: bytes) -> Parsed:
    """What a body of this API says. Raises ParseError with a sentence for the client."""
    if api is Api.OTHER:
        return Parsed()
    decoder, reader = _SHAPES[api]
    try:
        found = decoder.decode(body)
        prompts, has_media = reader(found)
    except RecursionError:
        raise ParseError("the body nests too deeply") from None
    except OverflowError:
        raise ParseError("a token id of the prompt is out of range") from None
    except (msgspec.DecodeError, TypeError, UnicodeError) as error:
        raise ParseError(_sentence(body, error)) from None
    model = found.model or ""
    if not model and api in _NEEDS_MODEL:
        raise ParseError("the body names no model")
    most = found.most or 0
    most_tokens = int(most) if 0 < most < _LARGEST else 0
    return Parsed(model, prompts, found.stream is True, most_tokens, found.cache_salt or "", has_media)


def rename(body: bytes, model: str) -> bytes:
    """The same body for another model. Raises ParseError where it is no object."""
    try:
        fields = _OBJECT.decode(body)
    except (msgspec.DecodeError, RecursionError, UnicodeError) as error:
        raise ParseError(_sentence(body, error)) from None
    return msgspec.json.encode({**fields, "model": model})


def _sentence(body: bytes, error: Exception) -> str:
    if not body.strip():
        return "the body is empty"
    return f"the body is not acceptable: {error}"
