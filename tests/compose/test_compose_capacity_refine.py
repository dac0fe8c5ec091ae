"""What a pool counts of what was declared: facts of its nodes, and nodes that its replicas need."""

import msgspec
import pytest

from modelplane.api.models import Attribute, GpuPool, PoolDevice
from modelplane.compose.capacity import ObservedPool, refined, requeue_after_s
from modelplane.compose.capacity.devices import observed_pools
from tests.compose.test_compose_capacity import (
    DRIVER,
    FIXED,
    HOPPER,
    LATER,
    NOON,
    SCALES,
    SINCE,
    claim,
    inventory,
    node,
    seen,
)

FACT = PoolDevice(name="nvlink", claim="Synthetic", driver="facts", count=1)


@pytest.mark.parametrize(
    ("allocated", "observed", "free"),
    [(1, seen(3, 24, 0), 2), (2, {}, 0)],
    ids=["a node holds one", "more are held than there are nodes"],
)
def test_a_fact_that_no_driver_publishes_is_there_as_often_as_nodes_are(allocated, observed, free):
    fact = msgspec.structs.replace(FACT, allocated=allocated, free=9)
    (found,) = refined(GpuPool(name="gpu", nodes=4, devices=(fact,)), FIXED, observed, None, 0.0).devices
    assert found == msgspec.structs.replace(fact, free=free)


def test_a_pool_that_scales_needs_nodes_for_the_kind_that_most_of_is_held():
    gpu = PoolDevice(name="h200", claim="DRA", driver=DRIVER, count=8, attributes=HOPPER, allocated=24)
    nic = msgspec.structs.replace(gpu, name="nic", attributes={"kind": Attribute(string="NIC")}, allocated=1)
    before = GpuPool(name="gpu", nodes=4, short_since=SINCE)
    shown = GpuPool(name="gpu", nodes=4, devices=(gpu, nic, FACT))
    found = refined(shown, SCALES, {"gpu": ObservedPool(2)}, before, LATER)
    assert (found.nodes, found.short_since) == (2, SINCE)


def test_a_pool_that_scales_needs_no_nodes_for_facts():
    gpu = PoolDevice(name="h200", claim="DRA", driver=DRIVER, count=8, attributes=HOPPER, allocated=4)
    shown = GpuPool(name="gpu", nodes=4, devices=(gpu, msgspec.structs.replace(FACT, allocated=4)))
    found = refined(shown, SCALES, {"gpu": ObservedPool(1)}, GpuPool(name="gpu", nodes=4), LATER)
    assert (found.nodes, found.short_since) == (4, None)


def test_a_pool_of_facts_alone_needs_no_node():
    shown = GpuPool(name="gpu", nodes=4, devices=(FACT,))
    assert refined(shown, SCALES, {}, None, NOON).short_since is None


def test_pools_are_looked_at_again_when_the_first_of_them_has_waited_long_enough():
    names = {"a": "2026-01-01T11:50:00Z", "b": SINCE, "fixed": "2026-01-01T11:46:00Z"}
    pools = tuple(GpuPool(name=name, nodes=4, short_since=since) for name, since in names.items())
    declared = [msgspec.structs.replace(FIXED if name == "fixed" else SCALES, name=name) for name in names]
    assert [requeue_after_s(pools, tuple(declared), NOON + later) for later in (0, 299.5, 300, 900)] == [
        300,
        0.5,
        600,
        None,
    ]


def test_a_status_tells_the_32_largest_sizes_of_what_others_claim():
    held = {f"n{size}": [f"gpu-{at}" for at in range(size)] for size in range(1, 34)}
    found = observed_pools(
        [node(name, "gpu") for name in held],
        [inventory(name, len(devices)) for name, devices in held.items()],
        [claim(name, *devices) for name, devices in held.items()],
    )
    gpu = PoolDevice(name="h200", claim="DRA", driver=DRIVER, count=33, attributes=HOPPER)
    (device,) = refined(GpuPool(name="gpu", nodes=33, devices=(gpu,)), FIXED, found, None, NOON).devices
    assert [(each.devices, each.claims) for each in device.claims_of_others] == [(size, 1) for size in range(33, 1, -1)]
    assert device.held_by_others == sum(range(1, 34))
