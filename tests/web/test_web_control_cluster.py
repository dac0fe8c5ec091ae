"""The dashboard of a control cluster: what its API sends is what the store behind it has."""

import asyncio
import json
import re
import signal
import sys
from contextlib import asynccontextmanager

import aiohttp
import pytest
import yaml
from aiohttp import web

from modelplane.api.errors import UnavailableError
from modelplane.api.objects import GROUP
from modelplane.apiserver.app import ApiServer
from modelplane.apiserver.lifecycle import ensure_namespaces
from modelplane.apiserver.served_kinds import ensure_kinds
from modelplane.reconcile.clock import SystemClock
from modelplane.reconcile.store import ObjectRef
from modelplane.web.control_cluster import ControlCluster
from modelplane.web.pages import VIEWS
from tests.support.dashboard_client import dashboard
from tests.support.dashboard_fleet import cluster, fleet_objects, fleet_store, pool
from tests.support.kube_api import client_of, running
from tests.tunnel.conftest import free_port

TOKEN = "0123456789abcdef"
QUERIES = {
    "cluster": "?name=east",
    "deployment": "?namespace=default&name=qwen3-8b",
    "service": "?namespace=default&name=chat",
}


@asynccontextmanager
async def api(store):
    """The Kubernetes API of a store."""
    ensure_namespaces(store)
    ensure_kinds(store, SystemClock().now())
    server = ApiServer(store, token="a-token", clock=SystemClock())
    await server.runner.setup()
    await web.TCPSite(server.runner, "127.0.0.1", 0).start()
    try:
        yield "http://{}:{}".format(*server.runner.addresses[0][:2]), server
    finally:
        await server.close()


@asynccontextmanager
async def watched(url):
    client = client_of(url, "a-token")
    found = ControlCluster(client)
    try:
        async with running(found.run()):
            yield found
    finally:
        await client.close()


def test_every_view_is_that_of_the_store():
    async def views(**source):
        async with dashboard(**source) as client:
            return {view: await client.get(f"/api/{view}{QUERIES.get(view, '')}") for view in VIEWS}

    async def main():
        store = fleet_store()
        async with api(store) as (url, _server), watched(url) as found:
            await found.wait_synced(30)
            return await views(store=store), await views(store=found)

    own, remote = asyncio.run(main())
    assert {status for status, _ in own.values()} == {200}
    assert remote == own


def test_changes_are_pushed():
    async def main():
        store = fleet_store(fleet_objects())
        async with api(store) as (url, _server), watched(url) as found:
            await found.wait_synced(30)
            async with dashboard(store=found) as client, client.stream("view=fleet&q=new") as events:
                seen = [await anext(events) for _ in range(2)]
                store.create(cluster("new", pool()))
                seen += [await anext(events) for _ in range(2)]
                store.delete(ObjectRef(GROUP, "InferenceCluster", "", "new"))
                seen += [await anext(events) for _ in range(2)]
        return [[row["name"] for row in value["rows"]] for name, value in seen if name == "view"]

    assert asyncio.run(main()) == [[], ["new"], []]


def test_an_api_that_stops_answering_is_said_and_what_was_known_stays(monkeypatch):
    monkeypatch.setattr("modelplane.web.stream._BEAT_S", 0.1)

    async def main():
        async with api(fleet_store()) as (url, server), watched(url) as found:
            await found.wait_synced(30)
            async with (
                dashboard(store=found, problem=found.problem) as client,
                client.stream("view=fleet") as events,
            ):
                names = [name for name, _ in [await anext(events) for _ in range(2)]]
                await server.close()
                return names, await anext(events), (await client.get("/api/fleet"))[1]["total"]

    names, problem, total = asyncio.run(main())
    assert names == ["summary", "view"]
    assert problem[0] == "problem"
    assert re.match(r"\w+(\.modelplane\.ai)?: .+", problem[1]["problem"])
    assert total == 3


def test_an_api_that_does_not_answer_is_named():
    async def main():
        async with watched("http://127.0.0.1:1") as found:
            await found.wait_synced(0.5)

    with pytest.raises(UnavailableError, match=r"inferenceclasses\.modelplane\.ai: "):
        asyncio.run(main())


def kubeconfig(url):
    return yaml.safe_dump({
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": url}}],
        "users": [{"name": "u", "user": {"token": "a-token"}}],
    })  # fmt: skip


@pytest.mark.slow
def test_the_command_serves_until_it_is_stopped(tmp_path):
    async def main():
        async with api(fleet_store()) as (url, _server):
            file = tmp_path / "kubeconfig"
            file.write_text(kubeconfig(url))
            program = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "modelplane", "dashboard", "--kubeconfig", str(file),
                stdout=asyncio.subprocess.PIPE,
            )  # fmt: skip
            async with asyncio.timeout(60), aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as session:
                page = (await program.stdout.readline()).decode().split()[-1]
                async with session.get(page) as opened:
                    title = "<title>Modelplane</title>" in await opened.text()
                async with session.get(f"{page.partition('?')[0]}api/summary") as answer:
                    ready = (await answer.json())["clusters"]["ready"]
                program.send_signal(signal.SIGTERM)
                return title, ready, await program.wait()

    assert asyncio.run(main()) == (True, 2, 128 + signal.SIGTERM)


async def forwarded(port):
    """As a browser that came by `kubectl port-forward`: the summary's status, once the token opened the page."""
    origin = f"http://localhost:{port}"
    async with aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as session:
        async with session.get(f"{origin}/?token={TOKEN}") as opened:
            status = opened.status
        async with session.get(f"{origin}/api/summary") as answer:
            return status, answer.status


async def ready(port):
    async with aiohttp.ClientSession() as session:
        while True:
            try:
                async with session.get(f"http://127.0.0.1:{port}/readyz") as answer:
                    if answer.status == 200:
                        return
            except aiohttp.ClientError:
                pass
            await asyncio.sleep(0.05)


@pytest.mark.slow
def test_in_a_pod_the_token_is_a_file_that_may_come_later_and_is_never_written(tmp_path):
    async def main():
        async with api(fleet_store()) as (url, _server):
            file, token = tmp_path / "kubeconfig", tmp_path / "token"
            file.write_text(kubeconfig(url))
            page, probes = free_port(), free_port()
            program = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "modelplane", "dashboard", f"--kubeconfig={file}", "--address=", f"--port={page}",
                f"--probe-port={probes}", f"--token-file={token}",
                stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
            )  # fmt: skip
            async with asyncio.timeout(60):
                await ready(probes)
                before = await forwarded(page)
                token.write_text(TOKEN)
                after = await forwarded(page)
                program.send_signal(signal.SIGTERM)
                said = (await program.communicate())[0].decode()
        return before, after, TOKEN in said, json.loads(said.splitlines()[0])["reason"]

    assert asyncio.run(main()) == ((401, 401), (200, 200), False, "Serving")
