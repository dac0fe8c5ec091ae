"""Saturation detectors: 0 is idle, 1 and more is saturated.

A pool has stages (prefill, decode), given by role labels. Its saturation is that of its most saturated stage, and a
stage's is the mean of its endpoints. A pool without endpoints is saturated.

    Utilization    from scraped metrics: the worse of queue and KV cache, each over its threshold
    Concurrency    from requests or tokens in flight, over the maximum of an endpoint
    others         plugins of other packages that have `saturation`

An endpoint whose metrics are stale, or were never scraped, is judged by the picker's own requests in flight there, and
never as saturated: when scrapes fail, requests are spread and not stopped.

Requests sent between two scrapes show in neither. So that a long queue is not dispatched at once to servers that were
idle at the last scrape, requests sent since count as waiting, beyond as many as the server was running: between two
scrapes a server is sent at most as much again as it was running.
"""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from modelplane.api.errors import InputError
from modelplane.epp.flowcontrol.worker_share import FULL, DividedRoom, WorkerShare
from modelplane.epp.scheduling.endpoints import Endpoint
from modelplane.epp.scheduling.filters import detectors
from modelplane.epp.scheduling.filters.detectors import (
    REQUESTS_WITHOUT_METRICS,
    ConcurrencyParameters,
    DetectorMode,
    UtilizationDetectorParameters,
)
from modelplane.framework import PluginFault
from modelplane.framework.faults import raised

if TYPE_CHECKING:
    from modelplane.epp.scheduling.metrics import EndpointMetrics

ROLE_LABEL = "llm-d.ai/role"
NEARLY_FULL = 0.99
_PREFILL_ROLES = frozenset({"prefill", "encode-prefill"})
_ENCODE_ROLES = frozenset({"encode"})

_ALONE = WorkerShare()
OnFault = Callable[[PluginFault], None]

_NOTHING_NEW: Mapping[Endpoint, int] = MappingProxyType({})


@runtime_checkable
class SaturationDetector(Protocol):
    def saturation(
        self, endpoints: Sequence[Endpoint], now_s: float, grown: Mapping[Endpoint, int] = _NOTHING_NEW, /
    ) -> float:
        """The saturation of one stage. `grown`: how many more requests are in flight than at the scrape."""


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
        metrics, limits = endpoint.metrics, self._parameters
        if limits.are_stale(metrics, now_s):
            return min(NEARLY_FULL, endpoint.requests_in_flight / REQUESTS_WITHOUT_METRICS)
        waiting = metrics.waiting + max(0.0, grown - metrics.running)
        return max(waiting / limits.queue_depth_threshold, metrics.kv_cache_usage / limits.kv_cache_util_threshold)


class Concurrency:
    def __init__(self, parameters: ConcurrencyParameters | None = None) -> None:
        self._parameters = parameters or ConcurrencyParameters()

    def saturation(
        self, endpoints: Sequence[Endpoint], _now_s: float, _grown: Mapping[Endpoint, int] = _NOTHING_NEW
    ) -> float:
        if not endpoints:
            return FULL
        return sum(map(self.fullness, endpoints)) / len(endpoints)

    def step(self, endpoints: Sequence[Endpoint]) -> float:
        """What one more request adds to the saturation of these. Of tokens, one of the mean size."""
        limits = self._parameters
        requests = 1.0 / limits.max_concurrency
        if limits.concurrency_mode is not DetectorMode.REQUESTS:
            in_flight = max(1, sum(endpoint.requests_in_flight for endpoint in endpoints))
            mean = sum(endpoint.tokens_in_flight for endpoint in endpoints) / in_flight
            tokens = mean / limits.max_token_concurrency
            requests = tokens if limits.concurrency_mode is DetectorMode.TOKENS else max(requests, tokens)
        return requests / max(1, len(endpoints))

    def fullness(self, endpoint: Endpoint) -> float:
        limits = self._parameters
        requests = endpoint.requests_in_flight / limits.max_concurrency
        if limits.concurrency_mode is DetectorMode.REQUESTS:
            return requests
        tokens = endpoint.tokens_in_flight / limits.max_token_concurrency
        return tokens if limits.concurrency_mode is DetectorMode.TOKENS else max(requests, tokens)


