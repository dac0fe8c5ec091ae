"""Metrics of requests: plain counters and histograms, kept where they cost next to nothing.

A request updates one record, found by its labels, twice: when it was decided and when it ended. Each scrape builds all
series from these records.

Labels come from clients, so they are bounded. A model has a label of its own once something other than a client names
it: an endpoint lists it or answered for it, or a policy of the pool has it. Before that, the first 32 names that are
met have one, and none where endpoints list their models; the rest are `unknown`. Of tenants the first thousand names
are kept, the rest are `other`, and so are all labels when there are a thousand records, each of some 200 lines of text.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from modelplane.epp.scheduling.decisions import Decision
from modelplane.epp.scheduling.endpoints import Endpoint
from modelplane.epp.scheduling.metrics import NEVER_SCRAPED
from modelplane.epp.scheduling.outcomes import Outcome
from modelplane.epp.scheduling.requests import Request
from modelplane.epp.scheduling.response_usage import NO_USAGE, ResponseUsage
from modelplane.epp.scheduling.responses import EndpointResponse

_PICKED: Final = Outcome.PICKED
_bucket_of: Final = bisect_left
OTHER: Final = "other"
UNKNOWN: Final = "unknown"
DEFAULT_TENANT: Final = "default-flow"
_NAMES_MOST: Final = 1000
_UNPROVEN_MOST: Final = 32
# Some engines answer for any name.
_ANSWERED_MOST: Final = 128
_RECORDS_MOST: Final = 1000
_ENDPOINTS_MOST: Final = 10_000
_SECONDS = (
    0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 15.0, 20.0, 30.0,
    45.0, 60.0, 120.0,
)  # fmt: skip
WHOLE_S = (*_SECONDS, 180.0, 240.0, 300.0, 360.0, 480.0, 600.0, 900.0, 1200.0, 1800.0, 2700.0, 3600.0)
FIRST_S = _SECONDS
NTPOT_S = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
TPOT_S = (
    0.0005, 0.00205, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.125, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1.0, 2.0,
)  # fmt: skip
SIZES = tuple(float(1 << power) for power in range(6, 31))
OUTPUT_TOKENS = (1.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0, 2048.0, 4096.0, 8192.0)
INPUT_TOKENS = (*OUTPUT_TOKENS, 16384.0, 32778.0, 65536.0, 131072.0, 262144.0, 524288.0, 1048576.0)
DECIDE_S = (0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1)
REQUEST_SIDE_S = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.015, 0.025, 0.04, 0.06, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
RESPONSE_SIDE_S = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
QUEUE_S = (0.0001, 0.0005, 0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
STREAM_S = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0)

_CODES: Final = {
    400: "BadRequest", 401: "Unauthorized", 403: "Forbidden", 404: "NotFound", 412: "PreconditionFailed",
    413: "PayloadTooLarge", 429: "ResourceExhausted", 499: "ClientClosedRequest", 500: "Internal",
    503: "ServiceUnavailable",
}  # fmt: skip
_ERROR_FROM: Final = 400

Labels = tuple[str, str, str, str]
"""Requested model, target model, tenant, priority."""


class Histogram:
    """Counts by bucket, and the sum of what was counted."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def add(self, value: float) -> None:
        # Most times are short enough for the first bucket, and a search costs three times as much.
        self.counts[0 if value <= self.bounds[0] else _bucket_of(self.bounds, value)] += 1
        self.total += value

    def take(self, other: "Histogram") -> None:
        """Add up with another of the same bounds."""
        self.counts = [mine + theirs for mine, theirs in zip(self.counts, other.counts, strict=True)]
        self.total += other.total


class RequestMetrics:
    """The metrics of the requests with one set of labels."""

    __slots__ = (
        "cached", "errors", "first", "first_streaming", "inputs", "labels", "ntpot", "outputs", "requests", "running",
        "sizes", "tpot", "whole",
    )  # fmt: skip

    def __init__(self, labels: Labels) -> None:
        self.labels = labels
        self.requests = 0
        self.running = 0
        self.errors: dict[str, int] = {}
        self.sizes = Histogram(SIZES)
        self.whole = Histogram(WHOLE_S)
        self.first = Histogram(FIRST_S)
        self.first_streaming = Histogram(FIRST_S)
        self.ntpot = Histogram(NTPOT_S)
        self.tpot = Histogram(TPOT_S)
        self.inputs = Histogram(INPUT_TOKENS)
        self.outputs = Histogram(OUTPUT_TOKENS)
        self.cached = Histogram(INPUT_TOKENS)

    def fail(self, status: int) -> None:
        code = _CODES.get(status, "Unknown")
        self.errors[code] = self.errors.get(code, 0) + 1


