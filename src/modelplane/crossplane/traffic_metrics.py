"""Reads what clients got from replicas out of metrics in Prometheus' text format.

    modelplane_router_endpoint_*   of a fleet router, by ModelEndpoint: requests, errors, TTFT and duration
    envoy_cluster_upstream_rq_*    of a cluster's gateway, by the HTTPRoute of a replica, as Envoy Gateway names it:
                                   requests, errors and duration. Envoy does not measure TTFT

A target is whatever serves them: a router, an Envoy, or the /federate of a Prometheus. Counters only grow, except when
their process restarts, so the increase of each series between two scrapes is what happened in between.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from math import inf, isfinite
from typing import NamedTuple

from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

_ROUTER = "modelplane_router_endpoint_"
_ENVOY = "envoy_cluster_upstream_rq_"
_PREFIXES = (_ROUTER, _ENVOY)
_SERVER_ERRORS = "5"
_ROUTE = "httproute/"
_ROUTE_PARTS = 5
"""httproute, namespace, name, rule, number."""
_MS = 1000.0


class Figure(StrEnum):
    REQUESTS = "Requests"
    ERRORS = "Errors"
    TTFT = "TTFT"
    LATENCY = "Latency"


class TrafficSource(StrEnum):
    ROUTER = "Router"
    ENVOY = "Envoy"


class Meter(NamedTuple):
    """Who measured whom: a ModelEndpoint by a router, or a replica's route by an Envoy."""

    source: TrafficSource
    namespace: str
    name: str


class TrafficSeries(NamedTuple):
    meter: Meter
    figure: Figure
    most_ms: float
    """The upper bound of a histogram's bucket; 0 of a counter."""
    labels: frozenset[tuple[str, str]]
    """What distinguishes it from the same series of another process."""


class MetricsUnreadable(Exception):  # noqa: N818  an outcome: the requests are not measured
    """A target does not answer, or its text is no metrics."""


_ROUTER_FIGURES: Mapping[str, tuple[Figure, float]] = {
    f"{_ROUTER}requests_total": (Figure.REQUESTS, 0.0),
    f"{_ROUTER}errors_total": (Figure.ERRORS, 0.0),
    f"{_ROUTER}ttft_seconds_bucket": (Figure.TTFT, _MS),
    f"{_ROUTER}duration_seconds_bucket": (Figure.LATENCY, _MS),
}
_ENVOY_FIGURES: Mapping[str, tuple[Figure, float]] = {
    f"{_ENVOY}completed": (Figure.REQUESTS, 0.0),
    f"{_ENVOY}completed_total": (Figure.REQUESTS, 0.0),
    f"{_ENVOY}xx": (Figure.ERRORS, 0.0),
    f"{_ENVOY}xx_total": (Figure.ERRORS, 0.0),
    f"{_ENVOY}time_bucket": (Figure.LATENCY, 1.0),
}


def read_metrics(text: str) -> dict[TrafficSeries, float]:
    """The series that say something of replicas. Other lines are not even parsed: an Envoy has very many."""
    ours = "\n".join(line for line in text.splitlines() if line.startswith(_PREFIXES))
    try:
        samples = [each for family in text_string_to_metric_families(ours + "\n") for each in family.samples]
    except (ValueError, KeyError, IndexError) as broken:
        raise MetricsUnreadable(f"these are no metrics: {broken}") from broken
    found = ((series, float(sample.value)) for sample in samples if (series := _series(sample)) is not None)
    return {series: value for series, value in found if isfinite(value)}


def _series(sample: Sample) -> TrafficSeries | None:
    labels = dict(sample.labels)
    known = _ROUTER_FIGURES.get(sample.name) or _ENVOY_FIGURES.get(sample.name)
    meter = _router(labels) if sample.name in _ROUTER_FIGURES else _envoy(labels)
    if known is None or meter is None:
        return None
    figure, unit = known
    if sample.name.startswith(f"{_ENVOY}xx") and labels.get("envoy_response_code_class") != _SERVER_ERRORS:
        return None
    most = _bound(labels.pop("le", "")) * unit if unit else 0.0
    return TrafficSeries(meter, figure, most, frozenset(labels.items()))


