"""Waiting for what tells nobody: a test never takes for granted that the machine is fast."""

import asyncio
import inspect
import os
from collections.abc import Callable

ENOUGH_S = 60.0
_EVERY_S = float(os.environ.get("MODELPLANE_LOOK_EVERY_S", "0.01"))
"""`.ci/run` also looks as seldom as a busy machine does, which finds a test that waits for a passing moment."""


async def until(condition: Callable[[], object], seconds: float = ENOUGH_S, every_s: float = _EVERY_S) -> object:
    """The first true value of the condition, which may be a coroutine function."""
    async with asyncio.timeout(seconds):
        while not (found := await _value(condition)):  # noqa: ASYNC110  what is waited for tells nobody
            await asyncio.sleep(every_s)
    return found


async def _value(condition: Callable[[], object]) -> object:
    found = condition()
    return await found if inspect.isawaitable(found) else found
