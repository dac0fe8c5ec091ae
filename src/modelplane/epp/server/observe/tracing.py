"""Spans of OpenTelemetry for some requests, under the names that the ecosystem's picker uses.

A request with a traced caller is traced if its caller is sampled; others are sampled by share. Spans are created when
the request has ended, from times that are taken anyway, so an untraced request costs one header lookup. Steps inside a
profile are not timed: their spans have the profile's times, and `modelplane.timing` marks them.

Needs the extra `otel`. The SDK's environment variables configure export and batching.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from statistics import fmean
from typing import TYPE_CHECKING

from modelplane.api.errors import InputError
from modelplane.epp.scheduling.decisions import Decision
from modelplane.epp.scheduling.outcomes import Outcome
from modelplane.epp.scheduling.requests import Request
from modelplane.epp.scheduling.responses import EndpointResponse
from modelplane.epp.server.observe.decision_steps import DecisionSteps, ProfileSteps

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.trace import Span, Tracer

_SHOWN = 5
_SAMPLED = 1
_PARENT = "traceparent"
_PARENT_PARTS = 4
_ERROR_FROM = 500

Value = str | int | float | Sequence[str] | Sequence[float]
Attributes = Mapping[str, Value]


class RequestTrace:
    """The state of a traced request from its decision to its end."""

    __slots__ = ("decided_s", "spent_s", "steps")

    def __init__(self, steps: DecisionSteps, decided_s: float, spent_s: float) -> None:
        self.steps = steps
        self.decided_s = decided_s
        self.spent_s = spent_s


class Tracing:
    """`clock` is the clock of requests' times; `provider` is the SDK's, from `otlp_provider` or a test."""

    def __init__(
        self, provider: "TracerProvider", *, share: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        if not 0 <= share <= 1:
            raise ValueError(f"the share of requests to trace must be in [0, 1], not {share}")
        self._provider = provider
        self._tracer: Tracer = provider.get_tracer("modelplane.epp.scheduling")
        self._share = share
        self._clock = clock

    def wants(self, request: Request, chance: float) -> bool:
        """Whether a request is traced; `chance` is in [0, 1)."""
        parent = request.headers.get(_PARENT)
        if parent is not None:
            parts = parent.split("-")
            if len(parts) >= _PARENT_PARTS and parts[3][:2].isalnum():
                return is_sampled(parent)
        return chance < self._share

    def ended(
        self, request: Request, decision: Decision, trace: RequestTrace, served: EndpointResponse | None = None
    ) -> None:
        """Make the spans of a traced request: at its end, or at its decision where nothing was picked."""
        offset_s = time.time() - self._clock()
        end_s = served.ended_s if served is not None and served.ended_s >= 0 else trace.decided_s
        began_s = request.received_s or trace.decided_s - trace.spent_s
        whole = _Maker(self._tracer, offset_s, _parent_of(request))
        root = whole.span("gateway.request", (began_s, end_s), _request_attributes(request, decision, served))
        inner = whole.under(root)
        orchestration = inner.span(
            "gateway.request_orchestration",
            (began_s, trace.decided_s),
            {"target_model": request.model, "request_prio": request.priority},
        )
        deciding = inner.under(orchestration)
        times = (trace.decided_s - trace.spent_s, trace.decided_s)
        for name, steps in trace.steps.profiles.items():
            attributes = {"llm_d.epp.scheduling.profile.name": name}
            profile = deciding.span("run_scheduler_profile", times, attributes)
            _steps(deciding.under(profile), times, steps)

    def close(self) -> None:
        """Send what is left."""
        self._provider.shutdown()


def otlp_provider(service: str = "modelplane-picker", endpoint: str | None = None) -> "TracerProvider":
    """Exports spans by OTLP/HTTP to the endpoint, or as the SDK's environment variables say."""
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ModuleNotFoundError as missing:
        raise InputError("no OpenTelemetry is installed to send spans: install modelplane[otel]") from missing
    provider = TracerProvider(resource=Resource.create({"service.name": service}))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint=endpoint)))
    return provider


