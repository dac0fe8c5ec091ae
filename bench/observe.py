"""What it costs to count a request: decided and ended, with every number that operators chart.

The baseline is the usual way: the metrics of prometheus_client with their labels, as many of them.
"""

import time
from collections.abc import Callable
from statistics import median

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from modelplane.epp.scheduling.decisions import Decision
from modelplane.epp.scheduling.endpoints import Endpoint
from modelplane.epp.scheduling.outcomes import Outcome
from modelplane.epp.scheduling.requests import Request
from modelplane.epp.scheduling.response_usage import ResponseUsage
from modelplane.epp.scheduling.responses import EndpointResponse
from modelplane.epp.server.observe import PickerCollector, PickerMetrics, PickObserver, PoolStats

_REQUESTS = 20_000
_LABELS = ("model_name", "target_model_name", "fairness_id", "priority")


def rows() -> list[dict[str, object]]:
    usual_us = _request_us(_usual())
    counted_us = _request_us(_observed(PickObserver()))
    collect_ms, usual_ms = _collect_ms()
    return [
        _row("observe.request", counted_us, "us/request", 5.0, usual_us),
        _row("observe.collect", collect_ms, "ms", 25.0, usual_ms),
    ]


def _observed(observer: PickObserver) -> Callable[[], None]:
    endpoint = Endpoint("default/pod-0", "10.0.0.1:8000")
    request = Request("id", "model", size=1000, streaming=True, received_s=1.0, fairness_id="tenant")
    decision = Decision(Outcome.PICKED, ((endpoint,),))
    served = EndpointResponse(endpoint, 200, 1.0, 1.2, 2.0, ResponseUsage(100, 50, 20))

    def count() -> None:
        steps = observer.record_steps(request, 0.5)
        observer.decided(request, decision, 0.00003, steps)
        observer.ended(request, decision, served)

    return count


def _usual() -> Callable[[], None]:
    registry = CollectorRegistry()
    requests, running = Counter("a", "a", _LABELS, registry=registry), Gauge("b", "b", _LABELS, registry=registry)
    attempts = Counter("c", "c", ("status", "model", "endpoint", "namespace", "port"), registry=registry)
    deciding = Histogram("d", "d", registry=registry)
    spreads = [Histogram(f"e{at}", "e", _LABELS, registry=registry) for at in range(8)]
    labels = ("model", "model", "tenant", "0")

    def count() -> None:
        requests.labels(*labels).inc()
        running.labels(*labels).inc()
        attempts.labels("success", "model", "pod-0", "default", "8000").inc()
        deciding.observe(0.00003)
        for spread in spreads:
            spread.labels(*labels).observe(0.5)
        running.labels(*labels).dec()

    return count


def _request_us(count: Callable[[], None]) -> float:
    """CPU time a request: the median of several passes."""
    passes = []
    for _ in range(5):
        started = time.process_time()
        for _ in range(_REQUESTS):
            count()
        passes.append((time.process_time() - started) / _REQUESTS * 1e6)
    return round(median(passes), 2)


def _collect_ms() -> tuple[float, float]:
    """A page for Prometheus with a hundred sets of labels and a hundred endpoints."""
    numbers = PickerMetrics()
    endpoints = tuple(Endpoint(f"default/pod-{at}", f"10.0.0.{at}:8000") for at in range(100))
    for at, endpoint in enumerate(endpoints):
        request = Request("id", f"model-{at % 10}", fairness_id=f"tenant-{at // 10}")
        numbers.decided(request, Decision(Outcome.PICKED, ((endpoint,),)), 0.00003)
        numbers.ended(request, EndpointResponse(endpoint, 200, 1.0, 1.2, 2.0, ResponseUsage(100, 50, 20)))
    collector = PickerCollector(numbers, lambda: PoolStats("pool", endpoints))
    registry = CollectorRegistry()
    registry.register(collector)
    return _median_ms(collector.text), _median_ms(lambda: generate_latest(registry))


def _median_ms(make: Callable[[], bytes]) -> float:
    passes = []
    for _ in range(5):
        started = time.process_time()
        make()
        passes.append((time.process_time() - started) * 1e3)
    return round(median(passes), 2)


def _row(name: str, value: float, unit: str, limit: float, baseline: float) -> dict[str, object]:
    return {"id": name, "value": value, "unit": unit, "limit": limit, "ok": value <= limit, "baseline": baseline}
