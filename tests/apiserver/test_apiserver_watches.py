"""Watches over real HTTP."""

import asyncio
import json
from contextlib import suppress

import pytest

from modelplane.apiserver.watches import INITIAL_EVENTS_END, WatchLimits
from tests.support.waiting import until

MAPS = "/api/v1/namespaces/default/configmaps"
MERGE = "application/merge-patch+json"
AUTH = {"Authorization": "Bearer a-token"}


def config_map(name, **labels):
    return {"metadata": {"name": name, "labels": labels}}


async def events(client, query, path=MAPS, accept="application/json", timeout_s=1):
    """Everything that a watch says until it ends by itself."""
    headers = {**AUTH, "Accept": accept}
    async with client.session.get(f"{path}?watch=1&timeoutSeconds={timeout_s}{query}", headers=headers) as response:
        assert response.status == 200
        return [json.loads(line) async for line in response.content]


async def first_events(client, count):
    """The first events of a watch, however long they take."""
    found = []
    async with client.session.get(f"{MAPS}?watch=1", headers=AUTH) as response:
        async for line in response.content:
            found.append(json.loads(line))
            if len(found) == count:
                return found
    return found


def told(found):
    return [(event["type"], event["object"]["metadata"].get("name")) for event in found]


async def follow(client, query, story, path=MAPS):
    """What a watch says while the story happens."""
    before = len(client.watches)
    watch = asyncio.create_task(events(client, query, path))
    await until(lambda: len(client.watches) > before or watch.done())
    await story()
    return await watch


def test_a_watch_starts_with_what_is_there_and_follows(over_http):
    async def story(client):
        await client.ask("POST", MAPS, config_map("a"))

        async def changes():
            await client.ask("POST", MAPS, config_map("b"))
            await client.ask("PATCH", f"{MAPS}/a", {"data": {"x": "1"}}, media=MERGE)
            await client.ask("DELETE", f"{MAPS}/a")
            await client.ask("POST", "/api/v1/namespaces/modelplane-system/configmaps", config_map("elsewhere"))

        found = await follow(client, "", changes)
        assert told(found) == [("ADDED", "a"), ("ADDED", "b"), ("MODIFIED", "a"), ("DELETED", "a")]
        versions = [int(event["object"]["metadata"]["resourceVersion"]) for event in found]
        assert versions == sorted(versions)
        assert "generation" not in found[0]["object"]["metadata"]

    over_http(story)


def test_a_watch_goes_on_from_a_revision(over_http):
    async def story(client):
        await client.ask("POST", MAPS, config_map("a"))
        revision = client.store.revision
        await client.ask("POST", MAPS, config_map("b"))
        newest = client.store.revision
        found = await asyncio.gather(*(events(client, f"&resourceVersion={each}") for each in (revision, newest)))
        assert [told(each) for each in found] == [[("ADDED", "b")], []]

    over_http(story)


@pytest.mark.parametrize("revision", [1, 10_000])
def test_a_revision_that_is_not_remembered_is_expired(over_http, revision):
    async def story(client):
        for name in "abcdef":
            await client.ask("POST", MAPS, config_map(name))
        (event,) = await events(client, f"&resourceVersion={revision}")
        assert (event["type"], event["object"]["code"], event["object"]["reason"]) == ("ERROR", 410, "Expired")

    over_http(story, history=3)


def test_a_selector_makes_objects_come_and_go(over_http):
    async def story(client):
        await client.ask("POST", MAPS, config_map("a", team="x"))
        await client.ask("POST", MAPS, config_map("b"))

        async def changes():
            await client.ask("PATCH", f"{MAPS}/b", {"metadata": {"labels": {"team": "x"}}}, media=MERGE)
            await client.ask("PATCH", f"{MAPS}/b", {"data": {"q": "r"}}, media=MERGE)
            await client.ask("PATCH", f"{MAPS}/a", {"metadata": {"labels": {"team": "y"}}}, media=MERGE)
            await client.ask("DELETE", f"{MAPS}/a")

        found = await follow(client, "&labelSelector=team%3Dx", changes)
        assert told(found) == [("ADDED", "a"), ("ADDED", "b"), ("MODIFIED", "b"), ("DELETED", "a")]
        assert found[-1]["object"]["metadata"]["labels"] == {"team": "x"}

    over_http(story)


