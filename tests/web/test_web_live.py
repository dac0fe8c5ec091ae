"""Snapshots: one for all who watch, made again after a change and not for a change of another kind."""

import asyncio

from modelplane.api.objects import GROUP, manifest
from modelplane.reconcile.store import ObjectRef
from modelplane.web import live as live_module
from modelplane.web.live import LiveSnapshot
from modelplane.web.pages import VIEWS
from modelplane.web.paging import ViewQuery
from modelplane.web.source import DashboardSource
from tests.support.dashboard_fleet import FixedClock, cluster, fleet_store, pool


def watched(steps):
    async def main():
        store = fleet_store([cluster("east", pool())])
        live = LiveSnapshot(DashboardSource(store), FixedClock())
        try:
            async with asyncio.timeout(60):
                return await steps(store, live)
        finally:
            await live.close()

    return asyncio.run(main())


def names(snapshot):
    return [row.name for row in snapshot.overview.clusters]


def test_all_who_watch_get_the_same_snapshot_and_each_of_them_the_next():
    async def steps(store, live):
        async with live.watch() as one, live.watch() as two:
            first = one.newest, two.newest
            store.create(cluster("west", pool()))
            waited = await asyncio.gather(one.next(30), two.next(30))
            return first, waited, (one.newest, two.newest)

    first, waited, second = watched(steps)
    assert first[0] is first[1]
    assert second[0] is second[1]
    assert waited == [True, True]
    assert (names(first[0]), names(second[0])) == (["east"], ["east", "west"])


def test_a_burst_of_changes_is_few_snapshots():
    async def steps(store, live):
        made = []
        async with live.watch() as watch:
            for number in range(50):
                store.create(cluster(f"c{number:02}", pool()))
                await asyncio.sleep(0)
            while len(watch.newest.overview.clusters) < 51:
                assert await watch.next(30)
                made.append(len(watch.newest.overview.clusters))
        return made

    assert len(watched(steps)) <= 3


def test_what_the_dashboard_does_not_show_makes_no_snapshot():
    async def steps(store, live):
        async with live.watch() as watch:
            store.create(manifest("v1", "Secret", "s", namespace="default"))
            return await watch.next(0.5)

    assert watched(steps) is False


def test_a_snapshot_that_nobody_watches_is_forgotten(monkeypatch):
    monkeypatch.setattr(live_module, "_KEPT_S", 0.05)

    async def steps(_store, live):
        first = await live.current()
        kept = await live.current()
        await live._task
        return first is kept, await live.current() is first

    assert watched(steps) == (True, False)


def test_what_cannot_be_read_is_a_row_that_says_so():
    async def steps(store, live):
        async with live.watch() as watch:
            ref = ObjectRef(GROUP, "InferenceCluster", "", "east")
            store.replace_status({**store.get(ref), "status": {"nodes": "many"}})
            assert await watch.next(30)
            unread = watch.newest.overview.clusters[0].health
            card = VIEWS["fleet"](watch.newest, ViewQuery()).rows[0]
            assert (card.name, card.health, card.pools) == ("east", unread, ())
            for view in ("summary", "overview", "deployments", "services", "caches", "events"):
                VIEWS[view](watch.newest, ViewQuery())
            store.replace_status({**store.get(ref), "status": {"nodes": 3}})
            return unread, await watch.next(30), watch.newest.overview.clusters[0].nodes

    unread, changed, nodes = watched(steps)
    assert (unread.state, changed, nodes) == ("Unknown", True, 3)
    assert unread.why == "it cannot be read: Expected `int | null`, got `str` - at `$.status.nodes`"
