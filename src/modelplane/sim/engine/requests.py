"""From the bytes of a request to the sequences it asks for, or an `ApiError` that names the field."""

from collections.abc import Container, Sequence
from dataclasses import dataclass

from modelplane.sim.engine import errors
from modelplane.sim.engine.bodies import (
    ChatBody,
    ChatMessage,
    EmbeddingBody,
    GenerationBody,
    TextBody,
    TokenizeBody,
    check_simulated,
    decode,
    prompts_of,
)
from modelplane.sim.engine.config import EngineConfig
from modelplane.sim.engine.text import (
    LONGEST_TOKEN,
    VOCABULARY,
    GeneratedText,
    finish,
    prompt_digest,
    token_id,
    token_ids,
    write_answer,
)
from modelplane.sim.engine.transfer import KvTransferParams

# As in Llama 3: a message opens with a mark, its role and another mark, and closes with a third.
_OPEN, _SEPARATE, _CLOSE = VOCABULARY, VOCABULARY + 1, VOCABULARY + 2
TOKENS_PER_MESSAGE = 4
TOKENS_TO_ANSWER = 3
"""The opening of the assistant's own message, which ends every prompt."""
# What the completions API documents as the default of max_tokens; chat has none but the context.
_DEFAULT_TEXT_TOKENS = 16
_MOST_ANSWERS = 1024
_MOST_TOKENS = 1 << 20


@dataclass(frozen=True, slots=True)
class Choice:
    """One answer to one prompt."""

    prompt: Sequence[int]
    answer: GeneratedText

    def answer_ids(self) -> tuple[int, ...]:
        return tuple(map(token_id, self.answer.generated))


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationRequest:
    """One accepted request: what will be said, and how to send it. Choices of one prompt follow each other."""

    model: str
    adapter: str | None
    choices: tuple[Choice, ...]
    per_prompt: int = 1
    stream: bool = False
    include_usage: bool = False
    max_tokens: int | None = None
    salt: str | None = None
    transfer: KvTransferParams | None = None

    @property
    def prompt_tokens(self) -> int:
        """Each prompt counts once, however many answers it gets."""
        return sum(len(choice.prompt) for choice in self.choices[:: self.per_prompt])


@dataclass(frozen=True, slots=True)
class EmbeddingRequest:
    model: str
    adapter: str | None
    inputs: tuple[Sequence[int], ...]
    size: int
    base64: bool


@dataclass(frozen=True, slots=True)
class _Prompt:
    field: str
    text: str
    question: str
    ids: Sequence[int]


def read_chat(body: bytes, config: EngineConfig, adapters: Container[str] = ()) -> GenerationRequest:
    return read_conversation(decode(body, ChatBody), config, adapters)


def read_conversation(chat: ChatBody, config: EngineConfig, adapters: Container[str] = ()) -> GenerationRequest:
    adapter = _resolve(chat.model, config, adapters)
    check_simulated(chat)
    texts = [message.text() for message in chat.messages]
    tools = "".join(bytes(tool).decode() for tool in chat.tools or ())
    _check_size("messages", sum(map(len, texts)) + len(tools), config)
    turns = list(zip(chat.messages, texts, strict=True))
    prompt = _Prompt(
        field="messages",
        text="\0".join((tools, *(f"{message.role}\0{text}" for message, text in turns))),
        question=next((text for message, text in reversed(turns) if message.role == "user"), ""),
        ids=[*token_ids(tools), *chat_ids(chat.messages)],
    )
    return _ask(chat, adapter, [prompt], chat.max_completion_tokens or chat.max_tokens, config)


def read_text(body: bytes, config: EngineConfig, adapters: Container[str] = ()) -> GenerationRequest:
    completion = decode(body, TextBody)
    adapter = _resolve(completion.model, config, adapters)
    check_simulated(completion)
    prompts = [_text_prompt(prompt, config) for prompt in prompts_of("prompt", completion.prompt)]
    return _ask(completion, adapter, prompts, completion.max_tokens or _DEFAULT_TEXT_TOKENS, config)


def read_embedding(body: bytes, config: EngineConfig, adapters: Container[str] = ()) -> EmbeddingRequest:
    asked = decode(body, EmbeddingBody)
    adapter = _resolve(asked.model, config, adapters)
    size = asked.dimensions or config.embedding_size
    if size > config.embedding_size:
        raise errors.invalid_field("dimensions", f"this model has {config.embedding_size}")
    inputs = tuple(_ids("input", prompt, config) for prompt in prompts_of("input", asked.input))
    for ids in inputs:
        if len(ids) > config.max_model_len:
            raise errors.context_exceeded(limit=config.max_model_len, asked=str(len(ids)), param="input")
    return EmbeddingRequest(asked.model, adapter, inputs, size, asked.encoding_format == "base64")