class _Maker:
    """Makes spans of given times under one parent."""

    def __init__(self, tracer: "Tracer", offset_s: float, context: "Context | None") -> None:
        self._tracer = tracer
        self._offset_s = offset_s
        self._context = context

    def span(self, name: str, times: tuple[float, float], attributes: Attributes) -> "Span":
        began_s, ended_s = times
        from opentelemetry.trace import SpanKind

        span = self._tracer.start_span(
            name,
            context=self._context,
            kind=SpanKind.SERVER if name.startswith("gateway.") else SpanKind.INTERNAL,
            start_time=self._ns(began_s),
            attributes=dict(attributes),
        )
        if name == "gateway.request" and attributes.get("http.response.status_code", 0) in range(_ERROR_FROM, 600):
            _mark_error(span)
        span.end(end_time=self._ns(max(began_s, ended_s)))
        return span

    def under(self, span: "Span") -> "_Maker":
        from opentelemetry.trace import set_span_in_context

        return _Maker(self._tracer, self._offset_s, set_span_in_context(span))

    def _ns(self, monotonic_s: float) -> int:
        return int((monotonic_s + self._offset_s) * 1e9)


def _steps(maker: _Maker, times: tuple[float, float], steps: ProfileSteps) -> None:
    timing: dict[str, Value] = {"modelplane.timing": "profile"}
    candidates = len(steps.scored) + sum(steps.refused.values())
    counts: dict[str, Value] = {
        "llm_d.epp.filter.candidate_endpoints": candidates,
        "llm_d.epp.filter.filtered_endpoints": len(steps.scored),
    }
    maker.span("filter_endpoints", times, counts | timing)
    scores = _scores_by_scorer(steps)
    counts = {"llm_d.epp.scorer.count": len(scores), "llm_d.epp.scoring.candidate_endpoints": len(steps.scored)}
    scoring = maker.under(maker.span("llm_d.epp.scoring", times, counts | timing))
    for name, values in scores.items():
        attributes: dict[str, Value] = {
            "llm_d.epp.scorer.name": name,
            "llm_d.epp.scorer.score.max": max(values),
            "llm_d.epp.scorer.score.avg": fmean(values),
            "llm_d.epp.scorer.endpoints_scored": len(values),
        }
        scoring.span(f"llm_d.epp.scorer.{name}", times, attributes | timing)
    best = steps.best(_SHOWN)
    picks: dict[str, Value] = {
        "llm_d.epp.picker.candidate_endpoints": len(steps.scored),
        "llm_d.epp.picker.top_endpoints": [endpoint.name for endpoint, _, _ in best],
        "llm_d.epp.picker.top_scores": [total for _, total, _ in best],
    }
    maker.span("pick_endpoints", times, picks | timing)


def _scores_by_scorer(steps: ProfileSteps) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {}
    for _, _, parts in steps.scored:
        for name, score in parts:
            found.setdefault(name, []).append(score)
    return found


def _request_attributes(request: Request, decision: Decision, served: EndpointResponse | None) -> Attributes:
    attributes: dict[str, Value] = {
        "gen_ai.request.id": request.id,
        "gen_ai.request.model": request.model,
        "modelplane.outcome": decision.outcome.title,
    }
    if decision.outcome is Outcome.PICKED:
        attributes["modelplane.endpoint"] = (served.endpoint if served is not None else decision.picked).name
    status = served.status if served is not None else decision.outcome.status
    if status:
        attributes["http.response.status_code"] = status
    if served is not None and served.usage.output_tokens >= 0:
        attributes["gen_ai.usage.output_tokens"] = served.usage.output_tokens
    return attributes


def _parent_of(request: Request) -> "Context | None":
    if _PARENT not in request.headers:
        return None
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    return TraceContextTextMapPropagator().extract(request.headers)


def is_sampled(parent: str) -> bool:
    """Whether the caller with this `traceparent` is traced."""
    parts = parent.split("-")
    try:
        return len(parts) >= _PARENT_PARTS and bool(int(parts[3][:2], 16) & _SAMPLED)
    except ValueError:
        return False


def _mark_error(span: "Span") -> None:
    from opentelemetry.trace import StatusCode

    span.set_status(StatusCode.ERROR)