class BoundedLabels:
    """The first so many names that are met; the others are `other`. Pinned names do not count."""

    __slots__ = ("_known", "_most", "_pinned")

    def __init__(self, most: int, pinned: Iterable[str] = ()) -> None:
        self._most = most
        self._pinned = frozenset(pinned)
        self._known: set[str] = set()

    def __call__(self, name: str) -> str:
        if name in self._known or name in self._pinned:
            return name
        if len(self._known) >= self._most:
            return OTHER
        self._known.add(name)
        return name


class ModelLabels:
    """Models by name, where something other than a client has named them; else `unknown`."""

    __slots__ = ("_known", "_pinned", "_unproven")

    def __init__(self, pinned: Iterable[str] = ()) -> None:
        self._pinned = frozenset(pinned)
        self._known: set[str] = set()
        self._unproven: set[str] = set()
        """Names of clients that have a label nevertheless."""

    def __call__(self, name: str, endpoint: Endpoint | None = None) -> str:
        """`endpoint` is the one that was picked for a request of this model."""
        if name in self._known or name in self._unproven or name in self._pinned:
            return name
        metrics = NEVER_SCRAPED if endpoint is None else endpoint.metrics
        if name in metrics.models or name in metrics.adapters.running or name in metrics.adapters.waiting:
            return self.learn(name)
        if metrics.models or len(self._unproven) >= _UNPROVEN_MOST:
            return UNKNOWN
        self._unproven.add(name)
        return name

    def learn(self, name: str, most: int = _NAMES_MOST) -> str:
        """An endpoint or a policy has this name."""
        if name in self._pinned or name in self._known:
            return name
        if len(self._known) >= most:
            return UNKNOWN
        self._known.add(name)
        self._unproven.discard(name)
        return name


class QueueMetrics:
    """How long requests waited before they were sent on, by how the wait ended."""

    __slots__ = ("ended", "seconds")

    def __init__(self) -> None:
        self.ended: dict[tuple[str, str], int] = {}
        """By outcome and priority."""
        self.seconds: dict[tuple[Labels, str], Histogram] = {}


