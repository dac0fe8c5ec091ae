"""Reasons name what is at fault, with numbers that a person can check."""

import pytest

from modelplane.k8s.device import Device
from modelplane.placement.hardware import DeviceKind, Hardware
from modelplane.placement.matching import Unmatched, engine_allocations
from modelplane.placement.partitions import CounterDraw, Partition
from modelplane.placement.pool_usage import EMPTY, add
from modelplane.placement.request import EngineRequest, MemberRequest, NodeDeviceRequest
from modelplane.placement.snapshot import Fleet
from modelplane.placement.values import BoundPods
from modelplane.placement.wording import Mismatch, Shortfall, Untolerated, readable
from modelplane.testing.fleets import (
    DRIVER,
    assignment,
    claim,
    cluster,
    device,
    engine,
    hardware,
    kind,
    memory_at_least,
    packed,
    pool,
    product_is,
    replica,
    request,
    taint,
    tolerate,
)

DRIVER_IS = f'device.driver == "{DRIVER}"'
ONE = 10**9
LINK = DeviceKind("nvlink", device("NVLink", "0", driver="example.com/link"), 4, None)


def mismatch(of, *selectors, count=1):
    found = engine_allocations(engine(request(count, *selectors)), of)
    assert isinstance(found, Unmatched)
    return str(Mismatch(found, of))


@pytest.mark.parametrize(
    ("of", "selectors", "count", "words"),
    [
        pytest.param(
            hardware(kind(count=4, product="B300"), LINK),
            (DRIVER_IS, product_is("H200")),
            1,
            'needs 1 x gpu with productName == "H200"; a node has 4 x gpu with productName B300, '
            "4 x nvlink with productName NVLink",
            id="a synthetic device that misses an earlier selector",
        ),
        pytest.param(
            hardware(kind(count=4, product="B300")),
            (DRIVER_IS, product_is("H200")),
            1,
            'needs 1 x gpu with productName == "H200"; a node has 4 x gpu with productName B300',
            id="without one",
        ),
        pytest.param(
            hardware(kind("a", 1), kind("b", 1, memory="200Gi", product="B300")),
            (product_is("H200"), memory_at_least("180Gi")),
            1,
            "needs 1 x gpu with memory >= 180Gi; a node has 1 x a with memory 141Gi, 1 x b with memory 200Gi",
            id="two that miss one each: the first",
        ),
        pytest.param(
            hardware(kind("big", 2), kind("small", 6, memory="80Gi")),
            (DRIVER_IS, memory_at_least("100Gi")),
            4,
            "needs 4 x gpu; a node has 2 x big, 6 x small",
            id="too few that meet all",
        ),
        pytest.param(
            hardware(kind("a", 1), kind("b", 1)),
            (f'has(device.attributes["{DRIVER}"].fast) && device.attributes["{DRIVER}"].fast',),
            1,
            f'needs 1 x gpu with has(device.attributes["{DRIVER}"].fast) && device.attributes["{DRIVER}"].fast; '
            "a node has 1 x a, 1 x b",
            id="an attribute that no device has",
        ),
        pytest.param(Hardware(()), (), 1, "needs 1 x gpu; a node has no devices", id="a node without devices"),
    ],
)
def test_the_selector_that_fails_is_named(of, selectors, count, words):
    assert mismatch(of, *selectors, count=count) == words


def shortfall(asked, nodes, *held, is_packed=False):
    made = (packed if is_packed else cluster)("east", pool(nodes=nodes))
    replicas = [replica("east", at, assignment("h200", claim(count)), name="other") for at, count in enumerate(held)]
    info = Fleet.of([made], replicas).infos["east"]
    return str(Shortfall(asked, info.kinds[0], info.usages[0]))


def test_devices_that_only_steer_are_not_counted():
    info = Fleet.of([cluster("east", pool(nodes=1, of=hardware(kind(), LINK)))]).infos["east"]
    usage = (((((8, 1),), 1)),)
    words = "0 of 1 nodes have 1 free GPU; 8 of 8 GPUs are held"
    assert str(Shortfall(engine(request(1, product_is("H200"))), info.kinds[0], usage)) == words


