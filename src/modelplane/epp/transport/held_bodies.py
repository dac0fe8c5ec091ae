"""Bodies that are held whole: each has a limit, and all that are held at once have one together."""

from collections.abc import AsyncIterable, Iterator
from contextlib import contextmanager
from http import HTTPStatus


class BodyRefused(Exception):  # noqa: N818  an answer to whoever sent it
    """The body is too large, or too much is held already."""

    def __init__(self, status: HTTPStatus, message: str) -> None:
        super().__init__(message)
        self.status = status


class HeldBodies:
    """Counts the bytes that are held, so that many clients together do not fill memory."""

    def __init__(self, most_bytes: int, most_held_bytes: int) -> None:
        self._most = most_bytes
        self._most_held = most_held_bytes
        self.held_bytes = 0

    @contextmanager
    def lease(self) -> Iterator["BodyLease"]:
        """What is read with the lease counts until it ends."""
        lease = BodyLease(self)
        try:
            yield lease
        finally:
            self.held_bytes -= lease.held_bytes

    def check(self, size: int) -> None:
        """BodyRefused for a body of more bytes than one may have."""
        if size > self._most:
            raise BodyRefused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"the body has more than {self._most} bytes")

    def hold(self, size: int) -> None:
        if self.held_bytes + size > self._most_held:
            message = f"the bodies of other requests take {self.held_bytes} of {self._most_held} bytes"
            raise BodyRefused(HTTPStatus.SERVICE_UNAVAILABLE, message)
        self.held_bytes += size


class BodyLease:
    def __init__(self, bodies: HeldBodies) -> None:
        self._bodies = bodies
        self.held_bytes = 0

    async def read(self, pieces: AsyncIterable[bytes], stated: int | None = None) -> bytes:
        """The whole body. `stated` is the length that its sender gave."""
        self._bodies.check(stated or 0)
        body = bytearray()
        async for piece in pieces:
            self._bodies.check(len(body) + len(piece))
            self._bodies.hold(len(piece))
            self.held_bytes += len(piece)
            body += piece
        return bytes(body)


async def read_at_most(pieces: AsyncIterable[bytes], most_bytes: int, stated: int | None = None) -> bytes:
    """One whole body. BodyRefused where it has more bytes."""
    with HeldBodies(most_bytes, most_bytes).lease() as lease:
        return await lease.read(pieces, stated)
