"""Every metric that a program of ours exposes, as its code says: the oracle of pages, dashboards and alerts."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families

from modelplane.crossplane.function_metrics import FunctionMetrics
from modelplane.crossplane.requeue import Requeuer
from modelplane.epp.server.observe.collector import PREFIX, PickerCollector, PoolStats, PrefixIndexStats
from modelplane.epp.server.observe.metrics import Histogram, PickerMetrics
from modelplane.epp.server.observe.worker_pages import restart_family, worker_families
from modelplane.plane.metrics import TOKENS
from modelplane.plane.request_counter import REQUESTS
from modelplane.reconcile.metrics_page import FLEET_PAGE_METRICS
from modelplane.router.endpoint_metrics import RouterEndpointMetrics
from modelplane.router.usage import UsageLog, UsageRecord
from modelplane.views.metric_families import MetricSpec

_PARTS = ("_bucket", "_count", "_sum")


class MetricRow(NamedTuple):
    name: str
    """As queries have it; of a histogram without its parts."""
    type: str
    labels: tuple[str, ...]
    meaning: str = ""
    """Empty where the page of metrics is the only one that says it."""


def fleet() -> list[MetricRow]:
    return list(_of_specs(FLEET_PAGE_METRICS))


def plane() -> list[MetricRow]:
    return list(_of_specs((REQUESTS, TOKENS)))


def function_server() -> list[MetricRow]:
    metrics = FunctionMetrics()
    Requeuer(None, lambda _composite: None, metrics.registry)  # type: ignore[arg-type]  # nothing is requeued
    return sorted(_of_registry(metrics.registry))


def router() -> list[MetricRow]:
    """Of a router that had one request."""
    usage, endpoints = UsageLog(), RouterEndpointMetrics()
    usage.add(UsageRecord("2026-01-01T00:00:00Z", "r", "ada", "team/chat", "team/e", 200, 1.0, 1, 1, 0, 1.0))
    lines = [*usage.lines(), *endpoints.lines(["team/e"])]
    return sorted(_of_text("\n".join(lines) + "\n"))


def picker() -> list[MetricRow]:
    empty = Histogram((1.0,))
    pool = PoolStats(name="pool", prefix=PrefixIndexStats(0, empty, empty))
    of_workers = [each for each in worker_families(0, 0) if each.name.startswith(PREFIX)]
    families = [*PickerCollector(PickerMetrics(), lambda: pool).families(), *of_workers, restart_family({})]
    return sorted(MetricRow(each.name, each.type.value, tuple(each.labels), each.help) for each in families)


def all_rows() -> list[MetricRow]:
    return [*fleet(), *plane(), *function_server(), *router(), *picker()]


def series_names(rows: Iterable[MetricRow]) -> set[str]:
    """Every name that a query may use."""
    return {name for row in rows for name in _series(row)}


def _series(row: MetricRow) -> Iterator[str]:
    yield from (f"{row.name}{part}" for part in _PARTS) if row.type == "histogram" else (row.name,)


def _of_specs(specs: Iterable[MetricSpec]) -> Iterator[MetricRow]:
    return (MetricRow(spec.shown_name, spec.type, spec.labels, spec.help) for spec in specs)


def _of_registry(registry: CollectorRegistry) -> Iterator[MetricRow]:
    for made in set(registry._names_to_collectors.values()):
        (family,) = made.describe()
        name = f"{family.name}_total" if family.type == "counter" else family.name
        yield MetricRow(name, family.type, tuple(made._labelnames), family.documentation)


def _of_text(text: str) -> Iterator[MetricRow]:
    for family in text_string_to_metric_families(text):
        labels = {name: None for sample in family.samples for name in sample.labels if name != "le"}
        name = f"{family.name}_total" if family.type == "counter" else family.name
        yield MetricRow(name, family.type, tuple(labels))
