import itertools

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelplane.k8s.device import Device
from modelplane.placement import matching, partitions
from modelplane.placement.cluster_info import make_cluster_info
from modelplane.placement.flow import _flows, feasible
from modelplane.placement.hardware import DeviceKind, Domain, Hardware
from modelplane.placement.matching import (
    ALLOCATION_BUDGET,
    Claim,
    Unmatched,
    engine_allocations,
    held_shape,
    is_exhaustive,
    pod_allocations,
)
from modelplane.placement.partitions import CounterDraw, Partition
from modelplane.placement.request import AttributeMatch, EngineRequest, MemberRequest, NodeDeviceRequest
from modelplane.placement.wording import Mismatch, Shortfall
from modelplane.testing.fleets import (
    DRIVER,
    claim,
    cluster,
    device,
    engine,
    hardware,
    kind,
    memory_at_least,
    pool,
    product_is,
    request,
)

BIG, SMALL = kind("big", 1, memory="141Gi", product="H200"), kind("small", 1, memory="80Gi", product="H100")
FABRIC = kind("fabric", 2, product="fabric", device_class=None)


def classes(ways):
    return ways if isinstance(ways, Unmatched) else [[c.device_class for c in way.claims] for way in ways]


def test_a_broad_request_before_a_narrow_one_leaves_it_its_only_device():
    broad, narrow = request(1, memory_at_least("80Gi"), name="broad"), request(1, product_is("H200"), name="narrow")
    for order in ((broad, narrow), (narrow, broad)):
        assert not isinstance(pod_allocations(order, hardware(BIG, SMALL)), Unmatched)


def test_a_request_is_served_from_one_device_class():
    split = hardware(kind("a", 2, device_class="one"), kind("b", 2, device_class="two"))
    assert isinstance(pod_allocations((request(3),), split), Unmatched)
    assert classes(pod_allocations((request(2),), split)) == [["one"], ["two"]]


def test_classes_are_tried_by_name():
    nodes = hardware(kind("a", 2, device_class="two"), kind("b", 2, device_class="one"), FABRIC)
    assert classes(pod_allocations((request(2),), nodes)) == [["one"], ["two"], [None]]


def test_claimable_devices_are_preferred_to_synthetic_ones():
    both = hardware(kind("gpu", 1), FABRIC)
    assert classes(pod_allocations((request(1),), both)) == [["gpu.nvidia.com"], [None]]
    assert classes(pod_allocations((request(2),), both)) == [[None]]


def test_synthetic_devices_steer_and_are_never_claimed():
    steered = engine(request(1), request(1, product_is("fabric"), name="fabric"))
    (way, *_) = engine_allocations(steered, hardware(kind("gpu", 8), FABRIC))
    assert [c.device_class for c in way.members[0].claims] == ["gpu.nvidia.com", None]
    assert way.pods == ((((1, 2),), 1),)
    assert isinstance(engine_allocations(steered, hardware(kind("gpu", 8))), Unmatched)


def test_a_pool_that_yields_nothing_to_claim_is_not_eligible():
    found = engine_allocations(engine(request(1)), hardware(FABRIC))
    assert found.nothing_claimed
    assert str(Mismatch(found, hardware(FABRIC))) == (
        "only synthetic devices match request gpu, so no device would be claimed"
    )


def test_a_selector_that_fails_on_a_device_of_the_class_rules_the_class_out():
    text = 'device.attributes["gpu.nvidia.com"].fast'
    fast = DeviceKind("fast", device(), 1, "gpu.nvidia.com")
    found = pod_allocations((request(1, text),), Hardware.of((fast,)))
    assert isinstance(found, Unmatched)
    assert found.fault.startswith("on device fast: ")


@pytest.mark.parametrize(("device_class", "found"), [("gpu.nvidia.com", []), ("other", [["gpu.nvidia.com"]])])
def test_a_selector_that_fails_on_one_kind_rules_out_the_others_of_its_class(device_class, found):
    fast = DeviceKind("fast", Device.from_dict(DRIVER, {"attributes": {"fast": {"bool": True}}}), 1, "gpu.nvidia.com")
    node = hardware(fast, kind("plain", 1, device_class=device_class))
    ways = pod_allocations((request(1, f'device.attributes["{DRIVER}"].fast'),), node)
    assert ([] if isinstance(ways, Unmatched) else classes(ways)) == found