class GuardedDetector:
    """A detector of another package. Where it fails, requests are sent and not stopped, as where scrapes fail."""

    def __init__(self, name: str, detector: SaturationDetector, on_fault: OnFault) -> None:
        self._name = name
        self._detector = detector
        self._on_fault = on_fault

    def saturation(
        self, endpoints: Sequence[Endpoint], now_s: float, grown: Mapping[Endpoint, int] = _NOTHING_NEW
    ) -> float:
        try:
            found = float(self._detector.saturation(endpoints, now_s, grown))
        except Exception as error:  # noqa: BLE001  a plugin's defect must not stop the queue
            self._on_fault(raised(self._name, error))
            return 0.0
        # Written so that NaN is out of range.
        if found >= 0.0:
            return found
        self._on_fault(PluginFault(self._name, f"returned a saturation of {found}, which is not 0 or more"))
        return 0.0


def detector_of(plugin: object, on_fault: OnFault = lambda _fault: None) -> SaturationDetector:
    """The detector of a configured plugin; None: the default one. `on_fault` gets the faults of other packages'."""
    if plugin is None or isinstance(plugin, detectors.UtilizationDetector):
        return Utilization(plugin.parameters if plugin else None)
    if isinstance(plugin, detectors.ConcurrencyDetector):
        return Concurrency(plugin.parameters)
    if isinstance(plugin, SaturationDetector):
        return GuardedDetector(getattr(plugin, "name", type(plugin).__name__), plugin, on_fault)
    raise InputError(f"{type(plugin).__name__} is no saturation detector")


class PoolSaturation:
    """The saturation of the pool, computed every 5 ms, and at each dispatch near the limit.

    A request adds at most one endpoint's share where requests are counted, so while that leaves capacity a dispatch
    costs little however many endpoints there are. Near the limit each one is computed: a request dispatched beyond it
    would be rejected by a detector in the profile instead of staying queued.
    """

    __slots__ = (
        "_at_s",
        "_detector",
        "_endpoints",
        "_every_s",
        "_is_due",
        "_released",
        "_room",
        "_scrapes",
        "_smallest",
        "_stages",
        "_value",
    )  # fmt: skip

    def __init__(self, detector: SaturationDetector, every_s: float = 0.005, share: WorkerShare = _ALONE) -> None:
        self._detector = detector
        self._room = DividedRoom(share) if share.workers > 1 and isinstance(detector, Concurrency) else None
        """None: there is one worker, or the limit is of scraped metrics, which all workers see."""
        self._every_s = every_s
        self._endpoints: Sequence[Endpoint] | None = None
        self._stages: Mapping[str, Sequence[Endpoint]] = {}
        self._smallest = 1
        """Endpoints of the smallest stage."""
        self._scrapes: dict[Endpoint, tuple[EndpointMetrics, int]] = {}
        """The last scrape of each endpoint, and its requests in flight when that was first read here."""
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

    def to_dispatch_by(self, endpoints: Sequence[Endpoint], now_s: float) -> float:
        """The same, and what other workers may have dispatched meanwhile."""
        known = self.read(endpoints, now_s)
        if self._room is None or not isinstance(self._detector, Concurrency):
            return known
        step = max(map(self._detector.step, self._stages.values()), default=0.0)
        return self._room.saturation(known, step, now_s)

    def by_stage(self, endpoints: Sequence[Endpoint], now_s: float) -> Mapping[str, float]:
        """For people: the saturation of each stage."""
        grown = self._grown(endpoints)
        return {name: self._detector.saturation(stage, now_s, grown) for name, stage in _stages(endpoints).items()}

    def released(self, now_s: float) -> None:
        """One more request was dispatched."""
        self._released += 1
        if self._room is not None:
            self._room.dispatched(now_s)
        if self._value + self._released / self._smallest >= FULL:
            self._is_due = True

    def ended(self) -> None:
        """A dispatched request has ended."""
        if self._value >= FULL:
            self._is_due = True

    def _grown(self, endpoints: Sequence[Endpoint]) -> dict[Endpoint, int]:
        before = self._scrapes
        self._scrapes = {
            endpoint: known
            if (known := before.get(endpoint)) is not None and known[0] is endpoint.metrics
            else (endpoint.metrics, endpoint.requests_in_flight)
            for endpoint in endpoints
        }
        return {endpoint: endpoint.requests_in_flight - known[1] for endpoint, known in self._scrapes.items()}


def pool_saturation(
    detector: SaturationDetector,
    endpoints: Sequence[Endpoint],
    now_s: float,
    grown: Mapping[Endpoint, int] = _NOTHING_NEW,
) -> float:
    """The saturation of the most saturated stage."""
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
