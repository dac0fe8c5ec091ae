"""The dashboard's API over HTTP: every view as a whole, what is refused, and what a stream sends when."""

import asyncio
import json
from importlib.resources import files
from pathlib import Path

import pytest

from modelplane.api.objects import GROUP
from modelplane.reconcile.store import ObjectRef
from modelplane.web.pages import VIEWS
from tests.support.dashboard_client import dashboard
from tests.support.dashboard_fleet import cluster, deployment, fleet_store, pool, ready

GOLDEN = Path(__file__).with_name("golden")
QUERIES = {
    "cluster": "?name=east",
    "deployment": "?namespace=default&name=qwen3-8b",
    "service": "?namespace=default&name=chat",
}


@pytest.mark.parametrize("view", VIEWS)
def test_a_view_of_a_fleet(golden, view):
    async def main():
        async with dashboard() as client:
            return await client.get(f"/api/{view}{QUERIES.get(view, '')}")

    status, found = asyncio.run(main())
    assert status == 200
    golden.check(GOLDEN / f"{view}.json", json.dumps(found, indent=1, ensure_ascii=False) + "\n")


NAMES = "summary, overview, fleet, cluster, deployments, deployment, services, service, caches, events"
FIELDS = "q, state, namespace, name, type, offset, limit"
REFUSED = [
    ("/api/nothing", 404, f"there is no view nothing; those are {NAMES}"),
    ("/api/fleet?limit=201", 400, "limit: must be a number from 0 to 200"),
    ("/api/fleet?offset=-1", 400, "offset: must be a number from 0 to 10000000"),
    ("/api/fleet?limit=1e2", 400, "limit: must be a number from 0 to 200"),
    ("/api/fleet?offset=٣", 400, "offset: must be a number from 0 to 10000000"),
    ("/api/fleet?state=Fine", 400, "state: must be one of NotReady, Unknown, Deleting, Ready"),
    ("/api/fleet?colour=red", 400, f"colour: is no parameter of a view; those are {FIELDS}"),
    ("/api/fleet?q=" + "x" * 201, 400, "q: must have at most 200 characters"),
    ("/api/events?type=Odd", 400, "type: must be one of Normal, Warning"),
    ("/api/stream?view=nothing", 400, f"view: must be one of {NAMES}"),
    ("/api/cluster?name=south", 404, "InferenceCluster south does not exist"),
    ("/api/deployment?namespace=team&name=qwen3-8b", 404, "ModelDeployment team/qwen3-8b does not exist"),
    ("/api/service?namespace=default&name=x", 404, "ModelService default/x does not exist"),
    ("/api/models?namespace=default&name=x", 404, "ModelService default/x does not exist"),
]  # fmt: skip


@pytest.mark.parametrize(("path", "status", "error"), REFUSED, ids=[case[0][:40] for case in REFUSED])
def test_what_is_refused_is_named(path, status, error):
    async def main():
        async with dashboard() as client:
            return await client.get(path)

    assert asyncio.run(main()) == (status, {"error": error})


PAGES = [
    ("deployments", "", ["default/qwen3-8b", "team/llama-70b", "team/mistral-24b"], 3),
    ("deployments", "?limit=1", ["default/qwen3-8b"], 3),
    ("deployments", "?limit=1&offset=2", ["team/mistral-24b"], 3),
    ("deployments", "?offset=9", [], 3),
    ("deployments", "?state=Ready", ["team/mistral-24b"], 1),
    ("deployments", "?namespace=team", ["team/llama-70b", "team/mistral-24b"], 2),
    ("deployments", "?q=GPUs+free", ["team/llama-70b"], 1),
    ("deployments", "?q=TEAM/&state=NotReady", ["team/llama-70b"], 1),
    ("fleet", "", ["/west", "/east", "/north"], 3),
    ("fleet", "?q=us-", ["/west", "/east"], 2),
    ("fleet", "?q=maintenance", ["/north"], 1),
    ("fleet", "?q=spare", ["/east"], 1),
    ("services", "?namespace=team", [], 0),
    ("services", "?q=chat", ["default/chat"], 1),
    ("caches", "?q=Qwen/Qwen3-8B", ["default/qwen3-8b"], 1),
    ("events", "?type=Warning", ["team/llama-70b", "/west"], 2),
    ("events", "?namespace=team", ["team/llama-70b"], 1),
    ("events", "?q=placed", ["default/qwen3-8b"], 1),
]


