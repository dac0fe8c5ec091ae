"""What the HTTP/2 server accepts of a peer, in numbers, and how much nonsense it puts up with."""

import msgspec


class H2Limits(msgspec.Struct, frozen=True, kw_only=True):
    """The peer is a proxy that carries many clients: generous where it may be busy, strict where nothing busy goes."""

    streams: int = 20_000
    frame_bytes: int = 65_536
    message_bytes: int = 33 << 20
    header_list_bytes: int = 16_384
    header_block_bytes: int = 32_768
    stream_window: int = 4 << 20
    connection_window: int = 64 << 20
    unsent_bytes: int = 8 << 20
    """Of one stream, beyond which nothing more is taken in for it until its peer reads."""
    resets: int = 20_000
    """Streams that the peer may give up at once; a tenth of them comes back every second."""
    trifles: int = 10_000
    """Frames without effect (pings, empty data, priorities, settings) at once; a tenth comes back every second."""
    begin_s: float = 10.0
    """For the preface and settings of a new connection."""
    stall_s: float = 30.0
    """Within which a frame that began must be whole, a header block must end, and written bytes must be taken."""


class Patience:
    """A bucket of so many, which fills up again at a tenth of that a second."""

    __slots__ = ("_at_s", "_left", "_most")

    def __init__(self, most: int, now_s: float) -> None:
        self._most = most
        self._left = float(most)
        self._at_s = now_s

    def try_spend(self, now_s: float) -> bool:
        """Whether there was one left."""
        self._left = min(float(self._most), self._left + (now_s - self._at_s) * self._most / 10)
        self._at_s = now_s
        if self._left < 1.0:
            return False
        self._left -= 1.0
        return True
