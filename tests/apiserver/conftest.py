"""The API over real HTTP, in memory and on a clock of its own."""

import asyncio
import io
import json
from contextlib import asynccontextmanager
from dataclasses import dataclass

import aiohttp
import pytest
from aiohttp import web

from modelplane.apiserver.app import ApiServer
from modelplane.apiserver.lifecycle import Lifecycle, ensure_namespaces
from modelplane.apiserver.store.database import Database, SqliteStore, StoreSettings
from modelplane.apiserver.watches import DEFAULT_LIMITS, WatchHub, WatchLimits
from modelplane.reconcile.clock import SystemClock

TOKEN = "a-token"
AUTH = {"Authorization": f"Bearer {TOKEN}"}


@dataclass
class Client:
    """A client of the API, with access to its store."""

    session: aiohttp.ClientSession
    store: SqliteStore
    lifecycle: Lifecycle
    watches: WatchHub
    limits: WatchLimits

    async def ask(self, method, path, body=None, **options):
        """Status and decoded answer."""
        answer = await self.answer(method, path, body, **options)
        return answer[0], answer[1]

    async def answer(self, method, path, body=None, *, media="application/json", headers=AUTH, accept=None):
        """Status, decoded answer and headers."""
        sent = {**headers, "Content-Type": media, "User-Agent": "tests/1"}
        if accept:
            sent["Accept"] = accept
        data = body if isinstance(body, bytes | str) or body is None else json.dumps(body)
        if data is not None and len(data) > 500_000:
            data = io.BytesIO(data.encode() if isinstance(data, str) else data)
        async with self.session.request(method, path, data=data, headers=sent) as response:
            raw = await response.read()
            is_json = response.headers["Content-Type"].startswith("application/json")
            return response.status, json.loads(raw) if is_json else raw.decode(), response.headers


@asynccontextmanager
async def serving(limits=DEFAULT_LIMITS, history=16_384, *, collect_garbage=True):
    clock = SystemClock()
    with Database(None, clock=clock, settings=StoreSettings(history_limit=history)) as database:
        store = database.store("plane")
        ensure_namespaces(store)
        lifecycle = Lifecycle(store, clock)
        loop = asyncio.create_task(lifecycle.loop.run() if collect_garbage else asyncio.sleep(0))
        server = ApiServer(store, token=TOKEN, clock=clock, limits=limits)
        await server.runner.setup()
        await web.TCPSite(server.runner, "127.0.0.1", 0).start()
        host, port = server.runner.addresses[0][:2]
        try:
            async with aiohttp.ClientSession(f"http://{host}:{port}") as session:
                yield Client(session, store, lifecycle, server._watches, limits)
        finally:
            await server.close()
            loop.cancel()
            await asyncio.gather(loop, return_exceptions=True)


@pytest.fixture
def over_http():
    """Runs a story, which is given a client, against a fresh API."""

    def run(story, **options):
        async def main():
            async with serving(**options) as client:
                await story(client)

        asyncio.run(main())

    return run
