"""What the search may take for equal: devices, and situations."""

import pytest

from modelplane.k8s.dra import (
    DeviceUsage,
    Features,
    Rejection,
    decode_claims,
    decode_classes,
    decode_node,
    decode_slices,
)
from modelplane.k8s.dra.allocation_state import AllocationState
from modelplane.k8s.dra.inventory import Inventory
from modelplane.k8s.dra.plan import prepare_claims
from modelplane.testing.devices import (
    DRIVER,
    a_claim,
    a_class,
    a_device,
    a_node,
    a_pool,
    a_request,
    a_slice,
    shareable,
)

A = f'device.attributes["{DRIVER}"].model == "a"'
COUNTERS = [{"name": "s", "counters": {"c": {"value": "9"}}}]


def opened(offered, *claims, **gates):
    plan = prepare_claims(decode_claims(claims), decode_classes([a_class()]), Features(**gates))
    node = decode_node(a_node())
    slices = [
        a_slice(offered, "s1", pool=a_pool(slices=2)),
        a_slice(None, "s2", sharedCounters=COUNTERS, pool=a_pool(slices=2)),
    ]
    return plan, AllocationState(plan, Inventory(decode_slices(slices)).view(node), DeviceUsage(), node, {})


def draws(value):
    return {"consumesCounters": [{"counterSet": "s", "counters": {"c": {"value": value}}}]}


def test_interchangeable_devices():
    offered = [
        a_device("same-0", model="a", uuid="0", root="r"),
        a_device("same-1", model="a", uuid="1", root="r"),
        a_device("model", model="b", root="r"),
        a_device("root", model="a", root="q"),
        a_device("memory", model="a", root="r", memory="1Gi"),
        {**a_device("taint", model="a", root="r"), "taints": [{"key": "k", "effect": "NoSchedule"}]},
        {**a_device("counter", model="a", root="r"), **draws("1")},
        {**a_device("counters", model="a", root="r"), **draws("2")},
        a_device("error", root="r"),
    ]
    claim = a_claim(a_request("any"), a_request("a", A), constraints=[{"matchAttribute": f"{DRIVER}/root"}])
    _, state = opened(offered, claim)
    kinds = [state.equivalence_key(index) for index in range(len(offered))]
    assert kinds[0] == kinds[1]
    assert len(set(kinds)) == len(offered) - 1


def test_a_shared_device_stands_for_itself():
    _, state = opened([shareable(a_device("d"))], a_claim(a_request("r")))
    assert state.equivalence_key(0) is None


def test_situations_do_not_remember_who_took_what():
    plan, state = opened([a_device("x"), a_device("y"), a_device("z")], a_claim(a_request("r"), a_request("s")))
    first, second = plan.subrequests
    assert state.allocate(first, 0)
    assert state.allocate(second, 1)
    one = state.key(0)
    state.deallocate_all()
    assert state.allocate(first, 1)
    assert state.allocate(second, 0)
    assert state.key(0) == one
    state.deallocate(0)
    assert state.allocate(second, 2)
    assert state.key(0) != one


@pytest.mark.parametrize(
    ("admin", "shared", "alike"),
    [(False, False, True), (False, True, True), (True, False, False), (True, True, True)],
)
def test_situations_remember_which_claim_took_what_only_for_admin_access(admin, shared, alike):
    """A claim may not have a device twice with admin access, and another claim may have it too."""
    offered = [shareable(a_device(name), {"default": "10Gi"}) if shared else a_device(name) for name in "xy"]
    access = {"adminAccess": True} if admin else {}
    plan, state = opened(offered, *(a_claim(a_request("r", **access), name=name) for name in ("one", "two")))
    keys = []
    for devices in ((0, 1), (1, 0)):
        for subrequest, index in zip(plan.subrequests, devices, strict=True):
            assert state.allocate(subrequest, index)
        keys.append(state.key(1))
        state.deallocate_all()
    assert (keys[0] == keys[1]) is alike


