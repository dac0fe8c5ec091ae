"""Limits the work that a peer causes: resets and frames without effect cost it less than us."""

from modelplane.epp.transport.h2.frames import ErrorCode, H2ConnectionError


class TokenBucket:
    """So many tokens, a tenth of which comes back every second."""

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


class FloodGuard:
    """Ends a connection whose peer resets too many streams, or sends too many frames that change nothing."""

    __slots__ = ("_no_op_frames", "_resets")

    def __init__(self, resets: int, no_op_frames: int, now_s: float) -> None:
        self._resets = TokenBucket(resets, now_s)
        self._no_op_frames = TokenBucket(no_op_frames, now_s)

    def spend_reset(self, now_s: float) -> None:
        if not self._resets.try_spend(now_s):
            raise H2ConnectionError(ErrorCode.ENHANCE_YOUR_CALM, "too many streams are given up")

    def spend_no_op(self, now_s: float) -> None:
        if not self._no_op_frames.try_spend(now_s):
            raise H2ConnectionError(ErrorCode.ENHANCE_YOUR_CALM, "too many frames that change nothing")
