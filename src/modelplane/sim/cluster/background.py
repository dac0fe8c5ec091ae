"""Tasks that run beside the passes of a controller."""

import asyncio
from collections.abc import Callable, Coroutine

EndedCallback = Callable[[asyncio.Task[None]], None]


class BackgroundTasks:
    """Keeps its tasks until they have ended."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def spawn(self, work: Coroutine[object, object, None], name: str, ended: EndedCallback) -> asyncio.Task[None]:
        """Start a task. `ended` is called with it when it has ended, unless it was cancelled."""
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)

        def done(found: asyncio.Task[None]) -> None:
            self._tasks.discard(found)
            if not found.cancelled():
                ended(found)

        task.add_done_callback(done)
        return task

    def __len__(self) -> int:
        return len(self._tasks)

    async def wait_for_one(self, within_s: float) -> None:
        """Wait until one of the tasks has ended, or the time is over."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=within_s, return_when=asyncio.FIRST_COMPLETED)

    async def drain(self) -> None:
        """Wait until all have ended, also those that are started meanwhile."""
        while self._tasks:
            await asyncio.wait(self._tasks)
