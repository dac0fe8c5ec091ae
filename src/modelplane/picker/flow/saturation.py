"""How full the pool is: 0 is idle, 1 and more is full.

A pool works in stages (prefill, decode), told by role labels, and is as full as its fullest stage; a stage is as full
as its endpoints are on average. A pool without endpoints is full.

    Utilization    from metrics: the worse of the queue and the KV cache, each over its threshold
    Concurrency    from the picker's own counts of requests or tokens in flight over what an endpoint may have

An endpoint whose metrics are older than the threshold, or were never seen, is judged by the picker's own requests in
flight there, and never as full: when metrics stop coming, requests are spread by what is known instead of being
stopped.
"""

from collections.abc import Sequence
from typing import Protocol

from modelplane.api.errors import InputError
from modelplane.picker.endpoints import Endpoint
from modelplane.picker.filters import detectors
from modelplane.picker.filters.detectors import ConcurrencyParameters, Mode, UtilizationParameters

ROLE_LABEL = "llm-d.ai/role"
FULL = 1.0
NEARLY_FULL = 0.99
REQUESTS_WITHOUT_METRICS = 100
"""Requests in flight at which an endpoint without metrics counts as nearly full."""
_PREFILL_ROLES = frozenset({"prefill", "encode-prefill"})
_ENCODE_ROLES = frozenset({"encode"})


class SaturationDetector(Protocol):
    def saturation(self, endpoints: Sequence[Endpoint], now_s: float, /) -> float:
        """Of endpoints of one stage."""

    def share_of_one(self, endpoints: Sequence[Endpoint], /) -> float:
        """By how much one more request raises it, where it follows requests at once; else 0."""


class Utilization:
    def __init__(self, parameters: UtilizationParameters | None = None) -> None:
        self._parameters = parameters or UtilizationParameters()

    def saturation(self, endpoints: Sequence[Endpoint], now_s: float) -> float:
        if not endpoints:
            return FULL
        return sum([self.fullness(endpoint, now_s) for endpoint in endpoints]) / len(endpoints)

    def share_of_one(self, _endpoints: Sequence[Endpoint]) -> float:
        return 0.0

    def fullness(self, endpoint: Endpoint, now_s: float) -> float:
        load, limits = endpoint.load, self._parameters
        if load.seen_s < 0.0 or now_s - load.seen_s > limits.metrics_staleness_threshold:
            return min(NEARLY_FULL, endpoint.requests_in_flight / REQUESTS_WITHOUT_METRICS)
        return max(load.waiting / limits.queue_depth_threshold, load.kv_use / limits.kv_cache_util_threshold)


class Concurrency:
    def __init__(self, parameters: ConcurrencyParameters | None = None) -> None:
        self._parameters = parameters or ConcurrencyParameters()

    def saturation(self, endpoints: Sequence[Endpoint], _now_s: float) -> float:
        if not endpoints:
            return FULL
        return sum(map(self.fullness, endpoints)) / len(endpoints)

    def share_of_one(self, endpoints: Sequence[Endpoint]) -> float:
        if self._parameters.concurrency_mode is Mode.TOKENS or not endpoints:
            return 0.0
        return 1.0 / (self._parameters.max_concurrency * len(endpoints))

    def fullness(self, endpoint: Endpoint) -> float:
        limits = self._parameters
        requests = endpoint.requests_in_flight / limits.max_concurrency
        if limits.concurrency_mode is Mode.REQUESTS:
            return requests
        tokens = endpoint.tokens_in_flight / limits.max_token_concurrency
        return tokens if limits.concurrency_mode is Mode.TOKENS else max(requests, tokens)


def detector_of(plugin: object) -> SaturationDetector:
    """How full the pool is by the rules of a configured detector; None: by those of the usual one."""
    if plugin is None or isinstance(plugin, detectors.UtilizationDetector):
        return Utilization(plugin.parameters if plugin else None)
    if isinstance(plugin, detectors.ConcurrencyDetector):
        return Concurrency(plugin.parameters)
    raise InputError(f"{type(plugin).__name__} is no saturation detector")


class PoolGauge:
    """The saturation of the pool, worked out anew every few milliseconds and raised by what is released in between."""

    __slots__ = ("_at_s", "_detector", "_endpoints", "_every_s", "_share", "_value")

    def __init__(self, detector: SaturationDetector, every_s: float = 0.005) -> None:
        self._detector = detector
        self._every_s = every_s
        self._endpoints: Sequence[Endpoint] | None = None
        self._at_s = float("-inf")
        self._value = FULL
        self._share = 0.0

    def read(self, endpoints: Sequence[Endpoint], now_s: float) -> float:
        if endpoints is not self._endpoints or not 0.0 <= now_s - self._at_s < self._every_s:
            self._endpoints, self._at_s = endpoints, now_s
            self._value = pool_saturation(self._detector, endpoints, now_s)
            self._share = self._detector.share_of_one(endpoints)
        return self._value

    def released(self) -> None:
        """One more request is on its way."""
        self._value += self._share


def pool_saturation(detector: SaturationDetector, endpoints: Sequence[Endpoint], now_s: float) -> float:
    """Of the fullest stage."""
    stages: dict[str, list[Endpoint]] = {}
    for endpoint in endpoints:
        stages.setdefault(_stage(endpoint), []).append(endpoint)
    return max((detector.saturation(stage, now_s) for stage in stages.values()), default=FULL)


def _stage(endpoint: Endpoint) -> str:
    role = endpoint.labels.get(ROLE_LABEL, "")
    if role in _PREFILL_ROLES:
        return "prefill"
    return "encode" if role in _ENCODE_ROLES else "decode"
