"""The proof may only ever say what the search would find out."""

import pytest

from modelplane.k8s.dra import (
    DeviceUsage,
    Features,
    decode_claims,
    decode_classes,
    decode_in_use,
    decode_node,
    decode_slices,
)
from modelplane.k8s.dra.allocation_state import AllocationState
from modelplane.k8s.dra.feasibility import is_hopeless
from modelplane.k8s.dra.inventory import Inventory
from modelplane.k8s.dra.plan import prepare_claims
from modelplane.testing.devices import (
    DRIVER,
    a_choice,
    a_claim,
    a_class,
    a_device,
    a_node,
    a_request,
    a_slice,
    a_subrequest,
    in_use,
    shareable,
)

A = f'device.attributes["{DRIVER}"].model == "a"'
DEVICES = [a_device("a0", model="a"), a_device("a1", model="a"), a_device("b0", model="b")]


def hopeless(*claims, offered=DEVICES, all_of=None, used=()):
    plan = prepare_claims(decode_claims(claims), decode_classes([a_class()]), Features())
    node = decode_node(a_node())
    view = Inventory(decode_slices([a_slice(offered)])).view(node)
    usage = DeviceUsage.of(decode_in_use(map(in_use, used)), Features())
    state = AllocationState(plan, view, usage, node, {})
    wanted = tuple(all_of or () if subrequest.wants_all else subrequest.count for subrequest in plan.subrequests)
    return is_hopeless(plan, state, wanted)


@pytest.mark.parametrize(
    ("claim", "expected"),
    [
        (a_claim(a_request("r", count=3)), False),
        (a_claim(a_request("r", count=4)), True),
        (a_claim(a_request("r", A, count=3)), True),
        (a_claim(a_request("r", A, count=2), a_request("s", count=1)), False),
        (a_claim(a_request("r", A, count=2), a_request("s", A)), True),
        (a_claim(a_request("s", count=2), a_request("r", A, count=2)), True),
        (a_claim(a_choice("c", big=a_subrequest(count=9), small=a_subrequest(count=3))), False),
        (a_claim(a_choice("c", big=a_subrequest(count=9), small=a_subrequest(A, count=3))), False),
        (a_claim(a_choice("c", big=a_subrequest(count=9), small=a_subrequest(count=4))), True),
        (a_claim(a_request("r", count=9, adminAccess=True)), False),
        (a_claim(a_request("r", adminAccess=True), a_request("s", count=4)), True),
    ],
)
def test_counting(claim, expected):
    assert hopeless(claim) is expected


@pytest.mark.parametrize(
    ("used", "admin", "expected"), [([], False, False), (["b0"], False, True), (["b0"], True, False)]
)
def test_devices_in_use_serve_nobody_but_admin_access(used, admin, expected):
    access = {"adminAccess": True} if admin else {}
    assert hopeless(a_claim(a_request("r", count=3, **access)), used=used) is expected


def test_over_several_claims():
    assert hopeless(a_claim(a_request("r", count=2)), a_claim(a_request("r", count=2), name="other"))
    assert not hopeless(a_claim(a_request("r", count=2)), a_claim(a_request("r", count=1), name="other"))


def test_shared_devices_serve_several_requests():
    offered = [shareable(a_device("s", model="a"), {"default": "1Gi"}), a_device("b", model="b")]
    assert not hopeless(a_claim(a_request("r", count=2), a_request("s", A), a_request("t", A)), offered=offered)
    assert hopeless(a_claim(a_request("r", count=2), a_request("s", count=2)), offered=offered)
    assert hopeless(a_claim(a_request("r", count=3)), offered=offered)


def test_nothing_is_claimed_where_a_selector_fails():
    broken = [*DEVICES, a_device("broken")]
    assert not hopeless(a_claim(a_request("r", A, count=9)), offered=broken)
    assert hopeless(a_claim(a_request("r", count=9), a_request("s", A)), offered=broken)
    assert not hopeless(a_claim(a_request("r"), a_request("s", A), a_request("t", count=9)), offered=broken)


def test_nothing_is_claimed_where_a_constraint_meets_a_request_for_all():
    constraint = [{"matchAttribute": f"{DRIVER}/model"}]
    everything = a_request("all", allocationMode="All")
    late = a_claim(a_request("r", count=9), everything, constraints=constraint)
    early = a_claim(everything, a_request("r", count=9), constraints=constraint)
    either = a_choice("either", all=a_subrequest(allocationMode="All"), one=a_subrequest(count=1))
    choice = a_claim(either, a_request("r", count=9), constraints=constraint)
    assert hopeless(late, all_of=(0, 1, 2))
    assert not hopeless(early, all_of=(0, 1, 2))
    assert not hopeless(choice, all_of=(0, 1, 2))


def test_requests_for_all_take_what_they_mean():
    everything = a_request("all", A, allocationMode="All")
    assert hopeless(a_claim(everything, a_request("r", count=2)), all_of=(0, 1))
    assert not hopeless(a_claim(everything, a_request("r", count=1)), all_of=(0, 1))


def test_vast_demands_are_left_to_the_search():
    offered = [a_device(f"d{index}") for index in range(520)]
    claims = [a_claim(a_request("r", count=32), name=f"c{index}") for index in range(17)]
    assert not hopeless(*claims, offered=offered)
