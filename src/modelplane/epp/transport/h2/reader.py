"""Input before frames are decoded: the preface, and the rest of a frame that came in pieces."""

from modelplane.epp.transport.h2.frames import PREFACE, ErrorCode, H2ConnectionError


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
        """The bytes of an incomplete frame."""
        return len(self._rest)

    def join(self, data: bytes) -> bytes:
        """The input from the beginning of a frame; empty before the preface is complete."""
        data = self._rest + data if self._rest else data
        self._rest = b""
        if not self._begun:
            if data[: len(PREFACE)] != PREFACE[: len(data)]:
                raise H2ConnectionError(ErrorCode.PROTOCOL_ERROR, "this is not the beginning of HTTP/2")
            if len(data) < len(PREFACE):
                self._rest = data
                return b""
            self._begun = True
            data = data[len(PREFACE) :]
        self.plain = True
        return data

    def hold(self, rest: bytes) -> None:
        """The rest of the input: the beginning of a frame."""
        self._rest = rest
        self.plain = False

    def drop(self) -> None:
        self._rest = b""
