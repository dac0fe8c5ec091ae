"""The tables of `modelplane top`, in every form."""

import json

import pytest
import yaml

from modelplane.api.timestamps import timestamp
from modelplane.cli._usage import token_rates
from modelplane.cli.top import load_text, measured
from modelplane.views.fleet_load import (
    ClassLoad,
    DeploymentLoad,
    DeviceLoad,
    FleetLoad,
    HourlyPrice,
    MeasuredTraffic,
    PoolLoad,
)
from modelplane.views.service_load import ServiceLoad, TokenRate

EAST = DeviceLoad(devices=16, used=4, others=1, free=10, missing=1)
PRICE = HourlyPrice(160.0, "USD")
FOUND = FleetLoad(
    classes=(ClassLoad(class_name="h200-8x", clusters=1, nodes=2, load=EAST, price=PRICE),),
    pools=(
        PoolLoad(
            cluster="east", pool="h200", class_name="h200-8x", nodes=2, load=EAST,
            replicas=2, ready_replicas=1, price=PRICE,
        ),
        PoolLoad(
            cluster="west", pool="mig", class_name="h200-mig", nodes=1, load=DeviceLoad(devices=8, used=None, lost=8),
            replicas=0, ready_replicas=0, price=None,
        ),
    ),
    deployments=(
        DeploymentLoad(
            namespace="team", name="chat", replicas=2, ready_replicas=1, devices=4, endpoints=3, price=PRICE,
            traffic=MeasuredTraffic(
                endpoints=2, requests_per_second=3.04, errors_per_second=0.1, ttft_p95_ms=95, latency_p95_ms=None
            ),
        ),
        DeploymentLoad(
            namespace="team", name="idle", replicas=1, ready_replicas=0, devices=0, endpoints=0,
            price=None, traffic=None,
        ),
    ),
)  # fmt: skip
SERVICES = (
    ServiceLoad(
        namespace="team", name="api", endpoints=2, ready_endpoints=1, devices=4, price=PRICE,
        traffic=FOUND.deployments[0].traffic, tokens=TokenRate(input_per_second=800.5, output_per_second=12.0),
    ),
    ServiceLoad(
        namespace="team", name="silent", endpoints=0, ready_endpoints=0, devices=0, price=None, traffic=None,
        tokens=None,
    ),
)  # fmt: skip
TEXT = """\
CLASS    CLUSTERS  NODES  DEVICES  USED  FREE  LOST  PRICE/H
h200-8x  1         2      16       4     10    0     160.00 USD

CLUSTER  POOL  CLASS     NODES  DEVICES  USED  FREE  LOST  READY  PRICE/H
east     h200  h200-8x   2      16       4     10    0     1/2    160.00 USD
west     mig   h200-mig  1      8        -     0     8     0/0    -

DEPLOYMENT  READY  DEVICES  REQ/S  TTFT P95  PRICE/H
team/chat   1/2    4        3.0    95ms      160.00 USD
team/idle   0/1    0        -      -         -

SERVICE      ENDPOINTS  DEVICES  REQ/S  TOKENS/S  TTFT P95  PRICE/H
team/api     1/2        4        3.0    812.5     95ms      160.00 USD
team/silent  0/0        0        -      -         -         -
"""
WIDE = """\
CLASS    CLUSTERS  NODES  DEVICES  USED  FREE  LOST  OTHERS  MISSING  PRICE/H
h200-8x  1         2      16       4     10    0     1       1        160.00 USD

CLUSTER  POOL  CLASS     NODES  DEVICES  USED  FREE  LOST  OTHERS  MISSING  READY  PRICE/H
east     h200  h200-8x   2      16       4     10    0     1       1        1/2    160.00 USD
west     mig   h200-mig  1      8        -     0     8     0       0        0/0    -

DEPLOYMENT  READY  DEVICES  REQ/S  TTFT P95  ERRORS/S  LATENCY P95  MEASURED  PRICE/H
team/chat   1/2    4        3.0    95ms      0.1       -            2/3       160.00 USD
team/idle   0/1    0        -      -         -         -            0/0       -

SERVICE      ENDPOINTS  DEVICES  REQ/S  TOKENS/S  TTFT P95  ERRORS/S  LATENCY P95  PRICE/H
team/api     1/2        4        3.0    812.5     95ms      0.1       -            160.00 USD
team/silent  0/0        0        -      -         -         -         -            -
"""


@pytest.mark.parametrize(("form", "expected"), [("text", TEXT), ("wide", WIDE)])
def test_the_tables(form, expected):
    assert load_text(FOUND, SERVICES, form) == expected


def test_data_is_the_same_in_json_and_yaml():
    found = json.loads(load_text(FOUND, SERVICES, "json"))
    assert found == yaml.safe_load(load_text(FOUND, SERVICES, "yaml"))
    assert found["services"][0]["tokens"] == {"inputPerSecond": 800.5, "outputPerSecond": 12.0}
    assert found["pools"][1] == {
        "cluster": "west",
        "pool": "mig",
        "className": "h200-mig",
        "nodes": 1,
        "load": {"devices": 8, "used": None, "others": 0, "free": 0, "missing": 0, "lost": 8},
        "replicas": 0,
        "readyReplicas": 0,
        "price": None,
    }


NOW = 1_800_000_000.0
ENDPOINT = {"metadata": {"name": "chat-a", "namespace": "team"}, "spec": {"replica": {"name": "chat-a"}}}


def logged(age_s, **fields):
    line = {
        "time": timestamp(NOW - age_s),
        "gateway": "cluster.east",
        "status": 200,
        "replica": "team/chat-a",
        **fields,
    }
    return json.dumps(line) + "\n"


def test_requests_of_the_last_minute_are_read_from_the_log_of_the_plane(tmp_path):
    assert measured([ENDPOINT], None, NOW) == [ENDPOINT]
    assert measured([ENDPOINT], tmp_path, NOW) == [ENDPOINT]
    (tmp_path / "envoy").mkdir()
    lines = [logged(120), logged(30, first_byte_ms=40), logged(10, status=503), logged(5, gateway="fleet"), "half a li"]
    (tmp_path / "envoy" / "access.log").write_text("".join(lines))
    (found,) = measured([ENDPOINT], tmp_path, NOW)
    traffic = found["status"]["traffic"]
    assert (traffic["requests"], traffic["errors"], traffic["ttftP95Milliseconds"]) == (2, 1, 40)
    (idle,) = measured([{**ENDPOINT, "spec": {"replica": {"name": "chat-b"}}}], tmp_path, NOW)
    assert idle["status"]["traffic"]["requests"] == 0


def used(age_s, service="team/api", **tokens):
    record = {"time": timestamp(NOW - age_s), "requestId": "r", "caller": "c", "service": service, "endpoint": "team/a",
              "status": 200, "durationMs": 5.0, **tokens}  # fmt: skip
    return json.dumps(record) + "\n"


def test_tokens_of_the_last_minute_are_read_from_usage_records(tmp_path):
    file = tmp_path / "default.jsonl"
    file.write_text(
        used(90, inputTokens=6000) + used(30, inputTokens=600, outputTokens=60)
        + used(1, inputTokens=-1, outputTokens=60) + used(1, service="team/other") + "{half"
    )  # fmt: skip
    assert token_rates([file], NOW, 60.0) == {
        "team/api": TokenRate(input_per_second=10.0, output_per_second=2.0),
        "team/other": TokenRate(input_per_second=0.0, output_per_second=0.0),
    }
