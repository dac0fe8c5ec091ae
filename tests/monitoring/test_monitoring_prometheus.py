"""A real Prometheus scrapes a real plane as the page of metrics says, and evaluates the shipped rules."""

import asyncio
import json
import re
import shutil
import subprocess
import urllib.parse
import urllib.request
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

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


@contextmanager
def prometheus(folder, data, api_url):
    rules = yaml.safe_load((ROOT / "monitoring" / "prometheusrule.yaml").read_text())["spec"]
    (folder / "rules.yaml").write_text(yaml.safe_dump(rules))
    scrapes = yaml.safe_load(SCRAPE.replace("DATA", str(data)).replace("PORT", str(urlsplit(api_url).port)))
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
