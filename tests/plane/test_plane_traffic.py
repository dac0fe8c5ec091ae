"""What Envoy is programmed with for the fleet gateway, and the statuses that are written."""

import asyncio

import pytest

from modelplane.api.objects import manifest
from modelplane.apiserver.store.database import Database
from modelplane.envoy import ConfigApplied, EnvoyFailedError
from modelplane.plane.traffic import Traffic
from modelplane.reconcile.clock import SystemClock
from modelplane.reconcile.store import ObjectRef
from modelplane.testing.clock import VirtualClock
from tests.support.waiting import until

GATEWAY = manifest("gateway.networking.k8s.io/v1", "Gateway", "modelplane", namespace="modelplane-system", spec={})
PARENT = {"name": "modelplane", "namespace": "modelplane-system"}


class Front:
    """Takes every configuration, or fails, and remembers it."""

    def __init__(self):
        self.taken = []
        self.fails = False
        self.pid = 1
        self.starts = 0
        self.during = lambda: None

    async def apply(self, config):
        if self.fails:
            raise EnvoyFailedError("Envoy did not take its configuration")
        self.during()
        self.taken.append(config)
        return ConfigApplied(1, 0.0)

    async def start(self, config):
        await self.apply(config)
        self.pid, self.starts = 2, self.starts + 1
        return ConfigApplied(3, 0.0)

    async def stop(self):
        self.pid = None

    async def wait(self):
        while self.pid is not None:  # noqa: ASYNC110  the tests set it
            await asyncio.sleep(0.01)
        return -9


def route(name="chat", backend="up", parent=PARENT, **rule):
    refs = [{"group": "gateway.envoyproxy.io", "kind": "Backend", "name": backend}]
    spec = {"parentRefs": [parent], "rules": [{"backendRefs": refs, **rule}]}
    return manifest("gateway.networking.k8s.io/v1", "HTTPRoute", name, namespace="team", spec=spec)


def backend(name="up"):
    spec = {"endpoints": [{"ip": {"address": "192.0.2.1", "port": 80}}]}
    return manifest("gateway.envoyproxy.io/v1alpha1", "Backend", name, namespace="team", spec=spec)


def seen(*items, edges=None):
    """One pass over these objects: the configuration, and the store after it."""

    async def main():
        clock = VirtualClock()
        store, front = Database(None, clock=clock).store("plane"), Front()
        for item in items:
            store.create(item)
        traffic = Traffic(store, front, clock, address=("127.0.0.1", 8080))
        traffic.set_view_source(lambda name: (edges or {})[name], edges or ())
        await traffic._reconcile("fleet")
        return front.taken[-1], store

    return asyncio.run(main())


def test_a_route_that_comes_while_envoy_is_programmed_is_not_in_force_yet():
    """A service was Available before its endpoints were in Envoy, and its first request got 503."""

    async def main():
        clock = VirtualClock()
        store, front = Database(None, clock=clock).store("plane"), Front()
        for item in (GATEWAY, backend()):
            store.create(item)
        traffic = Traffic(store, front, clock, address=("127.0.0.1", 8080))
        traffic.set_view_source(lambda _name: None)
        front.during = lambda: store.create(route())
        await traffic._reconcile("fleet")
        reported = "status" in store.get(ObjectRef("gateway.networking.k8s.io", "HTTPRoute", "team", "chat"))
        front.during = lambda: None
        await traffic._reconcile("fleet")
        return reported, verdicts(store)

    reported, after = asyncio.run(main())
    assert not reported
    assert after["Accepted"] == ("True", "Accepted")


def verdicts(store, name="chat"):
    found = store.get(ObjectRef("gateway.networking.k8s.io", "HTTPRoute", "team", name))
    (parent,) = found["status"]["parents"]
    return {entry["type"]: (entry["status"], entry["reason"]) for entry in parent["conditions"]}


def test_a_route_in_force_is_accepted_and_the_gateway_has_its_address():
    config, store = seen(GATEWAY, route(), backend())
    assert verdicts(store) == {"Accepted": ("True", "Accepted"), "ResolvedRefs": ("True", "ResolvedRefs")}
    gateway = store.get(ObjectRef("gateway.networking.k8s.io", "Gateway", "modelplane-system", "modelplane"))
    assert gateway["status"]["addresses"] == [{"type": "IPAddress", "value": "127.0.0.1:8080"}]
    assert list(config.listeners) == ["fleet", "fleet.providers"]


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        (route(backend="gone"), {"Accepted": ("True", "Accepted"), "ResolvedRefs": ("False", "BackendNotFound")}),
        (
            route(matches=[{"method": "GET"}]),
            {"Accepted": ("False", "UnsupportedValue"), "ResolvedRefs": ("True", "ResolvedRefs")},
        ),
    ],
)
def test_a_route_says_what_of_it_is_not_in_force(item, expected):
    assert verdicts(seen(item, backend())[1]) == expected