def gang(*members):
    """Members of some pods with some devices each."""
    return EngineRequest("main", 1, tuple(MemberRequest(pods, (request(count),)) for pods, count in members))


BIN_PACK = "; it fits if the cluster packs its pods (spec.scheduling.packing: BinPack)"


@pytest.mark.parametrize(
    ("asked", "nodes", "held", "is_packed", "words"),
    [
        pytest.param(gang((1, 8)), 2, (8, 8), False, "needs 1 free node; 0 of 2 nodes are free", id="whole nodes"),
        pytest.param(
            gang((1, 8)),
            4,
            (1, 1, 1, 1),
            False,
            "needs 1 free node; 0 of 4 nodes are free wherever the cluster puts its pods" + BIN_PACK,
            id="small pods that may lie on every node",
        ),
        pytest.param(
            gang((1, 8)), 4, (1,) * 25, True, "needs 1 free node; 0 of 4 nodes are free", id="the same, packed and full"
        ),
        pytest.param(
            gang((1, 1)), 1, (8,), False, "0 of 1 nodes have 1 free GPU; 8 of 8 GPUs are held", id="no device is left"
        ),
        pytest.param(
            gang((1, 5)),
            2,
            (4, 4),
            False,
            "needs 1 pod with 5 GPUs each; 0 fit wherever the cluster puts its pods; 8 of 16 GPUs are held" + BIN_PACK,
            id="halves that may lie on both nodes",
        ),
        pytest.param(
            gang((1, 8), (2, 8)),
            3,
            (1,),
            False,
            "needs 3 free nodes; 2 of 3 nodes are free",
            id="a gang of equal pods is counted as one",
        ),
        pytest.param(
            gang((1, 4), (2, 8)),
            2,
            (),
            True,
            "needs 2 pods with 8 GPUs and 1 pod with 4 GPUs; each fits alone, not together; 0 of 16 GPUs are held",
            id="a leader beside workers that take all nodes",
        ),
    ],
)
def test_what_finds_no_place_is_counted(asked, nodes, held, is_packed, words):
    assert shortfall(asked, nodes, *held, is_packed=is_packed) == words


def test_packing_is_proposed_where_it_helps_for_devices_of_one_class():
    """Those of class b are all held. Those of class a are held by two pods that may be on both nodes."""
    of = hardware(kind("a", 2, device_class="a"), kind("b", 2, device_class="b"))
    info = Fleet.of([cluster("east", pool(nodes=2, of=of))]).infos["east"]
    usage = (((((1, 1),), 2)), ((((2, 2),), 2)))
    words = "needs 1 pod with 2 devices each; 0 fit wherever the cluster puts its pods; 6 of 8 devices are held"
    assert str(Shortfall(engine(request(2)), info.kinds[0], usage)) == words + BIN_PACK


@pytest.mark.parametrize(
    ("nodes", "hint"), [(("n1", "n1"), BIN_PACK), (("n1", "n2"), "")], ids=["on one node", "on both nodes"]
)
def test_packing_is_proposed_where_it_helps_beside_pods_that_are_on_nodes_already(nodes, hint):
    """Of three small pods it is known where two are. The third may be on either of two nodes."""
    held = [replica("east", at, name="other", created="2026-01-01T00:00:00Z") for at in range(3)]
    bound = tuple(BoundPods("h200", node, 1, 1, found.digest) for node, found in zip(nodes, held, strict=False))
    info = Fleet.of([cluster("east", pool(nodes=2), bound=bound)], held).infos["east"]
    words = "needs 1 free node; 0 of 2 nodes are free wherever the cluster puts its pods"
    assert str(Shortfall(gang((1, 8)), info.kinds[0], info.usages[0])) == words + hint


def mig(name, drawn, most, device_class=None):
    """A part of a GPU that draws some of its 7 slices."""
    draws = (CounterDraw(f"device/{name}", ONE, most * ONE), CounterDraw("slices", drawn * ONE, 7 * ONE))
    return DeviceKind(name, device(name), most, device_class or f"{name}.nvidia.com", Partition("gpu", 1, draws))


