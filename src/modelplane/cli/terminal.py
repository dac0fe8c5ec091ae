"""Progress lines with timestamps, and cancellation by signals."""

import logging
import signal
import sys
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import TYPE_CHECKING, TextIO

from modelplane.reconcile.log_lines import because
from modelplane.reconcile.log_reasons import LogReason

if TYPE_CHECKING:
    import asyncio

_log = logging.getLogger(__name__)


class Progress:
    """One line a step, each with the seconds since the start."""

    def __init__(self) -> None:
        self._started = time.monotonic()

    def say(self, text: str) -> None:
        _print(f"{time.monotonic() - self._started:6.1f}s  {text}", sys.stdout)


def run_until_signal(
    main: Coroutine[object, object, int],
    *,
    logged: bool = False,
    make_loop: "Callable[[], asyncio.AbstractEventLoop] | None" = None,
) -> int:
    """Run to the end. SIGINT, SIGTERM and SIGHUP cancel it, so that it stops what it started, and give 128 + n.

    `logged`: that it stops is a line of the log, and no sentence for people. Without `make_loop` the loop is asyncio's.
    """
    import asyncio

    def say(text: str) -> None:
        if logged:
            _log.info(text, extra=because(LogReason.STOPPING))
        else:
            _print(text, sys.stderr)

    async def guarded() -> int:
        task = asyncio.ensure_future(main)
        received: list[signal.Signals] = []
        loop = asyncio.get_running_loop()

        def end(number: signal.Signals) -> None:
            task.cancel()
            received.append(number)
            if len(received) == 1:
                say("stopping" if logged else "stopping; press Ctrl-C again to stop at once")

        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, end, number)
        try:
            return await task
        except asyncio.CancelledError:
            if not received:
                raise
            say("stopped")
            return 128 + received[0]

    with asyncio.Runner(loop_factory=make_loop) as runner:
        return runner.run(guarded())


def _print(text: str, where: TextIO) -> None:
    """A closed terminal must not keep the command from stopping what it started."""
    with suppress(OSError):
        print(text, file=where, flush=True)
