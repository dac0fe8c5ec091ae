"""One request of the control plane, through the tunnel of a cluster and back."""

import asyncio
from contextlib import suppress

import msgspec
from aiohttp import web

from modelplane.tunnel.frames import MAX_PAYLOAD, TunnelError, TunnelRequest, TunnelResponse, end_to_end
from modelplane.tunnel.streams import TunnelStream, TunnelStreams

_HEAD_S = 90.0
"""A write may wait this long for webhooks of the cluster."""
_NOT_FORWARDED = frozenset({"authorization"})


async def forward(request: web.Request, streams: TunnelStreams, prefix: str) -> web.StreamResponse:
    if "upgrade" in request.headers.get("Connection", "").lower():
        return status_response(501, "NotImplemented", "the tunnel carries no upgraded connections (exec, port-forward)")
    if streams.is_full:
        full = status_response(429, "TooManyRequests", f"{len(streams)} requests of this cluster are under way")
        full.headers["Retry-After"] = "1"
        return full
    stream = streams.open()
    sending = asyncio.create_task(_send(request, stream, prefix))
    done = False
    try:
        response = await _answered(request, stream)
        done = True
    except TunnelError as error:
        return status_response(502, "BadGateway", f"the tunnel of this cluster: {error}")
    finally:
        sending.cancel()
        streams.close(stream)
        if not done and not stream.failure:
            with suppress(TunnelError):
                await stream.reset("the client is gone")
    return response


async def _send(request: web.Request, stream: TunnelStream, prefix: str) -> None:
    """A failure is seen by whoever waits for the answer."""
    headers = [(name, text) for name, text in request.headers.items() if name.lower() not in _NOT_FORWARDED]
    head = TunnelRequest(request.method, request.raw_path.removeprefix(prefix), end_to_end(headers))
    try:
        await stream.send_head(msgspec.json.encode(head))
        async for part in request.content.iter_chunked(MAX_PAYLOAD):
            await stream.send(part)
        await stream.end()
    except asyncio.CancelledError:
        raise
    except BaseException as error:
        stream.fail(str(error))
        if not isinstance(error, TunnelError | ConnectionError):
            raise


async def _answered(request: web.Request, stream: TunnelStream) -> web.StreamResponse:
    try:
        async with asyncio.timeout(_HEAD_S):
            head = msgspec.json.decode(await stream.head(), type=TunnelResponse)
    except TimeoutError:
        raise TunnelError(f"no answer within {_HEAD_S:.0f} s") from None
    except msgspec.MsgspecError as error:
        raise TunnelError(f"an answer that cannot be read: {error}") from None
    response = web.StreamResponse(status=head.status)
    for name, text in end_to_end(head.headers):
        response.headers.add(name, text)
    await response.prepare(request)
    try:
        async for part in stream.chunks():
            await response.write(part)
        await response.write_eof()
    except TunnelError:
        # The status line is out: what is left is to show that the body is not whole.
        if request.transport is not None:
            request.transport.abort()
    return response


def status_response(code: int, reason: str, message: str) -> web.Response:
    """In the words of a Kubernetes API, which clients read."""
    body = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
    content = msgspec.json.encode({**body, "message": message, "reason": reason, "code": code})
    return web.Response(status=code, body=content, content_type="application/json")