SHARED = DeviceKind(
    "gpu",
    Device.from_dict(DRIVER, {"capacity": {"memory": {"value": "80Gi"}}, "allowMultipleAllocations": True}),
    2,
    DRIVER,
    capacity=b'{"memory": {"value": "80Gi"}}',
)


@pytest.mark.parametrize(
    ("of", "wanted", "held", "words"),
    [
        pytest.param(
            hardware(mig("1g", 1, 7), mig("3g", 3, 2)),
            request(1, product_is("3g")),
            [(request(1, product_is("3g")), 2)],
            "needs 1 pod with 1 x 3g; 0 fit wherever the cluster puts its pods; 6 of 7 slices of gpu are held",
            id="parts of devices by name",
        ),
        pytest.param(
            hardware(SHARED),
            NodeDeviceRequest("gpu", 1, (), (("memory", "50Gi"),)),
            [(NodeDeviceRequest("gpu", 1, (), (("memory", "40Gi"),)), 4)],
            "needs 1 pod with 1 x gpu with 50Gi memory; 0 fit wherever the cluster puts its pods; "
            "160Gi of 160Gi memory of gpu are held",
            id="shares by their amount",
        ),
        pytest.param(
            hardware(mig("1g", 1, 7), mig("3g", 3, 2)),
            (request(2, product_is("1g")), request(1, product_is("3g"), name="more")),
            [(request(1, product_is("3g")), 2)],
            "needs 1 pod with 1 x 3g and 2 x 1g; 0 fit wherever the cluster puts its pods; "
            "6 of 7 slices of gpu are held",
            id="parts of two kinds",
        ),
        pytest.param(
            hardware(mig("1g", 1, 7, "mig"), mig("3g", 3, 2, "mig")),
            request(1),
            [(request(7, product_is("1g")), 1)],
            "needs 1 pod with 1 x 1g or 3g; 0 fit wherever the cluster puts its pods; 7 of 7 slices of gpu are held",
            id="a part of either kind",
        ),
        pytest.param(hardware(), request(9), [], "the devices do not match", id="no pool of the kind has them"),
    ],
)
def test_parts_and_shares_are_counted_by_what_they_draw(of, wanted, held, words):
    usage = EMPTY
    for each, number in held:
        (allocation, *_) = engine_allocations(engine(each), of)
        usage = add(usage, tuple((shape, pods * number) for shape, pods in allocation.pods))
    shape = Fleet.of([cluster("east", pool(nodes=1, of=of))]).infos["east"].kinds[0]
    asked = wanted if isinstance(wanted, tuple) else (wanted,)
    assert str(Shortfall(engine(*asked), shape, usage)) == words


@pytest.mark.parametrize(
    ("tolerations", "words"),
    [
        ((), "taint m (NoExecute) is not tolerated"),
        ((tolerate("other"),), "taint m (NoExecute) is not tolerated"),
        ((tolerate("other", seconds=60),), "taint m (NoExecute) is not tolerated"),
        ((tolerate("m", seconds=60), tolerate("m", seconds=90)), "taint m (NoExecute) is tolerated for 60 s only"),
    ],
)
def test_time_that_a_taint_is_tolerated_for_is_told(tolerations, words):
    assert str(Untolerated(taint("m", "NoExecute"), tolerations)) == words


def test_as_many_as_match_may_be_wanted_by_others_too():
    found = engine_allocations(engine(request(8), request(1, name="more")), hardware())
    words = "8 devices match request gpu, and the other requests need them too"
    assert str(Mismatch(found, hardware())) == words


def test_a_capacity_that_no_device_has_is_named():
    wanted = NodeDeviceRequest("gpu", 1, (), (("memory", "200Gi"),))
    found = engine_allocations(engine(wanted), hardware())
    assert str(Mismatch(found, hardware())) == "needs 1 x gpu with memory 200Gi; a node has 8 x gpu with memory 141Gi"


@pytest.mark.parametrize(("length", "expected"), [(160, "x" * 160), (161, "x" * 159 + "…"), (500, "x" * 159 + "…")])
def test_a_long_selector_is_cut(length, expected):
    assert readable("x" * length) == expected
