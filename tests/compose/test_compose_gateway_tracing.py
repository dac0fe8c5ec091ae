"""Gateways that make spans: each object by the real definitions, and nothing where nobody asks for it."""

from modelplane.api.codec import decode
from modelplane.api.models import InferenceCluster, InferenceGateway
from modelplane.compose import inference_cluster, inference_gateway
from modelplane.compose.contract import ComposeRequest, Observed
from modelplane.compose.gateway_tracing import picker_tracing
from tests.compose.conftest import make_cluster, make_scene

PROVIDER = {"type": "OpenTelemetry", "host": "otel.example", "port": 4317}
REFERENCE = {"group": "gateway.envoyproxy.io", "kind": "EnvoyProxy", "name": "modelplane"}


def gateway(observed=None, **spec):
    item = {"metadata": {"name": "default", "uid": "u"}, "spec": spec}
    given = {"services": (), "endpoints": ()}
    return inference_gateway.compose(ComposeRequest(decode(InferenceGateway, item), observed or {}, given))


def cluster(observed=None, **spec):
    item = make_cluster("pool")
    item = {**item, "spec": {**item["spec"], **spec}}
    return item, inference_cluster.compose(ComposeRequest(decode(InferenceCluster, item), observed or {}))


def test_a_fleet_gateway_and_its_router_send_spans(problems):
    desired = gateway(tracing={"host": "otel.example", "samplePercent": 5}, router={"image": "r:1"}).desired
    made = desired["tracing"].target.manifest
    assert made["spec"] == {"telemetry": {"tracing": {"samplingRate": 5, "provider": PROVIDER}}}
    again = gateway({"tracing": Observed(desired["tracing"].target, ready=True)}, tracing={"host": "otel.example"})
    assert [found["tracing"].ready for found in (desired, again.desired)] == [False, True]
    assert desired["gateway"].target.manifest["spec"]["infrastructure"] == {"parametersRef": REFERENCE}
    (container,) = desired["router"].target.manifest["spec"]["template"]["spec"]["containers"]
    assert container["env"] == [{"name": "OTEL_EXPORTER_OTLP_ENDPOINT", "value": "http://otel.example:4318"}]
    assert [found for item in desired.values() for found in problems(item.target.manifest)] == []


def test_the_gateway_of_a_cluster_sends_to_its_collector(problems):
    item, result = cluster(gateway={"tracing": {}})
    made = result.desired["tracing"].target.manifest
    provider = {"type": "OpenTelemetry", "host": "modelplane-collector.modelplane-system.svc", "port": 4317}
    assert made["spec"]["telemetry"]["tracing"] == {"samplingRate": 1, "provider": provider}
    seen = {"tracing": Observed(result.desired["tracing"].target, ready=True)}
    _, again = cluster(seen, gateway={"tracing": {}})
    assert [found.desired["tracing"].ready for found in (result, again)] == [False, True]
    reference = {"parametersRef": {**REFERENCE, "name": "inference-gateway"}}
    assert result.desired["gateway"].target.manifest["spec"]["infrastructure"] == reference
    assert [found for each in result.desired.values() for found in problems(each.target.manifest)] == []
    arguments, container = picker_tracing(decode(InferenceCluster, item))
    assert arguments == ["--tracing-share=0"]
    endpoint = "http://modelplane-collector.modelplane-system.svc:4318"
    assert container == {"env": [{"name": "OTEL_EXPORTER_OTLP_ENDPOINT", "value": endpoint}]}


def test_without_tracing_nothing_differs():
    assert "tracing" not in gateway().desired
    assert "infrastructure" not in gateway().desired["gateway"].target.manifest["spec"]
    _, result = cluster()
    assert "tracing" not in result.desired
    scene = make_scene("single-gpu", "pool")
    (container,) = scene.compose().desired["picker"].target.manifest["spec"]["template"]["spec"]["containers"]
    assert "env" not in container
