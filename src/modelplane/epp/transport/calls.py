"""The one interface between gRPC and what is served by it, so that servers can be exchanged.

A server creates a handler for each call by the call's path, calls it for every message in order, and once for the end.
A handler may respond through its call at any time, on the same event loop. Nothing here blocks: messages are queued,
and the server handles a peer that does not read.
"""

from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum
from typing import Final, Protocol

import msgspec

from modelplane.epp.transport.tls import ServerIdentity


class GrpcStatus(IntEnum):
    """The gRPC status codes that are used here."""

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
        """Queue messages. Those after the end are dropped."""

    def finish(self, status: GrpcStatus = GrpcStatus.OK, why: str = "") -> None:
        """End the call after what was sent. Only the first end counts."""

    def mark_idle(self) -> None:
        """No reply is pending: the end of this call may be read later, together with others."""


class Handler(Protocol):
    """Serves one call. After it finished its call, or the call was cancelled, it is not called again."""

    def message(self, message: bytes, /) -> None: ...

    def closed(self) -> None:
        """The peer has sent all it will; the handler finishes the call, at once or later."""

    def cancelled(self) -> None:
        """The peer reset the call, the connection went, or the server had to end it: nothing can be sent any more."""


class BatchHandler:
    """A handler that takes the messages that came with the call's beginning in one batch."""

    __slots__ = ()

    def messages(self, messages: Sequence[bytes], /) -> None:
        """The same as one `message` each; messages after the end of the call are dropped."""
        raise NotImplementedError


MakeHandler = Callable[[ServerCall], Handler]
Methods = Mapping[str, MakeHandler]
"""By path: `/package.Service/Method`."""


class GrpcServer(Protocol):
    """Serves methods on one address."""

    async def start(self) -> int:
        """Listen; returns the port, which matters if 0 was requested."""

    async def stop(self, grace_s: float, /) -> None:
        """Accept no new calls, wait for running ones within the grace period, and abort the rest."""


NO_PORT: Final = -1
"""Of a server that does not listen: it is given its connections."""


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Address and limits of any server."""

    host: str = "127.0.0.1"
    port: int = 0
    identity: ServerIdentity | None = None
    """None: plain text."""
    message_bytes: int = 33 << 20
    streams: int = 20_000
