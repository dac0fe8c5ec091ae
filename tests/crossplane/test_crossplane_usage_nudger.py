"""Replicas that leave: their Usages are touched until they are gone, and nobody else's."""

import asyncio

from prometheus_client import CollectorRegistry

from modelplane.crossplane.caches import FunctionCaches
from modelplane.crossplane.fleet_informers import REPLICAS
from modelplane.crossplane.live import Live
from modelplane.crossplane.usage_nudger import NUDGE_ANNOTATION, USAGES
from tests.support.kube_api import running, tell
from tests.support.waiting import until

WHEN = "2026-01-01T00:00:00Z"


def usage(name, composite, *, leaving):
    metadata = {"name": name, "namespace": "team", "labels": {"crossplane.io/composite": composite}}
    return {"metadata": {**metadata, **({"deletionTimestamp": WHEN} if leaving else {})}}


def replica(name, *, leaving, deployment=""):
    metadata = {"name": name, "namespace": "team"}
    return {
        "apiVersion": "modelplane.ai/v1alpha1",
        "kind": "ModelReplica",
        "metadata": {**metadata, **({"deletionTimestamp": WHEN} if leaving else {})},
        "spec": {"clusterName": "east", "deployment": {"name": deployment}},
    }


def nudge_of(api, name):
    return api.get(USAGES, name, "team")["metadata"].get("annotations", {}).get(NUDGE_ANNOTATION, "")


def with_live(story):
    async def main(api, client):
        live = Live(client, CollectorRegistry(), FunctionCaches(), pause_s=0.01)
        async with running(live.run()):
            await until(lambda: live.informers.synced and api.asked["watch"] == 4)
            await story(api)

    tell(main)


def test_usages_of_a_replica_that_leaves_are_touched_until_it_is_gone():
    async def story(api):
        api.put(REPLICAS, replica("qwen-a", leaving=False, deployment="qwen"))
        for name, leaving in (("waits", True), ("stays", False)):
            api.put(USAGES, usage(name, "qwen", leaving=leaving))
        api.put(USAGES, usage("of-another", "llama", leaving=True))
        api.put(REPLICAS, replica("qwen-a", leaving=True, deployment="qwen"))
        await until(lambda: nudge_of(api, "waits"))
        first = nudge_of(api, "waits")
        await until(lambda: nudge_of(api, "waits") != first)
        api.delete(REPLICAS, "qwen-a", "team")
        await asyncio.sleep(0.1)
        last = nudge_of(api, "waits")
        await asyncio.sleep(0.1)
        assert nudge_of(api, "waits") == last
        assert [nudge_of(api, name) for name in ("stays", "of-another")] == ["", ""]

    with_live(story)


def test_a_replica_that_nothing_composed_is_found_by_its_own_name():
    async def story(api):
        api.put(USAGES, usage("waits", "alone", leaving=True))
        api.put(REPLICAS, replica("alone", leaving=True))
        await until(lambda: nudge_of(api, "waits"))

    with_live(story)


def test_a_usage_that_is_gone_meanwhile_does_not_keep_others_waiting():
    async def story(api):
        api.put(USAGES, usage("first", "alone", leaving=True))
        api.put(REPLICAS, replica("alone", leaving=True))
        await until(lambda: nudge_of(api, "first"))
        api.delete(USAGES, "first", "team")
        api.put(USAGES, usage("second", "alone", leaving=True))
        await until(lambda: nudge_of(api, "second"))

    with_live(story)


def test_without_the_right_to_touch_them_nothing_else_suffers():
    async def story(api):
        api.refusals["patch"] = 403
        api.put(USAGES, usage("waits", "alone", leaving=True))
        api.put(REPLICAS, replica("alone", leaving=True))
        await until(lambda: api.asked["patch"] == 1)
        await asyncio.sleep(0.1)
        assert api.asked["patch"] == 1

    with_live(story)
