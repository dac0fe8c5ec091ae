"""Time as an argument: hosts pass the real clock, tests and simulations one that jumps."""

from typing import Protocol


class Clock(Protocol):
    def now(self) -> float:
        """Seconds since the epoch, for what people read."""

    def monotonic(self) -> float:
        """Seconds that never go back, for waiting."""

    async def sleep(self, seconds: float) -> None:
        """Let others run until this much time has passed."""
