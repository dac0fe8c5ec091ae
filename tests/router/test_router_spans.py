"""Spans of the router, as the SDK has them; tests/plane/test_plane_traces.py has the whole way."""

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from modelplane.epp.scheduling.requests import InferenceApi
from modelplane.epp.server.observe.request_spans import RequestSpan, RequestSpans
from modelplane.router.front_values import FrontRequest, RouterAnswer
from modelplane.router.refusals import FrontOutcome, FrontRefusal
from modelplane.router.spans import RouterSpans, router_spans

TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


@pytest.fixture
def exported():
    provider, memory = TracerProvider(), InMemorySpanExporter()
    provider.add_span_processor(SimpleSpanProcessor(memory))
    yield RequestSpans(provider, clock=lambda: 12.5), memory
    provider.shutdown()


def parent(flags):
    return {"traceparent": f"00-{TRACE}-{PARENT}-{flags}"}


@pytest.mark.parametrize("headers", [{}, parent("00"), parent("zz"), {"traceparent": "x"}, {"traceparent": ""}])
def test_a_request_whose_caller_is_not_traced_has_no_span(exported, headers):
    spans, memory = exported
    spans.record(headers, RequestSpan("x", 12.0, {}, 200))
    assert memory.get_finished_spans() == ()


def test_a_span_hangs_from_its_caller_and_has_its_times(exported):
    spans, memory = exported
    spans.record(parent("01"), RequestSpan("router.request", 12.0, {"modelplane.service": "a/b"}, 200))
    (span,) = memory.get_finished_spans()
    assert (f"{span.context.trace_id:032x}", f"{span.parent.span_id:016x}") == (TRACE, PARENT)
    assert span.end_time - span.start_time == pytest.approx(0.5e9, rel=1e-3)
    assert dict(span.attributes) == {"modelplane.service": "a/b", "http.response.status_code": 200}
    assert span.status.is_unset


@pytest.mark.parametrize("status", [0, 500, 503])
def test_no_response_and_errors_of_servers_are_errors(exported, status):
    spans, memory = exported
    spans.record(parent("01"), RequestSpan("x", 12.0, {}, status))
    (span,) = memory.get_finished_spans()
    assert not span.status.is_ok
    assert not span.status.is_unset


def test_a_refusal_of_the_router_is_a_span_with_its_outcome(exported):
    spans, memory = exported
    refusal = FrontRefusal(FrontOutcome.UNKNOWN_PATH, "nothing is served there")
    RouterSpans(spans).answered(FrontRequest(parent("01")), RouterAnswer(InferenceApi.OTHER, refusal), 12.0)
    (span,) = memory.get_finished_spans()
    assert span.attributes["modelplane.outcome"] == FrontOutcome.UNKNOWN_PATH.title
    assert span.attributes["http.response.status_code"] == FrontOutcome.UNKNOWN_PATH.status


def test_without_an_endpoint_there_are_no_spans():
    assert router_spans({}) is None
    assert router_spans({"OTEL_EXPORTER_OTLP_ENDPOINT": ""}) is None
