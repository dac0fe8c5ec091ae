"""Streams that are over for us and may not be for the peer."""

from collections import OrderedDict
from typing import Final

_MOST: Final = 4096
_LINGER_S: Final = 1.0


class ClosedStreams:
    """Streams that we ended and the peer may still end, and streams that we reset, with frames in flight."""

    __slots__ = ("_lingering", "_reset")

    def __init__(self) -> None:
        self._lingering: dict[int, float] = {}
        self._reset: OrderedDict[int, None] = OrderedDict()

    @property
    def any_linger(self) -> bool:
        return bool(self._lingering)

    def linger(self, stream_id: int, now_s: float) -> int:
        """We ended it. The oldest where there are too many, which has to be reset; else 0."""
        self._lingering[stream_id] = now_s
        return next(iter(self._lingering)) if len(self._lingering) > _MOST else 0

    def overdue(self, now_s: float) -> list[int]:
        """Streams whose peer had time enough to end them."""
        return [stream_id for stream_id, since_s in self._lingering.items() if now_s - since_s > _LINGER_S]

    def lingers(self, stream_id: int) -> bool:
        return stream_id in self._lingering

    def ended(self, stream_id: int) -> bool:
        """The peer ended it, or gave it up. Whether that was awaited."""
        return self._lingering.pop(stream_id, None) is not None

    def reset(self, stream_id: int) -> None:
        """We reset it."""
        self._lingering.pop(stream_id, None)
        self._reset[stream_id] = None
        if len(self._reset) > _MOST:
            self._reset.popitem(last=False)

    def was_reset(self, stream_id: int) -> bool:
        return stream_id in self._reset

    def clear(self) -> None:
        self._lingering.clear()
