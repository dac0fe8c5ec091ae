"""One trace from the gateway over the router and the pick to the engine, at a real OTLP receiver."""

import asyncio
from pathlib import Path

import aiohttp
import pytest
import yaml
from aiohttp import web
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from modelplane.k8s.admission.documents import parse_documents
from modelplane.plane.plane import Plane, PlaneSettings

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "quickstart"
CHAT = {"model": "default/chat", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 4}
TRACE, CALLER = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


class Receiver:
    """An OTLP receiver over HTTP: spans by trace, each with the name of its service."""

    def __init__(self):
        self.spans = {}
        self._runner = web.AppRunner(web.Application())
        self._runner.app.router.add_post("/v1/traces", self._receive)

    async def _receive(self, request):
        assert request.content_type == "application/x-protobuf"
        for resource in ExportTraceServiceRequest.FromString(await request.read()).resource_spans:
            names = [each.value.string_value for each in resource.resource.attributes if each.key == "service.name"]
            for scope in resource.scope_spans:
                for span in scope.spans:
                    self.spans.setdefault(span.trace_id.hex(), []).append((names[0], span))
        return web.Response()

    async def start(self):
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        return f"http://127.0.0.1:{self._runner.addresses[0][1]}"

    async def stop(self):
        await self._runner.cleanup()


def quickstart(url):
    """The quickstart with a picker on its clusters, and engines that send spans."""
    for path in sorted(EXAMPLES.glob("*.yaml")):
        for manifest in yaml.safe_load_all(path.read_text()):
            if manifest["kind"] == "InferenceCluster":
                manifest["spec"].setdefault("backend", {})["routing"] = "InferencePool"
            if manifest["kind"] == "ModelDeployment":
                container = manifest["spec"]["workers"]["template"]["spec"]["containers"][0]
                container["args"] += ["--otlp-traces-endpoint", f"{url}/v1/traces"]
            yield manifest


async def answered(session, plane, headers):
    async with asyncio.timeout(60):
        while True:
            try:
                url = f"{plane.gateway_url}/v1/chat/completions"
                async with session.post(url, json=CHAT, headers=headers) as response:
                    if response.status == 200:
                        return
            except aiohttp.ClientConnectionError:
                pass
            await asyncio.sleep(0.2)


async def whole(receiver, trace, services):
    async with asyncio.timeout(30):
        while not services <= {service for service, _ in receiver.spans.get(trace, ())}:  # noqa: ASYNC110
            await asyncio.sleep(0.1)
    return receiver.spans[trace]


async def story(folder, monkeypatch):
    receiver = Receiver()
    url = await receiver.start()
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", url)
    monkeypatch.setenv("OTEL_TRACES_SAMPLER_ARG", "0")
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "200")
    try:
        settings = PlaneSettings(data=folder, router=True, engine_speed=50)
        async with Plane(settings) as plane, aiohttp.ClientSession() as session:
            plane.apply(parse_documents(yaml.safe_dump_all(quickstart(url)).encode(), source="quickstart"))
            await answered(session, plane, {})
            await asyncio.sleep(1.0)
            assert receiver.spans == {}, "a request whose caller is not traced is not, either, with a share of 0"
            await answered(session, plane, {"traceparent": f"00-{TRACE}-{CALLER}-01"})
            services = {"modelplane-gateway", "modelplane-router", "modelplane-picker", "vllm"}
            return await whole(receiver, TRACE, services)
    finally:
        await receiver.stop()


@pytest.mark.slow
def test_one_trace_has_gateway_router_pick_and_engine(tmp_path, monkeypatch):
    spans = asyncio.run(story(tmp_path, monkeypatch))
    by_id = {span.span_id.hex(): (service, span) for service, span in spans}
    named = {}
    for service, span in spans:
        named.setdefault((service, span.name), []).append(span)
    parents = {}
    for service, span in spans:
        parent = by_id.get(span.parent_span_id.hex())
        parents.setdefault((service, span.name), set()).add(parent[0] if parent else span.parent_span_id.hex())
    # The first hop hangs from the caller, each later one from the hop before it.
    roots = [span for service, span in spans if span.parent_span_id.hex() == CALLER]
    assert len(roots) == 1
    assert by_id[roots[0].span_id.hex()][0] == "modelplane-gateway"
    assert parents["modelplane-router", "router.request"] == {"modelplane-gateway"}
    assert parents["modelplane-picker", "gateway.request"] == {"modelplane-gateway"}
    assert parents["vllm", "llm_request"] == {"modelplane-gateway"}
    assert all(span.parent_span_id.hex() in {*by_id, CALLER} for _, span in spans)
    (engine,), (router,) = named["vllm", "llm_request"], named["modelplane-router", "router.request"]
    # The engine's parent is nearer to it than the router's: it works inside the hop of its cluster.
    near = by_id[engine.parent_span_id.hex()][1]
    assert near.span_id != router.parent_span_id
    assert near.start_time_unix_nano <= engine.start_time_unix_nano <= engine.end_time_unix_nano
    attributes = {each.key: each.value for each in router.attributes}
    assert attributes["modelplane.service"].string_value == "default/chat"
    assert attributes["http.response.status_code"].int_value == 200
