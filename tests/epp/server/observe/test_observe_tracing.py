"""Spans, up to a real OTLP receiver."""

import asyncio

import pytest
from aiohttp import web
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from modelplane.epp.scheduling.decisions import Decision
from modelplane.epp.scheduling.endpoints import Endpoint
from modelplane.epp.scheduling.outcomes import Outcome
from modelplane.epp.scheduling.requests import Request
from modelplane.epp.scheduling.response_usage import ResponseUsage
from modelplane.epp.scheduling.responses import EndpointResponse
from modelplane.epp.server.observe import PickObserver, Tracing, otlp_provider
from modelplane.framework import Refusal, RefusalCode

ENDPOINTS = tuple(Endpoint(f"team/p-{at}", f"10.0.0.{at}:8000") for at in range(8))
PICKED = Decision(Outcome.PICKED, ((ENDPOINTS[3],),), "default")
TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


def request(flags=None, **fields):
    headers = {} if flags is None else {"traceparent": f"00-{TRACE}-{PARENT}-{flags}"}
    return Request("r-1", "m", headers=headers, received_s=100.0, **fields)


def decide(observer, asked, decision=PICKED, chance=0.5):
    steps = observer.record_steps(asked, chance)
    if steps is not None:
        steps.refused("default", ENDPOINTS[0], Refusal("by-role", RefusalCode.UNRESOLVABLE, "no"))
        for at, endpoint in enumerate(ENDPOINTS[1:], 1):
            steps.scored("default", endpoint, at / 10, (("queue", at / 10),))
        steps.picked("default", ENDPOINTS[3])
    observer.decided(asked, decision, 0.25, steps)
    return steps


def traced(share=1.0):
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    return exporter, PickObserver(tracing=Tracing(provider, share=share, clock=lambda: 101.0), clock=lambda: 101.0)


def test_the_spans_of_a_request():
    exporter, observer = traced()
    asked = request("01")
    decide(observer, asked)
    assert exporter.get_finished_spans() == ()
    observer.ended(asked, PICKED, EndpointResponse(ENDPOINTS[4], 200, 101.0, 101.5, 103.0, ResponseUsage(10, 5)))
    spans = {span.name: span for span in exporter.get_finished_spans()}
    assert list(spans) == [
        "gateway.request",
        "gateway.request_orchestration",
        "run_scheduler_profile",
        "filter_endpoints",
        "llm_d.epp.scoring",
        "llm_d.epp.scorer.queue",
        "pick_endpoints",
    ]
    parents = {name: span.parent.span_id for name, span in spans.items()}
    by_id = {span.context.span_id: name for name, span in spans.items()}
    assert parents["gateway.request"] == int(PARENT, 16)
    assert {span.context.trace_id for span in spans.values()} == {int(TRACE, 16)}
    assert [by_id[parents[name]] for name in list(spans)[1:]] == [
        "gateway.request",
        "gateway.request_orchestration",
        "run_scheduler_profile",
        "run_scheduler_profile",
        "llm_d.epp.scoring",
        "run_scheduler_profile",
    ]
    lasted = {name: round((span.end_time - span.start_time) / 1e9, 3) for name, span in spans.items()}
    assert (lasted["gateway.request"], lasted["gateway.request_orchestration"]) == (3.0, 1.0)
    assert lasted["run_scheduler_profile"] == 0.25
    assert dict(spans["gateway.request"].attributes) == {
        "gen_ai.request.id": "r-1",
        "gen_ai.request.model": "m",
        "modelplane.outcome": "Picked",
        "modelplane.endpoint": "team/p-4",
        "http.response.status_code": 200,
        "gen_ai.usage.output_tokens": 5,
    }
    assert dict(spans["filter_endpoints"].attributes) == {
        "llm_d.epp.filter.candidate_endpoints": 8,
        "llm_d.epp.filter.filtered_endpoints": 7,
        "modelplane.timing": "profile",
    }
    picks = spans["pick_endpoints"].attributes
    assert picks["llm_d.epp.picker.top_scores"] == (0.7, 0.6, 0.5, 0.4, 0.3)
    assert picks["llm_d.epp.picker.top_endpoints"][0] == "team/p-7"


def test_a_request_that_goes_nowhere_ends_at_its_decision():
    exporter, observer = traced()
    decide(observer, request(), Decision(Outcome.FAULT, why="a plugin"))
    root = exporter.get_finished_spans()[0]
    assert (root.name, root.status.is_ok, root.attributes["modelplane.outcome"]) == ("gateway.request", False, "Fault")


@pytest.mark.parametrize(
    ("flags", "share", "chance", "wanted"),
    [
        ("01", 0.0, 0.9, True),
        ("00", 1.0, 0.0, False),
        ("zz", 1.0, 0.0, False),
        (None, 0.5, 0.4, True),
        (None, 0.5, 0.5, False),
        (None, 0.0, 0.0, False),
    ],
)
def test_who_is_traced(flags, share, chance, wanted):
    _, observer = traced(share)
    assert (observer.record_steps(request(flags), chance) is not None) == wanted


def test_what_is_not_traced_leaves_nothing():
    exporter, observer = traced(0.0)
    asked = request()
    assert decide(observer, asked) is None
    observer.ended(asked, PICKED, EndpointResponse(ENDPOINTS[3], 200, 101.0))
    assert exporter.get_finished_spans() == ()


def test_over_otlp_to_a_real_receiver():
    received = []

    async def export(asked):
        assert asked.headers["Content-Type"] == "application/x-protobuf"
        received.append(ExportTraceServiceRequest.FromString(await asked.read()))
        return web.Response(body=b"")

    async def main():
        application = web.Application()
        application.router.add_post("/v1/traces", export)
        runner = web.AppRunner(application)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        provider = otlp_provider("picker-test", "http://{}:{}/v1/traces".format(*runner.addresses[0]))
        tracing = Tracing(provider, share=1.0)
        observer = PickObserver(tracing=tracing)
        asked = request("01")
        decide(observer, asked)
        observer.ended(asked, PICKED, EndpointResponse(ENDPOINTS[3], 200, 101.0, 101.5, 103.0))
        await asyncio.to_thread(tracing.close)
        await runner.cleanup()

    asyncio.run(main())
    (resource,) = [spans for message in received for spans in message.resource_spans]
    services = [each.value.string_value for each in resource.resource.attributes if each.key == "service.name"]
    names = [span.name for scope in resource.scope_spans for span in scope.spans]
    assert services == ["picker-test"]
    assert {"gateway.request", "pick_endpoints"} <= set(names)
    assert {span.trace_id.hex() for scope in resource.scope_spans for span in scope.spans} == {TRACE}


def test_a_share_is_a_share():
    with pytest.raises(ValueError, match="share"):
        traced(2.0)
