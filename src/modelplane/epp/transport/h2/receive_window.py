"""The flow-control window for received DATA of a connection."""

from modelplane.epp.transport.h2.frames import ErrorCode, H2ConnectionError


class ReceiveWindow:
    """A window that is given back to the peer whenever half of it is used."""

    __slots__ = ("_left", "_unacked", "_update_at")

    def __init__(self, size: int) -> None:
        self._left = size
        self._unacked = 0
        self._update_at = (size + 1) // 2

    @property
    def free_bytes(self) -> int:
        """How much may come before a WINDOW_UPDATE is due."""
        return min(self._update_at - self._unacked - 1, self._left)

    def take(self, size: int) -> int:
        """The peer sent so much. The increment to send back in a WINDOW_UPDATE; 0: none is due."""
        self._left -= size
        if self._left < 0:
            raise H2ConnectionError(ErrorCode.FLOW_CONTROL_ERROR, "more than the connection's window")
        self._unacked += size
        if self._unacked < self._update_at:
            return 0
        increment, self._unacked = self._unacked, 0
        self._left += increment
        return increment
