"""The one interface between gRPC and what is served by it, so that servers can be exchanged.

A server makes a handler for each call by the call's path, calls it for every message in order, and once for the
end. A handler answers through its call whenever it likes, from the same event loop. Nothing here waits: what a
handler sends is queued, and a peer that does not read is the server's business.
"""

from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum
from typing import Protocol

import msgspec

from modelplane.epp.transport.tls import ServerIdentity


class GrpcStatus(IntEnum):
    """How a call ends: those of gRPC's codes that are used here."""

    OK = 0
    CANCELLED = 1
    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    NOT_FOUND = 5
    RESOURCE_EXHAUSTED = 8
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14


class ServerCall(Protocol):
    """The server's end of one call."""

    def send(self, *messages: bytes) -> None:
        """Queue messages. Those sent after the end go nowhere."""

    def finish(self, status: GrpcStatus = GrpcStatus.OK, why: str = "") -> None:
        """End the call after what was sent. Only the first end counts."""

    def mark_idle(self) -> None:
        """Nobody waits for what may still come of this call: its end may be read a little later, with others."""


class Handler(Protocol):
    """What serves one call. Once it has finished its call, or was told that it is cancelled, it is not called again."""

    def message(self, message: bytes, /) -> None: ...

    def closed(self) -> None:
        """The peer has sent all it will; the handler finishes the call, at once or later."""

    def cancelled(self) -> None:
        """The peer reset the call, the connection went, or the server had to end it: nothing can be sent any more."""


class BatchHandler:
    """A handler that takes the messages that came with the call's beginning in one batch."""

    __slots__ = ()

    def messages(self, messages: Sequence[bytes], /) -> None:
        """To be taken as if they came one by one; what follows an end of the call is not meant for anybody."""
        raise NotImplementedError


MakeHandler = Callable[[ServerCall], Handler]
Methods = Mapping[str, MakeHandler]
"""By path: `/package.Service/Method`."""


class GrpcServer(Protocol):
    """Serves methods on one address."""

    async def start(self) -> int:
        """Listen; the port, which matters where 0 was asked for."""

    async def stop(self, grace_s: float, /) -> None:
        """Take no new calls, let those that run end within the grace, and cut what is left."""


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Where to listen and what to accept, whichever server it is."""

    host: str = "127.0.0.1"
    port: int = 0
    identity: ServerIdentity | None = None
    """None: plain text."""
    message_bytes: int = 33 << 20
    streams: int = 20_000
