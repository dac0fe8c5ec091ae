"""A client of the dashboard's server: views, and the events of a stream one by one."""

import asyncio
import io
import json
from contextlib import asynccontextmanager

import aiohttp
from yarl import URL

from modelplane.web.page_token import PageToken
from modelplane.web.server import serve
from modelplane.web.source import DashboardSource
from tests.support.dashboard_fleet import FixedClock, fleet_store

TOKEN = "secret"


class DashboardClient:
    def __init__(self, session, origin, store):
        self._session = session
        self.origin = origin
        self.store = store

    async def get(self, path):
        """The status and the JSON of an answer."""
        async with self._session.get(f"{self.origin}{path}") as answer:
            return answer.status, json.loads(await answer.read())

    async def post(self, path, body, **headers):
        data, kind = io.BytesIO(json.dumps(body).encode()), {"Content-Type": "application/json"}
        async with self._session.post(f"{self.origin}{path}", data=data, headers={**kind, **headers}) as answer:
            return answer.status, await answer.text(), answer.headers

    @asynccontextmanager
    async def stream(self, query):
        """The events of a stream, as pairs of a name and a value."""
        async with self._session.get(f"{self.origin}/api/stream?{query}") as answer:
            assert (answer.status, answer.content_type) == (200, "text/event-stream")
            yield _events(answer.content)


async def _events(lines):
    name = ""
    async for line in lines:
        field, _, value = line.decode().rstrip("\n").partition(": ")
        if field == "event":
            name = value
        elif field == "data":
            yield name, json.loads(value)


@asynccontextmanager
async def dashboard(objects=None, store=None, traffic=None, problem=lambda: ""):
    """A server of a fleet with its client."""
    store = fleet_store(objects) if store is None else store
    source = DashboardSource(store, "http://127.0.0.1:8080", traffic, problem)
    page = await serve(source, token=PageToken.printed(TOKEN), clock=FixedClock())
    url = URL(page.url)
    try:
        cookies = {f"modelplane-{url.port}": TOKEN}
        async with asyncio.timeout(60), aiohttp.ClientSession(cookies=cookies) as session:
            yield DashboardClient(session, str(url.origin()), store)
    finally:
        await page.close()
