"""Time as an argument: hosts pass the real clock, tests and simulations one that jumps."""

import asyncio
import time
from typing import Protocol


class Clock(Protocol):
    def now(self) -> float:
        """Seconds since the epoch, for what people read."""

    def monotonic(self) -> float:
        """Seconds that never go back, for waiting."""

    async def sleep(self, seconds: float) -> None:
        """Let others run until this much time has passed."""


class SystemClock:
    """The machine's own time."""

    def now(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