def read_tokenize(body: bytes, config: EngineConfig, adapters: Container[str] = ()) -> Sequence[int]:
    asked = decode(body, TokenizeBody)
    _resolve(asked.model or config.models[0], config, adapters)
    if (asked.prompt is None) == (asked.messages is None):
        raise errors.invalid_field("prompt", "give either prompt or messages")
    if asked.messages is None:
        return token_ids(asked.prompt or "")
    return chat_ids(asked.messages)


def chat_ids(messages: Sequence[ChatMessage]) -> list[int]:
    """A conversation as its model reads it, up to where the answer begins."""
    ids: list[int] = []
    for message in messages:
        ids += _opening(message.role)
        ids += token_ids(message.text())
        ids.append(_CLOSE)
    ids += _opening("assistant")
    return ids


def _opening(role: str) -> tuple[int, int, int]:
    return _OPEN, token_id(role), _SEPARATE


def _resolve(model: str, config: EngineConfig, adapters: Container[str]) -> str | None:
    """The adapter that a model's name means; None for the base model."""
    if model in config.models:
        return None
    if model in adapters:
        return model
    raise errors.unknown_model(model)


def _check_size(field: str, characters: int, config: EngineConfig) -> None:
    """Refuse what cannot fit before splitting it, so that the work on one request is bounded."""
    fewest = characters // LONGEST_TOKEN
    if fewest > config.max_model_len:
        raise errors.context_exceeded(limit=config.max_model_len, asked=f"at least {fewest}", param=field)


def _text_prompt(prompt: str | list[int], config: EngineConfig) -> _Prompt:
    ids = _ids("prompt", prompt, config)
    if isinstance(prompt, str):
        return _Prompt("prompt", prompt, prompt, ids)
    return _Prompt("prompt", " ".join(map(str, prompt)), "", ids)


def _ids(field: str, prompt: str | list[int], config: EngineConfig) -> Sequence[int]:
    if isinstance(prompt, str):
        _check_size(field, len(prompt), config)
        return token_ids(prompt) or [_OPEN]
    if not prompt:
        raise errors.invalid_field(field, "a list of token ids has at least one")
    return prompt


def _ask(
    body: GenerationBody, adapter: str | None, prompts: Sequence[_Prompt], max_tokens: int | None, config: EngineConfig
) -> GenerationRequest:
    per_prompt = body.n or 1
    _check_amount(body, len(prompts) * per_prompt, max_tokens or config.max_model_len)
    return GenerationRequest(
        model=body.model,
        adapter=adapter,
        choices=tuple(
            Choice(prompt.ids, _answer(body, prompt, max_tokens, config, number))
            for prompt in prompts
            for number in range(per_prompt)
        ),
        per_prompt=per_prompt,
        stream=bool(body.stream),
        include_usage=body.stream_options is not None and body.stream_options.include_usage,
        max_tokens=max_tokens,
        salt=body.cache_salt,
        transfer=body.kv_transfer_params,
    )


def _check_amount(body: GenerationBody, answers: int, tokens: int) -> None:
    """Answers are written when a request is read, so one request must not ask for a library."""
    if answers > _MOST_ANSWERS:
        raise errors.invalid_field("n", f"a request may ask for {_MOST_ANSWERS} answers, this one asks for {answers}")
    if body.ignore_eos and answers * tokens > _MOST_TOKENS:
        asked = f"a request may ask for {_MOST_TOKENS} tokens in all, this one asks for {answers * tokens}"
        raise errors.invalid_field("max_tokens", asked)


def _answer(
    body: GenerationBody, prompt: _Prompt, max_tokens: int | None, config: EngineConfig, number: int
) -> GeneratedText:
    room = config.max_model_len - len(prompt.ids)
    if room < (max_tokens or 1):
        asked = f"{len(prompt.ids)} in the prompt and asks for {max_tokens or 1}"
        raise errors.context_exceeded(limit=config.max_model_len, asked=asked, param=prompt.field)
    text = f"{prompt.text}\0{number}" if number else prompt.text
    digest = prompt_digest(seed=config.seed, request_seed=body.seed, model=body.model, prompt=text)
    words = write_answer(digest=digest, model=body.model, question=prompt.question, endless=body.ignore_eos)
    stops = [body.stop] if isinstance(body.stop, str) else body.stop or []
    return finish(words, max_tokens=max_tokens or room, stops=stops)
