"""What the probes learn of gateways that end, with real sockets: before any request finds out."""

import asyncio
import socket
from functools import wraps

from modelplane.router.catalog import ServiceCatalog
from modelplane.router.health import DOUBT_S, EndpointHealth, HealthState
from modelplane.router.probes import Prober
from tests.router.conftest import Front, endpoint, plan, provider
from tests.support.waiting import until

HOST, NOW = "127.0.0.1", 5.0


def run(test):
    """Runs an async test on a loop of its own."""

    @wraps(test)
    def on_a_loop(**given):
        asyncio.run(test(**given))

    return on_a_loop


class Accepted(asyncio.Protocol):
    def __init__(self, gateway):
        self._gateway = gateway

    def connection_made(self, transport):
        self._gateway.connects += 1
        self._gateway.accepted.add(transport)
        self._transport = transport
        if self._gateway.closes_at_once:
            transport.close()

    def connection_lost(self, _why):
        self._gateway.accepted.discard(self._transport)


class Gateway:
    """Listens, and closes what was accepted when it is told to."""

    def __init__(self, *, closes_at_once=False):
        self.accepted = set()
        self.connects = 0
        self.closes_at_once = closes_at_once

    async def start(self):
        self._server = await asyncio.get_running_loop().create_server(lambda: Accepted(self), HOST, 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    def close_connections(self):
        for transport in self.accepted:
            transport.abort()

    async def end(self):
        self._server.close()
        await asyncio.sleep(0.01)  # what the kernel accepted meanwhile
        self.close_connections()
        await until(lambda: not self.accepted)


def catalog_of(*endpoints):
    catalog = ServiceCatalog()
    catalog.replace([plan(list(endpoints))])
    return catalog


def admits(catalog):
    return {key: each.health.admits(NOW) for key, each in catalog.endpoints.items()}


async def probing(catalog, **more):
    prober = Prober(catalog, clock=lambda: NOW, **more)
    await prober.probe_all()
    return prober


@run
async def test_a_closed_connection_is_doubted_before_the_next_probe():
    """No round of probes runs here: what the connection says is enough."""
    east, west = await Gateway().start(), await Gateway().start()
    catalog = catalog_of(
        endpoint("a", address=HOST, port=east.port),
        endpoint("b", address=HOST, port=east.port),
        endpoint("c", address=HOST, port=west.port),
    )
    prober = await probing(catalog)
    assert admits(catalog) == {"team/a": True, "team/b": True, "team/c": True}
    east.close_connections()
    await until(lambda: not admits(catalog)["team/a"])
    assert admits(catalog) == {"team/a": False, "team/b": False, "team/c": True}
    await prober.probe_all()
    assert admits(catalog) == {"team/a": True, "team/b": True, "team/c": True}
    assert {each.health.state(NOW) for each in catalog.endpoints.values()} == {HealthState.HEALTHY}
    await prober.stop()
    await east.end()
    await west.end()


@run
async def test_a_connection_that_nobody_accepts_is_closed_when_its_process_ends():
    """The kernel answers for a gateway that ends. A round of probes between believes it; what follows does not."""
    listening = socket.create_server((HOST, 0))
    catalog = catalog_of(endpoint("a", address=HOST, port=listening.getsockname()[1]))
    prober = await probing(catalog)
    assert admits(catalog) == {"team/a": True}
    listening.close()
    await until(lambda: not admits(catalog)["team/a"])
    await prober.probe_all()
    assert catalog.endpoints["team/a"].health.state(NOW) is HealthState.EJECTED
    await prober.stop()


@run
async def test_a_tier_that_goes_dark_at_once_gets_no_request():
    """Both gateways of the first tier end between two rounds of probes, and nobody would try a request again."""
    gateways = [await Gateway().start() for _ in range(2)]
    first = [endpoint(f"e{at}", address=HOST, port=each.port) for at, each in enumerate(gateways)]
    front = Front(plan(first, [provider("p", address="api.example", port=443)]))
    prober = Prober(front.catalog, clock=lambda: front.now_s)
    await prober.probe_all()
    assert {front.ask() for _ in range(4)} == {"e0", "e1"}
    for each in gateways:
        await each.end()
    await until(lambda: not any(front.catalog.endpoints[f"team/e{at}"].health.admits(front.now_s) for at in (0, 1)))
    assert {front.ask() for _ in range(4)} == {"p"}
    await prober.probe_all()
    assert {front.ask() for _ in range(4)} == {"p"}
    await prober.stop()


@run
async def test_a_peer_that_closes_every_connection_is_not_doubted_for_ever():
    restless = await Gateway(closes_at_once=True).start()
    catalog = catalog_of(endpoint("a", address=HOST, port=restless.port))
    prober = Prober(catalog, clock=lambda: NOW, interval_s=0.2)
    await prober.start()
    await until(lambda: restless.connects >= 8)
    found = []
    for _ in range(20):
        await asyncio.sleep(0.02)
        found.append(admits(catalog)["team/a"])
    assert all(found)
    await prober.stop()
    await restless.end()


def test_a_doubt_ends_with_the_next_probe_or_by_itself():
    health = EndpointHealth()
    health.doubted(NOW)
    assert not health.admits(NOW)
    assert health.describe(NOW) == "is probed after its connection was closed"
    assert health.admits(NOW + DOUBT_S)
    health.probed(NOW, answers=True)
    assert (health.admits(NOW), health.state(NOW)) == (True, HealthState.HEALTHY)
    health.doubted(NOW)
    health.probed(NOW, answers=False)
    assert health.describe(NOW).startswith("is ejected")
    health.doubted(NOW)
    assert health.describe(NOW).startswith("is ejected")