class PickerMetrics:
    """All of it, for one picker. Cheap calls of the request path first. One event loop."""

    def __init__(self, pinned_models: Iterable[str] = ()) -> None:
        self._records: dict[tuple[str, str, str, int], RequestMetrics] = {}
        self._models = ModelLabels(pinned_models)
        self._running: dict[int, RequestMetrics] = {}
        """Records of requests in flight by their identity: a model may get its label before its request ends."""
        self._tenants = BoundedLabels(_NAMES_MOST)
        self._attempts: dict[Endpoint, dict[str, int]] = {}
        self.failed_attempts: dict[str, int] = {}
        self.deciding = Histogram(DECIDE_S)
        self.request_side = Histogram(REQUEST_SIDE_S)
        self.response_side = Histogram(RESPONSE_SIDE_S)
        self.streams = Histogram(STREAM_S)
        self.streams_by_code: dict[str, int] = {}
        self.streams_open = 0
        self.waits = QueueMetrics()
        self.rewrites: dict[tuple[str, str, str], int] = {}
        self.disaggregated: dict[tuple[str, str], int] = {}

    def decided(self, request: Request, decision: Decision, spent_s: float, model: str = "") -> None:
        """A request was decided. `model` is the requested model if it was rewritten."""
        picked = decision.groups[0][0] if decision.outcome is _PICKED else None
        record = self._record(request, model, picked)
        record.requests += 1
        record.sizes.add(request.size)
        self.deciding.add(spent_s)
        target = record.labels[1]
        if picked is not None:
            record.running += 1
            self._running[id(request)] = record
            counts = self._attempts.get(picked)
            if counts is None:
                counts = self._bounded_endpoint(picked)
            counts[target] = counts.get(target, 0) + 1
        else:
            self.failed_attempts[target] = self.failed_attempts.get(target, 0) + 1
            record.fail(decision.outcome.status)

    def ended(self, request: Request, served: EndpointResponse, model: str = "") -> None:
        """A request that was sent on has ended. Once for each that was picked."""
        record = self._running.pop(id(request), None) or self._record(request, model)
        record.running -= 1
        status = served.status
        if status >= _ERROR_FROM or served.given_up:
            record.fail(status)
        elif status:
            self._models.learn(request.model, _ANSWERED_MOST)
        began_s = request.received_s or served.started_s
        spent_s = served.ended_s - began_s
        if served.ended_s >= 0 and spent_s >= 0:
            record.whole.add(spent_s)
            if served.first_byte_s >= began_s:
                self._spread(record, request, served, began_s)
        usage = served.usage
        if usage is not NO_USAGE and usage != NO_USAGE:
            _count_tokens(record, usage, spent_s if served.ended_s >= 0 else -1.0)

    def waited(self, request: Request, outcome: str, waited_s: float, model: str = "") -> None:
        """A wait for a place ended: `outcome` is "Dispatched", or the title of how the request ended."""
        labels = self._record(request, model).labels
        by = (outcome, labels[3])
        self.waits.ended[by] = self.waits.ended.get(by, 0) + 1
        key = (labels, outcome)
        histogram = self.waits.seconds.get(key)
        if histogram is None:
            histogram = self.waits.seconds[key] = Histogram(QUEUE_S)
        histogram.add(waited_s)

    def rewrote(self, name: str, model: str, target: str, *, exact: bool = False) -> None:
        """A rule changed a model. `exact`: the rule names the model that was requested."""
        requested = self._models.learn(model) if exact else self._models(model)
        key = (name, requested, self._models.learn(target))
        self.rewrites[key] = self.rewrites.get(key, 0) + 1

    def split(self, request: Request, decision: Decision) -> None:
        """How a disaggregating handler divided a request."""
        others = {name for name, endpoints in decision.others if endpoints}
        stages = [stage for stage in ("encode", "prefill") if stage in others]
        kind = "-".join([*stages, "decode"]) if stages else "decode-only"
        key = (self._models(request.model), kind)
        self.disaggregated[key] = self.disaggregated.get(key, 0) + 1

    def stream_opened(self) -> None:
        self.streams_open += 1

    def stream_closed(self, code: str, seconds: float) -> None:
        self.streams_open -= 1
        self.streams_by_code[code] = self.streams_by_code.get(code, 0) + 1
        self.streams.add(seconds)

    def changed(self, endpoints: Sequence[Endpoint]) -> None:
        """Endpoints that are gone are no longer shown."""
        kept = set(endpoints)
        for gone in [endpoint for endpoint in self._attempts if endpoint not in kept]:
            del self._attempts[gone]

    @property
    def records(self) -> Iterator[RequestMetrics]:
        return iter(self._records.values())

    @property
    def attempts(self) -> Mapping[Endpoint, Mapping[str, int]]:
        """How often each endpoint was picked, by model."""
        return MappingProxyType(self._attempts)

    def _record(self, request: Request, model: str, picked: Endpoint | None = None) -> RequestMetrics:
        target = request.model
        found = self._records.get((model or target, target, request.fairness_id, request.priority))
        return found if found is not None else self._bounded(model or target, request, picked)

    def _bounded(self, model: str, request: Request, picked: Endpoint | None) -> RequestMetrics:
        target, tenant = self._models(request.model, picked), self._tenants(request.fairness_id)
        model = target if model == request.model else self._models(model)
        key = (model, target, tenant, request.priority)
        if key not in self._records and len(self._records) >= _RECORDS_MOST:
            key = (OTHER, OTHER, OTHER, 0)
        record = self._records.get(key)
        if record is None:
            record = RequestMetrics((key[0], key[1], key[2] or DEFAULT_TENANT, str(key[3])))
            self._records[key] = record
        return record

    def _bounded_endpoint(self, endpoint: Endpoint) -> dict[str, int]:
        if len(self._attempts) >= _ENDPOINTS_MOST:
            del self._attempts[next(iter(self._attempts))]
        return self._attempts.setdefault(endpoint, {})

    def _spread(self, record: RequestMetrics, request: Request, served: EndpointResponse, began_s: float) -> None:
        """Time to the first byte, and for each token after it, where the response has a usage."""
        first_s = served.first_byte_s - began_s
        if not request.streaming:
            record.first.add(first_s)
            return
        record.first_streaming.add(first_s)
        tokens = served.usage.output_tokens
        if tokens > 1:
            record.tpot.add((served.ended_s - served.first_byte_s) / (tokens - 1))


def _count_tokens(record: RequestMetrics, usage: ResponseUsage, spent_s: float) -> None:
    if usage.prompt_tokens >= 0:
        record.inputs.add(usage.prompt_tokens)
    if usage.cached_tokens >= 0:
        record.cached.add(usage.cached_tokens)
    if usage.output_tokens >= 0:
        record.outputs.add(usage.output_tokens)
        if usage.output_tokens and spent_s >= 0:
            record.ntpot.add(spent_s / usage.output_tokens)
