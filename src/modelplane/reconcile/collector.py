"""Python's garbage collector in a process that holds a large fleet."""

import gc


def calm_collector() -> None:
    """What was read at the start stays: to look through it again and again would stall work for many milliseconds.

    Objects are trees of JSON, which are freed without the collector; it finds what little there is of cycles later.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)