@pytest.mark.parametrize(("device_class", "fault"), [("gpu.nvidia.com", True), (None, False)])
def test_a_selector_that_fails_is_told_of_devices_that_can_be_claimed(device_class, fault):
    """One device has what the selector reads, of two that are requested."""
    fast = DeviceKind("fast", Device.from_dict(DRIVER, {"attributes": {"fast": {"bool": True}}}), 1, "fast")
    wanted = request(2, f'device.attributes["{DRIVER}"].fast')
    found = pod_allocations((wanted,), hardware(fast, kind("plain", 1, device_class=device_class)))
    assert (found.request, found.suitable, bool(found.fault)) == (wanted, 1, fault)


@pytest.mark.parametrize(
    ("found", "says"),
    [
        (
            (request(8, memory_at_least("141Gi")), hardware(kind(memory="80Gi"))),
            "needs 8 x gpu with memory >= 141Gi; a node has 8 x gpu with memory 80Gi",
        ),
        ((request(9), hardware()), "needs 9 x gpu; a node has 8 x gpu"),
        (
            (request(1, product_is("B200")), hardware(BIG, SMALL)),
            (
                'needs 1 x gpu with productName == "B200"; a node has 1 x big with productName H200, '
                "1 x small with productName H100"
            ),
        ),
    ],
)
def test_what_is_missing_is_said_with_numbers(found, says):
    wanted, node = found
    assert str(Mismatch(pod_allocations((wanted,), node), node)) == says


def test_what_suits_is_that_of_the_class_that_has_most():
    wanted = request(9)
    mixed = hardware(kind("a", 2, device_class="a"), kind("b", 3, device_class="b"), kind("c", 1, device_class="c"))
    assert pod_allocations((wanted,), mixed) == Unmatched(wanted, 3)


def test_requests_that_fit_only_one_at_a_time_are_told_apart():
    wanted = (request(5, name="a"), request(5, name="b"))
    found = pod_allocations(wanted, hardware())
    assert str(Mismatch(found, hardware())) == "8 devices match request a, and the other requests need them too"
    both = request(1, product_is("H200"), name="a"), request(1, product_is("H200"), name="b")
    assert pod_allocations(both, hardware(BIG, SMALL)) == Unmatched(both[0], 1)


def test_a_pod_whose_selectors_no_longer_fit_is_charged_all_of_its_class():
    node = hardware(BIG, SMALL, kind("nic", 1, device_class="nics"))
    assert held_shape((claim(1, product_is("H100")),), node) == ((1, 4),)
    assert held_shape((claim(1, product_is("B200")),), node) == ((1, 5),)
    assert held_shape((claim(1, device_class="unknown"),), node) == ((1, 7),)
    assert held_shape((claim(1, device_class=None),), node) == ()


SHARED = DeviceKind(
    "shared", Device.from_dict(DRIVER, {"allowMultipleAllocations": True}), 2, DRIVER,
    capacity=b'{"memory": {"value": "80Gi"}}',
)  # fmt: skip


def test_what_suits_of_a_class_is_not_of_others():
    wanted = request(3)
    assert pod_allocations((wanted,), hardware(kind("a", 2, device_class="a"), SHARED)) == Unmatched(wanted, 2)


@pytest.mark.parametrize(
    ("wanted", "drawn"),
    [
        pytest.param("35Gi", (("memory", "35Gi"),), id="a share"),
        pytest.param("100Gi", None, id="more than a device has: all of one"),
    ],
)
def test_a_pod_holds_what_it_claims_of_a_shared_device(wanted, drawn):
    node = hardware(SHARED)
    share = Claim("gpu", DRIVER, 1, (), (("memory", wanted),))
    assert held_shape((share,), node) == (node.demand(1, 1, drawn),)


kinds_of_node = st.lists(st.tuples(st.integers(1, 3), st.sampled_from(["x", "y", None])), min_size=1, max_size=3)


