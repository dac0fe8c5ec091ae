"""What Prometheus is shown: names, labels and buckets that dashboards rely on."""

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from modelplane.epp.scheduling.decisions import Decision
from modelplane.epp.scheduling.endpoints import Endpoint
from modelplane.epp.scheduling.metrics import EndpointMetrics
from modelplane.epp.scheduling.outcomes import Outcome
from modelplane.epp.scheduling.requests import Request
from modelplane.epp.scheduling.response_usage import ResponseUsage
from modelplane.epp.scheduling.responses import EndpointResponse
from modelplane.epp.server.observe import PickerCollector, PickerMetrics, PoolStats
from modelplane.epp.server.observe.collector import PrefixIndexStats
from modelplane.epp.server.observe.metrics import Histogram

ENDPOINTS = (
    Endpoint(
        "team/p:8000", "10.0.0.1:8000", metrics=EndpointMetrics(waiting=2, running=4, kv_cache_usage=0.5, scraped_s=1)
    ),
    Endpoint("team/q", "10.0.0.2:8000", metrics=EndpointMetrics(waiting=4, running=0, kv_cache_usage=0.1, scraped_s=1)),
    Endpoint("team/new", "10.0.0.3:8000"),
)


def one(value, *bounds):
    found = Histogram(bounds)
    found.add(value)
    return found


PREFIX = PrefixIndexStats(1234, one(0.75, 0.5, 1.0), one(4096.0, 1024.0))
QUEUES = {"": (0.1, 0.2), "1": (0.5, 0.25)}
POOL = PoolStats("pool", ENDPOINTS, 1, 7, 3, {"decode": 0.75}, ((1, 5, 500), (0, 2, 20)), QUEUES, PREFIX)


def samples(*, legacy=False, fill=True):
    numbers = PickerMetrics()
    if fill:
        request = Request("id", "m", size=100, received_s=1.0, fairness_id="t", priority=1, streaming=True)
        numbers.decided(request, Decision(Outcome.PICKED, ((ENDPOINTS[0],),)), 0.00015, "alias")
        numbers.ended(request, EndpointResponse(ENDPOINTS[0], 200, 1.0, 1.5, 2.0, ResponseUsage(10, 6, 2)), "alias")
        numbers.decided(Request("id", "m", fairness_id="u", priority=1), Decision(Outcome.SATURATED), 0.2, "alias")
        numbers.waited(request, "Dispatched", 0.3)
        numbers.rewrote("rule", "alias", "m")
    collector = PickerCollector(numbers, lambda: POOL, version="1.2", legacy=legacy)
    registry = CollectorRegistry()
    registry.register(collector)
    found = read(collector.text())
    assert found == read(generate_latest(registry))
    return found


def read(text):
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text.decode())
        for sample in family.samples
    }


def of(found, series, **labels):
    return found.get((series, tuple(sorted(labels.items()))))


FULL = {"model_name": "alias", "target_model_name": "m", "fairness_id": "t", "priority": "1"}
REFUSED = FULL | {"fairness_id": "u"}
PLACE = {"endpoint_name": "p", "namespace": "team", "port": "8000"}
WAIT = {"fairness_id": "t", "priority": "1", "outcome": "Dispatched", "inference_pool": "pool"}