def test_initial_events_end_with_a_bookmark(over_http):
    async def story(client):
        await client.ask("POST", MAPS, config_map("a"))
        query = "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
        found = await events(client, query)
        assert [event["type"] for event in found][:2] == ["ADDED", "BOOKMARK"]
        marker = found[1]["object"]
        assert (marker["kind"], marker["metadata"]["annotations"]) == ("ConfigMap", {INITIAL_EVENTS_END: "true"})
        assert marker["metadata"]["resourceVersion"] == str(client.store.revision)

    over_http(story)


def test_bookmarks_report_the_resource_version(over_http):
    async def story(client):
        query = f"&resourceVersion={client.store.revision}&allowWatchBookmarks=true"

        async def changes():
            await client.ask("POST", "/api/v1/namespaces", {"metadata": {"name": "other"}})

        found = await follow(client, query, changes)
        assert {event["type"] for event in found} == {"BOOKMARK"}
        assert found[-1]["object"]["metadata"] == {"resourceVersion": str(client.store.revision)}

    over_http(story, limits=WatchLimits(bookmark_s=0.2))


def test_tables_are_watched_with_columns_in_the_first_event_only(over_http):
    async def story(client):
        await client.ask("POST", MAPS, config_map("a"))
        await client.ask("POST", MAPS, config_map("b"))
        forms = [f"application/json;as={form};v=v1;g=meta.k8s.io" for form in ("Table", "PartialObjectMetadata")]
        found, partial = await asyncio.gather(*(events(client, "", accept=form) for form in forms))
        assert [len(event["object"]["columnDefinitions"]) for event in found] == [3, 0]
        assert [event["object"]["rows"][0]["cells"][0] for event in found] == ["a", "b"]
        assert [event["object"]["kind"] for event in partial] == ["PartialObjectMetadata"] * 2

    over_http(story)


def test_one_who_falls_behind_is_dropped_with_410_and_costs_no_more(over_http):
    async def story(client):
        limits = client.limits
        async with client.session.get(f"{MAPS}?watch=1&timeoutSeconds=1", headers=AUTH) as response:
            # Nothing is awaited here, so the watcher has no turn to be written to while all this happens.
            for number in range(20):
                client.store.create(
                    {
                        "apiVersion": "v1",
                        "kind": "ConfigMap",
                        "metadata": {"name": f"n{number}", "namespace": "default"},
                        "data": {"x": "y" * limits.lag_bytes},
                    }
                )
            found = [json.loads(line) async for line in response.content]
        assert [event["type"] for event in found] == ["ERROR"]
        assert found[0]["object"]["code"] == 410

    over_http(story, limits=WatchLimits(lag_bytes=1000))


def test_there_are_only_so_many_watches(over_http):
    async def story(client):
        first = asyncio.create_task(events(client, ""))
        await opened(client, 1)
        code, answer, headers = await client.answer("GET", f"{MAPS}?watch=1")
        assert (code, answer["reason"], headers["Retry-After"]) == (429, "TooManyRequests", "1")
        assert await first == []
        assert len(client.watches) == 0

    over_http(story, limits=WatchLimits(watches=1))


def test_a_watcher_that_leaves_is_forgotten(over_http):
    async def story(client):
        async with client.session.get(f"{MAPS}?watch=1", headers=AUTH):
            assert len(client.watches) == 1
        await opened(client, 0)

    over_http(story)