def _bound(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return inf


def _router(labels: Mapping[str, str]) -> Meter | None:
    namespace, _, name = labels.get("endpoint", "").partition("/")
    return Meter(TrafficSource.ROUTER, namespace, name) if namespace and name else None


def _envoy(labels: Mapping[str, str]) -> Meter | None:
    parts = labels.get("envoy_cluster_name", "").split("/")
    if len(parts) != _ROUTE_PARTS or not labels["envoy_cluster_name"].startswith(_ROUTE):
        return None
    return Meter(TrafficSource.ENVOY, parts[1], parts[2])


class TargetCounters:
    """The counters of one target, scrape by scrape."""

    def __init__(self) -> None:
        self._before: Mapping[TrafficSeries, float] | None = None

    def increases(self, found: Mapping[TrafficSeries, float]) -> dict[TrafficSeries, float]:
        """Since the scrape before. The first one only says from where to count."""
        before, self._before = self._before, found
        if before is None:
            return {}
        return {series: _increase(before.get(series, 0.0), value) for series, value in found.items()}


def _increase(before: float, now: float) -> float:
    return now - before if now >= before else now


class Increase(NamedTuple):
    """What happened at one meter between two scrapes."""

    requests: float
    errors: float
    ttft: Mapping[float, float]
    """How many took at most so many milliseconds, by that bound."""
    latency: Mapping[float, float]


def by_meter(increases: Iterable[tuple[TrafficSeries, float]]) -> dict[Meter, Increase]:
    """The series of all targets and processes together."""
    found: defaultdict[Meter, defaultdict[tuple[Figure, float], float]] = defaultdict(lambda: defaultdict(float))
    for series, amount in increases:
        found[series.meter][series.figure, series.most_ms] += amount
    return {meter: _of(amounts) for meter, amounts in found.items()}


def _of(amounts: Mapping[tuple[Figure, float], float]) -> Increase:
    return Increase(
        amounts.get((Figure.REQUESTS, 0.0), 0.0),
        amounts.get((Figure.ERRORS, 0.0), 0.0),
        dict(_buckets(amounts, Figure.TTFT)),
        dict(_buckets(amounts, Figure.LATENCY)),
    )


def _buckets(amounts: Mapping[tuple[Figure, float], float], figure: Figure) -> Iterator[tuple[float, float]]:
    return ((most, amount) for (kind, most), amount in amounts.items() if kind is figure)


def total(parts: Iterable[Increase]) -> Increase:
    """Of a window."""
    requests = errors = 0.0
    ttft: defaultdict[float, float] = defaultdict(float)
    latency: defaultdict[float, float] = defaultdict(float)
    for part in parts:
        requests += part.requests
        errors += part.errors
        for whole, piece in ((ttft, part.ttft), (latency, part.latency)):
            for most, amount in piece.items():
                whole[most] += amount
    return Increase(requests, errors, ttft, latency)


def quantile(share: float, buckets: Mapping[float, float]) -> float | None:
    """The value that this share does not exceed, as Prometheus' histogram_quantile: a line inside the bucket.

    Beyond the largest bound it is that bound. None where nothing was counted.
    """
    bounds = sorted(buckets)
    whole = buckets[bounds[-1]] if bounds else 0.0
    if whole <= 0.0:
        return None
    rank, lower, below = share * whole, 0.0, 0.0
    for bound in bounds:
        if buckets[bound] >= rank:
            inside = buckets[bound] - below
            return lower if bound == inf or not inside else lower + (bound - lower) * (rank - below) / inside
        lower, below = bound, buckets[bound]
    return lower
