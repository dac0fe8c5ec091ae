"""A genuine collector takes the rendered configuration, scrapes, maps and sends.

`otelcol` on the path, or MODELPLANE_OTELCOL, with the components of the rendered image's release.
"""

import asyncio
import os
import shutil
import subprocess
from contextlib import asynccontextmanager, suppress

import pytest
import yaml
from aiohttp import web
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

from modelplane.envoy import free_port
from tests.compose.test_compose_telemetry import GIVEN, PROM, TRACES, compose, config, destination, gateway

OTELCOL = os.environ.get("MODELPLANE_OTELCOL") or shutil.which("otelcol")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.submission,
    pytest.mark.skipif(OTELCOL is None, reason="no OpenTelemetry Collector is on this machine"),
]
ENGINE = """\
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="m"} 2
vllm:num_requests_running{engine="1",model_name="m"} 3
# TYPE vllm:kv_cache_usage_perc gauge
vllm:kv_cache_usage_perc{engine="0",model_name="m"} 0.25
vllm:kv_cache_usage_perc{engine="1",model_name="m"} 0.75
# TYPE vllm:num_preemptions_total counter
vllm:num_preemptions_total{engine="0",model_name="m"} 4
# TYPE vllm:time_to_first_token_seconds histogram
vllm:time_to_first_token_seconds_bucket{engine="0",le="0.5"} 1
vllm:time_to_first_token_seconds_bucket{engine="0",le="+Inf"} 3
vllm:time_to_first_token_seconds_sum{engine="0"} 4.5
vllm:time_to_first_token_seconds_count{engine="0"} 3
# TYPE vllm:secret_of_the_house gauge
vllm:secret_of_the_house 1
# TYPE house_latency_ms histogram
house_latency_ms_bucket{code="0",le="100"} 1
house_latency_ms_bucket{code="0",le="1000"} 2
house_latency_ms_bucket{code="0",le="+Inf"} 2
house_latency_ms_sum{code="0"} 450
house_latency_ms_count{code="0"} 2
"""
GPU = """\
# TYPE DCGM_FI_DEV_FB_USED gauge
DCGM_FI_DEV_FB_USED{gpu="0",UUID="GPU-a",modelName="H200"} 1024
DCGM_FI_DEV_FB_USED{gpu="1",UUID="GPU-b",modelName="H200"} 2048
# TYPE DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION counter
DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION{gpu="0",UUID="GPU-a"} 5000
"""
POD = "__meta_kubernetes_pod"
TARGETS = {
    "modelplane-engines": (
        "/engine",
        {
            f"{POD}_labelpresent_modelplane_ai_serving": "true",
            f"{POD}_container_port_name": "http",
            f"{POD}_label_modelplane_ai_deployment": "chat",
            f"{POD}_label_modelplane_ai_replica": "chat-1",
            f"{POD}_label_modelplane_ai_engine": "main",
            f"{POD}_label_modelplane_ai_role": "standalone",
            "__meta_kubernetes_namespace_label_modelplane_ai_tenant": "team",
        },
    ),
    "modelplane-gpu": (
        "/gpu",
        {
            f"{POD}_label_app": "nvidia-dcgm-exporter",
            f"{POD}_container_port_name": "metrics",
            f"{POD}_node_name": "n1",
        },
    ),
}
WHERE = {
    "cluster": "east",
    "namespace": "team",
    "deployment": "chat",
    "replica": "chat-1",
    "engine": "main",
    "role": "standalone",
}


def validated(folder, made):
    file = folder / "collector.yaml"
    file.write_text(yaml.safe_dump(made))
    return subprocess.run([OTELCOL, "validate", f"--config={file}"], capture_output=True, text=True, check=False)


def test_the_reviewed_configuration_is_valid(tmp_path):
    found = validated(tmp_path, config(compose()))
    assert found.returncode == 0, found.stderr


def test_one_that_is_not_valid_is_refused(tmp_path):
    wrong = {**TRACES, "config": {"timeout": "soon"}}
    made = config(compose({**GIVEN, "telemetry-destinations": (destination("ops", wrong),)}))
    assert validated(tmp_path, made).returncode != 0


@pytest.mark.parametrize("kind", ["otlp_http", "otlp_grpc", "otlphttp", "otlp", "prometheus_remote_write", "debug"])
def test_the_types_that_are_named_are_those_of_the_collector(tmp_path, kind):
    sink = {"name": "x", "type": kind, "endpoint": "https://sink.example.org:4317"}
    sink = sink if kind != "debug" else {"name": "x", "type": kind}
    found = validated(tmp_path, config(compose({**GIVEN, "telemetry-destinations": (destination("ops", sink),)})))
    assert found.returncode == 0, found.stderr


