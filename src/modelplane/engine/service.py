"""What an engine answers on each path."""

import time
from collections.abc import Awaitable, Callable, Mapping
from hashlib import blake2b
from typing import ClassVar, Literal

import msgspec
from aiohttp import web
from aiohttp.http import HttpVersion11

from modelplane import __version__
from modelplane.engine import errors, metrics
from modelplane.engine.batch import Batch, Clock, Limits
from modelplane.engine.config import EngineConfig
from modelplane.engine.replies import Reply, Usage, models_body
from modelplane.engine.requests import Ask, read_chat, read_text

_Handler = Callable[["Service", web.BaseRequest], Awaitable[web.StreamResponse]]


class Service:
    """The request handler of one engine, with the batch and the counters behind it."""

    def __init__(self, config: EngineConfig, clock: Clock, wall_clock: Callable[[], float] = time.time) -> None:
        timing = config.timing.scaled(compute=config.speed, bandwidth=config.speed)
        self._config = config
        self._batch = Batch(timing, Limits(config.max_num_seqs, config.kv_capacity_tokens), clock)
        self._counters = metrics.Counters()
        self._wall_clock = wall_clock
        self._created = int(wall_clock())
        self._answered = 0

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        try:
            return await self._route(request)
        except errors.ApiError as error:
            return self._respond(msgspec.json.encode(error.body()), status=error.status, headers=error.headers)

    async def _route(self, request: web.BaseRequest) -> web.StreamResponse:
        methods = self._ROUTES.get(request.path)
        if methods is None:
            raise errors.unknown_path(request.method, request.path)
        handler = methods.get(request.method)
        if handler is None:
            raise errors.method_not_allowed(request.method, request.path, methods)
        return await handler(self, request)

    async def _chat(self, request: web.BaseRequest) -> web.StreamResponse:
        return await self._answer(request, read_chat(await self._read(request), self._config), "chat")

    async def _text(self, request: web.BaseRequest) -> web.StreamResponse:
        return await self._answer(request, read_text(await self._read(request), self._config), "text")

    async def _models(self, _request: web.BaseRequest) -> web.StreamResponse:
        limit = self._config.max_model_len
        return self._respond(models_body(self._config.models, created=self._created, max_model_len=limit))

    async def _health(self, _request: web.BaseRequest) -> web.StreamResponse:
        return self._respond(b"")

    async def _version(self, _request: web.BaseRequest) -> web.StreamResponse:
        return self._respond(msgspec.json.encode({"version": f"modelplane-engine {__version__}"}))

    async def _metrics(self, _request: web.BaseRequest) -> web.StreamResponse:
        gauges = metrics.Gauges(self._batch.running, self._batch.waiting, self._batch.kv_usage)
        text = metrics.exposition(self._config.models[0], self._counters, gauges)
        return self._respond(text.encode(), headers={"Content-Type": metrics.CONTENT_TYPE})

    async def _read(self, request: web.BaseRequest) -> bytes:
        limit = self._config.max_body_bytes
        if (request.content_length or 0) > limit:
            raise errors.too_large(limit)
        if request.headers.get("Expect", "").lower() == "100-continue" and request.version == HttpVersion11:
            await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            # The writer takes a response as started once it has written anything.
            request.writer.output_size = 0
        body = bytearray()
        while chunk := await request.content.readany():
            body += chunk
            if len(body) > limit:
                raise errors.too_large(limit)
        return bytes(body)

    async def _answer(self, request: web.BaseRequest, ask: Ask, kind: Literal["chat", "text"]) -> web.StreamResponse:
        reply = Reply(
            kind=kind,
            number=self._next_number(),
            created=int(self._wall_clock()),
            model=ask.model,
            include_usage=ask.include_usage,
        )
        reason = "abort"
        try:
            response = await (self._stream(request, ask, reply) if ask.stream else self._whole(request, ask, reply))
            reason = ask.answer.finish_reason
        finally:
            self._counters.finished[reason] += 1
        return response

    async def _whole(self, request: web.BaseRequest, ask: Ask, reply: Reply) -> web.StreamResponse:
        async with self._batch.sequence(ask.prompt_tokens) as sequence:
            await sequence.prefill()
            self._counters.prompt_tokens += ask.prompt_tokens
            for position, _ in enumerate(ask.answer.tokens):
                if position:
                    await sequence.decode()
                self._counters.generation_tokens += 1
        body = reply.whole("".join(ask.answer.tokens), ask.answer.finish_reason, _usage(ask))
        return self._respond(body, headers=_request_id(request, reply))

    async def _stream(self, request: web.BaseRequest, ask: Ask, reply: Reply) -> web.StreamResponse:
        headers = {"Content-Type": "text/event-stream; charset=utf-8", "Cache-Control": "no-cache"}
        response = web.StreamResponse(headers=self._headers({**headers, **_request_id(request, reply)}))
        async with self._batch.sequence(ask.prompt_tokens) as sequence:
            await sequence.prefill()
            self._counters.prompt_tokens += ask.prompt_tokens
            await response.prepare(request)
            for event in reply.opening():
                await response.write(event)
            for position, token in enumerate(ask.answer.tokens):
                if position:
                    await sequence.decode()
                self._counters.generation_tokens += 1
                await response.write(reply.token(token))
        for event in reply.closing(ask.answer.finish_reason, _usage(ask)):
            await response.write(event)
        await response.write_eof()
        return response

    def _respond(self, body: bytes, *, status: int = 200, headers: Mapping[str, str] | None = None) -> web.Response:
        every = self._headers({"Content-Type": "application/json", **(headers or {})})
        return web.Response(body=body, status=status, headers=every)

    def _headers(self, extra: Mapping[str, str]) -> dict[str, str]:
        return {"x-served-by": self._config.served_by, **extra}

    def _next_number(self) -> str:
        """Ids that no two engines share and that a second run with the same seed repeats."""
        self._answered += 1
        material = f"{self._config.seed}/{self._config.namespace}/{self._config.served_by}/{self._answered}"
        return blake2b(material.encode(), digest_size=12).hexdigest()

    _ROUTES: ClassVar[Mapping[str, Mapping[str, _Handler]]] = {
        "/v1/chat/completions": {"POST": _chat},
        "/v1/completions": {"POST": _text},
        "/v1/models": {"GET": _models},
        "/health": {"GET": _health},
        "/metrics": {"GET": _metrics},
        "/version": {"GET": _version},
    }


def _usage(ask: Ask) -> Usage:
    return Usage(ask.prompt_tokens, len(ask.answer.tokens))


def _request_id(request: web.BaseRequest, reply: Reply) -> dict[str, str]:
    """The caller's own id when there is one, so that one id follows a request through every hop."""
    return {"x-request-id": request.headers.get("x-request-id") or reply.number}
