"""One object, one annotation, and answers that are no answers."""

import asyncio
from contextlib import aclosing

import pytest
from aiohttp import web

from modelplane.kube import GroupVersionResource, KubeStatusError, Query, Unreachable
from tests.support.kube_api import client_of, tell

WIDGETS = GroupVersionResource("example.org", "v1", "widgets")


@pytest.mark.parametrize(
    ("kind", "namespace", "name", "path"),
    [
        (GroupVersionResource("", "v1", "pods"), None, None, "/api/v1/pods"),
        (GroupVersionResource("", "v1", "pods"), "here", "p-0", "/api/v1/namespaces/here/pods/p-0"),
        (WIDGETS, "here", None, "/apis/example.org/v1/namespaces/here/widgets"),
        (WIDGETS, None, "../secrets", "/apis/example.org/v1/widgets/..%2Fsecrets"),
    ],
)
def test_paths(kind, namespace, name, path):
    assert kind.path(namespace, name) == path


def test_one_annotation_is_set_and_taken_away_and_others_stay():
    async def story(api, client):
        api.put(WIDGETS, {"metadata": {"name": "a", "namespace": "here", "annotations": {"other": "1"}}})
        await client.annotate(WIDGETS, "a", "here", {"mine": "2"})
        assert (await client.get(WIDGETS, "a", "here"))["metadata"]["annotations"] == {"other": "1", "mine": "2"}
        await client.annotate(WIDGETS, "a", "here", {"mine": None})
        assert api.get(WIDGETS, "a", "here")["metadata"]["annotations"] == {"other": "1"}

    tell(story)


def test_an_object_that_is_not_there():
    async def story(_, client):
        with pytest.raises(KubeStatusError, match="404 NotFound: widgets") as refused:
            await client.get(WIDGETS, "a", "here")
        assert refused.value.status == 404

    tell(story)


def test_nobody_listens():
    async def main():
        client = client_of("http://127.0.0.1:1")
        with pytest.raises(Unreachable):
            await client.get(WIDGETS, "a")
        with pytest.raises(Unreachable):
            await _drain(client)
        await client.close()

    asyncio.run(main())


async def _drain(client):
    async with aclosing(client.watch(Query(WIDGETS), version="1", seconds=1)) as batches:
        return [line async for batch in batches for line in batch]


@pytest.mark.parametrize(
    ("body", "status"),
    [(b"<html>", 200), (b"\xff\xfe", 200), (b'{"type": "ADDED"}\n', 200), (b"[]\n", 200), (b"no\n", 502)],
)
def test_answers_that_cannot_be_read(body, status):
    async def main():
        async def answer(_):
            return web.Response(body=body, status=status)

        application = web.Application()
        application.router.add_get("/{path:.*}", answer)
        runner = web.AppRunner(application)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        client = client_of("http://{}:{}".format(*runner.addresses[0]))
        with pytest.raises((Unreachable, KubeStatusError)):
            await client.page(Query(WIDGETS), limit=1)
        if body.endswith(b"\n"):
            with pytest.raises((Unreachable, KubeStatusError)):
                await _drain(client)
        await client.close()
        await runner.cleanup()

    asyncio.run(main())