class Peers:
    """An engine, a GPU exporter and a receiver of metrics, on one port."""

    def __init__(self):
        self.points, self.tokens, self.url = {}, set(), ""

    async def receive(self, request):
        self.tokens.add(request.headers.get("Authorization", ""))
        for resource in ExportMetricsServiceRequest.FromString(await request.read()).resource_metrics:
            for scope in resource.scope_metrics:
                for metric in scope.metrics:
                    kind = metric.WhichOneof("data")
                    self.points[metric.name] = list(getattr(metric, kind).data_points)
        return web.Response()

    @asynccontextmanager
    async def serving(self):
        app = web.Application()
        app.router.add_post("/v1/metrics", self.receive)
        app.router.add_get("/{name}", page)
        runner = web.AppRunner(app)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        self.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        try:
            yield self
        finally:
            await runner.cleanup()


async def page(request):
    text = {"engine": ENGINE, "gpu": GPU}[request.match_info["name"]]
    return web.Response(text=text, headers={"Content-Type": "text/plain; version=0.0.4"})


def with_targets(made, url, token):
    """The same on one machine: found targets instead of those of Kubernetes, a file for the token, and free ports."""
    jobs = []
    for job in made["receivers"]["prometheus"]["config"]["scrape_configs"]:
        if job["job_name"] in TARGETS:
            path, labels = TARGETS[job["job_name"]]
            found = {"targets": [url.removeprefix("http://")], "labels": {**labels, f"{POD}_phase": "Running"}}
            static = {"static_configs": [found], "metrics_path": path, "scrape_interval": "1s", "scrape_timeout": "1s"}
            jobs.append({key: value for key, value in job.items() if key != "kubernetes_sd_configs"} | static)
    made["receivers"]["prometheus"]["config"]["scrape_configs"] = jobs
    made["extensions"]["health_check"]["endpoint"] = f"127.0.0.1:{free_port('127.0.0.1')}"
    made["extensions"]["bearertokenauth/sink-prom"]["filename"] = str(token)
    for protocol in made["receivers"].get("otlp", {"protocols": {}})["protocols"].values():
        protocol["endpoint"] = f"127.0.0.1:{free_port('127.0.0.1')}"
    return made


async def collected(folder):
    async with Peers().serving() as peers:
        sink = {**PROM, "type": "otlp_http", "endpoint": peers.url}
        given = {**GIVEN, "telemetry-destinations": (destination("ops", sink),)}
        given["telemetry-gateway"] = (gateway("127.0.0.0/8"),)
        (folder / "token").write_text("s3cret")
        file = folder / "collector.yaml"
        file.write_text(yaml.safe_dump(with_targets(config(compose(given)), peers.url, folder / "token")))
        with (folder / "log").open("wb") as log:
            process = await asyncio.create_subprocess_exec(OTELCOL, f"--config={file}", stdout=log, stderr=log)
            try:
                wanted = {"modelplane_requests_running", "modelplane_energy_joules_total"}
                with suppress(TimeoutError):
                    async with asyncio.timeout(60):
                        while not wanted <= peers.points.keys():  # noqa: ASYNC110  the collector has no event for it
                            await asyncio.sleep(0.2)
            finally:
                process.terminate()
                await process.wait()
        assert wanted <= peers.points.keys(), (folder / "log").read_text()[-3000:]
        return peers


def labels(point):
    return {each.key: each.value.string_value for each in point.attributes}


def test_metrics_have_the_names_units_and_labels_of_the_fleet(tmp_path):
    peers = asyncio.run(collected(tmp_path))
    assert {name for name in peers.points if not name.startswith("modelplane_")} == set()
    assert peers.tokens == {"Bearer s3cret"}
    (running,) = peers.points["modelplane_requests_running"]
    assert (running.as_double, labels(running)) == (5, WHERE)
    assert [point.as_double for point in peers.points["modelplane_kv_cache_utilization_ratio"]] == [0.5]
    assert [point.as_double for point in peers.points["modelplane_requests_preempted_total"]] == [4]
    (first,) = peers.points["modelplane_request_ttft_seconds"]
    assert (list(first.explicit_bounds), list(first.bucket_counts), first.sum) == ([0.5], [1, 2], 4.5)
    (latency,) = peers.points["modelplane_request_duration_seconds"]
    assert (list(latency.explicit_bounds), latency.sum, labels(latency)) == ([0.1, 1.0], 0.45, WHERE)
    (requests,) = peers.points["modelplane_requests_total"]
    assert labels(requests) == {**WHERE, "engine_kind": "house", "status": "ok"}
    assert (requests.as_int or requests.as_double) == 2
    used = {labels(point)["gpu"]: point.as_double for point in peers.points["modelplane_gpu_memory_used_bytes"]}
    assert used == {"0": 1024 * 2**20, "1": 2048 * 2**20}
    (energy,) = peers.points["modelplane_energy_joules_total"]
    assert (energy.as_double, labels(energy)) == (5, {"cluster": "east", "node": "n1", "gpu": "0"})