@pytest.mark.parametrize(("view", "query", "names", "total"), PAGES, ids=[f"{case[0]}{case[1]}" for case in PAGES])
def test_a_page_of_rows(view, query, names, total):
    async def main():
        async with dashboard() as client:
            return await client.get(f"/api/{view}{query}")

    _, found = asyncio.run(main())
    assert ([f"{row.get('namespace', '')}/{row['name']}" for row in found["rows"]], found["total"]) == (names, total)


def changed(store, kind, name, namespace="", **status):
    ref = ObjectRef(GROUP, kind, namespace, name)
    item = store.get(ref)
    store.replace_status({**item, "status": {**item["status"], **status}})


def test_a_stream_begins_with_the_view_and_sends_it_again_when_it_is_another():
    async def main():
        async with dashboard() as client, client.stream("view=cluster&name=west") as events:
            first = [await anext(events) for _ in range(2)]
            changed(client.store, "InferenceCluster", "west", conditions=[ready()], lostDevices=0)
            second = [await anext(events) for _ in range(2)]
            return first, second

    first, second = asyncio.run(main())
    assert [name for name, _ in first + second] == ["summary", "view"] * 2
    assert [value["clusters"]["ready"] for name, value in first + second if name == "summary"] == [2, 3]
    states = [value["cluster"]["health"]["state"] for name, value in first + second if name == "view"]
    assert states == ["NotReady", "Ready"]


def test_a_stream_sends_nothing_for_what_it_does_not_show():
    """The caches are shown, so a change of a cluster's version is not sent; what follows it is."""

    async def main():
        async with dashboard() as client, client.stream("view=caches") as events:
            for _ in range(2):
                await anext(events)
            changed(client.store, "InferenceCluster", "east", kubernetesVersion="v1.35.0")
            await asyncio.sleep(0.5)
            changed(client.store, "ModelCache", "qwen3-8b", "default", source="elsewhere")
            return await anext(events)

    name, value = asyncio.run(main())
    assert (name, value["rows"][0]["source"]) == ("view", "elsewhere")


def test_a_stream_says_that_its_object_is_gone_and_goes_on_when_it_is_back():
    async def main():
        objects = [cluster("east", pool()), deployment("a", 1, conditions=[ready()])]
        async with dashboard(objects) as client, client.stream("view=deployment&namespace=default&name=a") as events:
            seen = [await anext(events) for _ in range(2)]
            client.store.delete(ObjectRef(GROUP, "ModelDeployment", "default", "a"))
            seen += [await anext(events) for _ in range(2)]
            client.store.create(objects[1])
            return seen + [await anext(events) for _ in range(2)]

    found = [(name, value) for name, value in asyncio.run(main()) if name != "summary"]
    assert [name for name, _ in found] == ["view", "gone", "view"]
    assert found[1][1] == {"error": "ModelDeployment default/a does not exist"}


def test_an_object_that_cannot_be_read_is_named_and_not_blamed_on_the_request():
    async def main():
        store = fleet_store([cluster("east", pool())])
        item = store.get(ObjectRef(GROUP, "InferenceCluster", "", "east"))
        store.replace_status({**item, "status": {"nodes": "many"}})
        async with dashboard(store=store) as client:
            return await client.get("/api/fleet")

    status, page = asyncio.run(main())
    why = "it cannot be read: Expected `int | null`, got `str` - at `$.status.nodes`"
    assert (status, [row["health"] for row in page["rows"]]) == (200, [{"state": "Unknown", "why": why}])


def test_the_files_are_small_and_need_nothing_from_elsewhere():
    found = {each.name: each.read_text() for each in files("modelplane.web").joinpath("static").iterdir()}
    assert set(found) == {"index.html", "app.js", "app.css", "icon.svg"}
    assert sum(len(text.encode()) for text in found.values()) <= 300_000
    assert not [name for name, text in found.items() if "https://" in text or "innerHTML" in text or "eval(" in text]
    assert "<style" not in found["index.html"]
    assert found["index.html"].count("<script") == 1
    assert "http-equiv" not in found["index.html"]
