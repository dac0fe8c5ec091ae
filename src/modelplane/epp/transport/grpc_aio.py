"""The same interface on the gRPC project's own server: the reference that the small one is tested against.

It costs several times the CPU a request, and needs a package that the picker does without otherwise.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable

import grpc  # type: ignore[import-untyped]  # grpcio ships no types
import grpc.aio  # type: ignore[import-untyped]  # as above

from modelplane.epp.transport.calls import GrpcStatus, Handler, MakeHandler, Methods, Settings
from modelplane.epp.transport.sockets import ANY_ADDRESS
from modelplane.epp.transport.tls import ServerIdentity

_CANCELLATION_S = 0.01
_End = tuple[GrpcStatus, str]


class GrpcAioServer:
    """A gRPC server (`Server`)."""

    def __init__(self, methods: Methods, settings: Settings) -> None:
        self._methods = methods
        self._settings = settings
        self._server: grpc.aio.Server | None = None

    async def start(self) -> int:
        settings = self._settings
        options = [
            ("grpc.max_receive_message_length", settings.message_bytes),
            ("grpc.max_send_message_length", -1),
            ("grpc.max_concurrent_streams", settings.streams),
            ("grpc.so_reuseport", 0),
        ]
        server = grpc.aio.server(options=options)
        server.add_generic_rpc_handlers((_Routes(self._methods),))
        # As it spells them: every address of both families, and IPv6 addresses in brackets.
        host = (
            "[::]" if settings.host == ANY_ADDRESS else f"[{settings.host}]" if ":" in settings.host else settings.host
        )
        address = f"{host}:{settings.port}"
        if settings.identity is None:
            port = server.add_insecure_port(address)
        else:
            port = server.add_secure_port(address, _credentials(settings.identity))
        await server.start()
        self._server = server
        return int(port)

    async def stop(self, grace_s: float) -> None:
        if self._server is not None:
            await self._server.stop(grace_s)


def _credentials(identity: ServerIdentity) -> grpc.ServerCredentials:
    return grpc.ssl_server_credentials(
        [(identity.key, identity.certificate)],
        root_certificates=identity.clients or None,
        require_client_auth=bool(identity.clients),
    )


class _Routes(grpc.GenericRpcHandler):  # type: ignore[misc]  # grpcio ships no types
    def __init__(self, methods: Methods) -> None:
        self._methods = methods

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler | None:
        make = self._methods.get(handler_call_details.method)
        return None if make is None else grpc.stream_stream_rpc_method_handler(_serve(make))


class _Call:
    """The server's end of one call (`Call`): a queue that the writing half of the coroutine empties."""

    def __init__(self) -> None:
        self.queue: asyncio.Queue[bytes | _End] = asyncio.Queue()
        self._over = False

    def send(self, *messages: bytes) -> None:
        if not self._over:
            for message in messages:
                self.queue.put_nowait(message)

    def finish(self, status: GrpcStatus = GrpcStatus.OK, why: str = "") -> None:
        if not self._over:
            self._over = True
            self.queue.put_nowait((status, why))

    def mark_idle(self) -> None:
        """It has no deferred reads."""

    @property
    def over(self) -> bool:
        return self._over


def _serve(make: MakeHandler) -> Callable[[AsyncIterator[bytes], grpc.aio.ServicerContext], AsyncIterator[bytes]]:
    async def serve(requests: AsyncIterator[bytes], context: grpc.aio.ServicerContext) -> AsyncIterator[bytes]:
        call = _Call()
        handler = make(call)
        reading = asyncio.create_task(_read(requests, handler, call))
        try:
            while True:
                item = await call.queue.get()
                if isinstance(item, tuple):
                    break
                yield item
        except BaseException:
            _cancelled(call, handler)
            raise
        finally:
            reading.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await reading
        if item[0] is not GrpcStatus.OK:
            await context.abort(grpc.StatusCode[item[0].name], item[1])

    return serve


def _cancelled(call: _Call, handler: Handler) -> None:
    if not call.over:
        call.finish(GrpcStatus.CANCELLED)
        handler.cancelled()


async def _read(requests: AsyncIterator[bytes], handler: Handler, call: _Call) -> None:
    try:
        async for message in requests:
            handler.message(message)
            if call.over:
                return
    except asyncio.CancelledError:
        raise
    except Exception:  # noqa: BLE001  a defect of one call ends that call, as in the HTTP/2 server
        call.finish(GrpcStatus.INTERNAL, "the server failed to serve this call")
        return
    # A call that its caller gave up reads like one that was closed; the cancellation comes a moment later.
    await asyncio.sleep(_CANCELLATION_S)
    if not call.over:
        handler.closed()
