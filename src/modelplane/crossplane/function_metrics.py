"""Metrics of the function server's own work."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram


class FunctionMetrics:
    """Prometheus metrics of the server."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.calls = Counter(
            "modelplane_function_calls",
            "Calls by kind and outcome.",
            ["kind", "outcome"],
            registry=self.registry,
        )
        self.seconds = Histogram(
            "modelplane_function_seconds",
            "Seconds from the start of a composition to its response, without the wait for a thread.",
            ["kind"],
            buckets=(0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 1, 5, 20),
            registry=self.registry,
        )
        self.work = Histogram(
            "modelplane_function_work_seconds",
            "CPU seconds of a composition.",
            ["kind"],
            buckets=(0.0005, 0.001, 0.002, 0.003, 0.004, 0.005, 0.0075, 0.01, 0.02, 0.05, 0.1, 0.5),
            registry=self.registry,
        )
        self.bytes = Histogram(
            "modelplane_function_message_bytes",
            "Bytes of a message.",
            ["kind", "direction"],
            buckets=tuple(1024 * 4**power for power in range(7)),
            registry=self.registry,
        )
        self.waiting = Gauge(
            "modelplane_function_calls_in_hand", "Calls that are not answered yet.", registry=self.registry
        )