def test_much_to_begin_with_is_no_lag(over_http):
    async def story(client):
        for name in "abc":
            body = {"metadata": {"name": name}, "data": {"x": "y" * client.limits.lag_bytes}}
            await client.ask("POST", MAPS, body)

        async def changes():
            await client.ask("POST", MAPS, config_map("d"))

        assert [event[0] for event in told(await follow(client, "", changes))] == ["ADDED"] * 4

    over_http(story, limits=WatchLimits(lag_bytes=1000))


def large(name, size):
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"x": "y" * size}}


async def opened(client, number):
    await until(lambda: len(client.watches) == number)


def test_all_unread_watches_together_have_one_budget_and_others_go_on(over_http):
    async def story(client):
        limits = client.limits
        url = client.session._base_url
        request = f"GET {MAPS}?watch=1 HTTP/1.1\r\nHost: {url.authority}\r\nAuthorization: Bearer a-token\r\n\r\n"
        unread = [await asyncio.open_connection(url.host, url.port, limit=1_024) for _ in range(40)]
        for _, writer in unread:
            writer.write(request.encode())
        await opened(client, len(unread))
        reader = asyncio.create_task(first_events(client, 60))
        await opened(client, len(unread) + 1)
        for number in range(60):
            client.store.create(large(f"n{number}", 200_000))
            assert client.watches.held_bytes <= limits.total_bytes
            await asyncio.sleep(0.02)
        found = await reader
        assert [event["type"] for event in found] == ["ADDED"] * 60
        for each in unread:
            each[1].transport.abort()
        await opened(client, 0)
        assert (len(client.watches), client.watches.held_bytes) == (0, 0)

    over_http(story, limits=WatchLimits(total_bytes=3_000_000))


def test_over_the_budget_the_watch_with_most_unread_bytes_is_evicted_first(over_http):
    async def story(client):
        async def open_watch(query):
            answer = await client.session.get(f"{MAPS}?watch=1&timeoutSeconds=1{query}", headers=AUTH)
            return answer, [json.loads(line) async for line in answer.content]

        everything = asyncio.create_task(open_watch(""))
        one = asyncio.create_task(open_watch("&fieldSelector=metadata.name%3Dn0"))
        await opened(client, 2)
        # Nothing is awaited here, so that neither is read meanwhile.
        for number in range(5):
            client.store.create(large(f"n{number}", 1_000))
        assert client.watches.held_bytes <= client.limits.total_bytes
        (_, slow), (_, fast) = await everything, await one
        assert [(event["type"], event["object"].get("code")) for event in slow] == [("ERROR", 410)]
        assert told(fast) == [("ADDED", "n0")]
        assert client.watches.held_bytes == 0

    over_http(story, limits=WatchLimits(total_bytes=4_000))


def test_watches_share_the_bytes_of_an_event(over_http):
    async def story(client):
        watches = [asyncio.create_task(events(client, "")) for _ in range(20)]
        await opened(client, 20)
        client.store.create(large("a", 100_000))
        assert 100_000 < client.watches.held_bytes < 110_000
        assert [told(await watch) for watch in watches] == [[("ADDED", "a")]] * 20

    over_http(story)


def test_a_watch_that_is_evicted_within_an_event_loses_its_connection(over_http):
    async def story(client):
        url = client.session._base_url
        reader, writer = await asyncio.open_connection(url.host, url.port, limit=1_024)
        request = f"GET {MAPS}?watch=1 HTTP/1.1\r\nHost: {url.authority}\r\nAuthorization: Bearer a-token\r\n\r\n"
        writer.write(request.encode())
        await opened(client, 1)
        client.store.create(large("a", 30_000_000))
        await asyncio.sleep(0.5)
        client.store.create(large("b", 30_000_000))
        read = b""
        with suppress(ConnectionResetError):
            while piece := await reader.read(1_000_000):
                read += piece
        assert (read.count(b"ADDED"), b"ERROR" in read) == (1, False)
        assert not read.endswith(b"0\r\n\r\n"), "the response looks complete"
        assert len(read) < 30_000_000
        writer.close()

    over_http(story, limits=WatchLimits(lag_bytes=40_000_000, total_bytes=50_000_000))
