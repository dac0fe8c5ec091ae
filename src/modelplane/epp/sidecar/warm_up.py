"""Warm-up of an engine: requests that are answered before its pod is ready.

It runs as a container beside the engine and answers `/ready` when the requests were answered. A pod is ready when all
its containers are, so nobody else need know: neither a Service nor a gateway sends requests before. An engine that
restarts alone is warmed up again. Where requests are not answered in time the program ends with an error, which the
kubelet shows and retries.
"""

import argparse
import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

import aiohttp
import msgspec
from aiohttp import web

from modelplane.api.errors import InputError, ModelplaneError
from modelplane.epp.sidecar.warm_up_flags import add_arguments
from modelplane.epp.transport.held_bodies import BodyRefused, read_at_most

_POLL_S = 1.0
_WATCH_S = 2.0
_HEALTH_S = 5.0
_TOKENS = 16
_WORDS, _DOUBLINGS = 8, 6
_OK = 200
_MOST_BYTES = 64 << 20
_SHOWN_BYTES = 200
_JSON = {"content-type": "application/json"}


class WarmUpError(ModelplaneError):
    """The engine did not answer the requests in time."""


@dataclass(frozen=True, slots=True)
class WarmUpRequest:
    path: str
    body: str


@dataclass(frozen=True, slots=True)
class WarmUpPlan:
    prompts: int = 0
    requests: tuple[WarmUpRequest, ...] = ()
    timeout_s: float = 300.0


def plan_of(arguments: argparse.Namespace) -> WarmUpPlan:
    return WarmUpPlan(arguments.prompts, tuple(map(_request, arguments.request)), arguments.timeout)


def parse_plan(words: Sequence[str]) -> WarmUpPlan:
    """The plan of a container's arguments."""
    parser = argparse.ArgumentParser(exit_on_error=False)
    add_arguments(parser)
    return plan_of(parser.parse_known_args(list(words))[0])


def _request(text: str) -> WarmUpRequest:
    path, equals, body = text.partition("=")
    if not equals or not path.startswith("/"):
        raise InputError(f"--request: {text[:80]!r} is not PATH=BODY")
    return WarmUpRequest(path, body)


async def warm_up(engine: str, plan: WarmUpPlan) -> int:
    """Send the requests to the engine at this address, one after the other. Returns how many there were."""
    timeout = aiohttp.ClientTimeout(total=plan.timeout_s)
    async with aiohttp.ClientSession(f"http://{engine}", timeout=timeout) as session:
        answered, problem = 0, "it does not answer"
        try:
            async with asyncio.timeout(plan.timeout_s):
                requests = [*plan.requests, *await _prompts(session, plan.prompts)]
                for request in requests:
                    while (found := await _post(session, request)) is not None:
                        problem = found
                        await asyncio.sleep(_POLL_S)
                    answered += 1
        except TimeoutError:
            words = f"{answered} warm-up requests were answered in {plan.timeout_s:g} s; the next failed: {problem}"
            raise WarmUpError(words) from None
    return answered


async def _prompts(session: aiohttp.ClientSession, count: int) -> list[WarmUpRequest]:
    """Prompts that double in length, so that kernels for several sizes are ready."""
    if not count:
        return []
    while (model := await _model(session)) is None:  # noqa: ASYNC110  another process changes it
        await asyncio.sleep(_POLL_S)
    bodies = (
        {"model": model, "prompt": f"{at} " + "warm up " * (_WORDS * 2 ** (at % _DOUBLINGS)), "max_tokens": _TOKENS}
        for at in range(count)
    )
    return [WarmUpRequest("/v1/completions", msgspec.json.encode(body).decode()) for body in bodies]


async def _model(session: aiohttp.ClientSession) -> str | None:
    try:
        async with session.get("/v1/models") as answer:
            text = await read_at_most(answer.content.iter_any(), _MOST_BYTES, answer.content_length)
            models = msgspec.json.decode(text)["data"] if answer.status == _OK else []
            return str(models[0]["id"]) if models else None
    except (aiohttp.ClientError, OSError, msgspec.DecodeError, RecursionError, BodyRefused, KeyError, TypeError):
        return None


async def _post(session: aiohttp.ClientSession, request: WarmUpRequest) -> str | None:
    """Why it failed; None where it was answered."""
    try:
        async with session.post(request.path, data=request.body, headers=_JSON) as answer:
            text = await read_at_most(answer.content.iter_any(), _MOST_BYTES, answer.content_length)
            shown = text[:_SHOWN_BYTES].decode(errors="replace")
            return None if answer.ok else f"POST {request.path}: {answer.status} {shown}"
    except (aiohttp.ClientError, OSError, BodyRefused) as error:
        return f"POST {request.path}: {error}"


class WarmUpServer:
    """Warms up the engine whenever it starts, and says on `/ready` whether it is warm."""

    def __init__(self, engine: str, plan: WarmUpPlan) -> None:
        self._engine = engine
        self._plan = plan
        self.ready = False

    async def run(self, host: str, port: int) -> None:
        """Until cancelled. Raises WarmUpError."""
        application = web.Application()
        application.router.add_get("/ready", self._answer)
        runner = web.AppRunner(application, access_log=None)
        await runner.setup()
        try:
            await web.TCPSite(runner, host, port).start()
            while True:
                await self._round()
        finally:
            await runner.cleanup()

    async def _round(self) -> None:
        while not await self._listens():  # noqa: ASYNC110  another process changes it
            await asyncio.sleep(_POLL_S)
        await warm_up(self._engine, self._plan)
        self.ready = True
        while await self._listens():  # noqa: ASYNC110  as above
            await asyncio.sleep(_WATCH_S)
        self.ready = False

    async def _listens(self) -> bool:
        """Whether the engine is healthy, or too busy to say after it was: that is no restart."""
        timeout = aiohttp.ClientTimeout(total=_HEALTH_S)
        try:
            async with (
                aiohttp.ClientSession(timeout=timeout) as session,
                session.get(f"http://{self._engine}/health") as answer,
            ):
                return answer.ok or self.ready
        except aiohttp.ClientConnectorError:
            return False
        except (aiohttp.ClientError, TimeoutError):
            return self.ready

    async def _answer(self, _request: web.Request) -> web.Response:
        return web.Response(text="ready" if self.ready else "warming up", status=_OK if self.ready else 503)
