"""Python's garbage collector in a process that holds a large fleet."""

import asyncio
import gc

_YOUNG = 20_000
"""Objects since the last look that make another one worth its pause: a few milliseconds."""


def calm_collector() -> None:
    """What was read at the start stays: to look through it again and again would stall work for many milliseconds.

    Objects are trees of JSON, which are freed without the collector; it finds what little there is of cycles later.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)


async def collect_between_calls(pause_s: float = 1.0) -> None:
    """Until cancelled, look for garbage in moments of its own and not in the middle of a call that allocates.

    What outlives one look is not looked at again: it is memory of what was read, which goes without the collector. Only
    a cycle that lives longer than a moment would stay, and such are none of ours.
    """
    gc.disable()
    try:
        while True:
            await asyncio.sleep(pause_s)
            if gc.get_count()[0] >= _YOUNG:
                gc.collect(0)
                gc.freeze()
    finally:
        gc.enable()
