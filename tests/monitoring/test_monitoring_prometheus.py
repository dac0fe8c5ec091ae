"""A real Prometheus scrapes a real plane as the page of metrics says, and evaluates the shipped rules."""

import asyncio
import json
import re
import shutil
import subprocess
import urllib.parse
import urllib.request
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

import aiohttp
import pytest
import yaml

from modelplane.cli.manifests import read_documents
from modelplane.envoy import free_port
from modelplane.plane.plane import Plane, PlaneSettings

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "metrics.md").read_text()
SCRAPE = re.search(r"^```yaml\n(scrape_configs:.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)[1]
DEPLOYMENT = {"namespace": "default", "deployment": "qwen3-8b"}
pytestmark = [
    pytest.mark.slow,
    pytest.mark.submission,
    pytest.mark.skipif(shutil.which("prometheus") is None, reason="Prometheus is not on this machine"),
]


DASHBOARD = json.loads((ROOT / "monitoring" / "dashboard.json").read_text())
TARGETS = [(panel["title"], target["expr"]) for panel in DASHBOARD["panels"] for target in panel.get("targets", ())]
SILENT = {
    "Incomplete gangs": "every gang is complete",
    "Staging of caches": "nothing is staged",
    "Replicas that do not serve, by reason": "all serve",
    "Staging and warm-up": "no replica mounts a cache; its second query has a series",
    "Tokens": "the router counts tokens of callers with keys",
    "Queue of the pickers": "pickers of simulated clusters have no page",
    "KV cache of the pools": "pickers of simulated clusters have no page",
    "Calls of the function by outcome": "an embedded plane has no function server",
    "Seconds of a call": "an embedded plane has no function server",
}
"""Panels that are empty here, and why."""


@contextmanager
def prometheus(folder, data, api_url, router_url=""):
    rules = yaml.safe_load((ROOT / "monitoring" / "prometheusrule.yaml").read_text())["spec"]
    (folder / "rules.yaml").write_text(yaml.safe_dump(rules))
    scrapes = yaml.safe_load(SCRAPE.replace("DATA", str(data)).replace("PORT", str(urlsplit(api_url).port)))
    if router_url:
        targets = [{"targets": [urlsplit(router_url).netloc]}]
        scrapes["scrape_configs"].append({"job_name": "router", "static_configs": targets})
    every = {"global": {"scrape_interval": "1s", "evaluation_interval": "1s"}, "rule_files": ["rules.yaml"]}
    (folder / "prometheus.yaml").write_text(yaml.safe_dump({**every, **scrapes}))
    port = free_port("127.0.0.1")
    words = [f"--config.file={folder / 'prometheus.yaml'}", f"--storage.tsdb.path={folder / 'tsdb'}"]
    words.append(f"--web.listen-address=127.0.0.1:{port}")
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(["prometheus", *words], stdout=log, stderr=log)  # noqa: S607  where the machine has it
        try:
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()
            process.wait(30)


def get(url, path, **query):
    asked = f"{url}/api/v1/{path}?{urllib.parse.urlencode(query)}"
    try:
        with urllib.request.urlopen(asked, timeout=10) as found:  # noqa: S310  loopback
            return json.load(found)["data"]
    except OSError:
        return None


async def until_found(url, query):
    """The labels and the value of each series that a query finds, once it finds some."""
    async with asyncio.timeout(60):
        while True:
            found = await asyncio.to_thread(get, url, "query", query=query)
            if found and found["result"]:
                return [(each["metric"], float(each["value"][1])) for each in found["result"]]
            await asyncio.sleep(0.3)


async def journey(tmp_path):
    data = tmp_path / "plane"
    async with Plane(PlaneSettings(data=data, engine_speed=50)) as plane:
        plane.apply(read_documents([ROOT / "examples" / "quickstart"]))
        with prometheus(tmp_path, data, plane.api_url) as url:
            ready = await until_found(url, "max by (namespace, deployment) (modelplane_replicas_ready) == 2")
            assert ready == [(DEPLOYMENT, 2.0)]
            assert {value for _, value in await until_found(url, "modelplane_cluster_connected")} == {1.0}
            assert {value for _, value in await until_found(url, "up")} == {1.0}
            assert len(await until_found(url, "modelplane_build_info")) == 1
            await until_quiet(url)


async def until_quiet(url):
    """Every rule is evaluated without a fault, and no alert is pending but one that takes a day."""
    async with asyncio.timeout(60):
        while True:
            groups = (await asyncio.to_thread(get, url, "rules"))["groups"]
            rules = [rule for group in groups for rule in group["rules"]]
            active = {rule["name"] for rule in rules if rule.get("state", "inactive") != "inactive"}
            if all(rule["health"] == "ok" for rule in rules) and active <= {"ModelplanePoolUnused"}:
                return
            await asyncio.sleep(0.3)


def test_prometheus_reads_the_plane_and_the_rules(tmp_path):
    asyncio.run(journey(tmp_path))


async def load(plane, stop):
    """Requests by the model's name until it is set."""
    chat = {"model": "default/chat", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 4}
    async with aiohttp.ClientSession() as session:
        while not stop.is_set():
            with suppress(aiohttp.ClientConnectionError):
                async with session.post(f"{plane.gateway_url}/v1/chat/completions", json=chat) as response:
                    await response.read()
            await asyncio.sleep(0.05)


async def shown(tmp_path):
    """Which panels have no series, by query, while requests are served."""
    data = tmp_path / "plane"
    async with Plane(PlaneSettings(data=data, engine_speed=50, router=True)) as plane:
        plane.apply(read_documents([ROOT / "examples" / "quickstart"]))
        stop = asyncio.Event()
        requests = asyncio.create_task(load(plane, stop))
        async with asyncio.timeout(60):
            while not plane.routers:  # noqa: ASYNC110  a plane has no event for it
                await asyncio.sleep(0.1)
        with prometheus(tmp_path, data, plane.api_url, next(iter(plane.routers.values()))) as url:
            expressions = [(title, re.sub(r"\$(namespace|cluster)", ".*", text)) for title, text in TARGETS]
            for title, expression in expressions:
                if title not in SILENT:
                    assert await until_found(url, expression), title
            empty = set()
            for title, expression in expressions:
                found = await asyncio.to_thread(get, url, "query", query=expression)
                assert found is not None, expression
                empty |= set() if found["result"] else {title}
        stop.set()
        await requests
        return empty


def test_every_panel_of_the_dashboard_has_a_series_while_requests_are_served(tmp_path):
    assert asyncio.run(shown(tmp_path)) <= SILENT.keys()
