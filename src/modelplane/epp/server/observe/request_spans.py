"""One span for each request that its caller traces: what the fleet router and simulated engines record.

The caller decides: a request without a sampled `traceparent` has no span. The SDK's environment variables say where
spans go, and without an endpoint among them nothing is recorded. Needs the extra `otel`.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from modelplane.epp.server.observe.tracing import is_sampled, otlp_provider

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider

ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
"""Variables that say where spans go, the first before the second."""
_PARENT = "traceparent"
_ERROR_FROM = 500


@dataclass(frozen=True, slots=True)
class RequestSpan:
    name: str
    began_s: float
    """On the clock of `RequestSpans`."""
    attributes: Mapping[str, str | int]
    status: int = 0
    """Of the response. 0: there was none."""


class RequestSpans:
    def __init__(self, provider: "TracerProvider", clock: Callable[[], float] = time.monotonic) -> None:
        self._provider = provider
        self._tracer = provider.get_tracer("modelplane")
        self._clock = clock

    def record(self, headers: Mapping[str, str], span: RequestSpan) -> None:
        """The span ends now."""
        parent = headers.get(_PARENT, "")
        if not is_sampled(parent):
            return
        from opentelemetry.trace import SpanKind, StatusCode
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        ended_s = time.time()
        began_s = ended_s - (self._clock() - span.began_s)
        attributes = {**span.attributes, **({"http.response.status_code": span.status} if span.status else {})}
        made = self._tracer.start_span(
            span.name,
            context=TraceContextTextMapPropagator().extract({_PARENT: parent}),
            kind=SpanKind.SERVER,
            start_time=int(began_s * 1e9),
            attributes=attributes,
        )
        if not span.status or span.status >= _ERROR_FROM:
            made.set_status(StatusCode.ERROR)
        made.end(end_time=int(ended_s * 1e9))

    def close(self) -> None:
        """Send what is left."""
        self._provider.shutdown()


def spans_of(service: str, environment: Mapping[str, str]) -> RequestSpans | None:
    """As the SDK's variables say; None where they name no endpoint."""
    named = any(environment.get(name) for name in ENDPOINTS)
    return RequestSpans(otlp_provider(service)) if named else None


@cache
def shared_spans(service: str, endpoint: str) -> RequestSpans:
    """One exporter for all that have the same endpoint."""
    return RequestSpans(otlp_provider(service, endpoint))