def test_routes_of_other_gateways_are_not_ours():
    _, store = seen(route(parent={"name": "else", "namespace": "team"}), backend())
    found = store.get(ObjectRef("gateway.networking.k8s.io", "HTTPRoute", "team", "chat"))
    assert "status" not in found


def test_only_secrets_that_filters_name_are_told():
    injection = {"credential": {"valueRef": {"name": "key"}}}
    added = manifest(
        "gateway.envoyproxy.io/v1alpha1",
        "HTTPRouteFilter",
        "adds",
        namespace="team",
        spec={"credentialInjection": injection},
    )

    async def main():
        clock = VirtualClock()
        store = Database(None, clock=clock).store("plane")
        for item in (added, *({**manifest("v1", "Secret", name, namespace="team")} for name in ("key", "other"))):
            store.create(item)
        traffic = Traffic(store, Front(), clock, address=("127.0.0.1", 8080))
        view = traffic._fleet_views(traffic._doors.served(), {})[0]["fleet"]
        return [secret["metadata"]["name"] for secret in view.secrets]

    assert asyncio.run(main()) == ["key"]


def test_nothing_is_reported_while_envoy_did_not_take_it():
    async def main():
        clock = VirtualClock()
        store, front = Database(None, clock=clock).store("plane"), Front()
        front.fails = True
        store.create(route())
        traffic = Traffic(store, front, clock, address=("127.0.0.1", 8080))
        with pytest.raises(EnvoyFailedError):
            await traffic._reconcile("fleet")
        return store.get(ObjectRef("gateway.networking.k8s.io", "HTTPRoute", "team", "chat"))

    assert "status" not in asyncio.run(main())


def shown(store):
    gateway = store.get(ObjectRef("gateway.networking.k8s.io", "Gateway", "modelplane-system", "modelplane"))
    status = gateway.get("status")
    if status is None:
        return None
    programmed = next(entry for entry in status["conditions"] if entry["type"] == "Programmed")
    return [entry["value"] for entry in status["addresses"]], programmed["status"], programmed["message"]


def test_an_envoy_that_ended_by_itself_is_started_again_and_has_no_address_meanwhile():
    async def main():
        clock = SystemClock()
        store, front = Database(None, clock=clock).store("plane"), Front()
        store.create(GATEWAY)
        traffic = Traffic(store, front, clock, address=("127.0.0.1", 8080))
        running = [asyncio.create_task(each) for each in (traffic.loop.run(), traffic.watch())]
        traffic.changed()
        await until(lambda: shown(store) == (["127.0.0.1:8080"], "True", ""))
        front.fails, front.pid = True, None
        await until(lambda: shown(store) == ([], "False", "Envoy did not take its configuration"))
        front.fails = False
        await until(lambda: shown(store) == (["127.0.0.1:8080"], "True", ""))
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        return front.starts

    assert asyncio.run(main()) == 1


def test_a_gateway_whose_certificate_cannot_be_used_is_not_served_and_says_why():
    listener = {"name": "https", "port": 443, "protocol": "HTTPS", "tls": {"certificateRefs": [{"name": "front"}]}}
    config, store = seen({**GATEWAY, "spec": {"listeners": [listener]}}, route(), backend())
    assert list(config.listeners) == []
    assert shown(store) == ([], "False", "Secret front not found in namespace modelplane-system")


def test_what_is_reported_asks_for_no_other_pass():
    async def main():
        clock = VirtualClock()
        store = Database(None, clock=clock).store("plane")
        traffic = Traffic(store, Front(), clock, address=("127.0.0.1", 8080))
        waiting = []
        for item in (GATEWAY, route(), backend()):
            store.create(item)
            waiting.append(traffic.loop.stats().queued)
        traffic.loop.forget("fleet")
        await traffic._reconcile("fleet")
        waiting.append(traffic.loop.stats().queued)
        store.delete(ObjectRef("gateway.networking.k8s.io", "HTTPRoute", "team", "chat"))
        return [*waiting, traffic.loop.stats().queued]

    assert asyncio.run(main()) == [1, 1, 1, 0, 1]
