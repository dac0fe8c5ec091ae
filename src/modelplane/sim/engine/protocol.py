"""The bodies of requests, field by field, and the decoder that names the field it refuses.

Accepted and without effect, because a simulated response is not sampled: `temperature`, `top_p` and every field that is
not listed here. `tools` are read and cost prompt tokens, and the model calls none; a request that requires a call is
rejected, as is everything else that changes the form of the response.
"""

import re
from collections.abc import Sequence
from typing import Annotated, Literal, TypeVar

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from modelplane.sim.engine import errors
from modelplane.sim.engine.kv_transfer import KvTransferParams

_PLACE = re.compile(r"(?P<what>.*?)(?: - at `\$\.?(?P<path>[^`]*)`)?", re.DOTALL)
_MISSING = re.compile(r"Object missing required field `(?P<field>[^`]*)`")

_Positive = Annotated[int, Meta(ge=1)]
TokenId = Annotated[int, Meta(ge=0, lt=1 << 32)]
_Stops = str | Annotated[list[str], Meta(max_length=4)] | None
_Ignored = msgspec.Raw | UnsetType
_AnyBody = TypeVar("_AnyBody", bound=Struct)


class StreamOptions(Struct):
    include_usage: bool = False


class TextPart(Struct, tag_field="type", tag="text"):
    text: str


class ChatMessage(Struct):
    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: str | list[TextPart] | None = None

    def text(self) -> str:
        if isinstance(self.content, list):
            return "\n".join(part.text for part in self.content)
        return self.content or ""


class GenerationBody(Struct, kw_only=True):
    """Common fields of chat and completions."""

    model: str
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    max_tokens: _Positive | None = None
    n: Annotated[int, Meta(ge=1, le=128)] | None = None
    stop: _Stops = None
    seed: int | None = None
    temperature: Annotated[float, Meta(ge=0, le=2)] | None = None
    top_p: Annotated[float, Meta(ge=0, le=1)] | None = None
    ignore_eos: bool = False
    cache_salt: str | None = None
    kv_transfer_params: KvTransferParams | None = None
    logprobs: bool | int | None = None
    prompt_logprobs: int | None = None


class ChatBody(GenerationBody, kw_only=True):
    messages: Annotated[list[ChatMessage], Meta(min_length=1)]
    max_completion_tokens: _Positive | None = None
    tools: list[msgspec.Raw] | None = None
    tool_choice: _Ignored = UNSET
    response_format: _Ignored = UNSET


class TextBody(GenerationBody, kw_only=True):
    prompt: str | list[str | TokenId | list[TokenId]]
    echo: bool | None = None
    suffix: str | None = None


class EmbeddingBody(Struct, kw_only=True):
    model: str
    input: str | Annotated[list[str | TokenId | list[TokenId]], Meta(min_length=1, max_length=2048)]
    encoding_format: Literal["float", "base64"] = "float"
    dimensions: _Positive | None = None


class TokenizeBody(Struct, kw_only=True):
    model: str | None = None
    prompt: str | None = None
    messages: Annotated[list[ChatMessage], Meta(min_length=1)] | None = None


class LoadAdapterBody(Struct, kw_only=True):
    lora_name: str = ""
    lora_path: str = ""
    load_inplace: bool = False


class UnloadAdapterBody(Struct, kw_only=True):
    lora_name: str = ""


def decode(body: bytes, kind: type[_AnyBody]) -> _AnyBody:
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.ValidationError as error:
        raise _field_error(str(error)) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise errors.malformed(str(error).removeprefix("JSON is malformed: ")) from None
    except RecursionError:
        raise errors.malformed("it is nested too deeply") from None


def check_simulated(body: GenerationBody) -> None:
    """Reject fields that the response would have to show and cannot."""
    if body.stream_options is not None and not body.stream:
        raise errors.invalid_field("stream_options", "only allowed together with stream: true")
    if body.logprobs not in {None, False} or body.prompt_logprobs is not None:
        field = "logprobs" if body.prompt_logprobs is None else "prompt_logprobs"
        raise errors.not_simulated(field, "a simulated answer has no probabilities")
    if isinstance(body, ChatBody):
        _check_chat(body)
    if isinstance(body, TextBody):
        _check_text(body)


def _check_chat(body: ChatBody) -> None:
    choice = _plain(body.tool_choice)
    if choice is not None and choice not in ("none", "auto"):
        raise errors.not_simulated("tool_choice", "a simulated model calls no tools; use auto or none")
    form = _plain(body.response_format)
    if isinstance(form, dict) and form.get("type") != "text":
        raise errors.not_simulated("response_format.type", "a simulated answer is plain text")


def _check_text(body: TextBody) -> None:
    if body.echo:
        raise errors.not_simulated("echo", "a simulated engine does not repeat the prompt")
    if body.suffix:
        raise errors.not_simulated("suffix", "a simulated engine does not fill in")


def _plain(raw: _Ignored) -> object:
    """A string stays one, an object becomes a dict and everything else a text that is neither."""
    if isinstance(raw, UnsetType):
        return None
    value: object = msgspec.json.decode(raw)
    return value if value is None or isinstance(value, str | dict) else repr(value)


def prompts_of(field: str, given: str | Sequence[str | int | list[int]]) -> list[str | list[int]]:
    """One or several prompts, each a text or token ids."""
    if isinstance(given, str):
        return [given]
    ids = [item for item in given if isinstance(item, int)]
    if ids and len(ids) == len(given):
        return [ids]
    if ids or not given:
        raise errors.invalid_field(field, "give a text, token ids, or a list of either, not a mixture")
    return [item for item in given if not isinstance(item, int)]


def _field_error(sentence: str) -> errors.EngineApiError:
    found = _PLACE.fullmatch(sentence)
    what, path = (found["what"], found["path"] or None) if found else (sentence, None)
    if missing := _MISSING.fullmatch(what):
        return errors.missing_field(f"{path}.{missing['field']}" if path else missing["field"])
    return errors.invalid_field(path, what[:1].lower() + what[1:])
