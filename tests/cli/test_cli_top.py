"""The tables of `modelplane top`, in every form."""

import json

import pytest
import yaml

from modelplane.cli.top import load_text
from modelplane.views.fleet_load import (
    ClassLoad,
    DeploymentLoad,
    DeviceLoad,
    FleetLoad,
    HourlyPrice,
    MeasuredTraffic,
    PoolLoad,
)

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
TEXT = """\
CLASS    CLUSTERS  NODES  DEVICES  USED  FREE  LOST  PRICE/H
h200-8x  1         2      16       4     10    0     160.00 USD

CLUSTER  POOL  CLASS     NODES  DEVICES  USED  FREE  LOST  READY  PRICE/H
east     h200  h200-8x   2      16       4     10    0     1/2    160.00 USD
west     mig   h200-mig  1      8        -     0     8     0/0    -

DEPLOYMENT  READY  DEVICES  REQ/S  TTFT P95  PRICE/H
team/chat   1/2    4        3.0    95ms      160.00 USD
team/idle   0/1    0        -      -         -
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
"""


@pytest.mark.parametrize(("form", "expected"), [("text", TEXT), ("wide", WIDE)])
def test_the_tables(form, expected):
    assert load_text(FOUND, form) == expected


def test_data_is_the_same_in_json_and_yaml():
    found = json.loads(load_text(FOUND, "json"))
    assert found == yaml.safe_load(load_text(FOUND, "yaml"))
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
