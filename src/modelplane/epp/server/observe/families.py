"""Families of series, and the text in which Prometheus reads them.

A page may have tens of thousands of lines, and while a part of it is made no request is answered, so the text is made
here, line by line, in parts of a millisecond or two. For other collectors the same families are prometheus_client's.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from itertools import accumulate

import msgspec
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric

from modelplane.epp.server.observe.metrics import Histogram

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_ESCAPES = str.maketrans({"\\": "\\\\", "\n": "\\n", '"': '\\"'})
_PART_LINES = 500
_EXPONENT_FROM = 1e6
"""The size from which %g uses exponents."""


class MetricType(StrEnum):
    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class Aggregation(StrEnum):
    """What a gauge of several workers is. Counters and histograms are summed."""

    SUM = "sum"
    MAX = "max"
    MEAN = "mean"
    FIRST = "first"
    """Of the process that reads the pool, where that has it."""


class Family(msgspec.Struct, frozen=True):
    """Numbers or histograms of one name, by the values of their labels."""

    type: MetricType
    name: str
    help: str
    labels: Sequence[str]
    values: Mapping[tuple[str, ...], float | Histogram]
    aggregation: Aggregation = Aggregation.SUM


def text_of(families: Iterable[Family]) -> bytes:
    return b"".join(parts_of(families))


def parts_of(families: Iterable[Family]) -> Iterator[bytes]:
    """The text in parts of some hundred lines. A histogram is in one part, so its lines agree."""
    lines: list[str] = []
    for family in families:
        lines += (f"# HELP {family.name} {family.help}", f"# TYPE {family.name} {family.type.value}")
        for key, value in family.values.items():
            labels = ",".join(
                f'{name}="{text.translate(_ESCAPES)}"' for name, text in zip(family.labels, key, strict=True)
            )
            if isinstance(value, Histogram):
                lines += _histogram(family.name, labels, value)
            else:
                lines.append(f"{family.name}{{{labels}}} {value}" if labels else f"{family.name} {value}")
            if len(lines) >= _PART_LINES:
                yield _joined(lines)
    yield _joined(lines)


def _joined(lines: list[str]) -> bytes:
    """The lines as text; they are taken out of the list."""
    lines.append("")
    text = "\n".join(lines).encode()
    lines.clear()
    return text


def metric_of(family: Family) -> Metric:
    """The family as an object of prometheus_client."""
    if family.type is MetricType.HISTOGRAM:
        histogram = HistogramMetricFamily(family.name, family.help, labels=family.labels)
        for key, value in family.values.items():
            if isinstance(value, Histogram):
                counts = zip((*bounds_of(value), "+Inf"), accumulate(value.counts), strict=True)
                histogram.add_metric(key, list(counts), value.total)
        return histogram
    make = CounterMetricFamily if family.type is MetricType.COUNTER else GaugeMetricFamily
    numbers = make(family.name, family.help, labels=family.labels)
    for key, value in family.values.items():
        if not isinstance(value, Histogram):
            numbers.add_metric(key, value)
    return numbers


def _histogram(name: str, labels: str, histogram: Histogram) -> Iterator[str]:
    head = f'{name}_bucket{{{labels},le="' if labels else f'{name}_bucket{{le="'
    count = 0
    for bound, more in zip(bounds_of(histogram), histogram.counts, strict=False):
        count += more
        yield f'{head}{bound}"}} {count}'
    count += histogram.counts[-1]
    shown = f"{{{labels}}}" if labels else ""
    yield f'{head}+Inf"}} {count}'
    yield f"{name}_sum{shown} {histogram.total}"
    yield f"{name}_count{shown} {count}"


_WRITTEN: dict[Sequence[float], tuple[str, ...]] = {}


def bounds_of(histogram: Histogram) -> tuple[str, ...]:
    """Bounds as the ecosystem writes them: 1, not 1.0."""
    found = _WRITTEN.get(histogram.bounds)
    if found is None:
        found = tuple(f"{bound:g}" if bound < _EXPONENT_FROM else str(int(bound)) for bound in histogram.bounds)
        _WRITTEN[histogram.bounds] = found
    return found
