"""Measures what clients get from the replicas of canaries, and writes it into the status of their ModelEndpoints.

On the embedded plane the log of the gateways is read. Here the requests pass by other processes, so their metrics are
scraped (`--traffic-metrics`), while some deployment's canary is analysed and at no other time. The fact has the same
home, `status.traffic` of a ModelEndpoint: the deployment that composed it is called when it changes.

A router's figures are taken before an Envoy's, which has no TTFT. A replica that no target knows is not written: its
fact grows old, and the analysis says NotMeasured. So it is when a target does not answer.
"""

import asyncio
import logging
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field

from modelplane.api.codec import encode
from modelplane.api.labels import DEPLOYMENT, REVISION
from modelplane.api.models import EndpointTraffic
from modelplane.api.objects import GROUP, VERSION, Manifest, labels_of, name_of, text_at
from modelplane.api.timestamps import timestamp
from modelplane.compose.context import remote_namespace
from modelplane.crossplane.traffic_metrics import (
    Increase,
    Meter,
    MetricsUnreadable,
    TargetCounters,
    TrafficSource,
    by_meter,
    quantile,
    read_metrics,
    total,
)
from modelplane.crossplane.traffic_targets import TrafficTargets
from modelplane.kube import GroupVersionResource, KubeClient, KubeError, KubeStatusError, NamespacedName, Query
from modelplane.reconcile.log_lines import because
from modelplane.reconcile.log_reasons import LogReason

_log = logging.getLogger(__name__)
ENDPOINTS = GroupVersionResource(GROUP, VERSION, "modelendpoints")
_PAGE = 500
_P95 = 0.95
_GONE = 404
_UNMEASURED: Mapping[str, None] = {"ttftP95Milliseconds": None, "latencyP95Milliseconds": None}
"""A merge patch keeps what it does not name, and the percentile of a window before is none of this one."""


@dataclass(slots=True)
class _Window:
    revision: str
    parts: deque[tuple[float, Increase]] = field(default_factory=deque)

    def add(self, now: float, part: Increase, window_s: float) -> Increase:
        """The whole window with this part."""
        self.parts.append((now, part))
        while self.parts[0][0] <= now - window_s:
            self.parts.popleft()
        return total(each for _, each in self.parts)


class EndpointTrafficScraper:
    """`analysed` has the length of the window of each deployment whose canary is analysed."""

    def __init__(
        self,
        client: KubeClient,
        targets: TrafficTargets,
        analysed: Callable[[], Mapping[NamespacedName, int]],
        *,
        interval_s: float = 5.0,
    ) -> None:
        self._client = client
        self._targets = targets
        self._analysed = analysed
        self._interval_s = interval_s
        self._counters: dict[str, TargetCounters] = {}
        self._windows: dict[NamespacedName, _Window] = {}
        self._problem = ""

    async def run(self) -> None:
        """Until cancelled."""
        async with self._targets:
            while True:
                await asyncio.sleep(self._interval_s)
                await self._try_measure()

    async def _try_measure(self) -> None:
        analysed = self._analysed()
        if not analysed:
            self._counters, self._windows = {}, {}
            return
        problem = ""
        try:
            await self._measure(analysed, await self._scraped(), time.time())
        except (KubeError, MetricsUnreadable) as broken:
            problem = str(broken)
        if problem and problem != self._problem:
            _log.warning("requests of canaries not measured", extra=because(LogReason.NOT_MEASURED, error=problem))
        self._problem = problem

    async def _scraped(self) -> dict[Meter, Increase]:
        """What happened since the scrape before, at every meter that some target has."""
        found = {target: read_metrics(text) for target, text in (await self._targets.fetch()).items()}
        self._counters = {target: self._counters.get(target) or TargetCounters() for target in found}
        known = [(series, 0.0) for each in found.values() for series in each]
        grown = [item for target, each in found.items() for item in self._counters[target].increases(each).items()]
        return by_meter([*known, *grown])

    async def _measure(
        self, analysed: Mapping[NamespacedName, int], scraped: Mapping[Meter, Increase], now: float
    ) -> None:
        seen: set[NamespacedName] = set()
        for deployment, window_s in analysed.items():
            async for endpoint in self._endpoints(deployment):
                key = NamespacedName(deployment.namespace, name_of(endpoint))
                part = _measured(endpoint, key, scraped)
                if part is not None:
                    seen.add(key)
                    await self._write(key, endpoint, part, window_s, now)
        self._windows = {key: window for key, window in self._windows.items() if key in seen}

    async def _endpoints(self, deployment: NamespacedName) -> AsyncIterator[Manifest]:
        query = Query(ENDPOINTS, namespace=deployment.namespace, labels=f"{DEPLOYMENT}={deployment.name}")
        after = ""
        while True:
            page = await self._client.page(query, limit=_PAGE, after=after)
            for endpoint in page.items:
                yield endpoint
            after = page.metadata.continue_
            if not after:
                return

    async def _write(self, key: NamespacedName, endpoint: Manifest, part: Increase, window_s: int, now: float) -> None:
        revision = labels_of(endpoint).get(REVISION, "")
        window = self._windows.get(key)
        if window is None or window.revision != revision:
            # What was counted before belongs to the revision before.
            window, part = _Window(revision), Increase(0.0, 0.0, {}, {})
        self._windows[key] = window
        fact = encode(_fact(window.add(now, part, window_s), revision, window_s, now))
        try:
            await self._client.patch_status(ENDPOINTS, key.name, key.namespace, {"traffic": {**_UNMEASURED, **fact}})
        except KubeStatusError as refused:
            if refused.status != _GONE:
                raise


def _measured(endpoint: Manifest, key: NamespacedName, scraped: Mapping[Meter, Increase]) -> Increase | None:
    replica = text_at(endpoint, "spec", "replica", "name")
    by_router = Meter(TrafficSource.ROUTER, key.namespace, key.name)
    by_envoy = Meter(TrafficSource.ENVOY, remote_namespace(key.namespace), replica)
    return scraped.get(by_router) or (scraped.get(by_envoy) if replica else None)


def _fact(found: Increase, revision: str, window_s: int, now: float) -> EndpointTraffic:
    return EndpointTraffic(
        revision=revision or None,
        measured_at=timestamp(now),
        window_seconds=window_s,
        requests=round(found.requests),
        errors=round(found.errors),
        ttft_p95_milliseconds=_rounded(quantile(_P95, found.ttft)),
        latency_p95_milliseconds=_rounded(quantile(_P95, found.latency)),
    )


def _rounded(found: float | None) -> int | None:
    return None if found is None else round(found)
