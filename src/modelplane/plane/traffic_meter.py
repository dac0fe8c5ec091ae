"""Measures what clients get from the endpoints of canaries, and writes it into their status.

One fact has one home: `status.traffic` of a ModelEndpoint. The composer of the deployment observes the endpoints that
it composed, so the fact reaches it on every host in the same way, and a restart of the plane loses one window at most.
Endpoints of deployments whose canary is not analysed are not written: each write is a pass.

A request counts for the revision that its endpoint has when the log is read. When that changes, the window begins anew.
"""

from collections import defaultdict, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Protocol

from modelplane.api.codec import encode
from modelplane.api.labels import DEPLOYMENT, REVISION
from modelplane.api.models import EndpointTraffic
from modelplane.api.objects import GROUP, Manifest, labels_of, mapping_at, name_of, namespace_of, text_at
from modelplane.api.timestamps import timestamp
from modelplane.compose.canary_analysis import analysed_window_s
from modelplane.envoy.access_log import ServedRequest
from modelplane.envoy.recent_traffic import RecentTraffic, percentile
from modelplane.reconcile.clock import Clock
from modelplane.reconcile.store import Store

_MEASURE_S = 2.0
_MOST_REQUESTS = 100_000
"""Kept for each endpoint. Beyond it the oldest are forgotten before the window ends."""


class RequestSource(Protocol):
    def read(self) -> Iterator[ServedRequest]:
        """The requests since the last call."""


@dataclass(slots=True)
class _Window:
    revision: str
    requests: deque[tuple[float, ServedRequest]] = field(default_factory=lambda: deque(maxlen=_MOST_REQUESTS))

    def trim(self, since: float) -> None:
        while self.requests and self.requests[0][0] < since:
            self.requests.popleft()


class TrafficMeter:
    def __init__(self, store: Store, source: RequestSource, clock: Clock, recent: RecentTraffic | None = None) -> None:
        """`recent` gets every request, of a canary or not."""
        self._recent = recent
        self._store = store
        self._source = source
        self._clock = clock
        self._windows: dict[str, _Window] = {}

    async def run(self) -> None:
        """Measure until cancelled."""
        while True:
            await self._clock.sleep(_MEASURE_S)
            self.measure()

    def measure(self) -> None:
        by_replica: defaultdict[str, list[ServedRequest]] = defaultdict(list)
        for request in self._source.read():
            by_replica[request.replica].append(request)
        now = self._clock.now()
        if self._recent is not None:
            self._recent.add(by_replica, now)
        watched = dict(self._watched())
        self._windows = {key: window for key, window in self._windows.items() if key in watched}
        for key, (endpoint, window_s) in watched.items():
            self._write(endpoint, self._counted(key, endpoint, by_replica.get(key, ()), now, window_s), now, window_s)

    def _watched(self) -> Iterator[tuple[str, tuple[Manifest, int]]]:
        """The endpoints of deployments whose canary is analysed now, with the length of the window."""
        analysed = {
            (namespace_of(item), name_of(item)): window_s
            for item in self._store.list(GROUP, "ModelDeployment")
            if (window_s := analysed_window_s(item)) is not None
        }
        if not analysed:
            return
        for item in self._store.list(GROUP, "ModelEndpoint"):
            window_s = analysed.get((namespace_of(item), labels_of(item).get(DEPLOYMENT, "")))
            replica = text_at(item, "spec", "replica", "name")
            if window_s is not None and replica:
                yield f"{namespace_of(item)}/{replica}", (item, window_s)

    def _counted(
        self, key: str, endpoint: Manifest, requests: Iterable[ServedRequest], now: float, window_s: int
    ) -> _Window:
        revision = labels_of(endpoint).get(REVISION, "")
        window = self._windows.get(key)
        if window is None or window.revision != revision:
            # What was logged before belongs to the revision before.
            window = self._windows[key] = _Window(revision)
        else:
            window.requests.extend((now, each) for each in requests)
        window.trim(now - window_s)
        return window

    def _write(self, endpoint: Manifest, window: _Window, now: float, window_s: int) -> None:
        found = [request for _, request in window.requests]
        traffic = EndpointTraffic(
            revision=window.revision or None,
            measured_at=timestamp(now),
            window_seconds=window_s,
            requests=len(found),
            errors=sum(request.failed for request in found),
            ttft_p95_milliseconds=percentile([each.first_byte_ms for each in found if not each.failed]),
            latency_p95_milliseconds=percentile([each.duration_ms for each in found if not each.failed]),
        )
        status = {**mapping_at(endpoint, "status"), "traffic": encode(traffic)}
        self._store.replace_status({**endpoint, "status": status})
