"""Decodes a request into its sequences, or raises an `EngineApiError` that names the field."""

from collections.abc import Container, Sequence
from dataclasses import dataclass

from modelplane.sim.engine import errors
from modelplane.sim.engine.config import EngineConfig
from modelplane.sim.engine.kv_transfer import KvTransferParams
from modelplane.sim.engine.protocol import (
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

# As in Llama 3: a message opens with a mark, its role and another mark, and closes with a third.
_OPEN, _SEPARATE, _CLOSE = VOCABULARY, VOCABULARY + 1, VOCABULARY + 2
TOKENS_PER_MESSAGE = 4
TOKENS_TO_ANSWER = 3
"""The opening of the assistant's own message, which ends every prompt."""
# The documented default of max_tokens for completions; chat is limited by the context only.
_DEFAULT_TEXT_TOKENS = 16
_MOST_ANSWERS = 1024
_MOST_TOKENS = 1 << 20


@dataclass(frozen=True, slots=True)
class Choice:
    """One choice for one prompt."""

    prompt: Sequence[int]
    answer: GeneratedText

    def answer_ids(self) -> tuple[int, ...]:
        return tuple(map(token_id, self.answer.generated))


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationRequest:
    """One accepted request with its responses. Choices of one prompt are adjacent."""

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
        """Each prompt counts once, for any number of choices."""
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
    return _generation_request(chat, adapter, [prompt], chat.max_completion_tokens or chat.max_tokens, config)


def read_text(body: bytes, config: EngineConfig, adapters: Container[str] = ()) -> GenerationRequest:
    completion = decode(body, TextBody)
    adapter = _resolve(completion.model, config, adapters)
    check_simulated(completion)
    prompts = [_text_prompt(prompt, config) for prompt in prompts_of("prompt", completion.prompt)]
    return _generation_request(completion, adapter, prompts, completion.max_tokens or _DEFAULT_TEXT_TOKENS, config)


def read_embedding(body: bytes, config: EngineConfig, adapters: Container[str] = ()) -> EmbeddingRequest:
    decoded = decode(body, EmbeddingBody)
    adapter = _resolve(decoded.model, config, adapters)
    size = decoded.dimensions or config.embedding_size
    if size > config.embedding_size:
        raise errors.invalid_field("dimensions", f"this model has {config.embedding_size}")
    inputs = tuple(_ids("input", prompt, config) for prompt in prompts_of("input", decoded.input))
    for ids in inputs:
        if len(ids) > config.max_model_len:
            raise errors.context_exceeded(limit=config.max_model_len, requested=str(len(ids)), param="input")
    return EmbeddingRequest(decoded.model, adapter, inputs, size, decoded.encoding_format == "base64")


def read_tokenize(body: bytes, config: EngineConfig, adapters: Container[str] = ()) -> Sequence[int]:
    decoded = decode(body, TokenizeBody)
    _resolve(decoded.model or config.models[0], config, adapters)
    if (decoded.prompt is None) == (decoded.messages is None):
        raise errors.invalid_field("prompt", "give either prompt or messages")
    if decoded.messages is None:
        return token_ids(decoded.prompt or "")
    return chat_ids(decoded.messages)


def chat_ids(messages: Sequence[ChatMessage]) -> list[int]:
    """The token ids of a conversation, up to the start of the response."""
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
    """The adapter of a model name; None for the base model."""
    if model in config.models:
        return None
    if model in adapters:
        return model
    raise errors.unknown_model(model)


def _check_size(field: str, characters: int, config: EngineConfig) -> None:
    """Reject what cannot fit before tokenizing it, so that the work on one request is bounded."""
    fewest = characters // LONGEST_TOKEN
    if fewest > config.max_model_len:
        raise errors.context_exceeded(limit=config.max_model_len, requested=f"at least {fewest}", param=field)


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


def _generation_request(
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
    """Responses are written when a request is read, so their size is limited."""
    if answers > _MOST_ANSWERS:
        raise errors.invalid_field("n", f"a request may have {_MOST_ANSWERS} choices, this one has {answers}")
    if body.ignore_eos and answers * tokens > _MOST_TOKENS:
        message = f"a request may generate {_MOST_TOKENS} tokens in total, this one requests {answers * tokens}"
        raise errors.invalid_field("max_tokens", message)


def _answer(
    body: GenerationBody, prompt: _Prompt, max_tokens: int | None, config: EngineConfig, number: int
) -> GeneratedText:
    room = config.max_model_len - len(prompt.ids)
    if room < (max_tokens or 1):
        requested = f"{len(prompt.ids)} in the prompt and requests {max_tokens or 1}"
        raise errors.context_exceeded(limit=config.max_model_len, requested=requested, param=prompt.field)
    text = f"{prompt.text}\0{number}" if number else prompt.text
    digest = prompt_digest(seed=config.seed, request_seed=body.seed, model=body.model, prompt=text)
    words = write_answer(digest=digest, model=body.model, question=prompt.question, endless=body.ignore_eos)
    stops = [body.stop] if isinstance(body.stop, str) else body.stop or []
    return finish(words, max_tokens=max_tokens or room, stops=stops)
