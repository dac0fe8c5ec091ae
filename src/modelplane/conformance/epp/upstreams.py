"""The servers behind the picker. They return the request that they received, and expose vLLM's metrics."""

import asyncio
import hashlib
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import NamedTuple

import msgspec
from aiohttp import web

STRAY = "stray"
"""The server that a request reaches when the picker picked none."""
SERVED = "x-kit-served"
"""The response header that has the server's address; the kit's Envoy takes it off."""
EVENTS = 5
_MOST_BODY = 64 * 1024 * 1024
_STREAMED = re.compile(rb'"stream"\s*:\s*true')
"""Matches bodies that a picker corrupted, too."""
_METRICS = """\
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="kit"} %d
# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_waiting{engine="0",model_name="kit"} %d
# TYPE vllm:kv_cache_usage_perc gauge
vllm:kv_cache_usage_perc{engine="0",model_name="kit"} %g
# TYPE vllm:cache_config_info gauge
vllm:cache_config_info{block_size="16",num_gpu_blocks="1000",engine="0"} 1.0
"""


class ShownLoad(NamedTuple):
    """The load that a server shows in its metrics, whatever it does."""

    running: int = 0
    waiting: int = 0
    kv_cache_usage: float = 0.0


IDLE = ShownLoad()


class Reached(msgspec.Struct, frozen=True):
    """The request as the upstream server received it."""

    endpoint: str
    method: str
    path: str
    headers: dict[str, str]
    length: int
    digest: str
    meaning: str
    """The digest of the body as canonical JSON; of its bytes if it is not JSON."""


class Upstreams:
    """One server for each address, and one that no request should reach."""

    def __init__(self) -> None:
        self.addresses: tuple[str, ...] = ()
        self.stray_address = ""
        self.released = asyncio.Event()
        """Streams send the first event, and the others once this is set."""
        self.loads: dict[str, ShownLoad] = {}
        """By address; the others are idle."""
        self.answering_metrics = asyncio.Event()
        """While this is clear, the metrics of all servers hang."""
        self.answering_metrics.set()

    @asynccontextmanager
    async def serving(self, addresses: Sequence[str]) -> AsyncIterator["Upstreams"]:
        """Addresses as `host:port`; port 0 takes a free one."""
        runners: list[web.AppRunner] = []
        try:
            self.addresses = tuple([await self._serve(address, None, runners) for address in addresses])
            self.stray_address = await self._serve("127.0.0.1:0", STRAY, runners)
            yield self
        finally:
            for runner in runners:
                await runner.cleanup()

    async def _serve(self, address: str, name: str | None, runners: list[web.AppRunner]) -> str:
        host, _, port = address.rpartition(":")
        application = web.Application(client_max_size=_MOST_BODY)
        runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.5)
        runners.append(runner)
        names: list[str] = []

        async def answer(request: web.Request) -> web.StreamResponse:
            return await self._answer(request, name or names[0], {"x-upstream": names[0], SERVED: names[0]})

        async def metrics(_request: web.Request) -> web.Response:
            await self.answering_metrics.wait()
            load = self.loads.get(names[0], IDLE)
            return web.Response(text=_METRICS % load, content_type="text/plain")

        application.router.add_get("/metrics", metrics)
        application.router.add_route("*", "/{path:.*}", answer)
        await runner.setup()
        await web.TCPSite(runner, host, int(port)).start()
        taken = f"{host}:{runner.addresses[0][1]}"
        names.append(taken)
        return taken

    async def _answer(self, request: web.Request, endpoint: str, headers: dict[str, str]) -> web.StreamResponse:
        try:
            body = await request.read()
        except ConnectionResetError:  # the picker let only a part of the request pass
            return web.Response(status=400)
        seen = Reached(
            endpoint,
            request.method,
            request.path,
            {name.lower(): text for name, text in request.headers.items()},
            len(body),
            hashlib.sha256(body).hexdigest(),
            meaning(body),
        )
        if _STREAMED.search(body):
            response = web.StreamResponse(headers={"content-type": "text/event-stream", **headers})
            with suppress(ConnectionResetError):  # the client has disconnected, which some cases try
                await self._stream(request, response)
            return response
        return web.json_response(msgspec.to_builtins(seen), headers=headers)

    async def _stream(self, request: web.Request, response: web.StreamResponse) -> None:
        await response.prepare(request)
        for number in range(EVENTS):
            await response.write(f'data: {{"choices": [{{"delta": {{"content": "{number}"}}}}]}}\n\n'.encode())
            if number == 0:
                await asyncio.wait_for(self.released.wait(), 20)
        usage = '{"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 5}}'
        # One event in two chunks: proxies split anywhere.
        await response.write(f"data: {usage[:20]}".encode())
        await asyncio.sleep(0)
        await response.write(f"{usage[20:]}\n\ndata: [DONE]\n\n".encode())
        await response.write_eof()


def meaning(body: bytes) -> str:
    with suppress(msgspec.DecodeError):
        body = msgspec.json.encode(msgspec.json.decode(body), order="sorted")
    return hashlib.sha256(body).hexdigest()
