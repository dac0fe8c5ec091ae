"""One page of metrics for all workers of a picker.

Each worker sends its families. Counters and histograms are summed, gauges as each family says. What a worker that ended
had counted is kept, so sums never fall; what it counted after its last page is lost.
"""

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final

import msgspec
from prometheus_client import ProcessCollector

from modelplane.epp.server.observe.collector import PREFIX
from modelplane.epp.server.observe.families import Aggregation, Family, MetricType, parts_of
from modelplane.epp.server.observe.metrics import Histogram

_OF_ENDPOINTS: Final = (f"{PREFIX}scheduler_attempts_total", "inference_extension_scheduler_attempts_total")
_ENDPOINT_AT: Final = 2
"""The place of the endpoint's name among the labels of these."""
_OF_ONE: Final = frozenset(("process_start_time_seconds", "process_max_fds"))
Key = tuple[str, ...]
Place = tuple[str, str, str]


class HistogramRow(msgspec.Struct, frozen=True, array_like=True):
    labels: Key
    bounds: tuple[float, ...]
    counts: list[int]
    total: float


class FamilyMessage(msgspec.Struct, frozen=True, array_like=True):
    """A family on its way between two processes."""

    type: MetricType
    name: str
    help: str
    labels: tuple[str, ...]
    aggregation: Aggregation
    numbers: list[tuple[Key, int | float]]
    histograms: list[HistogramRow]


def message_of(family: Family) -> FamilyMessage:
    numbers: list[tuple[Key, int | float]] = []
    histograms: list[HistogramRow] = []
    for key, value in family.values.items():
        if isinstance(value, Histogram):
            histograms.append(HistogramRow(key, tuple(value.bounds), value.counts, value.total))
        else:
            numbers.append((key, value))
    labels = tuple(family.labels)
    return FamilyMessage(family.type, family.name, family.help, labels, family.aggregation, numbers, histograms)


def family_of(message: FamilyMessage) -> Family:
    values: dict[Key, float | Histogram] = dict(message.numbers)
    for row in message.histograms:
        histogram = values[row.labels] = Histogram(row.bounds)
        histogram.counts, histogram.total = row.counts, row.total
    return Family(message.type, message.name, message.help, message.labels, values, message.aggregation)


class WorkerPages:
    """The page of all workers (`MetricsPage`). `own` makes the families of the process that reads the pool."""

    def __init__(self, own: Callable[[], Iterable[Family]]) -> None:
        self._own = own
        self._pages: dict[int, Mapping[str, Family]] = {}
        self._ended: dict[str, Family] = {}
        """What workers that ended have counted."""

    def replace(self, worker: int, families: Iterable[Family]) -> None:
        """The worker's page is this."""
        self._pages[worker] = {family.name: family for family in families}

    def retire(self, worker: int) -> None:
        """The worker ended. Its gauges are gone, and what it counted is kept."""
        for name, family in self._pages.pop(worker, {}).items():
            if family.type is not MetricType.GAUGE:
                before = self._ended.get(name)
                self._ended[name] = family if before is None else aggregate([before, family])

    def keep_endpoints(self, places: Collection[Place]) -> None:
        """Counts of endpoints that are gone are no longer shown, as those of a living worker."""
        for name in _OF_ENDPOINTS:
            family = self._ended.get(name)
            if family is not None:
                kept = {
                    key: value
                    for key, value in family.values.items()
                    if not any(key[_ENDPOINT_AT:]) or key[_ENDPOINT_AT:] in places
                }
                self._ended[name] = msgspec.structs.replace(family, values=kept)

    def families(self) -> Iterator[Family]:
        own = {family.name: family for family in self._own()}
        pages = [own, self._ended, *self._pages.values()]
        names = dict.fromkeys(name for page in pages for name in page)
        for name in names:
            yield aggregate([page[name] for page in pages if name in page])

    def parts(self) -> Iterator[bytes]:
        return parts_of(self.families())


def aggregate(families: Sequence[Family]) -> Family:
    """One family of several with the same name."""
    first = families[0]
    if first.type is MetricType.GAUGE and first.aggregation is Aggregation.FIRST:
        return next((family for family in families if family.values), first)
    gathered: dict[Key, list[float | Histogram]] = {}
    for family in families:
        for key, value in family.values.items():
            gathered.setdefault(key, []).append(value)
    values = {key: _one_of(found, first.aggregation) for key, found in gathered.items()}
    return msgspec.structs.replace(first, values=values)


def _one_of(values: Sequence[float | Histogram], aggregation: Aggregation) -> float | Histogram:
    if isinstance(values[0], Histogram):
        # Bounds differ only between versions of the picker, whose workers do not meet.
        total = Histogram(values[0].bounds)
        for value in values:
            if isinstance(value, Histogram):
                total.take(value)
        return total
    numbers = [value for value in values if not isinstance(value, Histogram)]
    if aggregation is Aggregation.MAX:
        return max(numbers)
    return sum(numbers) / len(numbers) if aggregation is Aggregation.MEAN else sum(numbers)


def worker_families(worker: int, requests: int) -> Iterator[Family]:
    """What a worker shows of itself."""
    number = str(worker)
    info: dict[Key, float] = {(number, str(os.getpid())): 1}
    yield Family(MetricType.GAUGE, f"{PREFIX}worker_info", "Workers that run.", ("worker", "pid"), info)
    text = "Requests that a worker received."
    yield Family(MetricType.COUNTER, f"{PREFIX}worker_requests_total", text, ("worker",), {(number,): requests})
    yield from process_families()


def restart_family(restarts: Mapping[int, int]) -> Family:
    values: dict[Key, float] = {(str(worker),): count for worker, count in restarts.items()}
    text = "How often a worker that ended was started again."
    return Family(MetricType.COUNTER, f"{PREFIX}worker_restarts_total", text, ("worker",), values)


def process_families() -> Iterator[Family]:
    """What the kernel says of this process: CPU, memory and files are summed over processes."""
    for metric in ProcessCollector(registry=None).collect():
        for sample in metric.samples:
            kind = MetricType.COUNTER if metric.type == "counter" else MetricType.GAUGE
            aggregation = Aggregation.FIRST if sample.name in _OF_ONE else Aggregation.SUM
            yield Family(kind, sample.name, metric.documentation, (), {(): sample.value}, aggregation)
