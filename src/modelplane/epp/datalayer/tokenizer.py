"""Prompts in the tokens of the servers' own tokenizer, which the precise index needs to meet what servers hold.

The tokenizer is vLLM's `/tokenize`: of the server that the configuration names, else of the pool's servers in turn. The
request waits for the tokens; after a timeout it continues without them, and no tokenizer is called for some seconds: a
tokenizer that hangs delays one request, not all of them.

A prompt of tokens needs no tokenizer. APIs that `/tokenize` does not support are not tokenized.
"""

import asyncio
import itertools
import logging
from collections.abc import Callable, Mapping
from typing import Final

import aiohttp
import msgspec

from modelplane.epp.datalayer.endpoints import EndpointSource
from modelplane.epp.scheduling.requests import InferenceApi
from modelplane.epp.transport.held_bodies import BodyRefused, read_at_most
from modelplane.reconcile.log_lines import because
from modelplane.reconcile.log_reasons import LogReason

_LOG = logging.getLogger(__name__)
_OK: Final = 200
_MOST_PROMPTS: Final = 64
_MAX_CONCURRENT: Final = 256
_MOST_BYTES: Final = 64 << 20
"""Of a response: a million tokens with their texts are 20 MB."""
_CHAT_FIELDS: Final = frozenset((
    "model", "messages", "tools", "add_generation_prompt", "continue_final_message", "add_special_tokens",
    "chat_template", "chat_template_kwargs", "mm_processor_kwargs",
))  # fmt: skip
_FIELDS: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_PROMPT: Final = msgspec.json.Decoder(str | list[str | int | list[int]])

TokenIds = tuple[tuple[int, ...], ...]
OnTokens = Callable[[TokenIds], None]
Fields = Mapping[str, msgspec.Raw]


class _TokenizeResponse(msgspec.Struct):
    tokens: tuple[int, ...]


_ANSWER: Final = msgspec.json.Decoder(_TokenizeResponse)


class TokenizerSettings(msgspec.Struct, frozen=True, kw_only=True):
    url: str = ""
    """Empty: servers of the pool."""
    timeout_s: float = 1.0
    pause_s: float = 2.0
    """How long no tokenizer is called after a failure."""


class Tokenizer:
    """Started once, stopped once. One event loop."""

    def __init__(self, settings: TokenizerSettings | None = None) -> None:
        self._settings = settings or TokenizerSettings()
        self._source: EndpointSource | None = None
        self._client: aiohttp.ClientSession | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._turns = itertools.count()
        self._paused_until_s = 0.0
        self.failures = 0

    def follow(self, source: EndpointSource) -> None:
        self._source = source

    async def start(self) -> None:
        timeout = aiohttp.ClientTimeout(total=self._settings.timeout_s)
        self._client = aiohttp.ClientSession(timeout=timeout, connector=aiohttp.TCPConnector(limit=_MAX_CONCURRENT))

    async def stop(self) -> None:
        client, self._client = self._client, None
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if client is not None:
            await client.close()

    def tokenize(self, api: InferenceApi, body: bytes, on_tokens: OnTokens) -> Callable[[], object] | None:
        """Call `on_tokens` later and once with the tokens of the prompts, or none where the server fails.

        What is returned cancels that. None: it will not be called.
        """
        loop = asyncio.get_running_loop()
        url = self._url()
        if self._client is None or not url or loop.time() < self._paused_until_s or len(self._tasks) >= _MAX_CONCURRENT:
            return None
        questions = _tokenize_bodies(api, body)
        if not questions:
            return None
        task = loop.create_task(self._fetch(self._client, url, questions, on_tokens))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task.cancel

    def _url(self) -> str:
        if self._settings.url:
            return f"{self._settings.url.rstrip('/')}/tokenize"
        pool = self._source.current if self._source is not None else ()
        return f"http://{pool[next(self._turns) % len(pool)].address}/tokenize" if pool else ""

    async def _fetch(
        self, client: aiohttp.ClientSession, url: str, questions: "list[bytes | tuple[int, ...]]", on_tokens: OnTokens
    ) -> None:
        try:
            found = await asyncio.gather(*(_tokens(client, url, question) for question in questions))
        except (aiohttp.ClientError, TimeoutError, msgspec.DecodeError, RecursionError, BodyRefused) as error:
            self.failures += 1
            self._paused_until_s = asyncio.get_running_loop().time() + self._settings.pause_s
            extra = because(LogReason.TOKENIZER_FAILED)
            _LOG.warning("tokenizing at %s failed: %s", url, str(error) or type(error).__name__, extra=extra)
            found = []
        on_tokens(tuple(found))


async def _tokens(client: aiohttp.ClientSession, url: str, question: bytes | tuple[int, ...]) -> tuple[int, ...]:
    if isinstance(question, tuple):
        return question
    async with client.post(url, data=question, headers={"content-type": "application/json"}) as answer:
        body = await read_at_most(answer.content.iter_any(), _MOST_BYTES, answer.content_length)
        if answer.status != _OK:
            raise aiohttp.ClientError(f"answered {answer.status}")
        return _ANSWER.decode(body).tokens


def _tokenize_bodies(api: InferenceApi, body: bytes) -> "list[bytes | tuple[int, ...]]":
    """The body for each prompt, or the prompt itself if it is tokens; empty if it cannot be tokenized."""
    if api not in {InferenceApi.CHAT, InferenceApi.COMPLETIONS}:
        return []
    try:
        fields = _FIELDS.decode(body)
        if api is InferenceApi.CHAT:
            return [msgspec.json.encode({name: value for name, value in fields.items() if name in _CHAT_FIELDS})]
        prompts = _prompts(_PROMPT.decode(fields.get("prompt", b'""')))
    except (msgspec.DecodeError, RecursionError):
        return []
    if len(prompts) > _MOST_PROMPTS:
        return []
    model = {name: value for name, value in fields.items() if name in {"model", "add_special_tokens"}}
    return [
        prompt if isinstance(prompt, tuple) else msgspec.json.encode({**model, "prompt": prompt}) for prompt in prompts
    ]


def _prompts(written: str | list[str | int | list[int]]) -> list[str | tuple[int, ...]]:
    if isinstance(written, str):
        return [written] if written else []
    texts = [each for each in written if isinstance(each, str)]
    if texts:
        return list(texts)
    lists = [tuple(each) for each in written if isinstance(each, list)]
    if lists:
        return list(lists)
    return [tuple(each for each in written if isinstance(each, int))] if written else []
