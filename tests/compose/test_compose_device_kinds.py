"""Kinds of devices, from how a class describes them."""

import pytest

from modelplane.api.codec import decode
from modelplane.api.errors import InvalidObject
from modelplane.api.models import InferenceClass
from modelplane.compose.pool_hardware import class_kinds
from modelplane.placement.hardware import drawn_by, has_capacity
from modelplane.placement.partitions import CounterDraw, Partition

ONE = 10**9
GPU = {"name": "gpu", "driver": "d", "deviceClassName": "c"}
SETS = {"name": "gpu", "count": 2, "counters": {"slices": {"value": "7"}}}


def draws(value, counter="slices", of="gpu"):
    return {"consumesCounters": [{"counterSet": of, "counters": {counter: {"value": value}}}]}


def kinds(*devices, counters=(SETS,)):
    spec = {"sharedCounters": list(counters), "devices": list(devices)}
    return class_kinds(decode(InferenceClass, {"metadata": {"name": "x"}, "spec": spec}))


def test_partitions_are_in_the_sets_of_a_node_evenly():
    mig, whole = kinds({**GPU, "count": 2, **draws("7")}, {**GPU, "name": "a-mig", "count": 14, **draws("1")})
    slices = CounterDraw("slices", 7 * ONE, 7 * ONE)
    assert whole.partition == Partition("gpu", 2, (CounterDraw("device/gpu", ONE, ONE), slices))
    assert mig.partition == Partition(
        "gpu", 2, (CounterDraw("device/a-mig", ONE, 7 * ONE), CounterDraw("slices", ONE, 7 * ONE))
    )
    assert drawn_by(mig) == drawn_by(mig, None) == mig.partition


def test_a_share_draws_what_it_asks_for_rounded_by_the_policy():
    steps = {"default": "10Gi", "validRange": {"min": "10Gi", "max": "40Gi", "step": "10Gi"}}
    memory = {"memory": {"value": "80Gi", "requestPolicy": steps}, "cores": {"value": "100"}}
    (kind,) = kinds({**GPU, "count": 2, "allowMultipleAllocations": True, "capacity": memory})

    def drawn(requested):
        return [(draw.counter, draw.drawn // ONE) for draw in drawn_by(kind, requested).draws]

    gi = 1 << 30
    assert drawn((("cores", "5"), ("memory", "11Gi"))) == [("cores", 5), ("memory", 20 * gi)]
    assert drawn(()) == [("cores", 100), ("memory", 10 * gi)]
    assert drawn(None) == [("cores", 100), ("memory", 80 * gi)]
    assert has_capacity(kind, (("memory", "40Gi"),))
    assert not has_capacity(kind, (("memory", "41Gi"),))
    assert not has_capacity(kind, (("bandwidth", "1"),))


def test_of_a_device_by_itself_a_capacity_only_filters():
    (kind,) = kinds({**GPU, "capacity": {"memory": {"value": "80Gi"}}})
    assert drawn_by(kind, (("memory", "10Gi"),)) is None
    assert has_capacity(kind, (("memory", "80Gi"),))
    assert not has_capacity(kind, (("memory", "81Gi"),))


def test_synthetic_devices_have_no_class():
    found = kinds(GPU, {**GPU, "name": "f", "claim": "Synthetic"})
    assert [(kind.name, kind.device_class) for kind in found] == [("f", None), ("gpu", "c")]


@pytest.mark.parametrize(
    ("device", "problem"),
    [
        (draws("1", of="nic"), "device gpu: draws on counter set nic, which does not exist"),
        (draws("1", "memory"), "device gpu: draws on counter memory of set gpu, which does not exist"),
        (draws("8"), "device gpu: draws 8 of counter slices, and a set has 7"),
        ({**draws("1"), "count": 3}, "device gpu: 3 devices cannot be divided evenly among 2 counter sets"),
        (
            {**draws("1"), "allowMultipleAllocations": True},
            "device gpu: consumesCounters and allowMultipleAllocations cannot be combined",
        ),
        (draws("many"), "device gpu: consumesCounters: "),
        (
            {"capacity": {"m": {"value": "8", "requestPolicy": {"validRange": {"min": "1", "step": "0"}}}}},
            "device gpu: requestPolicy.validRange.step: must be at least one",
        ),
        (
            {"capacity": {"m": {"value": "8", "requestPolicy": {"default": "x"}}}},
            "device gpu: capacity: ",
        ),
    ],
)
def test_a_class_that_makes_no_sense_is_refused_with_the_place(device, problem):
    with pytest.raises(InvalidObject) as refused:
        kinds({**GPU, "count": 2, **device})
    assert str(refused.value).startswith(f"spec.devices: {problem}")
