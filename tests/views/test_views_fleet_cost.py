"""What teams and deployments cost, whole values."""

import pytest

from modelplane.views.fleet_cost import (
    CurrencyCost,
    DeploymentCost,
    EndpointUsage,
    FleetCost,
    TeamCost,
    UsedTokens,
    fleet_cost,
)
from modelplane.views.fleet_load import DeploymentLoad, DeviceLoad, FleetLoad, HourlyPrice, PoolLoad

HOUR = 3600.0


def pool(price, cluster="east"):
    return PoolLoad(
        cluster=cluster, pool="p", class_name="c", nodes=1, load=DeviceLoad(devices=8), replicas=0, ready_replicas=0,
        price=price,
    )  # fmt: skip


def deployment(name, price, *, namespace="team", devices=2):
    return DeploymentLoad(
        namespace=namespace, name=name, replicas=1, ready_replicas=1, devices=devices, endpoints=1, traffic=None,
        price=price,
    )  # fmt: skip


def endpoint(name, owner="", namespace="team"):
    labels = {"modelplane.ai/deployment": owner} if owner else {}
    return {"metadata": {"name": name, "namespace": namespace, "labels": labels}}


def usd(amount):
    return HourlyPrice(amount, "USD")


def test_a_fleet_whole():
    load = FleetLoad(
        pools=(pool(usd(80.0)), pool(usd(20.5), "west"), pool(HourlyPrice(9.0, "EUR"), "fra"), pool(None, "own")),
        deployments=(
            deployment("chat", usd(40.0), devices=4),
            deployment("draw", usd(10.0)),
            deployment("odd", HourlyPrice(3.0, "EUR"), namespace="lab"),
            deployment("free", None, namespace="lab"),
        ),
    )
    usage = [
        EndpointUsage(endpoint="team/chat-0", requests=2, input_tokens=600_000, output_tokens=100_000),
        EndpointUsage(endpoint="team/chat-1", requests=1, input_tokens=200_000, output_tokens=100_000),
        EndpointUsage(endpoint="team/draw-0", requests=5),
        EndpointUsage(endpoint="team/vendor", requests=1, input_tokens=7, output_tokens=3, spent=1.25),
        EndpointUsage(endpoint="other/gone", requests=1, spent=0.5),
    ]
    endpoints = [
        endpoint("chat-0", "chat"), endpoint("chat-1", "chat"), endpoint("draw-0", "draw"), endpoint("vendor"),
    ]  # fmt: skip
    assert fleet_cost(load, endpoints, usage, window_s=2 * HOUR) == FleetCost(
        hours=2.0,
        totals=(
            CurrencyCost(currency="EUR", nodes_per_hour=9.0, deployments_per_hour=3.0, rest_per_hour=6.0),
            CurrencyCost(currency="USD", nodes_per_hour=100.5, deployments_per_hour=50.0, rest_per_hour=50.5),
        ),
        teams=(
            TeamCost(
                namespace="lab", deployments=2, devices=4, prices=(HourlyPrice(3.0, "EUR"),), unpriced=1, spent=0.0
            ),
            TeamCost(namespace="other", deployments=0, devices=0, prices=(), unpriced=0, spent=0.5),
            TeamCost(namespace="team", deployments=2, devices=6, prices=(usd(50.0),), unpriced=0, spent=1.25),
        ),
        deployments=(
            DeploymentCost(
                namespace="team", name="chat", devices=4, price=usd(40.0),
                used=UsedTokens(requests=3, input_tokens=800_000, output_tokens=200_000), per_million_tokens=80.0,
            ),
            DeploymentCost(
                namespace="team", name="draw", devices=2, price=usd(10.0), used=UsedTokens(requests=5),
                per_million_tokens=None,
            ),
            DeploymentCost(
                namespace="lab", name="odd", devices=2, price=HourlyPrice(3.0, "EUR"), used=None,
                per_million_tokens=None,
            ),
            DeploymentCost(
                namespace="lab", name="free", devices=2, price=None, used=None, per_million_tokens=None
            ),
        ),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("price", "tokens", "window_s", "million"),
    [
        (usd(40.0), 1_000_000, HOUR, 40.0),
        (usd(40.0), 4_000_000, HOUR, 10.0),
        (usd(40.0), 1_000_000, HOUR / 2, 20.0),
        (usd(40.0), 0, HOUR, None),
        (None, 1_000_000, HOUR, None),
    ],
)
def test_a_million_tokens_cost_the_price_over_the_time_in_which_they_were_counted(price, tokens, window_s, million):
    load = FleetLoad(deployments=(deployment("chat", price),))
    usage = [EndpointUsage(endpoint="team/chat-0", requests=1, output_tokens=tokens)]
    found = fleet_cost(load, [endpoint("chat-0", "chat")], usage, window_s=window_s)
    assert found.deployments[0].per_million_tokens == million


def test_without_records_hours_and_tokens_are_not_known():
    found = fleet_cost(FleetLoad(deployments=(deployment("chat", usd(1.0)),)))
    assert (found.hours, found.deployments[0].used, found.totals) == (None, None, ())


def test_a_currency_that_nobody_takes_is_all_rest():
    found = fleet_cost(FleetLoad(pools=(pool(usd(80.0)),)))
    assert found.totals == (
        CurrencyCost(currency="USD", nodes_per_hour=80.0, deployments_per_hour=0.0, rest_per_hour=80.0),
    )


@pytest.mark.parametrize(("devices", "unpriced"), [(0, 0), (1, 1)])
def test_a_deployment_without_devices_lacks_no_price(devices, unpriced):
    found = fleet_cost(FleetLoad(deployments=(deployment("chat", None, devices=devices),)))
    assert found.teams[0].unpriced == unpriced
