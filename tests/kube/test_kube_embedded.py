"""The informer against the API of the embedded plane, which real Kubernetes clients speak too."""

import asyncio

from aiohttp import web

from modelplane.apiserver.app import ApiServer
from modelplane.apiserver.lifecycle import ensure_namespaces
from modelplane.apiserver.store.database import Database, StoreSettings
from modelplane.kube import GroupVersionResource, Informer, InformerSettings, NamespacedName, Query
from modelplane.reconcile.clock import SystemClock
from tests.support.kube_api import client_of, running
from tests.support.waiting import until

CONFIG_MAPS = GroupVersionResource("", "v1", "configmaps")


def config_map(name, **data):
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "default"},
        "data": data,
    }


async def create(client, manifest):
    answer = await client._http.post(CONFIG_MAPS.path("default"), json=manifest)
    assert answer.status_code == 201, answer.text


async def story(store_url):
    client = client_of(store_url, "a-token")
    for number in range(5):
        await create(client, config_map(f"c-{number}", size=str(number)))
    said = []
    informer = Informer(
        client, Query(CONFIG_MAPS, "default"), lambda raw: raw["data"]["size"], settings=InformerSettings(page=2)
    )
    informer.listen(said.extend)
    async with running(informer.run()):
        await informer.wait_synced()
        assert dict(informer.snapshot) == {NamespacedName("default", f"c-{number}"): str(number) for number in range(5)}
        await client.annotate(CONFIG_MAPS, "c-1", "default", {"note": "x"})
        assert (await client.get(CONFIG_MAPS, "c-1", "default"))["metadata"]["annotations"] == {"note": "x"}
        await create(client, config_map("late", size="9"))
        await client._http.delete(CONFIG_MAPS.path("default", "c-0"))
        await until(lambda: len(said) == 7)
        assert [event.change.value for event in said[5:]] == ["added", "deleted"]
    await client.close()


def test_list_watch_and_annotate():
    async def main():
        clock = SystemClock()
        with Database(None, clock=clock, settings=StoreSettings()) as database:
            store = database.store("plane")
            ensure_namespaces(store)
            server = ApiServer(store, token="a-token", clock=clock)
            await server.runner.setup()
            await web.TCPSite(server.runner, "127.0.0.1", 0).start()
            try:
                await story("http://{}:{}".format(*server.runner.addresses[0][:2]))
            finally:
                await server.close()

    asyncio.run(main())
