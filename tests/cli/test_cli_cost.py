"""`modelplane cost`: its tables, the records that it reads, and a real plane whose router counted tokens."""

import asyncio
import json
from pathlib import Path

import aiohttp
import pytest
import yaml

from modelplane.api.timestamps import epoch_s
from modelplane.cli import main
from modelplane.cli._formats import NOTHING_YET
from modelplane.cli._usage import read_usage
from modelplane.cli.cost import cost_text
from modelplane.cli.manifests import read_documents
from modelplane.plane.plane import Plane, PlaneSettings
from modelplane.router.usage import UsageLog, UsageRecord
from modelplane.router.usage_file import UsageFile
from modelplane.views.fleet_cost import (
    CurrencyCost,
    DeploymentCost,
    EndpointUsage,
    FleetCost,
    TeamCost,
    UsedTokens,
)
from modelplane.views.fleet_load import HourlyPrice
from tests.support.caller_keys import CALLER_KEYS
from tests.support.waiting import until

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "quickstart"
NOW = epoch_s("2026-01-02T00:00:00Z")
PRICE = HourlyPrice(40.0, "USD")
FOUND = FleetCost(
    hours=2.0,
    totals=(CurrencyCost(currency="USD", nodes_per_hour=160.0, deployments_per_hour=40.0, rest_per_hour=120.0),),
    teams=(
        TeamCost(namespace="lab", deployments=1, devices=2, prices=(), unpriced=1, spent=0.0),
        TeamCost(namespace="team", deployments=2, devices=6, prices=(PRICE,), unpriced=1, spent=1.25),
    ),
    deployments=(
        DeploymentCost(
            namespace="team", name="chat", devices=4, price=PRICE,
            used=UsedTokens(requests=3, input_tokens=800, output_tokens=200), per_million_tokens=80.0,
        ),
        DeploymentCost(namespace="team", name="new", devices=2, price=None, used=None, per_million_tokens=None),
    ),
)  # fmt: skip
TEXT = """\
CURRENCY  NODES/H  DEPLOYMENTS/H  REST/H
USD       160.00   40.00          120.00

TEAM  DEPLOYMENTS  DEVICES  PRICE/H                 SPENT
lab   1            2        -                       0.00
team  2            6        40.00 USD + 1 unpriced  1.25

DEPLOYMENT  DEVICES  PRICE/H    REQUESTS  INPUT  OUTPUT  PER 1M TOKENS
team/chat   4        40.00 USD  3         800    200     80.00 USD
team/new    2        -          -         -      -       -

requests and tokens are those of the last 2 hours
"""


def test_the_tables():
    assert cost_text(FOUND, "text") == TEXT


@pytest.mark.parametrize(("hours", "text"), [(0.02, "1 minutes"), (1.5, "90 minutes"), (24.0, "24 hours")])
def test_the_time_in_which_tokens_were_counted(hours, text):
    assert f"those of the last {text}\n" in cost_text(FleetCost(hours=hours), "text")


def test_a_fleet_without_clusters_says_what_to_type():
    assert cost_text(FleetCost(hours=None), "text").endswith(NOTHING_YET)


def test_as_data():
    found = json.loads(cost_text(FOUND, "json"))
    assert found == yaml.safe_load(cost_text(FOUND, "yaml"))
    assert found["deployments"][0]["perMillionTokens"] == 80.0
    assert found["teams"][1]["prices"] == [{"perHour": 40.0, "currency": "USD"}]


def record(time, endpoint="team/e", status=200, read=10, written=2, cost=0.5):
    return UsageRecord(time, "r", "ada", "team/chat", endpoint, status, 1.0, read, written, 0, cost)


def write(folder, *records):
    file = UsageFile(folder / "fleet.jsonl")
    log = UsageLog(file.write)
    for each in records:
        log.add(each)
    file.close()
    return folder / "fleet.jsonl"


def test_records_are_summed_by_endpoint_within_the_time(tmp_path):
    file = write(
        tmp_path,
        record("2026-01-01T00:00:00Z"),
        record("2026-01-01T22:00:00Z"),
        record("2026-01-01T23:00:00Z", read=-1, written=-1, cost=0.0),
        record("2026-01-01T23:30:00Z", endpoint="team/f"),
        record("2026-01-01T23:30:00Z", endpoint=""),
        record("2026-01-03T00:00:00Z"),
        record("yesterday"),
    )
    with file.open("ab") as more:
        more.write(b'{"time": "2026-01-01T23:')
    usage, window_s = read_usage([file], NOW, 3 * 3600)
    assert window_s == 2 * 3600
    assert sorted(usage, key=lambda each: each.endpoint) == [
        EndpointUsage(endpoint="team/e", requests=2, input_tokens=10, output_tokens=2, spent=0.5),
        EndpointUsage(endpoint="team/f", requests=1, input_tokens=10, output_tokens=2, spent=0.5),
    ]


def test_without_records_nothing_is_used():
    assert read_usage([], NOW, 3600)[0] == []


CHAT = {"model": "default/chat", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 4}


async def answered(plane):
    authorized = {"Authorization": "Bearer key-a"}
    async with asyncio.timeout(90), aiohttp.ClientSession(headers=authorized) as session:
        while True:
            try:
                async with session.post(f"{plane.gateway_url}/v1/chat/completions", json=CHAT) as response:
                    if response.status == 200:
                        return
            except aiohttp.ClientConnectionError:
                pass
            await asyncio.sleep(0.2)


async def journey(folder, capsys):
    keys = folder.parent / "keys.yaml"
    keys.write_text(CALLER_KEYS)
    settings = PlaneSettings(data=folder, router=True, engine_speed=50)
    async with Plane(settings) as plane:
        plane.apply(read_documents([EXAMPLES]))
        plane.apply(read_documents([keys]))
        await answered(plane)
        await until(lambda: any(file.stat().st_size for file in (folder / "usage").glob("*.jsonl")))
        assert await asyncio.to_thread(main, ["cost", "--data", str(folder), "-o", "json"]) == 0
        found = json.loads(capsys.readouterr().out)
        assert await asyncio.to_thread(main, ["cost", "--data", str(folder), "-n", "nobody"]) == 0
        return found, capsys.readouterr().out


@pytest.mark.slow
def test_a_plane_whose_router_counts_tokens(tmp_path, capsys):
    found, nobody = asyncio.run(journey(tmp_path / "plane", capsys))
    (deployment,) = found["deployments"]
    assert (deployment["namespace"], deployment["name"]) == ("default", "qwen3-8b")
    assert deployment["used"]["outputTokens"] >= 4
    assert deployment["price"]["currency"] == "USD"
    assert deployment["perMillionTokens"] > 0
    assert found["totals"][0]["nodesPerHour"] > found["totals"][0]["deploymentsPerHour"] > 0
    assert "qwen3-8b" not in nobody
