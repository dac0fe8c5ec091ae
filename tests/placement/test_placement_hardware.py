"""What devices of a node draw: a part of a device, a share of one, or nothing but themselves."""

import pytest

from modelplane.k8s.device import Device
from modelplane.placement.hardware import DeviceKind, Hardware, drawn_by
from modelplane.placement.partitions import CounterDraw, Draw, Partition
from modelplane.testing.fleets import DRIVER, kind

GI = 2**30 * 10**9
SHARED = DeviceKind(
    "gpu",
    Device.from_dict(DRIVER, {"allowMultipleAllocations": True}),
    2,
    DRIVER,
    capacity=b'{"memory": {"value": "80Gi", "requestPolicy": {"default": "10Gi"}}, "cores": {"value": "100"}}',
)
CORES = CounterDraw("cores", 100 * 10**9, 100 * 10**9)


@pytest.mark.parametrize(
    ("requested", "memory"),
    [
        pytest.param((), 10, id="the default of its policy"),
        pytest.param((("memory", "35Gi"),), 35, id="as much as is requested"),
        pytest.param(None, 80, id="all of a device"),
    ],
)
def test_a_share_draws_on_the_capacity_of_its_device(requested, memory):
    draws = (CORES, CounterDraw("memory", memory * GI, 80 * GI))
    assert drawn_by(SHARED, requested) == Partition("share/gpu", 2, draws)


def test_synthetic_devices_are_not_among_those_that_can_be_claimed():
    node = Hardware.of((kind("big", 2), kind("fake", 4, device_class=None), kind("small", 3)))
    assert (node.claimable, node.claimable_mask) == (5, 0b101)


def test_a_device_by_itself_draws_nothing():
    assert drawn_by(kind()) is None


def test_a_node_is_divided_where_one_of_its_kinds_is():
    nodes = Hardware.of((kind("nic", 3),)), Hardware.of((SHARED, kind("nic", 3))), Hardware.of((SHARED,))
    assert [node.is_divided for node in nodes] == [False, True, True]


def test_a_demand_for_several_kinds_names_what_is_plain_and_what_is_drawn():
    mixed = Hardware.of((SHARED, kind("nic", 3)))
    draws = (CORES, CounterDraw("memory", 35 * GI, 80 * GI))
    assert mixed.demand(1, 0b10) == (1, 0b10)
    assert mixed.demand(1, 0b11, (("memory", "35Gi"),)) == (1, 0b11, Draw(0b10, (Partition("share/gpu", 2, draws),)))
