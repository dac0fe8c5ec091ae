"""What is read of a connection before its frames: the preface once, and the rest of a frame that came in pieces."""

from modelplane.epp.transport.h2.frames import PREFACE, ConnectionFault, ErrorCode


class FrameReader:
    """Holds what is left of the last frame: never more than one of the largest size."""

    __slots__ = ("_begun", "_rest", "plain")

    def __init__(self) -> None:
        self._begun = False
        self._rest = b""
        self.plain = False
        """Whether what comes next begins with a frame."""

    @property
    def held_bytes(self) -> int:
        """Of a frame that is not whole."""
        return len(self._rest)

    def join(self, data: bytes) -> bytes:
        """What came, from the beginning of a frame on; nothing, before the preface is whole."""
        data = self._rest + data if self._rest else data
        self._rest = b""
        if not self._begun:
            if data[: len(PREFACE)] != PREFACE[: len(data)]:
                raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "this is not the beginning of HTTP/2")
            if len(data) < len(PREFACE):
                self._rest = data
                return b""
            self._begun = True
            data = data[len(PREFACE) :]
        self.plain = True
        return data

    def hold(self, rest: bytes) -> None:
        """What is left of the bytes that came: the beginning of a frame."""
        self._rest = rest
        self.plain = False

    def drop(self) -> None:
        self._rest = b""
