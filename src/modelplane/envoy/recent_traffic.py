"""What clients got from replicas in the last minute, in memory: for whoever shows it, and for no decision.

A status is written for canaries that are analysed only, since every write is a pass. This costs no write. Requests and
errors are counted all; of their times each measurement keeps some.
"""

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil

from modelplane.api.models import EndpointTraffic
from modelplane.api.timestamps import timestamp
from modelplane.envoy.access_log import ServedRequest

WINDOW_S = 60
_KEPT_TIMES = 100
"""Times of one measurement of a replica, the first ones."""
_P95 = 0.95
ReplicaPlace = tuple[str, str]
"""Namespace and name."""


@dataclass(frozen=True, slots=True)
class _Measured:
    at: float
    requests: int
    errors: int
    first_byte_ms: Sequence[int]
    duration_ms: Sequence[int]

    @classmethod
    def of(cls, requests: Sequence[ServedRequest], now: float) -> "_Measured":
        answered = [each for each in requests if not each.failed]
        first = [each.first_byte_ms for each in answered if each.first_byte_ms is not None]
        whole = [each.duration_ms for each in answered if each.duration_ms is not None]
        return cls(now, len(requests), len(requests) - len(answered), first[:_KEPT_TIMES], whole[:_KEPT_TIMES])


class RecentTraffic:
    def __init__(self) -> None:
        self._measured: dict[ReplicaPlace, deque[_Measured]] = {}
        self._listeners: list[Callable[[], None]] = []

    def add(self, by_replica: Mapping[str, Sequence[ServedRequest]], now: float) -> None:
        """Requests by namespace and name of their replica. Listeners are called where that changes a figure."""
        before = bool(self._measured)
        for replica, requests in by_replica.items():
            namespace, _, name = replica.partition("/")
            self._measured.setdefault((namespace, name), deque()).append(_Measured.of(requests, now))
        for window in self._measured.values():
            while window and window[0].at <= now - WINDOW_S:
                window.popleft()
        self._measured = {place: window for place, window in self._measured.items() if window}
        if before or self._measured:
            for listener in self._listeners:
                listener()

    def figures(self, now: float) -> Mapping[ReplicaPlace, EndpointTraffic]:
        """Of replicas that had requests. A replica that is not here had none."""
        return {place: _figures(window, now) for place, window in self._measured.items()}

    def subscribe(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Call `listener` after a measurement. Returns the unsubscriber."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)


def _figures(window: Iterable[_Measured], now: float) -> EndpointTraffic:
    found = list(window)
    return EndpointTraffic(
        measured_at=timestamp(now),
        window_seconds=WINDOW_S,
        requests=sum(each.requests for each in found),
        errors=sum(each.errors for each in found),
        ttft_p95_milliseconds=percentile(value for each in found for value in each.first_byte_ms),
        latency_p95_milliseconds=percentile(value for each in found for value in each.duration_ms),
    )


def percentile(values: Iterable[int | None]) -> int | None:
    """The value that 95 % of them do not exceed; None without any."""
    known = sorted(value for value in values if value is not None)
    return known[ceil(_P95 * len(known)) - 1] if known else None
