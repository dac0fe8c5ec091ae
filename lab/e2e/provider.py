"""A provider outside the fleet: a server behind TLS that answers whoever has its key, in the format of OpenAI's API."""

from __future__ import annotations

import contextlib
import ssl
from typing import TYPE_CHECKING

from aiohttp import web

from lab.envoy_gateway import PROVIDER, PROVIDER_PAIR

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from lab.e2e.world import World

PORT = 8443
KEY = "provider-key"
MODEL = "acme/large"
_UNAUTHORIZED = 401


class Provider:
    """Remembers the requests that it served, and lists its models."""

    def __init__(self) -> None:
        """Nothing listens yet."""
        self.seen: list[tuple[str, str, str]] = []
        """Path, model and host of each."""
        self.models = [MODEL]
        self.lists = 0

    async def list_models(self, request: web.Request) -> web.Response:
        if request.headers.get("authorization") != f"Bearer {KEY}":
            return web.json_response({"error": {"message": "no key"}}, status=_UNAUTHORIZED)
        self.lists += 1
        return web.json_response({"object": "list", "data": [{"id": name} for name in self.models]})

    async def answer(self, request: web.Request) -> web.Response:
        if request.headers.get("authorization") != f"Bearer {KEY}":
            return web.json_response({"error": {"message": "no key"}}, status=_UNAUTHORIZED)
        body = await request.json()
        self.seen.append((request.path, str(body.get("model")), request.host))
        message = {"role": "assistant", "content": "from afar"}
        usage = {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}
        choices = [{"index": 0, "message": message, "finish_reason": "stop"}]
        return web.json_response({"id": "p", "object": "chat.completion", "choices": choices, "usage": usage})


@contextlib.asynccontextmanager
async def provider(world: World) -> AsyncIterator[Provider]:
    """Serves at the address for which the lab's authority vouches."""
    made = Provider()
    application = web.Application()
    application.router.add_get("/openai/v1/models", made.list_models)
    application.router.add_post("/openai/v1/chat/completions", made.answer)
    folder = world.places.state / "control" / PROVIDER_PAIR
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(folder / "tls.crt", folder / "tls.key")
    runner = web.AppRunner(application)
    await runner.setup()
    try:
        await web.TCPSite(runner, PROVIDER, PORT, ssl_context=context).start()
        yield made
    finally:
        await runner.cleanup()