def brute_force(requests, node):
    """Whether distinct devices can be handed to all requests, each from one class: every choice is tried."""
    devices = [(k, node.kinds[k].device_class) for k, found in enumerate(node.kinds) for _ in range(found.count)]

    def serve(left, free):
        if not left:
            return True
        (count, suits), *rest = left
        for chosen in itertools.combinations(sorted(free), count):
            used = {devices[d][1] for d in chosen}
            if all(devices[d][0] in suits for d in chosen) and len(used) == 1 and serve(rest, free - set(chosen)):
                return True
        return False

    return serve(requests, frozenset(range(len(devices))))


@given(kinds_of_node, st.lists(st.tuples(st.integers(1, 3), st.sets(st.integers(0, 2))), min_size=1, max_size=3))
def test_matching_agrees_with_brute_force(kinds, wanted):
    node = Hardware.of(
        tuple(kind(f"k{i}", count, product=f"P{i}", device_class=cls) for i, (count, cls) in enumerate(kinds))
    )
    requests = tuple(
        request(
            count,
            f'device.attributes["gpu.nvidia.com"].productName in {[f"P{i}" for i in sorted(suits)]}'.replace("'", '"'),
            name=f"r{at}",
        )
        for at, (count, suits) in enumerate(wanted)
    )
    found = pod_allocations(requests, node)
    assert isinstance(found, Unmatched) is not brute_force([(c, s) for c, s in wanted], node)


@given(st.lists(st.tuples(st.integers(1, 3), st.integers(1, 7)), max_size=5), st.tuples(*[st.integers(0, 4)] * 3))
def test_the_flow_agrees_with_hall(demands, counts):
    halls = all(
        sum(c for at, (c, _) in enumerate(demands) if picked >> at & 1)
        <= sum(
            counts[k]
            for k in range(3)
            if any(mask >> k & 1 for at, (_, mask) in enumerate(demands) if picked >> at & 1)
        )
        for picked in range(1, 1 << len(demands))
    )
    assert feasible(demands, counts) is halls
    assert _flows(demands, counts) is halls


def test_a_selector_that_does_not_compile_matches_nothing_and_says_so():
    found = pod_allocations((request(1, "device.nothing ==="),), hardware())
    assert isinstance(found, Unmatched)
    assert str(Mismatch(found, hardware())).startswith("a selector of request gpu fails on device gpu: ")


def test_a_node_that_cannot_be_read_serves_nothing_and_says_why():
    unread = msgspec.structs.replace(hardware(), fault="no such class")
    wanted = request(8, name="gpu")
    assert engine_allocations(engine(wanted), unread) == Unmatched(wanted, 0, "no such class")


@pytest.mark.parametrize(("device_class", "fits"), [("fabric", True), (None, False)])
def test_devices_that_share_a_value_are_claimed(device_class, fits):
    """The cluster matches attributes of claimed devices alone, so synthetic ones cannot be matched."""
    fabric = kind("fabric", 2, product="fabric", device_class=device_class)
    shared = (msgspec.structs.replace(each, per_value=(("root", 1),)) for each in (kind("gpu", 8), fabric))
    wanted = request(1, product_is("H200")), request(1, product_is("fabric"), name="fabric")
    asked = EngineRequest("main", 1, (MemberRequest(1, wanted, (AttributeMatch("root", ()),)),))
    found = engine_allocations(asked, hardware(*shared))
    assert (not isinstance(found, Unmatched)) is fits
    assert fits or found == Unmatched(wanted[0], 0, attribute="root")


def test_an_engine_that_asks_for_nothing_claims_nothing():
    empty = EngineRequest("main", 1, (MemberRequest(1, ()),))
    nothing = NodeDeviceRequest("none", 0, ())
    assert engine_allocations(empty, hardware()) == Unmatched(nothing, 0, nothing_claimed=True)


RACK = Domain("rack", 3)


@pytest.mark.parametrize(
    ("domain", "nodes", "fits"),
    [
        pytest.param(RACK, 1, False, id="one node needs no domain"),
        pytest.param(RACK, 2, True, id="a part of a domain"),
        pytest.param(RACK, 3, True, id="all of a domain"),
        pytest.param(RACK, 4, False, id="more than a domain"),
        pytest.param(Domain("rack", 3, "no such label"), 2, False, id="a domain that is not known"),
    ],
)
def test_a_copy_that_spans_nodes_takes_a_domain(domain, nodes, fits):
    wanted = request(8)
    found = engine_allocations(
        engine(wanted, nodes=nodes, copies=2), msgspec.structs.replace(hardware(), domain=domain)
    )
    if fits:
        assert [(each.pods, each.devices) for each in found] == [(((((1, 1),), 2),), 16 * nodes)]
    else:
        assert found == Unmatched(wanted, 0, nodes=nodes)