def test_situations_remember_how_much_is_shared():
    subrequest = {"requests": {"memory": "10Gi"}}
    plan, state = opened(
        [shareable(a_device("x"), {"default": "10Gi"})],
        a_claim(
            a_request("r"),
            a_request("s", capacity=subrequest),
            a_request("t", capacity={"requests": {"memory": "1Gi"}}),
        ),
    )
    r, s, t = plan.subrequests
    assert state.allocate(r, 0)
    alike = state.key(0)
    state.deallocate(0)
    assert state.allocate(s, 0)
    assert state.key(0) == alike
    state.deallocate(0)
    assert state.allocate(t, 0)
    assert state.key(0) != alike


def test_giving_back_restores_everything():
    offered = [
        {**a_device("d"), "consumesCounters": [{"counterSet": "s", "counters": {"c": {"value": "9"}}}]},
        {**a_device("e"), "consumesCounters": [{"counterSet": "s", "counters": {"c": {"value": "9"}}}]},
    ]
    plan, state = opened(offered, a_claim(a_request("r"), a_request("s")))
    r, s = plan.subrequests
    assert state.allocate(r, 0)
    assert state.rejects(s, 0)
    assert not state.allocate(s, 1)
    state.deallocate(0)
    assert not state.rejects(s, 0)
    assert state.allocate(s, 1)
    assert state.causes[r.index] == {0: Rejection.GIVEN_BACK}
    assert state.causes[s.index] == {0: Rejection.TAKEN, 1: Rejection.COUNTERS}
    state.deallocate_all()
    assert [list(devices) for devices in state.allocating] == [[]]


def test_a_shared_device_draws_its_counters_with_its_first_share():
    offered = [
        {**shareable(a_device("d"), {"default": "40Gi"}), **draws("9")},
        {**a_device("e"), **draws("1")},
    ]
    plan, state = opened(offered, a_claim(*(a_request(name) for name in "rst")))
    r, s, t = plan.subrequests
    assert [state.allocate(r, 0), state.allocate(s, 0), state.allocate(t, 1)] == [True, True, False]
    state.deallocate(0)
    assert [state.allocate(t, 1), state.rejects(s, 0), state.allocate(s, 0)] == [False, False, True]
    assert state.rejects(t, 0)
    assert state.causes[t.index] == {0: Rejection.CAPACITY, 1: Rejection.COUNTERS}
    state.deallocate_all()
    assert [state.allocate(t, 1), state.allocate(r, 0)] == [True, False]


def test_counters_of_a_device_that_a_constraint_rejects_are_given_back():
    draws = {"consumesCounters": [{"counterSet": "s", "counters": {"c": {"value": "9"}}}]}
    offered = [a_device("a", root="q"), {**a_device("d", root="r"), **draws}, {**a_device("e", root="q"), **draws}]
    claim = a_claim(a_request("r"), a_request("s"), constraints=[{"matchAttribute": f"{DRIVER}/root"}])
    plan, state = opened(offered, claim)
    r, s = plan.subrequests
    assert [state.allocate(r, 0), state.allocate(s, 1), state.allocate(s, 2)] == [True, False, True]
    assert state.causes[s.index] == {1: (Rejection.CONSTRAINT, 0)}


def test_a_device_stays_in_use_until_the_last_claim_gives_it_back():
    admin = [a_claim(a_request("r", adminAccess=True), name=name) for name in ("one", "two")]
    plan, state = opened([a_device("d")], *admin, a_claim(a_request("r"), name="three"))
    one, two, whole = plan.subrequests
    assert [state.allocate(one, 0), state.allocate(two, 0)] == [True, True]
    found = [[state.rejects(each, 0) for each in (one, two, whole)]]
    for claim_index in (1, 0):
        state.deallocate(claim_index)
        found.append([state.rejects(each, 0) for each in (one, two, whole)])
    assert found == [[True, True, True], [True, False, True], [False, False, False]]


@pytest.mark.parametrize(("gate", "cause"), [(True, Rejection.CAPACITY), (False, None)])
def test_amounts_count_only_with_consumable_capacity(gate, cause):
    device = shareable(a_device("d"), {"default": "90Gi"})
    plan, state = opened([device], a_claim(a_request("r")), consumable_capacity=gate)
    (subrequest,) = plan.subrequests
    assert state.rejection_cause(subrequest, state.candidates[0].offer) is cause
