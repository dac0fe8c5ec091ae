"""Lists: selectors, pages, and states of the past."""

import pytest

from modelplane.apiserver.resources import resources
from modelplane.apiserver.wire import Wire
from modelplane.reconcile.store import ObjectRef

MAPS = "/api/v1/namespaces/default/configmaps"


async def make(client, *names, **labels):
    for name in names:
        await client.ask("POST", MAPS, {"metadata": {"name": name, "labels": labels}})


def names(listed):
    return [item["metadata"]["name"] for item in listed["items"]]


def test_lists_are_ordered_and_selected(over_http):
    async def story(client):
        await make(client, "b", "a", team="x")
        await make(client, "c", team="y")
        assert names((await client.ask("GET", MAPS))[1]) == ["a", "b", "c"]
        assert names((await client.ask("GET", f"{MAPS}?labelSelector=team%3Dx"))[1]) == ["a", "b"]
        assert names((await client.ask("GET", f"{MAPS}?labelSelector=team+in+(x,y),team!%3Dx"))[1]) == ["c"]
        assert names((await client.ask("GET", f"{MAPS}?fieldSelector=metadata.name%3Db"))[1]) == ["b"]
        assert names((await client.ask("GET", f"{MAPS}?fieldSelector=metadata.name%3Dzz"))[1]) == []
        assert names((await client.ask("GET", "/api/v1/configmaps?fieldSelector=metadata.name%3Db"))[1]) == ["b"]

    over_http(story)


def test_pages_show_the_state_of_the_first(over_http):
    async def story(client):
        await make(client, *"abcde")
        _, first = await client.ask("GET", f"{MAPS}?limit=2")
        assert (names(first), first["metadata"]["remainingItemCount"]) == (["a", "b"], 3)
        await make(client, "bb")
        await client.ask("DELETE", f"{MAPS}/c")
        token = first["metadata"]["continue"]
        _, second = await client.ask("GET", f"{MAPS}?limit=2&continue={token}")
        assert (names(second), second["metadata"]["resourceVersion"]) == (
            ["c", "d"],
            first["metadata"]["resourceVersion"],
        )
        _, third = await client.ask("GET", f"{MAPS}?limit=2&continue={second['metadata']['continue']}")
        assert (names(third), third["metadata"].get("continue")) == (["e"], None)
        assert names((await client.ask("GET", MAPS))[1]) == ["a", "b", "bb", "d", "e"]

    over_http(story)


def test_a_page_that_came_too_late_is_expired(over_http):
    async def story(client):
        await make(client, *"abc")
        _, first = await client.ask("GET", f"{MAPS}?limit=1")
        await make(client, *"defghi")
        code, answer = await client.ask("GET", f"{MAPS}?limit=1&continue={first['metadata']['continue']}")
        assert (code, answer["reason"]) == (410, "Expired")

    over_http(story, history=4)


def test_an_exact_revision_is_shown_as_it_was(over_http):
    async def story(client):
        await make(client, "a")
        revision = client.store.revision
        await make(client, "b")
        patch = {"data": {"x": "1"}}
        await client.ask("PATCH", f"{MAPS}/a", patch, media="application/merge-patch+json")
        path = f"{MAPS}?resourceVersion={revision}&resourceVersionMatch"
        _, exact = await client.ask("GET", f"{path}=Exact")
        assert [(item["metadata"]["name"], item.get("data")) for item in exact["items"]] == [("a", None)]
        _, newer = await client.ask("GET", f"{path}=NotOlderThan")
        assert names(newer) == ["a", "b"]
        code, answer = await client.ask("GET", f"{MAPS}?resourceVersion={client.store.revision + 9}")
        assert (code, answer["details"]["causes"][0]["reason"]) == (504, "ResourceVersionTooLarge")

    over_http(story)


@pytest.mark.parametrize("token", ["x", "e30", "eyJyZXZpc2lvbiI6Ing"])
def test_tokens_of_others_are_refused(over_http, token):
    async def story(client):
        assert (await client.ask("GET", f"{MAPS}?limit=1&continue={token}"))[0] == 400

    over_http(story)


def test_bytes_are_kept_for_as_long_as_the_object_stays_and_within_bounds():
    maps = resources()["", "v1", "configmaps"]
    wire = Wire(most_bytes=200)
    objects = {name: {"metadata": {"name": name}, "data": {"a": "x" * 60}} for name in "abc"}
    refs = {name: ObjectRef("", "ConfigMap", "default", name) for name in "abc"}
    first = wire.object(maps, refs["a"], objects["a"])
    assert wire.object(maps, refs["a"], objects["a"]) is first
    assert wire.object(maps, refs["a"], dict(objects["a"])) is not first
    wire.object(maps, refs["b"], objects["b"])
    wire.object(maps, refs["c"], objects["c"])
    assert len(wire._known) <= 2
    assert wire._held <= 200
    for ref in refs.values():
        wire.forget(ref)
    assert wire._held == 0


def test_long_lists_are_written_in_turns(over_http):
    async def story(client):
        with client.store.batch():
            for number in range(1100):
                metadata = {"name": f"n{number:04}", "namespace": "default"}
                client.store.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})
        _, listed = await client.ask("GET", MAPS)
        assert names(listed) == [f"n{number:04}" for number in range(1100)]
        _, table = await client.ask("GET", MAPS, accept="application/json;as=Table;v=v1;g=meta.k8s.io")
        assert [row["cells"][0] for row in table["rows"]] == names(listed)
        revision = client.store.revision
        assert len((await client.ask("DELETE", MAPS))[1]["items"]) == 1100
        assert client.store.revision == revision + 1100
        assert (await client.ask("GET", MAPS))[1]["items"] == []

    over_http(story)
