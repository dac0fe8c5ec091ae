"""The source of the picker's endpoints: one small interface for a file, a pool of pods, or the fleet.

A source owns its `Endpoint` objects: an endpoint that stays in the pool stays the same object, so that what the picker
counts on it (requests in flight, failures) is kept over every change around it. Everything happens on one event loop.
"""

from collections.abc import Callable, Sequence
from typing import Protocol

from modelplane.epp.scheduling.endpoints import Endpoint

Endpoints = tuple[Endpoint, ...]
EndpointsCallback = Callable[[Endpoints], None]


class EndpointSource(Protocol):
    """The endpoints of the pool, and callbacks for when they change."""

    @property
    def current(self) -> Endpoints:
        """The endpoints that may be picked. The same tuple object until something changes."""

    @property
    def known(self) -> bool:
        """Whether the pool has been read at least once: an empty pool that was read is not an unread one."""

    def on_change(self, callback: EndpointsCallback, /) -> None:
        """Call `callback` with the new tuple after every change. Earlier changes are not repeated."""

    async def start(self) -> None:
        """Begin to watch. Returns once `current` is the pool, or at once where the pool cannot be reached yet."""

    async def stop(self) -> None:
        """Stop watching, and leave nothing running."""


class StaticEndpoints:
    """A pool that its owner replaces by hand: a list on the command line, and tests."""

    def __init__(self, endpoints: Sequence[Endpoint] = ()) -> None:
        self._current = tuple(endpoints)
        self._callbacks: list[EndpointsCallback] = []

    @property
    def current(self) -> Endpoints:
        return self._current

    @property
    def known(self) -> bool:
        return True

    def on_change(self, callback: EndpointsCallback, /) -> None:
        self._callbacks.append(callback)

    async def start(self) -> None:
        """Nothing to watch."""

    async def stop(self) -> None:
        """Nothing runs."""

    def replace(self, endpoints: Sequence[Endpoint]) -> None:
        """The pool is these. Endpoints that are to keep their counts must be the same objects."""
        changed = tuple(endpoints)
        if [id(endpoint) for endpoint in changed] == [id(endpoint) for endpoint in self._current]:
            return
        self._current = changed
        for callback in self._callbacks:
            callback(changed)
