"""Saturation detectors as filters: endpoints with capacity for one more request.

Flow control uses the same parameters for the whole pool; in a profile they refuse single endpoints. The utilization
detector keeps all endpoints where none has capacity. An endpoint with stale metrics is judged by the requests that this
picker has in flight there: when scrapes fail, requests are spread and not stopped. The concurrency detector counts what
this picker sent, and may refuse all endpoints, which is 429.
"""

from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated

import msgspec

from modelplane.epp.scheduling.context import SchedulingContext
from modelplane.epp.scheduling.endpoints import Endpoint
from modelplane.epp.scheduling.metrics import EndpointMetrics
from modelplane.epp.scheduling.units import Duration
from modelplane.framework import Refusal, RefusalCode
from modelplane.framework.registry import Parameters, plugin_type

_NOT_NEGATIVE = msgspec.Meta(ge=0.0)
REQUESTS_WITHOUT_METRICS = 100
"""Requests in flight at which an endpoint with stale metrics counts as nearly saturated."""


class UtilizationDetectorParameters(Parameters, frozen=True):
    queue_depth_threshold: Annotated[int, msgspec.Meta(gt=0)] = 5
    kv_cache_util_threshold: Annotated[float, msgspec.Meta(gt=0.0, le=1.0)] = 0.8
    metrics_staleness_threshold: Duration = Duration(0.2)
    headroom: Annotated[float, _NOT_NEGATIVE] = 0.0

    def are_stale(self, metrics: EndpointMetrics, now_s: float) -> bool:
        """Whether metrics are stale, or were never scraped."""
        return metrics.scraped_s < 0.0 or now_s - metrics.scraped_s > self.metrics_staleness_threshold


class DetectorMode(StrEnum):
    REQUESTS = "requests"
    TOKENS = "tokens"
    HYBRID = "hybrid"


class ConcurrencyParameters(Parameters, frozen=True):
    max_concurrency: Annotated[int, msgspec.Meta(gt=0)] = 100
    headroom: Annotated[float, _NOT_NEGATIVE] = 0.0
    concurrency_mode: DetectorMode = DetectorMode.REQUESTS
    max_token_concurrency: Annotated[int, msgspec.Meta(gt=0)] = 1_000_000
    in_flight_load_producer_name: str = ""


class UtilizationDetector:
    __slots__ = ("_kv_limit", "_queue_limit", "name", "parameters")

    def __init__(self, name: str, parameters: UtilizationDetectorParameters) -> None:
        self.name = name
        self.parameters = parameters
        self._queue_limit = parameters.queue_depth_threshold * (1.0 + parameters.headroom)
        self._kv_limit = parameters.kv_cache_util_threshold * (1.0 + parameters.headroom)

    def refuse(self, _context: SchedulingContext, _endpoint: Endpoint, /) -> Refusal | None:
        return None

    def narrow(self, context: SchedulingContext, endpoints: Sequence[Endpoint], /) -> Sequence[Refusal | None]:
        answers = [self._judge(endpoint, context.now_s) for endpoint in endpoints]
        return answers if None in answers else ()

    def _judge(self, endpoint: Endpoint, now_s: float) -> Refusal | None:
        metrics = endpoint.metrics
        if self.parameters.are_stale(metrics, now_s):
            if endpoint.requests_in_flight < REQUESTS_WITHOUT_METRICS:
                return None
            sent = endpoint.requests_in_flight
            return Refusal(
                self.name, RefusalCode.UNSCHEDULABLE, "its metrics are stale and {} requests are in flight", (sent,)
            )
        waiting, kv_cache_usage = (
            endpoint.waiting,
            endpoint.kv_cache_usage,
        )  # as expected: a burst since the scrape counts
        if waiting >= self._queue_limit:
            return Refusal(
                self.name,
                RefusalCode.UNSCHEDULABLE,
                "{:g} requests are waiting, the limit is {:g}",
                (waiting, self._queue_limit),
            )
        if kv_cache_usage >= self._kv_limit:
            values = (kv_cache_usage, self._kv_limit)
            return Refusal(
                self.name, RefusalCode.UNSCHEDULABLE, "{:.0%} of the KV cache is in use, the limit is {:.0%}", values
            )
        return None


class ConcurrencyDetector:
    __slots__ = ("_request_limit", "_token_limit", "name", "parameters")

    def __init__(self, name: str, parameters: ConcurrencyParameters) -> None:
        self.name = name
        self.parameters = parameters
        self._request_limit = int(parameters.max_concurrency * (1.0 + parameters.headroom))
        self._token_limit = int(parameters.max_token_concurrency * (1.0 + parameters.headroom))

    def refuse(self, _context: SchedulingContext, endpoint: Endpoint, /) -> Refusal | None:
        mode = self.parameters.concurrency_mode
        if mode is not DetectorMode.TOKENS and endpoint.requests_in_flight >= self._request_limit:
            values = (endpoint.requests_in_flight, self._request_limit)
            return Refusal(self.name, RefusalCode.UNSCHEDULABLE, "{} requests are in flight, the limit is {}", values)
        if mode is not DetectorMode.REQUESTS and endpoint.tokens_in_flight >= self._token_limit:
            values = (endpoint.tokens_in_flight, self._token_limit)
            return Refusal(self.name, RefusalCode.UNSCHEDULABLE, "{} tokens are in flight, the limit is {}", values)
        return None


TYPES = (
    plugin_type("utilization-detector", UtilizationDetector, UtilizationDetectorParameters).serving_as("detector"),
    plugin_type(
        "concurrency-detector", ConcurrencyDetector, ConcurrencyParameters, consumes=("in-flight load",)
    ).serving_as("detector"),
)
