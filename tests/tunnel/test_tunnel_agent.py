"""An agent and a hub that means no good: what reaches the API server, and what ends the connection."""

import asyncio
import json

import aiohttp
import msgspec
import pytest
from aiohttp import web

from modelplane.tunnel.agent import AgentApi, AgentConnection
from modelplane.tunnel.frames import (
    MAX_MESSAGE,
    MAX_PAYLOAD,
    MAX_STREAMS,
    WINDOW_BYTES,
    TunnelError,
    TunnelFrame,
    TunnelFrameType,
    TunnelRequest,
    decode_frame,
    encode_frame,
)


def head(stream, path="/api", method="GET", headers=()):
    return TunnelFrame(TunnelFrameType.HEAD, stream, msgspec.json.encode(TunnelRequest(method, path, tuple(headers))))


class Upstream:
    """An API server that records whom it was called by."""

    def __init__(self):
        self.seen = []
        self.ended = asyncio.Event()
        self.app = web.Application()
        self.app.router.add_route("*", "/big", self._big)
        self.app.router.add_route("*", "/watch", self._watch)
        self.app.router.add_route("*", "/{rest:.*}", self._plain)

    async def _plain(self, request):
        self.seen.append((request.method, request.raw_path, dict(request.headers), await request.read()))
        return web.json_response({"ok": True})

    async def _big(self, request):
        response = web.StreamResponse()
        await response.prepare(request)
        self.sent = 0
        for _ in range(1024):
            await response.write(b"x" * 65536)
            self.sent += 65536
        return response

    async def _watch(self, request):
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"first")
        try:
            await asyncio.sleep(60)
        finally:
            self.ended.set()
        return response


def played(story, tmp_path):
    """Runs `story(hub's socket, upstream, agent's task)`."""

    async def main():
        (tmp_path / "token").write_text("the-agents-own\n")
        upstream, done = Upstream(), asyncio.Event()
        outcome, agent = (asyncio.get_running_loop().create_future() for _ in range(2))

        async def dialled(request):
            socket = web.WebSocketResponse(max_msg_size=MAX_MESSAGE)
            await socket.prepare(request)
            try:
                outcome.set_result(await asyncio.wait_for(story(socket, upstream, await agent), 20))
            except BaseException as error:  # noqa: BLE001  the test raises it again
                outcome.set_exception(error)
            done.set()
            return socket

        hub = web.Application()
        hub.router.add_get("/", dialled)
        runners = [web.AppRunner(app, handler_cancellation=True) for app in (upstream.app, hub)]
        urls = []
        for runner in runners:
            await runner.setup()
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            urls.append("http://{}:{}".format(*runner.addresses[0][:2]))
        api = AgentApi(urls[0], tmp_path / "token")
        async with (
            aiohttp.ClientSession() as session,
            api.session() as upward,
            session.ws_connect(urls[1], max_msg_size=MAX_MESSAGE) as socket,
        ):
            task = asyncio.create_task(AgentConnection(socket, upward, api).run())
            agent.set_result(task)
            await done.wait()
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        for runner in runners:
            await runner.cleanup()
        return await outcome

    return asyncio.run(main())


async def answer(socket, stream):
    """Status and body of a stream; other frames are passed over."""
    status, body = None, b""
    async for message in socket:
        frame = decode_frame(message.data)
        if frame.stream != stream:
            continue
        if frame.type is TunnelFrameType.HEAD:
            status = json.loads(frame.payload)["status"]
        elif frame.type is TunnelFrameType.BODY:
            body += frame.payload
        else:
            return status, frame.type, body
    return status, None, body


