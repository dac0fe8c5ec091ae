"""What is held of counters, in numbers that a person can check."""

import pytest

from modelplane.placement.counter_words import amount, drawn_words
from modelplane.placement.hardware import DeviceKind, Hardware
from modelplane.placement.partitions import CounterDraw, Partition
from modelplane.testing.fleets import device, kind

ONE = 10**9


def slices(name, drawn, most):
    draws = (CounterDraw(f"device/{name}", ONE, most * ONE), CounterDraw("slices", drawn * ONE, 7 * ONE))
    return DeviceKind(name, device(name), 2 * most, "c", Partition("gpu", 2, draws))


HARDWARE = Hardware.of((slices("gpu", 7, 1), slices("mig", 1, 7), kind("nic", 3)))


@pytest.mark.parametrize(
    ("usage", "words"),
    [
        ((), "0 of 28 slices of gpu are held, 0 of 6 other devices are held"),
        (
            (((HARDWARE.demand(1, 0b010), HARDWARE.demand(1, 0b100)), 3),),
            "3 of 28 slices of gpu are held, 3 of 6 other devices are held",
        ),
        # A pod that may have either counts with the one that draws more.
        ((((HARDWARE.demand(2, 0b011),), 1),), "14 of 28 slices of gpu are held, 0 of 6 other devices are held"),
    ],
)
def test_counters_are_told_one_by_one(usage, words):
    assert drawn_words(HARDWARE, 2, usage) == words


def test_other_devices_are_named_where_there_are_any():
    only = Hardware.of((slices("gpu", 7, 1),))
    assert drawn_words(only, 1, (((only.demand(1, 1),), 1),)) == "7 of 14 slices of gpu are held"


def test_counters_of_one_name_are_told_by_the_devices_that_they_are_of():
    kinds = (
        DeviceKind(name, device(name), 7, "c", Partition(f"gpu-{name}", 1, (CounterDraw("slices", ONE, 7 * ONE),)))
        for name in "ab"
    )
    two = Hardware.of(tuple(kinds))
    usage = (((two.demand(1, 0b01),), 2), ((two.demand(1, 0b10),), 3))
    assert drawn_words(two, 1, usage) == "2 of 7 slices of gpu-a are held, 3 of 7 slices of gpu-b are held"


def test_each_counter_of_a_device_is_told():
    draws = CounterDraw("memory", 10 * ONE, 80 * ONE), CounterDraw("slices", ONE, 7 * ONE)
    shared = Hardware.of((DeviceKind("mig", device(), 7, "c", Partition("gpu", 1, draws)),))
    usage = (((shared.demand(1, 1),), 3),)
    assert drawn_words(shared, 1, usage) == "30 of 80 memory of gpu are held, 3 of 7 slices of gpu are held"


@pytest.mark.parametrize(
    ("nanos", "text"),
    [
        *((0, "0"), (7 * ONE, "7"), (ONE * 3 // 2, "1.5"), (1, "0.000000001")),
        *(((3 << 40) * ONE, "3Ti"), ((41 << 30) * ONE, "41Gi"), ((5 << 20) * ONE, "5Mi")),
    ],
)
def test_amounts(nanos, text):
    assert amount(nanos) == text
