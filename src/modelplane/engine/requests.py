"""From the bytes of a request to what the engine needs to know, or an `ApiError` that names the field.

Accepted and without effect, because a simulated answer has no distribution to shape: `temperature`, `top_p` and every
field not listed here. Refused rather than half done: more than one choice (`n`), several prompts in one request,
`echo`, and content that is not text.
"""

import re
from dataclasses import dataclass
from typing import Annotated, Literal, TypeVar

import msgspec
from msgspec import Meta, Struct

from modelplane.engine import errors
from modelplane.engine.config import EngineConfig
from modelplane.engine.text import LONGEST_TOKEN, Answer, finish, prompt_digest, split_tokens, write_answer

# Role, separators and the turn's end, as chat templates add them around each message.
TOKENS_PER_MESSAGE = 4
# What the completions API documents as the default of max_tokens; chat has none but the context.
_DEFAULT_TEXT_TOKENS = 16

_PLACE = re.compile(r"(?P<what>.*?)(?: - at `\$\.?(?P<path>[^`]*)`)?", re.DOTALL)
_MISSING = re.compile(r"Object missing required field `(?P<field>[^`]*)`")

_Positive = Annotated[int, Meta(ge=1)]
_Stops = str | Annotated[list[str], Meta(max_length=4)] | None
_Body = TypeVar("_Body", "_ChatBody", "_TextBody")


class _StreamOptions(Struct):
    include_usage: bool = False


class _TextPart(Struct, tag_field="type", tag="text"):
    text: str


class _Message(Struct):
    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: str | list[_TextPart] | None = None

    def text(self) -> str:
        if isinstance(self.content, list):
            return "\n".join(part.text for part in self.content)
        return self.content or ""


class _Common(Struct, kw_only=True):
    model: str
    stream: bool | None = None
    stream_options: _StreamOptions | None = None
    max_tokens: _Positive | None = None
    n: _Positive | None = None
    stop: _Stops = None
    seed: int | None = None
    temperature: Annotated[float, Meta(ge=0, le=2)] | None = None
    top_p: Annotated[float, Meta(ge=0, le=1)] | None = None
    ignore_eos: bool = False


class _ChatBody(_Common, kw_only=True):
    messages: Annotated[list[_Message], Meta(min_length=1)]
    max_completion_tokens: _Positive | None = None


class _TextBody(_Common, kw_only=True):
    prompt: str | list[str | int]
    echo: bool | None = None


@dataclass(frozen=True, slots=True)
class Ask:
    """One accepted request: what it cost to read, what will be said, and how to send it."""

    model: str
    prompt_tokens: int
    answer: Answer
    stream: bool
    include_usage: bool


@dataclass(frozen=True, slots=True)
class _Prompt:
    field: str
    text: str
    question: str
    tokens: int


def read_chat(body: bytes, config: EngineConfig) -> Ask:
    chat = _decode(body, _ChatBody)
    _check_common(chat, config)
    texts = [message.text() for message in chat.messages]
    _check_size("messages", sum(map(len, texts)), config)
    turns = list(zip(chat.messages, texts, strict=True))
    prompt = _Prompt(
        field="messages",
        text="\0".join(f"{message.role}\0{text}" for message, text in turns),
        question=next((text for message, text in reversed(turns) if message.role == "user"), ""),
        tokens=sum(TOKENS_PER_MESSAGE + len(split_tokens(text)) for text in texts),
    )
    return _ask(chat, prompt, chat.max_completion_tokens or chat.max_tokens, config)


def read_text(body: bytes, config: EngineConfig) -> Ask:
    completion = _decode(body, _TextBody)
    _check_common(completion, config)
    if completion.echo:
        raise errors.invalid_field("echo", "a simulated engine does not repeat the prompt")
    prompt = _text_prompt(completion.prompt, config)
    return _ask(completion, prompt, completion.max_tokens or _DEFAULT_TEXT_TOKENS, config)


def _decode(body: bytes, kind: type[_Body]) -> _Body:
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.ValidationError as error:
        raise _field_error(str(error)) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise errors.malformed(str(error).removeprefix("JSON is malformed: ")) from None
    except RecursionError:
        raise errors.malformed("it is nested too deeply") from None


def _field_error(sentence: str) -> errors.ApiError:
    found = _PLACE.fullmatch(sentence)
    what, path = (found["what"], found["path"] or None) if found else (sentence, None)
    if missing := _MISSING.fullmatch(what):
        return errors.missing_field(f"{path}.{missing['field']}" if path else missing["field"])
    return errors.invalid_field(path, what[:1].lower() + what[1:])


def _check_common(body: _Common, config: EngineConfig) -> None:
    if body.model not in config.models:
        raise errors.unknown_model(body.model)
    if body.n not in {None, 1}:
        raise errors.invalid_field("n", "a simulated engine gives one choice")
    if body.stream_options is not None and not body.stream:
        raise errors.invalid_field("stream_options", "only allowed together with stream: true")


def _check_size(field: str, characters: int, config: EngineConfig) -> None:
    """Refuse what cannot fit before splitting it, so that the work on one request is bounded."""
    fewest = characters // LONGEST_TOKEN
    if fewest > config.max_model_len:
        raise errors.context_exceeded(limit=config.max_model_len, asked=f"at least {fewest}", param=field)


def _text_prompt(prompt: str | list[str | int], config: EngineConfig) -> _Prompt:
    if isinstance(prompt, str):
        _check_size("prompt", len(prompt), config)
        return _Prompt("prompt", prompt, prompt, max(1, len(split_tokens(prompt))))
    if prompt and all(isinstance(token, int) for token in prompt):
        return _Prompt("prompt", " ".join(map(str, prompt)), "", len(prompt))
    if len(prompt) == 1:
        return _text_prompt(str(prompt[0]), config)
    raise errors.invalid_field("prompt", "a simulated engine takes one text, or one list of token ids, a request")


def _ask(body: _Common, prompt: _Prompt, max_tokens: int | None, config: EngineConfig) -> Ask:
    room = config.max_model_len - prompt.tokens
    if room < (max_tokens or 1):
        asked = f"{prompt.tokens} in the prompt and asks for {max_tokens or 1}"
        raise errors.context_exceeded(limit=config.max_model_len, asked=asked, param=prompt.field)
    digest = prompt_digest(seed=config.seed, request_seed=body.seed, model=body.model, prompt=prompt.text)
    words = write_answer(digest=digest, model=body.model, question=prompt.question, endless=body.ignore_eos)
    stops = [body.stop] if isinstance(body.stop, str) else body.stop or []
    return Ask(
        model=body.model,
        prompt_tokens=prompt.tokens,
        answer=finish(words, max_tokens=max_tokens or room, stops=stops),
        stream=bool(body.stream),
        include_usage=body.stream_options is not None and body.stream_options.include_usage,
    )
