"""Addresses of host names, looked up in threads and cached: a composer asks and never waits."""

import socket
import threading
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from modelplane.reconcile.clock import Clock

LIFETIME_S = 30.0
_NAMES = 4_096
_THREADS = 16
"""A name whose servers are silent takes one for ten seconds. Those of one tenant must not hold up another's."""


@dataclass(frozen=True, slots=True)
class _Lookup:
    addresses: tuple[str, ...]
    at: float


def look_up(host: str) -> tuple[str, ...]:
    """Every address of a name by the system's resolver; none when it has none."""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return ()
    return tuple(sorted({str(each[4][0]).partition("%")[0] for each in found}))


class HostResolver:
    """Callable by composers. A name that was never looked up is None; an old answer counts until there is a new one."""

    def __init__(self, clock: Clock, lookup: Callable[[str], tuple[str, ...]] = look_up) -> None:
        self._clock = clock
        self._lookup = lookup
        self._known: OrderedDict[str, _Lookup] = OrderedDict()
        self._pending: set[str] = set()
        self._lock = threading.Lock()
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="resolver")

    def __call__(self, host: str) -> tuple[str, ...] | None:
        with self._lock:
            known = self._known.get(host)
            if known is None or self._clock.monotonic() - known.at >= LIFETIME_S:
                self._start(host)
        return known.addresses if known is not None else None

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _start(self, host: str) -> None:
        if host not in self._pending:
            self._pending.add(host)
            self._threads.submit(self._run, host)

    def _run(self, host: str) -> None:
        addresses = self._lookup(host)
        with self._lock:
            self._pending.discard(host)
            self._known[host] = _Lookup(addresses, self._clock.monotonic())
            self._known.move_to_end(host)
            while len(self._known) > _NAMES:
                self._known.popitem(last=False)
