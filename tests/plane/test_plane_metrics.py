"""The page of a real plane, over TLS and with the token, as a scraper reads it."""

import asyncio
import json
import os
import shutil
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import aiohttp
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from modelplane.cli.manifests import read_documents
from modelplane.plane.metrics import PLANE_METRICS, TOKENS, tokens_family
from modelplane.plane.plane import Plane, PlaneSettings
from modelplane.router.usage import UsageLog, UsageRecord
from modelplane.views.metric_families import SampleFamily
from tests.support.caller_keys import CALLER_KEYS

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
OPENMETRICS = "application/openmetrics-text;version=1.0.0"
CHAT = {"model": "default/chat", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 4}
LABELS = {spec.name: spec.labels for spec in PLANE_METRICS}


def fetch(plane, folder, path="/metrics", accept=OPENMETRICS, token=None):
    trusted = ssl.create_default_context(cafile=folder / "api.crt")
    authorized = {"Authorization": f"Bearer {token or (folder / 'api.token').read_text()}", "Accept": accept}
    asked = urllib.request.Request(f"{plane.api_url}{path}", headers=authorized)  # noqa: S310  our own address
    try:
        with urllib.request.urlopen(asked, timeout=30, context=trusted) as found:  # noqa: S310  as above
            return found.status, found.headers["Content-Type"], found.read()
    except urllib.error.HTTPError as error:
        return error.code, "", b""


def families(page):
    return {
        family.name: {tuple(s.labels[name] for name in LABELS[family.name]): s.value for s in family.samples}
        for family in text_string_to_metric_families(page.decode())
        if family.type != "histogram"
    }


async def answered(session, plane):
    async with asyncio.timeout(60):
        while True:
            try:
                async with session.post(f"{plane.gateway_url}/v1/chat/completions", json=CHAT) as response:
                    if response.status == 200:
                        return
            except aiohttp.ClientConnectionError:
                pass
            await asyncio.sleep(0.2)


async def services_are_shown(folder):
    """`modelplane top` reads requests from Envoy's log and tokens from usage records."""
    words = ["-m", "modelplane", "top", "-o", "json", "--data", str(folder)]
    environment = {**os.environ, "PYTHONPATH": ":".join(path for path in sys.path if path)}
    process = await asyncio.create_subprocess_exec(
        sys.executable, *words, stdout=asyncio.subprocess.PIPE, env=environment
    )
    out, _ = await process.communicate()
    (service,) = json.loads(out)["services"]
    assert (service["name"], service["readyEndpoints"], service["devices"]) == ("chat", 2, 2)
    assert service["price"] == {"perHour": 21.2, "currency": "USD"}
    assert service["traffic"]["requestsPerSecond"] > 0
    assert service["tokens"]["outputPerSecond"] > 0


async def until_counted(plane, folder):
    """The access log is read every two seconds."""
    async with asyncio.timeout(30):
        while True:
            _, kind, page = await asyncio.to_thread(fetch, plane, folder)
            found = families(page)
            if (
                found["modelplane_requests"]
                and found["modelplane_tokens"]
                and found["modelplane_replicas_ready"][DEPLOYMENT] == 2
            ):
                return kind, found
            await asyncio.sleep(0.5)


DEPLOYMENT = ("default", "qwen3-8b")


async def journey(folder):
    settings = PlaneSettings(data=folder, router=True, engine_speed=50)
    keys = folder.parent / "keys.yaml"
    keys.write_text(CALLER_KEYS)
    authorized = {"Authorization": "Bearer key-a"}
    async with Plane(settings) as plane, aiohttp.ClientSession(headers=authorized) as session:
        plane.apply(read_documents([EXAMPLES / "quickstart"]))
        plane.apply(read_documents([keys]))
        await answered(session, plane)
        kind, found = await until_counted(plane, folder)
        assert kind.startswith("application/openmetrics-text; version=1.0.0")
        assert (folder / "api.token").stat().st_mode & 0o777 == 0o600
        counted, seconds = plane.counted_tokens(time.time())
        assert (counted["default/chat"] >= 4, 0 < seconds < 600) == (True, True)
        await services_are_shown(folder)
        return (
            found,
            (await asyncio.to_thread(fetch, plane, folder, accept="text/plain"))[2],
            [
                (await asyncio.to_thread(fetch, plane, folder, **wrong))[0]
                for wrong in ({"token": "wrong"}, {"path": "/metrics/other"})
            ],
        )


def record(caller, service, read, written):
    return UsageRecord("2026-01-01T00:00:00Z", "r", caller, service, "team/e", 200, 1.0, read, written)


def test_tokens_are_those_of_a_service_whoever_called():
    east, west = UsageLog(), UsageLog()
    east.add(record("ada", "team/chat", 10, 3))
    east.add(record("bob", "team/chat", 5, -1))
    west.add(record("ada", "team/chat", 1, 1))
    west.add(record("ada", "other/draw", 7, 0))
    assert tokens_family([*east.tokens(), *west.tokens()]) == SampleFamily(
        TOKENS,
        {
            ("team", "chat", "input"): 16,
            ("team", "chat", "output"): 4,
            ("other", "draw", "input"): 7,
        },
    )


@pytest.mark.slow
@pytest.mark.submission
def test_a_plane_shows_its_fleet_requests_and_tokens(tmp_path):
    found, text, refused = asyncio.run(journey(tmp_path / "plane"))
    assert found["modelplane_replicas_desired"] == {DEPLOYMENT: 2}
    assert set(found["modelplane_cluster_connected"].values()) == {1.0}
    assert sum(found["modelplane_replica_gpus"].values()) > 0
    assert found["modelplane_requests"][*DEPLOYMENT, "2xx"] >= 1
    assert found["modelplane_tokens"]["default", "chat", "output"] >= 4
    assert found["modelplane_certificate_expiry_timestamp_seconds"]["serving", ""] > 1.7e9
    assert refused == [401, 404]
    histograms = {spec.name for spec in PLANE_METRICS if spec.type == "histogram"}
    assert set(found) | histograms == set(LABELS)
    assert b"modelplane_replica_ready_duration_seconds_count" in text
    if shutil.which("promtool") is not None:
        checked = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, check=False)  # noqa: S607  where the machine has it
        assert (checked.returncode, checked.stdout + checked.stderr) == (0, b"")