def test_a_request_has_the_agents_identity_and_no_other(tmp_path):
    bad = [("Authorization", "Bearer stolen"), ("Impersonate-User", "root"), ("impersonate-group", "system:masters")]
    bad += [("X-Remote-User", "root"), ("Cookie", "a=b"), ("Host", "elsewhere"), ("X-Kept", "yes")]

    async def story(socket, upstream, _):
        await socket.send_bytes(encode_frame(head(1, "/api/v1/pods?limit=1%2F2", headers=bad)))
        await socket.send_bytes(encode_frame(TunnelFrame(TunnelFrameType.END, 1)))
        assert (await answer(socket, 1))[:2] == (200, TunnelFrameType.END)
        return upstream.seen

    ((method, path, headers, _),) = played(story, tmp_path)
    assert (method, path) == ("GET", "/api/v1/pods?limit=1%2F2")
    assert headers["Authorization"] == "Bearer the-agents-own"
    assert headers["X-Kept"] == "yes"
    assert not {name.lower() for name in headers} & {"impersonate-user", "impersonate-group", "x-remote-user", "cookie"}
    assert headers["Host"].startswith("127.0.0.1:")


@pytest.mark.parametrize(
    ("method", "path"), [("CONNECT", "/x"), ("GET", "http://elsewhere/"), ("GET", "@elsewhere/"), ("GET", "")]
)
def test_what_is_no_request_to_the_api_server_is_refused(method, path, tmp_path):
    async def story(socket, upstream, _):
        await socket.send_bytes(encode_frame(head(1, path, method)))
        status, _, body = await answer(socket, 1)
        return status, json.loads(body)["message"], upstream.seen

    status, message, seen = played(story, tmp_path)
    assert (status, "is no request to an API server" in message, seen) == (502, True, [])


def test_a_hub_that_reads_nothing_holds_one_window(tmp_path):
    async def story(socket, upstream, _):
        await socket.send_bytes(encode_frame(head(1, "/big")))
        received = 0
        while received < WINDOW_BYTES:
            frame = decode_frame((await socket.receive()).data)
            received += len(frame.payload) if frame.type is TunnelFrameType.BODY else 0
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(socket.receive(), 0.5)
        return received, upstream.sent

    received, sent = played(story, tmp_path)
    assert received == WINDOW_BYTES
    assert sent < 1024 * 65536


def test_a_watch_ends_with_its_client(tmp_path):
    async def story(socket, upstream, _):
        await socket.send_bytes(encode_frame(head(1, "/watch")))
        while decode_frame((await socket.receive()).data).type is not TunnelFrameType.BODY:
            pass
        await socket.send_bytes(encode_frame(TunnelFrame(TunnelFrameType.RESET, 1, b"the client is gone")))
        await asyncio.wait_for(upstream.ended.wait(), 5)
        return True

    assert played(story, tmp_path)


def too_many():
    return [head(number, "/watch") for number in range(1, MAX_STREAMS + 2)]


def beyond_the_credit():
    whole = bytes(MAX_PAYLOAD)
    # The API server reads nothing of a watch, so nothing is consumed.
    return [head(1, "/watch", "POST"), *(TunnelFrame(TunnelFrameType.BODY, 1, whole) for _ in range(80))]


BREACHES = {
    "too many streams": (too_many, "more than 256 streams"),
    "beyond the credit": (beyond_the_credit, "more than 262144 bytes under way"),
    "a second head": (lambda: [head(1, "/watch"), head(1, "/watch")], "out of order"),
    "a credit without a number": (lambda: [head(1, "/watch"), TunnelFrame(TunnelFrameType.WINDOW, 1, b"x")], "WINDOW"),
}


@pytest.mark.parametrize(("frames", "words"), BREACHES.values(), ids=BREACHES)
def test_a_hub_that_breaks_the_protocol_is_left(frames, words, tmp_path):
    async def story(socket, _, agent):
        for frame in frames():
            if agent.done():
                break
            await socket.send_bytes(encode_frame(frame))
        await asyncio.wait([agent], timeout=10)
        return agent.exception()

    error = played(story, tmp_path)
    assert isinstance(error, TunnelError)
    assert words in str(error)


@pytest.mark.parametrize("message", [b"", b"\x01\x00", b"\x63\x00\x00\x00\x01", "text", bytes(MAX_MESSAGE + 10)])
def test_messages_that_are_no_frames_end_the_connection(message, tmp_path):
    async def story(socket, _, agent):
        await (socket.send_str(message) if isinstance(message, str) else socket.send_bytes(message))
        await asyncio.wait([agent], timeout=10)
        return agent.exception()

    assert isinstance(played(story, tmp_path), TunnelError)
