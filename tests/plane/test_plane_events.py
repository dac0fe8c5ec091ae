"""Repeated events raise a count; events are deleted an hour after they last occurred."""

import asyncio

import pytest

from modelplane.api.reasons import Reason
from modelplane.apiserver.store.database import Database
from modelplane.compose.contract import Event, EventType
from modelplane.plane.events import EventExpiry, write_event
from modelplane.plane.ownership import Owner
from modelplane.reconcile.store import ObjectRef
from modelplane.testing.clock import run_virtual

OWNER = Owner(ObjectRef("modelplane.ai", "ModelDeployment", "team", "chat"), "uid-1")
PLACED = Event(EventType.NORMAL, Reason.PLACED, "replica 0 is placed on cluster east")
HOUR = 3600


def seen(store):
    return [(each["message"], each["count"]) for each in store.list("", "Event")]


def test_the_same_again_raises_a_count():
    async def main(clock):
        store = Database(None, clock=clock).store("plane")
        for _ in range(3):
            write_event(store, OWNER, PLACED, now=clock.now())
        assert seen(store) == [(PLACED.message, 3)]
        assert store.list("", "Event")[0]["involvedObject"] == {
            "apiVersion": "modelplane.ai/v1alpha1",
            "kind": "ModelDeployment",
            "namespace": "team",
            "name": "chat",
            "uid": "uid-1",
        }

    run_virtual(main)


async def _swept(clock, store, seconds):
    loop = asyncio.create_task(EventExpiry(store, clock).loop.run())
    await clock.sleep(seconds)
    loop.cancel()
    await asyncio.gather(loop, return_exceptions=True)


def test_what_is_told_again_stays():
    async def main(clock):
        store = Database(None, clock=clock).store("plane")
        write_event(store, OWNER, PLACED, now=clock.now())
        await _swept(clock, store, HOUR - 300)
        write_event(store, OWNER, PLACED, now=clock.now())
        await _swept(clock, store, HOUR - 300)
        assert seen(store) == [(PLACED.message, 2)]
        await _swept(clock, store, 600)
        assert seen(store) == []

    run_virtual(main)


@pytest.mark.parametrize(
    "moments",
    [
        pytest.param({}, id="by its creation"),
        pytest.param({"eventTime": "2001-01-01T00:00:00.000000Z"}, id="by its creation, being the newest"),
        pytest.param({"series": {"lastObservedTime": "2001-01-01T00:00:00.000000Z", "count": 2}}, id="in a series"),
    ],
)
def test_events_of_others_go_too(moments):
    async def main(clock):
        store = Database(None, clock=clock).store("plane")
        event = {"apiVersion": "v1", "kind": "Event", "metadata": {"name": "x", "namespace": "team"}, **moments}
        store.create(event)
        await _swept(clock, store, HOUR - 300)
        assert len(store.list("", "Event")) == 1
        await _swept(clock, store, 600)
        assert store.list("", "Event") == ()

    run_virtual(main)
