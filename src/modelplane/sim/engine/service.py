"""The HTTP handlers of an engine."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Container, Mapping
from hashlib import blake2b
from typing import ClassVar, Literal

import msgspec
from aiohttp import web
from aiohttp.http import HttpVersion11

from modelplane.api.version import __version__
from modelplane.sim.engine import errors, faults, metrics
from modelplane.sim.engine.completions import CompletionEncoder, embeddings_body, models_body
from modelplane.sim.engine.config import Adapter, EngineConfig
from modelplane.sim.engine.core import EngineCore
from modelplane.sim.engine.embeddings import packed, vector
from modelplane.sim.engine.engine_loop import EngineClock, pause
from modelplane.sim.engine.kv_events import PublishedBatch
from modelplane.sim.engine.kv_transfer import EngineRegistry
from modelplane.sim.engine.output_processor import (
    ActiveRequest,
    ResponseEncoder,
    Wakeup,
    embed,
    full_response,
    stream_response,
)
from modelplane.sim.engine.protocol import LoadAdapterBody, UnloadAdapterBody, decode
from modelplane.sim.engine.requests import GenerationRequest, read_chat, read_embedding, read_text, read_tokenize
from modelplane.sim.engine.responses import ResponsesEncoder, read_response
from modelplane.sim.engine.sidecar import PREFILLED_BY, SimulatedSidecar

_Handler = Callable[["EngineService", web.BaseRequest], Awaitable[web.StreamResponse]]
_Kind = Literal["chat", "text", "response"]
_Reader = Callable[[bytes, EngineConfig, Container[str]], GenerationRequest]

# How many batches a reader of the events may be behind before it loses some.
_BATCHES_BEHIND = 1024


class EngineService:
    """The request handler of one engine. `crash` ends it as if its process had been killed."""

    def __init__(
        self,
        config: EngineConfig,
        clock: EngineClock,
        *,
        exchange: EngineRegistry | None = None,
        wall_clock: Callable[[], float] = time.time,
        crash: Callable[[], None] = lambda: None,
        sidecar: SimulatedSidecar | None = None,
    ) -> None:
        self._sidecar = sidecar
        self.core = EngineCore(config, clock, wall_clock, exchange or EngineRegistry())
        self._config = config
        self._wall_clock = wall_clock
        self._created = int(wall_clock())
        self._crash = crash
        self._received = 0

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        try:
            return await self._route(request)
        except errors.EngineApiError as error:
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
        return await self._generate(request, read_chat, "chat")

    async def _text(self, request: web.BaseRequest) -> web.StreamResponse:
        return await self._generate(request, read_text, "text")

    async def _response(self, request: web.BaseRequest) -> web.StreamResponse:
        return await self._generate(request, read_response, "response")

    async def _generate(self, request: web.BaseRequest, read: _Reader, kind: _Kind) -> web.StreamResponse:
        body = await self._read(request)
        fault = await self._inject_fault(request)
        prefilled_by = ""
        if self._sidecar is not None and kind != "response":
            body, prefilled_by = await self._sidecar.prefilled(request.path, request.headers, body)
        generation = read(body, self._config, self.core.adapters)
        number = self._number()
        watch = Wakeup()
        encoder = self._encoder(kind, generation, number)
        active = ActiveRequest(
            generation, encoder, number, self.core.generate(generation, number, watch.wake), watch, fault
        )
        try:
            return await self._send(request, active, {PREFILLED_BY: prefilled_by} if prefilled_by else {})
        finally:
            self.core.abort(active.sequences)

    def _encoder(self, kind: _Kind, generation: GenerationRequest, number: str) -> ResponseEncoder:
        created = int(self._wall_clock())
        if kind == "response":
            return ResponsesEncoder(number=number, created=created, model=generation.model)
        return CompletionEncoder(
            kind=kind, number=number, created=created, model=generation.model, include_usage=generation.include_usage
        )

    async def _send(
        self, request: web.BaseRequest, active: ActiveRequest, more: Mapping[str, str]
    ) -> web.StreamResponse:
        # The caller's own id when there is one, so that one id follows a request through every hop.
        headers = {"x-request-id": request.headers.get("x-request-id") or active.number, **more}
        if active.generation.stream:
            headers |= {"Content-Type": "text/event-stream; charset=utf-8", "Cache-Control": "no-cache"}
            response = web.StreamResponse(headers=self._headers(headers))
            await stream_response(self.core, active, request, response)
            return response
        body = await full_response(self.core, active)
        if active.fault.cut_after is not None and request.transport is not None:
            request.transport.abort()
        return self._respond(body, headers=headers)

    async def _embed(self, request: web.BaseRequest) -> web.StreamResponse:
        body = await self._read(request)
        await self._inject_fault(request)
        embedding = read_embedding(body, self._config, self.core.adapters)
        await embed(self.core, embedding, self._number())
        vectors = [vector(ids, embedding.size) for ids in embedding.inputs]
        shown = [packed(values) for values in vectors] if embedding.base64 else vectors
        total = sum(map(len, embedding.inputs))
        return self._respond(embeddings_body(shown, model=embedding.model, prompt_tokens=total))

    async def _tokenize(self, request: web.BaseRequest) -> web.StreamResponse:
        ids = read_tokenize(await self._read(request), self._config, self.core.adapters)
        return self._json({"count": len(ids), "max_model_len": self._config.max_model_len, "tokens": ids})

    async def _models(self, _request: web.BaseRequest) -> web.StreamResponse:
        listed = self.core.adapters.listed()
        limit = self._config.max_model_len
        return self._respond(models_body(self._config.models, listed, created=self._created, max_model_len=limit))

    async def _load_adapter(self, request: web.BaseRequest) -> web.StreamResponse:
        self._check_runtime_lora(request)
        decoded = decode(await self._read(request), LoadAdapterBody)
        adapter = Adapter(decoded.lora_name, decoded.lora_path)
        return self._text_answer(self.core.adapters.load(adapter, in_place=decoded.load_inplace))

    async def _unload_adapter(self, request: web.BaseRequest) -> web.StreamResponse:
        self._check_runtime_lora(request)
        decoded = decode(await self._read(request), UnloadAdapterBody)
        return self._text_answer(self.core.adapters.unload(decoded.lora_name))

    def _check_runtime_lora(self, request: web.BaseRequest) -> None:
        """An engine that was not started for it does not have these paths, as vLLM does not."""
        if not self._config.max_loras or not self._config.runtime_lora:
            raise errors.unknown_path(request.method, request.path)

    async def _health(self, _request: web.BaseRequest) -> web.StreamResponse:
        return self._respond(b"")

    async def _version(self, _request: web.BaseRequest) -> web.StreamResponse:
        return self._json({"version": f"modelplane-engine {__version__}"})

    async def _load(self, _request: web.BaseRequest) -> web.StreamResponse:
        return self._json({"server_load": self.core.load})

    async def _metrics(self, _request: web.BaseRequest) -> web.StreamResponse:
        return self._respond(self.core.metrics().encode(), headers={"Content-Type": metrics.CONTENT_TYPE})

    async def _reset_cache(self, _request: web.BaseRequest) -> web.StreamResponse:
        if not self.core.reset_prefix_cache():
            raise errors.EngineApiError(409, "The prefix cache is in use.", code="cache_in_use")
        return self._respond(b"")

    async def _show_faults(self, _request: web.BaseRequest) -> web.StreamResponse:
        return self._respond(msgspec.json.encode(self.core.faults))

    async def _set_faults(self, request: web.BaseRequest) -> web.StreamResponse:
        self.core.set_faults(faults.read_faults(await self._read(request)))
        return self._respond(msgspec.json.encode(self.core.faults))

    async def _kv_events(self, request: web.BaseRequest) -> web.StreamResponse:
        """JSON lines of the batches from `?from=` on, for as long as the reader stays."""
        log = self.core.log
        if not log.enabled:
            raise errors.EngineApiError(404, "This engine does not publish KV events.", code="kv_events_off")
        first = _whole_number("from", request.query.get("from", "0"))
        queue: asyncio.Queue[PublishedBatch] = asyncio.Queue()

        def take(batch: PublishedBatch) -> None:
            if queue.qsize() < _BATCHES_BEHIND:
                queue.put_nowait(batch)

        leave = log.listen(take)
        try:
            response = web.StreamResponse(headers=self._headers({"Content-Type": "application/x-ndjson"}))
            await response.prepare(request)
            for batch in log.since(first):
                await response.write(batch.line())
            while True:
                await response.write((await queue.get()).line())
        finally:
            leave()

    async def _inject_fault(self, request: web.BaseRequest) -> faults.RequestFault:
        """Apply faults before the request is read; return those that apply later."""
        self._received += 1
        fault = self.core.fault(self._received)
        decoded = request.headers.get(faults.HEADER)
        if decoded is not None and self._config.fault_header:
            fault = faults.read_header(decoded)
        if fault.crash:
            self._crash()
        if fault.crash or fault.hang:
            await asyncio.get_running_loop().create_future()
        if fault.delay_s:
            await pause(self.core.clock, fault.delay_s)
        if fault.error is not None:
            raise errors.injected(fault.error)
        return fault

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

    def _json(self, value: object) -> web.Response:
        return self._respond(msgspec.json.encode(value))

    def _text_answer(self, text: str) -> web.Response:
        return self._respond(text.encode(), headers={"Content-Type": "text/plain; charset=utf-8"})

    def _respond(self, body: bytes, *, status: int = 200, headers: Mapping[str, str] | None = None) -> web.Response:
        every = self._headers({"Content-Type": "application/json", **(headers or {})})
        return web.Response(body=body, status=status, headers=every)

    def _headers(self, extra: Mapping[str, str]) -> dict[str, str]:
        return {"x-served-by": self._config.served_by, **extra}

    def _number(self) -> str:
        """Ids that no two engines share and that a second run with the same seed repeats."""
        material = f"{self._config.seed}/{self._config.namespace}/{self._config.served_by}/{self._received}"
        return blake2b(material.encode(), digest_size=12).hexdigest()

    _ROUTES: ClassVar[Mapping[str, Mapping[str, _Handler]]] = {
        "/v1/chat/completions": {"POST": _chat},
        "/v1/completions": {"POST": _text},
        "/v1/responses": {"POST": _response},
        "/v1/embeddings": {"POST": _embed},
        "/v1/models": {"GET": _models},
        "/v1/load_lora_adapter": {"POST": _load_adapter},
        "/v1/unload_lora_adapter": {"POST": _unload_adapter},
        "/tokenize": {"POST": _tokenize},
        "/health": {"GET": _health},
        "/ping": {"GET": _health, "POST": _health},
        "/load": {"GET": _load},
        "/metrics": {"GET": _metrics},
        "/version": {"GET": _version},
        "/reset_prefix_cache": {"POST": _reset_cache},
        "/sim/faults": {"GET": _show_faults, "POST": _set_faults},
        "/sim/kv-events": {"GET": _kv_events},
    }


def _whole_number(name: str, text: str) -> int:
    if not text.isascii() or not text.isdigit():
        raise errors.invalid_field(name, f"{text!r} is not a whole number")
    return int(text)
