"""Python's garbage collector in a process that holds a large fleet, or that requests wait for."""

import asyncio
import gc
from collections.abc import Callable
from typing import Final

_YOUNG: Final = 20_000
"""Objects since the last collection that make another one worth its pause of a few milliseconds."""
_PATIENCE: Final = 60
"""Pauses that calls may be in progress at, until a collection comes all the same."""


def calm_collector() -> None:
    """Freeze what was read at the start: to scan it again and again would stall work for many milliseconds.

    Objects are trees of JSON, which reference counting frees.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)


async def collect_between_calls(is_busy: Callable[[], bool], pause_s: float = 1.0) -> None:
    """Until cancelled, collect garbage between calls and not in the middle of one that allocates.

    A call that decides on thousands of replicas has millions of objects: to scan them stops all other calls for half a
    second, and finds nothing. Objects that survive a collection are frozen: they are cached trees, which reference
    counting frees.
    """
    gc.disable()
    deferred = 0
    try:
        while True:
            await asyncio.sleep(pause_s)
            if gc.get_count()[0] < _YOUNG:
                continue
            if is_busy() and deferred < _PATIENCE:
                deferred += 1
                continue
            deferred = 0
            gc.collect(0)
            gc.freeze()
    finally:
        gc.enable()