def test_the_search_for_classes_ends_however_many_ways_there_are():
    """Sixteen requests that two classes could serve, one device too many: thousands of ways, none of which fits."""
    two = hardware(kind("a", 8, device_class="one"), kind("b", 7, device_class="two"))
    assert isinstance(pod_allocations(tuple(request(1, name=f"r{at}") for at in range(16)), two), Unmatched)


def test_all_members_vary_together():
    two = hardware(kind("a", 2, device_class="one"), kind("b", 2, device_class="two"))
    pair = EngineRequest("main", 1, (MemberRequest(1, (request(1),)), MemberRequest(1, (request(1),))))
    found = [[member.claims[0].device_class for member in each.members] for each in engine_allocations(pair, two)]
    assert found == [["one", "one"], ["two", "one"], ["one", "two"], ["two", "two"]]
    assert is_exhaustive(pair, two)


def test_requests_that_are_alike_are_served_in_one_order_of_classes():
    two = hardware(kind("a", 3, device_class="one"), kind("b", 3, device_class="two"))
    alike = request(1, name="x"), request(1, name="y")
    assert classes(pod_allocations(alike, two)) == [["one", "one"], ["one", "two"], ["two", "two"]]
    larger = request(1, name="x"), request(2, name="y")
    assert classes(pod_allocations(larger, two)) == [["one", "one"], ["one", "two"], ["two", "one"], ["two", "two"]]


EIGHT_SIZES, NINE_SIZES = (
    MemberRequest(1, tuple(request(count, name=f"r{count}") for count in range(1, most))) for most in (9, 10)
)


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        pytest.param((EIGHT_SIZES,), True, id="as many ways as the budget"),
        pytest.param((NINE_SIZES,), False, id="more"),
        pytest.param((EIGHT_SIZES, MemberRequest(1, (request(1),))), False, id="more, with another member"),
        pytest.param((MemberRequest(1, (request(60),)),), True, id="none"),
        pytest.param(
            (NINE_SIZES, MemberRequest(1, (request(50),))), False, id="one member was not searched to the end"
        ),
    ],
)
def test_whether_all_allocations_of_an_engine_are_known(members, expected):
    """Each request is served from one of two classes."""
    two = hardware(kind("a", 50, device_class="one"), kind("b", 49, device_class="two"))
    assert is_exhaustive(EngineRequest("main", 1, members), two) is expected


def test_an_engine_with_more_allocations_than_the_budget_is_not_refused_for_good():
    """Nine requests of different sizes and two classes: 512 ways, of which half are tried."""
    two = hardware(kind("a", 50, device_class="one"), kind("b", 50, device_class="two"))
    wanted = engine(*(request(count, name=f"r{count}") for count in range(1, 10)))
    assert len(engine_allocations(wanted, two)) == ALLOCATION_BUDGET
    assert not is_exhaustive(wanted, two)
    full = Shortfall(wanted, make_cluster_info(cluster("c", pool("p", 1, two))).kinds[0], ((((40, 1), (40, 2)), 1),))
    assert str(full).endswith("; not proven: search budget of 256 allocations reached")


def test_parts_that_were_not_searched_to_the_end_prove_nothing(monkeypatch):
    monkeypatch.setattr(partitions, "_BUDGET", 2)
    slices = Partition("gpu", 1, (CounterDraw("slices", 1, 23),))
    node = Hardware.of((DeviceKind("mig", device(), 23, "mig.nvidia.com", slices),))
    assert str(Mismatch(pod_allocations((request(5),), node), node)).startswith("not proven: search budget of ")


def test_a_search_for_classes_that_was_cut_short_proves_nothing(monkeypatch):
    monkeypatch.setattr(matching, "_MAX_STEPS", 20)
    two = hardware(kind("a", 31, device_class="one"), kind("b", 31, device_class="two"))
    wanted = tuple(request(count, name=f"r{count}") for count in range(6, 14))
    assert str(Mismatch(pod_allocations(wanted, two), two)) == (
        "not proven: search budget of 20 steps reached for request r13"
    )
