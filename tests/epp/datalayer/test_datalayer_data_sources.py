"""Data sources of other packages: what they read reaches endpoints, and what they do wrong stays with them."""

import asyncio
from math import nan

from modelplane.epp.datalayer.data_sources import DataSourcePoller
from modelplane.epp.datalayer.endpoints import StaticEndpoints
from modelplane.testing.picking import endpoint
from tests.support.waiting import until


class Counting:
    interval_s = 0.0

    def __init__(self, name, *results):
        self.name = name
        self._results = iter(results)

    async def collect(self, endpoints):
        found = next(self._results, {})
        if found == "hang":
            await asyncio.Event().wait()
        if isinstance(found, Exception):
            raise found
        return dict.fromkeys(endpoints, found)


def polled(run, done, *sources, timeout_s=5.0, pool=None):
    """The attributes of one endpoint once `done` holds of them, and the faults."""
    pool = pool or StaticEndpoints([endpoint("a", attributes={"price": 1.0})])
    faults = []

    async def poll():
        poller = DataSourcePoller(sources, lambda fault: faults.append(str(fault)), timeout_s)
        poller.follow(pool)
        await poller.start()
        await until(lambda: done(pool.current[0].attributes))
        await poller.stop()
        return dict(pool.current[0].attributes), faults

    return run(poll())


def test_numbers_reach_the_attributes_and_those_who_watch(run):
    watched = endpoint("a", attributes={"price": 1.0})
    changed = []
    watched.watch(changed)
    source = Counting("power", {"watts": 250.0}, {"watts": 300.0, "price": 2.0})
    found = polled(run, lambda attributes: attributes.get("price") == 2.0, source, pool=StaticEndpoints([watched]))
    assert found == ({"price": 2.0, "watts": 300.0}, [])
    assert changed == [watched]


def test_a_source_that_raises_or_reads_nonsense_is_called_again_and_others_go_on(run):
    bad = Counting("bad", OSError("no route"), {"watts": nan}, {"watts": 1.0})
    good = Counting("good", {"rack": 7.0})
    attributes, faults = polled(run, lambda attributes: "watts" in attributes, bad, good)
    assert attributes == {"price": 1.0, "watts": 1.0, "rack": 7.0}
    assert faults == [
        "plugin bad: raised OSError: no route",
        "plugin bad: read {'watts': nan} of a; numbers must be finite",
    ]


def test_a_source_that_hangs_is_given_up(run):
    source = Counting("slow", "hang", {"watts": 1.0})
    _, faults = polled(run, lambda attributes: "watts" in attributes, source, timeout_s=0.02)
    assert faults == ["plugin slow: raised TimeoutError: "]


def test_a_pool_that_is_empty_is_not_collected(run):
    pool = StaticEndpoints()
    source = Counting("power", {"watts": 1.0})

    async def fill():
        poller = DataSourcePoller([source], print)
        poller.follow(pool)
        await poller.start()
        await asyncio.sleep(0.12)
        pool.replace([endpoint("late")])
        await until(lambda: pool.current[0].attributes)
        await poller.stop()
        return dict(pool.current[0].attributes)

    assert run(fill()) == {"watts": 1.0}
