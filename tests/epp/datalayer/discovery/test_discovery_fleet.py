"""ModelEndpoints as endpoints, with the price of what is behind them."""

import pytest

from modelplane.epp.datalayer.discovery import FleetEndpoints
from modelplane.epp.datalayer.discovery.fleet import CLUSTERS, ENDPOINTS, REPLICAS, serving_of
from modelplane.epp.datalayer.scrape.targets import ScrapeTarget, page_of
from modelplane.epp.scheduling.endpoints import Endpoint
from tests.support.kube_api import tell
from tests.support.waiting import until


def endpoint(name, url="http://10.0.0.1:80", *, ready="True", replica=None, **metadata):
    spec = {"url": url} | ({"replica": {"name": replica[0], "clusterName": replica[1]}} if replica else {})
    return {
        "metadata": {"name": name, "namespace": "team", "uid": "u", **metadata},
        "spec": spec,
        "status": {"conditions": [{"type": "Ready", "status": ready}]},
    }


def replica(name, cluster, *members, copies=1):
    engine = {"name": "e", "copies": copies, "members": [{"nodePoolName": p, "nodes": n} for p, n in members]}
    return {"metadata": {"name": name, "namespace": "team"}, "spec": {"clusterName": cluster, "engines": [engine]}}


def cluster(name, **prices):
    pools = [{"name": pool, "nodes": 1, "pricePerNodeHour": price} for pool, price in prices.items()]
    return {"metadata": {"name": name}, "status": {"gpuPools": pools}}


def shown(source):
    return [(e.name, e.address, dict(e.labels), dict(e.attributes)) for e in source.current]


def test_replicas_with_their_prices_and_a_provider_without():
    async def story(api, client):
        api.put(ENDPOINTS, endpoint("a", "http://10.0.0.1:8080/x", replica=("r", "east"), labels={"app": "m"}))
        api.put(ENDPOINTS, endpoint("b", "https://api.example", labels={"app": "m"}))
        api.put(ENDPOINTS, endpoint("c", labels={"app": "other"}))
        api.put(REPLICAS, replica("r", "east", ("h100", 2), ("cpu", 1), copies=2))
        api.put(CLUSTERS, cluster("east", h100="10.5", cpu="1"))
        source = FleetEndpoints(client, "team", "app=m")
        await source.start()
        labels = {"metricsAddress": "", "app": "m", "modelplane.ai/cluster": "east", "modelplane.ai/replica": "r"}
        expected = [
            ("team/a", "10.0.0.1:8080", labels, {"price-per-hour": 44.0}),
            ("team/b", "api.example:443", {"metricsAddress": "", "app": "m"}, {}),
        ]
        await until(lambda: shown(source) == expected)
        first = source.current[0]
        api.put(CLUSTERS, cluster("east", h100="20", cpu="1"))
        await until(lambda: first.attributes == {"price-per-hour": 82.0})
        api.put(CLUSTERS, cluster("east", cpu="1"))
        await until(lambda: first.attributes == {})
        assert source.current[0] is first
        api.put(ENDPOINTS, endpoint("a", ready="False", labels={"app": "m"}))
        await until(lambda: len(source.current) == 1)
        await source.stop()

    tell(story)


def test_fleet_endpoints_are_scraped_only_at_their_label():
    silent = serving_of(endpoint("a"))
    reported = serving_of(endpoint("a", labels={"metricsAddress": "10.0.0.9", "metricsPort": "9090"}))
    assert page_of(Endpoint(silent.name, silent.address, silent.labels)) is None
    assert page_of(Endpoint(reported.name, reported.address, reported.labels)) == ScrapeTarget("10.0.0.9", 9090)


def test_the_fleet_without_endpoints_is_known_and_empty():
    async def story(_, client):
        source = FleetEndpoints(client)
        await source.start()
        assert (source.known, source.current) == (True, ())
        await source.stop()

    tell(story)


@pytest.mark.parametrize(
    ("raw", "address"),
    [
        (endpoint("a", "http://[fd00::1]:8000/v1"), "[fd00::1]:8000"),
        (endpoint("a", "http://models.example"), "models.example:80"),
        (endpoint("a", "ftp://models.example"), None),
        (endpoint("a", "http://models.example:x"), None),
        (endpoint("a", "nonsense"), None),
        (endpoint("a", ready="Unknown"), None),
        (endpoint("a", deletionTimestamp="2026-01-01T00:00:00Z"), None),
        (endpoint("a") | {"status": {}}, None),
        (endpoint("a") | {"status": {"conditions": [{"type": "RouteReady", "status": "True"}]}}, "10.0.0.1:80"),
    ],
)
def test_which_endpoints_take_requests(raw, address):
    found = serving_of(raw)
    assert (found.address if found else None) == address