@pytest.mark.parametrize(
    ("name", "labels", "value"),
    [
        ("request_total", FULL, 1),
        ("request_error_total", REFUSED | {"error_code": "ResourceExhausted"}, 1),
        ("request_running", FULL, 0),
        ("request_duration_seconds_sum", FULL, 1.0),
        ("request_duration_seconds_bucket", FULL | {"le": "0.8"}, 0),
        ("request_duration_seconds_bucket", FULL | {"le": "1"}, 1),
        ("request_duration_seconds_bucket", FULL | {"le": "3600"}, 1),
        ("request_size_bytes_bucket", FULL | {"le": "64"}, 0),
        ("request_size_bytes_bucket", FULL | {"le": "1073741824"}, 1),
        ("request_input_tokens_sum", FULL, 10),
        ("request_input_tokens_bucket", FULL | {"le": "1048576"}, 1),
        ("request_output_tokens_bucket", FULL | {"le": "8192"}, 1),
        ("request_cached_tokens_sum", FULL, 2),
        ("request_ttft_seconds_sum", FULL | {"streaming": "true"}, 0.5),
        ("request_streaming_tpot_seconds_sum", FULL, 0.1),
        ("request_ntpot_seconds_count", FULL, 1),
        ("scheduler_e2e_duration_seconds_bucket", {"le": "0.0001"}, 0),
        ("scheduler_e2e_duration_seconds_bucket", {"le": "0.0002"}, 1),
        ("scheduler_e2e_duration_seconds_count", {}, 2),
        ("scheduler_attempts_total", {"status": "success", "target_model_name": "m"} | PLACE, 1),
        (
            "scheduler_attempts_total",
            {"status": "failure", "target_model_name": "m", "endpoint_name": "", "namespace": "", "port": ""},
            1,
        ),
        ("average_queue_size", {"name": "pool"}, 3),
        ("std_dev_queue_size", {"name": "pool"}, 1),
        ("average_kv_cache_utilization", {"name": "pool"}, 0.3),
        ("average_running_requests", {"name": "pool"}, 2),
        ("ready_endpoints", {"name": "pool"}, 3),
        ("flow_control_requests_total", {"outcome": "Dispatched", "priority": "1", "inference_pool": "pool"}, 1),
        (
            "flow_control_request_queue_duration_seconds_sum",
            WAIT | {"model_name": "m", "target_model_name": "m"},
            0.3,
        ),
        ("flow_control_pool_saturation", {"inference_pool": "pool", "stage": "decode"}, 0.75),
        ("flow_control_stale_endpoints", {"detector": "utilization-detector"}, 1),
        ("flow_control_queue_size", {"priority": "1", "inference_pool": "pool"}, 5),
        ("flow_control_queue_bytes", {"priority": "0", "inference_pool": "pool"}, 20),
        (
            "model_rewrite_decisions_total",
            {"model_rewrite_name": "rule", "model_name": "alias", "target_model": "m"},
            1,
        ),
        ("datalayer_poll_errors_total", {"source_type": "metrics-data-source"}, 7),
        (
            "datalayer_extract_errors_total",
            {"source_type": "metrics-data-source", "extractor_type": "core-metrics-extractor"},
            3,
        ),
        ("flow_control_capacity_utilization_requests", {"priority": "1", "inference_pool": "pool"}, 0.5),
        ("flow_control_capacity_utilization_bytes", {"priority": "1", "inference_pool": "pool"}, 0.25),
        ("flow_control_global_capacity_utilization_requests", {"inference_pool": "pool"}, 0.1),
        ("flow_control_global_capacity_utilization_bytes", {"inference_pool": "pool"}, 0.2),
        ("prefix_indexer_size", {}, 1234),
        ("prefix_indexer_hit_ratio_sum", {}, 0.75),
        ("prefix_indexer_hit_ratio_bucket", {"le": "1"}, 1),
        ("prefix_indexer_hit_bytes_count", {}, 1),
        ("info", {"commit": "", "build_ref": "1.2"}, 1),
    ],
)
def test_series(name, labels, value):
    assert of(samples(), f"llm_d_epp_{name}", **labels) == pytest.approx(value)


MODELS = {"model_name": "alias", "target_model_name": "m"}


@pytest.mark.parametrize(
    ("name", "labels", "value"),
    [
        ("inference_objective_request_total", MODELS | {"priority": "1"}, 2),
        ("inference_objective_request_error_total", MODELS | {"error_code": "ResourceExhausted"}, 1),
        ("inference_objective_running_requests", {"model_name": "alias"}, 0),
        ("inference_objective_request_duration_seconds_count", MODELS, 1),
        ("inference_objective_request_sizes_count", MODELS, 2),
        ("inference_objective_input_tokens_sum", MODELS, 10),
        ("inference_objective_normalized_time_per_output_token_seconds_count", MODELS, 1),
        ("inference_pool_average_queue_size", {"name": "pool"}, 3),
        ("inference_pool_ready_pods", {"name": "pool"}, 3),
        ("inference_extension_scheduler_e2e_duration_seconds_count", {}, 2),
        (
            "inference_extension_scheduler_attempts_total",
            {"status": "success", "target_model_name": "m", "pod_name": "p", "namespace": "team", "port": "8000"},
            1,
        ),
    ],
)
def test_older_names_on_demand(name, labels, value):
    assert of(samples(legacy=True), name, **labels) == pytest.approx(value)
    assert of(samples(), name, **labels) is None


def test_a_picker_that_saw_nothing_shows_its_pool():
    found = samples(fill=False)
    assert of(found, "llm_d_epp_ready_endpoints", name="pool") == 3
    assert not [name for name, _ in found if name.startswith("inference_")]


def test_labels_that_clients_choose_are_escaped():
    numbers = PickerMetrics()
    model = 'a"b\\c\nd'
    numbers.decided(Request("id", model), Decision(Outcome.SATURATED), 0.1)
    found = read(PickerCollector(numbers, lambda: POOL).text())
    assert [dict(labels)["model_name"] for name, labels in found if name == "llm_d_epp_request_total"] == [model]
