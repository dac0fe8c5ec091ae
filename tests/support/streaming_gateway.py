"""A gateway in front of a service, as clients see it."""

import asyncio
import json

from aiohttp import web

CHUNK = {"choices": [{"index": 0, "delta": {"content": "Hel"}}]}


class Gateway:
    """What is behind the address of a service: it remembers what it got, and streams its answer in two parts."""

    def __init__(self, listed=("m",), status=200):
        self.listed, self.status = listed, status
        self.seen = []
        self.go_on = asyncio.Event()

    async def answer(self, request):
        body = json.loads(await request.read() or b"null")
        self.seen.append((request.method, request.path, request.headers.get("Authorization"), body))
        if request.path.endswith("/models"):
            return web.json_response({"data": [{"id": each} for each in self.listed]})
        if self.status != 200:
            return web.json_response({"error": {"message": "no room"}}, status=self.status)
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        await response.write(f"data: {json.dumps(CHUNK)}\n\n".encode())
        await self.go_on.wait()
        await response.write(b"data: [DONE]\n\n")
        return response

    async def __aenter__(self):
        self.runner = web.ServerRunner(web.Server(self.answer))
        await self.runner.setup()
        await web.TCPSite(self.runner, "127.0.0.1", 0).start()
        self.url = f"http://127.0.0.1:{self.runner.addresses[0][1]}"
        return self

    async def __aexit__(self, *_error):
        await self.runner.cleanup()
