"""Background tasks of the data layer."""

import asyncio
from collections.abc import Iterable
from contextlib import suppress


async def cancel_all(tasks: Iterable[asyncio.Task[None] | None]) -> None:
    """Cancel the tasks and wait for their end. An error of a task is raised."""
    running = [task for task in tasks if task is not None]
    for task in running:
        task.cancel()
    for task in running:
        with suppress(asyncio.CancelledError):
            await task
