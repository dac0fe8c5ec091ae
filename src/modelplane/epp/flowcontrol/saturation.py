"""How full the pool is: 0 is idle, 1 and more is full.

A pool works in stages (prefill, decode), told by role labels, and is as full as its fullest stage; a stage is as full
as its endpoints are on average. A pool without endpoints is full.

    Utilization    from metrics: the worse of the queue and the KV cache, each over its threshold
    Concurrency    from the picker's own counts of requests or tokens in flight over what an endpoint may have

An endpoint whose metrics are older than the threshold, or were never seen, is judged by the picker's own requests in
flight there, and never as full: when metrics stop coming, requests are spread by what is known instead of being
stopped.

Metrics are looked at every so often, and what is sent between two looks shows in neither. So that a full queue of ours
is not emptied onto servers that merely looked idle, requests in flight that came since the look count as waiting,
beyond as many as the server was running: at each look a server may be given as much again as it was seen to bear.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Protocol

from modelplane.api.errors import InputError
from modelplane.epp.scheduling.endpoints import Endpoint
from modelplane.epp.scheduling.filters import detectors
from modelplane.epp.scheduling.filters.detectors import (
    REQUESTS_WITHOUT_METRICS,
    ConcurrencyParameters,
    DetectorMode,
    UtilizationDetectorParameters,
)

if TYPE_CHECKING:
    from modelplane.epp.scheduling.loads import Load

ROLE_LABEL = "llm-d.ai/role"
FULL = 1.0
NEARLY_FULL = 0.99
_PREFILL_ROLES = frozenset({"prefill", "encode-prefill"})
_ENCODE_ROLES = frozenset({"encode"})


_NOTHING_NEW: Mapping[Endpoint, int] = MappingProxyType({})


class SaturationDetector(Protocol):
    def saturation(
        self, endpoints: Sequence[Endpoint], now_s: float, grown: Mapping[Endpoint, int] = _NOTHING_NEW, /
    ) -> float:
        """Of endpoints of one stage. `grown`: how many more requests are in flight than when it was looked at."""


class Utilization:
    def __init__(self, parameters: UtilizationDetectorParameters | None = None) -> None:
        self._parameters = parameters or UtilizationDetectorParameters()

    def saturation(
        self, endpoints: Sequence[Endpoint], now_s: float, grown: Mapping[Endpoint, int] = _NOTHING_NEW
    ) -> float:
        if not endpoints:
            return FULL
        return sum([self.fullness(each, now_s, grown.get(each, 0)) for each in endpoints]) / len(endpoints)

    def fullness(self, endpoint: Endpoint, now_s: float, grown: int = 0) -> float:
        load, limits = endpoint.load, self._parameters
        if limits.are_old(load, now_s):
            return min(NEARLY_FULL, endpoint.requests_in_flight / REQUESTS_WITHOUT_METRICS)
        waiting = load.waiting + max(0.0, grown - load.running)
        return max(waiting / limits.queue_depth_threshold, load.kv_use / limits.kv_cache_util_threshold)


class Concurrency:
    def __init__(self, parameters: ConcurrencyParameters | None = None) -> None:
        self._parameters = parameters or ConcurrencyParameters()

    def saturation(
        self, endpoints: Sequence[Endpoint], _now_s: float, _grown: Mapping[Endpoint, int] = _NOTHING_NEW
    ) -> float:
        if not endpoints:
            return FULL
        return sum(map(self.fullness, endpoints)) / len(endpoints)

    def fullness(self, endpoint: Endpoint) -> float:
        limits = self._parameters
        requests = endpoint.requests_in_flight / limits.max_concurrency
        if limits.concurrency_mode is DetectorMode.REQUESTS:
            return requests
        tokens = endpoint.tokens_in_flight / limits.max_token_concurrency
        return tokens if limits.concurrency_mode is DetectorMode.TOKENS else max(requests, tokens)


def detector_of(plugin: object) -> SaturationDetector:
    """How full the pool is by the rules of a configured detector; None: by those of the usual one."""
    if plugin is None or isinstance(plugin, detectors.UtilizationDetector):
        return Utilization(plugin.parameters if plugin else None)
    if isinstance(plugin, detectors.ConcurrencyDetector):
        return Concurrency(plugin.parameters)
    raise InputError(f"{type(plugin).__name__} is no saturation detector")


class PoolGauge:
    """The saturation of the pool, worked out anew every few milliseconds, and as often as it takes near the limit.

    A request adds at most one endpoint's share where requests are counted, so as long as that leaves room a release
    costs little however many endpoints there are. From there on each is seen: what is let go beyond the limit would be
    turned away by a detector in the profile instead of waiting its turn.
    """

    __slots__ = (
        "_at_s", "_detector", "_endpoints", "_every_s", "_is_due", "_looks", "_released", "_smallest", "_stages",
        "_value",
    )  # fmt: skip

    def __init__(self, detector: SaturationDetector, every_s: float = 0.005) -> None:
        self._detector = detector
        self._every_s = every_s
        self._endpoints: Sequence[Endpoint] | None = None
        self._stages: Mapping[str, Sequence[Endpoint]] = {}
        self._smallest = 1
        """Endpoints of the smallest stage."""
        self._looks: dict[Endpoint, tuple[Load, int]] = {}
        """The load of each endpoint, and how many requests were in flight when it was first seen here."""
        self._at_s = float("-inf")
        self._is_due = True
        self._value = FULL
        self._released = 0

    def read(self, endpoints: Sequence[Endpoint], now_s: float) -> float:
        if endpoints is not self._endpoints:
            self._endpoints, self._is_due = endpoints, True
            self._stages = _stages(endpoints)
            self._smallest = min(map(len, self._stages.values()), default=1)
        if self._is_due or not 0.0 <= now_s - self._at_s < self._every_s:
            self._at_s, self._is_due, self._released = now_s, False, 0
            grown = self._grown(endpoints)
            self._value = _fullest(self._detector, self._stages, now_s, grown)
        return self._value

    def by_stage(self, endpoints: Sequence[Endpoint], now_s: float) -> Mapping[str, float]:
        """For people: the saturation of each stage."""
        grown = self._grown(endpoints)
        return {name: self._detector.saturation(stage, now_s, grown) for name, stage in _stages(endpoints).items()}

    def released(self) -> None:
        """One more request is on its way."""
        self._released += 1
        if self._value + self._released / self._smallest >= FULL:
            self._is_due = True

    def ended(self) -> None:
        """A request that was on its way has ended: where there was no room, there may be some."""
        if self._value >= FULL:
            self._is_due = True

    def _grown(self, endpoints: Sequence[Endpoint]) -> dict[Endpoint, int]:
        before = self._looks
        self._looks = {
            endpoint: known
            if (known := before.get(endpoint)) is not None and known[0] is endpoint.load
            else (endpoint.load, endpoint.requests_in_flight)
            for endpoint in endpoints
        }
        return {endpoint: endpoint.requests_in_flight - known[1] for endpoint, known in self._looks.items()}


def pool_saturation(
    detector: SaturationDetector,
    endpoints: Sequence[Endpoint],
    now_s: float,
    grown: Mapping[Endpoint, int] = _NOTHING_NEW,
) -> float:
    """Of the fullest stage."""
    return _fullest(detector, _stages(endpoints), now_s, grown)


def _fullest(
    detector: SaturationDetector,
    stages: Mapping[str, Sequence[Endpoint]],
    now_s: float,
    grown: Mapping[Endpoint, int],
) -> float:
    return max((detector.saturation(stage, now_s, grown) for stage in stages.values()), default=FULL)


def _stages(endpoints: Sequence[Endpoint]) -> Mapping[str, Sequence[Endpoint]]:
    stages: dict[str, list[Endpoint]] = {}
    for endpoint in endpoints:
        stages.setdefault(_stage(endpoint), []).append(endpoint)
    return stages


def _stage(endpoint: Endpoint) -> str:
    role = endpoint.labels.get(ROLE_LABEL, "")
    if role in _PREFILL_ROLES:
        return "prefill"
    return "encode" if role in _ENCODE_ROLES else "decode"
