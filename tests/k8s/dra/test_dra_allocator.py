"""Outcomes of whole allocations: the rules by name. Parity with upstream is in the vectors."""

import msgspec
import pytest

from modelplane.k8s.cel import compile_selector
from modelplane.k8s.dra import (
    Allocated,
    Allocator,
    ClaimResult,
    DeviceId,
    DeviceResult,
    DeviceUsage,
    Fatal,
    Features,
    GaveUp,
    Inventory,
    NodeAllocation,
    NoFit,
    decode_claims,
    decode_classes,
    decode_in_use,
    decode_node,
    decode_slices,
    prepare_claims,
)
from modelplane.k8s.dra.nodes import pinned_to
from modelplane.k8s.dra.outcome import PoolNote
from modelplane.k8s.dra.resources import DeviceToleration
from modelplane.k8s.quantity import parse_quantity
from modelplane.testing.devices import (
    DRIVER,
    POOL,
    a_choice,
    a_claim,
    a_class,
    a_device,
    a_node,
    a_pool,
    a_request,
    a_slice,
    a_subrequest,
    allocated_by,
    in_use,
    shareable,
)

MODEL_A = f'device.attributes["{DRIVER}"].model == "a"'
MODEL_B = f'device.attributes["{DRIVER}"].model == "b"'
NOT_A_QUANTITY = '"4GB" is not a quantity: expected a number and a suffix such as m, k, Mi or e3'
COUNTERS = [{"name": "set", "counters": {"slices": {"value": "7"}}}]


def gpus(count, **fields):
    return [a_device(f"gpu-{index}", memory="80Gi", **fields) for index in range(count)]


def devices(outcome):
    assert isinstance(outcome, Allocated), outcome
    return [[(device.request, device.device.device) for device in claim.devices] for claim in outcome.claims]


def fatal(outcome):
    assert isinstance(outcome, Fatal), outcome
    return outcome.reason


def draws(device, slices):
    return {**device, "consumesCounters": [{"counterSet": "set", "counters": {"slices": {"value": slices}}}]}


def partitioned(*offered):
    return [
        a_slice(list(offered), "s1", pool=a_pool(slices=2)),
        a_slice(None, "s2", sharedCounters=COUNTERS, pool=a_pool(slices=2)),
    ]


def test_the_whole_result():
    tainted = {**a_device("gpu-0", memory="80Gi"), "taints": [{"key": "k", "effect": "NoSchedule"}]}
    bound = {**tainted, "bindingConditions": ["ready"], "bindingFailureConditions": ["broken"]}
    claim = a_claim(a_request("gpu", tolerations=[{"operator": "Exists"}]))
    assert allocated_by([claim], [a_slice([bound])]) == Allocated(
        (
            ClaimResult(
                "claim-0",
                (
                    DeviceResult(
                        "gpu",
                        DeviceId(DRIVER, POOL, "gpu-0"),
                        tolerations=(DeviceToleration(operator="Exists"),),
                        binding_conditions=("ready",),
                        binding_failure_conditions=("broken",),
                    ),
                ),
                pinned_to("node-1"),
            ),
        )
    )


def test_nothing_to_allocate():
    assert allocated_by([], []) == Allocated(())
    assert allocated_by([a_claim()], []).count == 0


def test_devices_come_in_order():
    outcome = allocated_by([a_claim(a_request("a", count=2), a_request("b"))], [a_slice(gpus(4))])
    assert devices(outcome) == [[("a", "gpu-0"), ("a", "gpu-1"), ("b", "gpu-2")]]


def test_a_greedy_choice_is_undone():
    offered = [a_device("both", model="a"), a_device("only-b", model="b")]
    claim = a_claim(a_request("any"), a_request("a", MODEL_A))
    assert devices(allocated_by([claim], [a_slice(offered)])) == [[("any", "only-b"), ("a", "both")]]


def test_a_choice_is_undone_across_claims():
    offered = [a_device("both", model="a"), a_device("only-b", model="b")]
    claims = [a_claim(a_request("any"), name="c1"), a_claim(a_request("a", MODEL_A), name="c2")]
    assert devices(allocated_by(claims, [a_slice(offered)])) == [[("any", "only-b")], [("a", "both")]]


def test_devices_in_use_are_not_judged():
    offered = [a_device("broken"), a_device("good", model="a")]
    claim = a_claim(a_request("a", MODEL_A))
    assert devices(allocated_by([claim], [a_slice(offered)], allocated=[in_use("broken")])) == [[("a", "good")]]
    assert "no such key" in fatal(allocated_by([claim], [a_slice(offered)]))


def test_an_error_behind_the_first_solution_is_never_seen():
    offered = [a_device("good", model="a"), a_device("broken")]
    assert devices(allocated_by([a_claim(a_request("a", MODEL_A))], [a_slice(offered)])) == [[("a", "good")]]


def test_a_selector_that_does_not_compile_matters_only_when_it_is_reached():
    claim = a_claim(a_request("a", "1 +"))
    assert fatal(allocated_by([claim], [a_slice(gpus(1))])).startswith(
        "claim claim-0, request a: selector #0: CEL compile error: "
    )
    assert isinstance(allocated_by([claim], []), NoFit)


def test_class_selectors_run_first():
    offered = [a_device("broken", kind="x"), a_device("good", kind="y", model="a")]
    classes = [a_class("gpu", f'device.attributes["{DRIVER}"].kind == "y"')]
    outcome = allocated_by([a_claim(a_request("a", MODEL_A))], [a_slice(offered)], classes=classes)
    assert devices(outcome) == [[("a", "good")]]


def test_a_class_that_fails_is_named():
    reason = fatal(allocated_by([a_claim(a_request("a"))], [a_slice(gpus(1))], classes=[a_class("gpu", MODEL_A)]))
    assert reason.startswith("class gpu: selector #0: CEL runtime error: ")


@pytest.mark.parametrize(
    ("claim", "reason"),
    [
        (a_claim(a_request("a", deviceClassName="nope")), "claim claim-0, request a: device class nope does not exist"),
        (a_claim(a_request("a", deviceClassName="")), "claim claim-0, request a: deviceClassName is missing"),
        (
            a_claim(a_choice("a", ok=a_subrequest(), bad=a_subrequest(deviceClassName="nope"))),
            "claim claim-0, request a/bad: device class nope does not exist",
        ),
        (a_claim(a_request("a", allocationMode="Some")), "claim claim-0, request a: unsupported allocationMode Some"),
        (
            a_claim({"name": "a", "exactly": {"deviceClassName": "gpu", "selectors": [{}]}}),
            "claim claim-0, request a, selector #0: CEL expression empty (unsupported selector type?)",
        ),
        (a_claim({"name": "a"}), "claim claim-0, request a: neither exactly nor firstAvailable is set"),
        (
            a_claim(a_request("a"), constraints=[{}]),
            "claim claim-0, constraint #0: empty constraint (unsupported constraint type?)",
        ),
        (a_claim(a_request("a", count=33)), "claim claim-0: requests 33 devices, more than the 32 a claim may have"),
        (
            a_claim(a_request("a", capacity={"requests": {"memory": "4GB"}})),
            f"claim claim-0, request a: capacity: {NOT_A_QUANTITY}",
        ),
    ],
)
def test_what_is_wrong_with_claims(claim, reason):
    assert fatal(allocated_by([claim], [a_slice(gpus(2))])) == reason


@pytest.mark.parametrize(
    ("claim", "gates", "reason"),
    [
        (a_claim(a_choice("a", b=a_subrequest())), {"prioritized_list": False}, "but DRAPrioritizedList is off"),
        (a_claim(a_request("a", adminAccess=False)), {"admin_access": False}, "but DRAAdminAccess is off"),
        (
            a_claim(a_request("a", capacity={"requests": {}})),
            {"consumable_capacity": False},
            "but DRAConsumableCapacity is off",
        ),
    ],
)
def test_gates_that_are_off(claim, gates, reason):
    outcome = allocated_by([claim], [a_slice(gpus(1))], features=Features(**gates))
    assert fatal(outcome).endswith(reason)


def test_the_oldest_allocator_knows_neither_amounts_nor_distinct_attributes():
    gates = Features(consumable_capacity=False, device_binding_and_status=False)
    amounts = a_claim(a_request("a", capacity={"requests": {"nope": "1"}}))
    assert devices(allocated_by([amounts], [a_slice(gpus(1))], features=gates)) == [[("a", "gpu-0")]]
    distinct = a_claim(a_request("a"), constraints=[{"distinctAttribute": f"{DRIVER}/x"}])
    assert "empty constraint" in fatal(allocated_by([distinct], [a_slice(gpus(1))], features=gates))


class TestLimit:
    def test_it_is_for_each_claim(self):
        claims = [a_claim(a_request("a", count=20), name=f"c{index}") for index in range(2)]
        outcome = allocated_by(claims, [a_slice(gpus(40))])
        assert outcome.count == 40

    def test_alternatives_that_are_too_large_are_skipped(self):
        claim = a_claim(
            a_request("a", count=20), a_choice("b", large=a_subrequest(count=20), small=a_subrequest(count=12))
        )
        outcome = allocated_by([claim], [a_slice(gpus(60))])
        assert outcome.count == 32
        assert devices(outcome)[0][-1] == ("b/small", "gpu-31")

    def test_no_alternative_is_small_enough(self):
        claim = a_claim(
            a_request("a", count=20), a_choice("b", large=a_subrequest(count=20), larger=a_subrequest(count=21))
        )
        assert "requests 40 devices" in fatal(allocated_by([claim], [a_slice(gpus(60))]))

    def test_all_of_too_many(self):
        claim = a_claim(a_request("a", allocationMode="All"))
        assert "requests 33 devices" in fatal(allocated_by([claim], [a_slice(gpus(33))]))

    def test_alternatives_that_only_together_are_too_large(self):
        choices = [a_choice(name, large=a_subrequest(count=17), small=a_subrequest(count=15)) for name in "ab"]
        assert devices(allocated_by([a_claim(*choices)], [a_slice(gpus(40))]))[0][-1] == ("b/small", "gpu-31")


class TestAll:
    CLAIM = a_claim(a_request("all", allocationMode="All"))

    def test_every_device_of_every_pool(self):
        slices = [a_slice(gpus(2)), a_slice(gpus(1), "s2", pool=a_pool("pool-2"))]
        assert devices(allocated_by([self.CLAIM], slices)) == [[("all", "gpu-0"), ("all", "gpu-1"), ("all", "gpu-0")]]

    def test_at_least_one(self):
        assert isinstance(allocated_by([self.CLAIM], []), NoFit)

    def test_none_may_be_in_use(self):
        assert isinstance(allocated_by([self.CLAIM], [a_slice(gpus(2))], allocated=[in_use("gpu-1")]), NoFit)

    def test_what_does_not_match_may_be_in_use(self):
        claim = a_claim(a_request("all", MODEL_A, allocationMode="All"))
        offered = [a_device("a", model="a"), a_device("b", model="b")]
        assert devices(allocated_by([claim], [a_slice(offered)], allocated=[in_use("b")])) == [[("all", "a")]]

    def test_earlier_requests_give_way(self):
        claim = a_claim(a_request("one"), a_request("all", MODEL_A, allocationMode="All"))
        offered = [a_device("a", model="a"), a_device("b", model="b")]
        assert devices(allocated_by([claim], [a_slice(offered)])) == [[("one", "b"), ("all", "a")]]

    @pytest.mark.parametrize(
        ("broken", "state"),
        [
            (a_slice(gpus(1), "s2", pool=a_pool("p2", slices=2)), "being updated: 1 of 2 slices are there"),
            (a_slice(gpus(1) * 2, "s2", pool=a_pool("p2")), "invalid: duplicate device name gpu-0"),
        ],
    )
    def test_every_pool_must_be_known(self, broken, state):
        outcome = allocated_by([self.CLAIM], [a_slice(gpus(1)), broken])
        assert fatal(outcome) == (
            f"claim claim-0, request all: requests all devices, but resource pool {DRIVER}/p2 is {state}"
        )

    def test_a_constraint_that_forbids_one_is_an_error(self):
        claim = a_claim(a_request("all", allocationMode="All"), constraints=[{"matchAttribute": f"{DRIVER}/model"}])
        offered = [a_device("a", model="a"), a_device("b", model="b")]
        assert fatal(allocated_by([claim], [a_slice(offered)])) == (
            "claim claim-0, request all: requests all devices, but constraint #0 does not allow device "
            f"{DRIVER}/{POOL}/b"
        )

    def test_amounts_count_what_earlier_requests_took(self):
        shared = shareable(a_device("d"), {"default": "10Gi"})
        amount = {"requests": {"memory": "50Gi"}}
        claim = a_claim(a_request("one", capacity=amount), a_request("all", allocationMode="All", capacity=amount))
        assert isinstance(allocated_by([claim], [a_slice([shared])]), NoFit)


class TestAlternatives:
    def test_the_first_that_lets_the_whole_pod_succeed(self):
        choice = a_choice("c", both=a_subrequest(count=2), one=a_subrequest(count=1))
        assert devices(allocated_by([a_claim(choice, a_request("r"))], [a_slice(gpus(2))])) == [
            [("c/one", "gpu-0"), ("r", "gpu-1")]
        ]

    def test_none_fits(self):
        choice = a_choice("c", four=a_subrequest(count=4), three=a_subrequest(count=3))
        assert isinstance(allocated_by([a_claim(choice)], [a_slice(gpus(2))]), NoFit)

    def test_an_error_in_an_earlier_one_aborts(self):
        choice = a_choice("c", broken=a_subrequest(MODEL_A), fine=a_subrequest())
        assert "no such key" in fatal(allocated_by([a_claim(choice)], [a_slice(gpus(1))]))

    def test_constraints_may_name_one(self):
        constraint = {"requests": ["c/two"], "matchAttribute": f"{DRIVER}/model"}
        claim = a_claim(a_choice("c", two=a_subrequest(count=2), any=a_subrequest(count=2)), constraints=[constraint])
        offered = [a_device("a", model="a"), a_device("b", model="b")]
        assert devices(allocated_by([claim], [a_slice(offered)])) == [[("c/any", "a"), ("c/any", "b")]]


class TestAdminAccess:
    def test_devices_in_use_may_be_taken(self):
        claim = a_claim(a_request("admin", adminAccess=True))
        outcome = allocated_by([claim], [a_slice(gpus(1))], allocated=[in_use("gpu-0")])
        assert outcome.claims[0].devices == (DeviceResult("admin", DeviceId(DRIVER, POOL, "gpu-0"), admin_access=True),)

    def test_not_twice_in_one_claim_but_in_two(self):
        subrequest = a_request("a", adminAccess=True)
        other = a_request("b", adminAccess=True)
        assert isinstance(allocated_by([a_claim(subrequest, other)], [a_slice(gpus(1))]), NoFit)
        assert allocated_by([a_claim(subrequest), a_claim(other, name="c2")], [a_slice(gpus(1))]).count == 2

    def test_it_blocks_normal_requests_behind_it(self):
        claims = [a_claim(a_request("a", adminAccess=True)), a_claim(a_request("b"), name="c2")]
        assert isinstance(allocated_by(claims, [a_slice(gpus(1))]), NoFit)
        assert isinstance(allocated_by(claims[::-1], [a_slice(gpus(1))]), Allocated)


class TestTaints:
    @pytest.mark.parametrize(
        ("taints", "tolerations", "fits"),
        [
            ([("k", "v", "NoSchedule")], [], False),
            ([("k", "v", "NoExecute")], [], False),
            ([("k", "v", "None")], [], True),
            ([("k", "v", "Future")], [], True),
            ([("k", "v", "NoSchedule")], [{"operator": "Exists"}], True),
            ([("k", "v", "NoSchedule")], [{"key": "k", "operator": "Exists"}], True),
            ([("k", "v", "NoSchedule")], [{"key": "j", "operator": "Exists"}], False),
            ([("k", "v", "NoSchedule")], [{"key": "k", "value": "v"}], True),
            ([("k", "v", "NoSchedule")], [{"key": "k", "value": "w"}], False),
            ([("k", "v", "NoSchedule")], [{"value": "v"}], True),
            ([("k", "v", "NoSchedule")], [{"key": "k", "operator": "Exists", "effect": "NoExecute"}], False),
            ([("k", "v", "NoSchedule")], [{"key": "k", "operator": "Exists", "effect": "NoSchedule"}], True),
            ([("k", "v", "NoSchedule")], [{"key": "k", "operator": "Like"}], False),
            ([("k", "v", "NoSchedule"), ("j", "", "NoExecute")], [{"key": "k", "operator": "Exists"}], False),
            ([("k", "v", "NoSchedule"), ("j", "", "NoExecute")], [{"operator": "Exists"}], True),
        ],
    )
    def test_blocking(self, taints, tolerations, fits):
        device = {**a_device("d"), "taints": [{"key": k, "value": v, "effect": e} for k, v, e in taints]}
        outcome = allocated_by([a_claim(a_request("r", tolerations=tolerations))], [a_slice([device])])
        assert isinstance(outcome, Allocated) is fits

    def test_ignored_while_the_gate_is_off(self):
        device = {**a_device("d"), "taints": [{"key": "k", "effect": "NoSchedule"}]}
        outcome = allocated_by([a_claim(a_request("r"))], [a_slice([device])], features=Features(device_taints=False))
        assert isinstance(outcome, Allocated)


class TestCounters:
    FULL = draws(a_device("full", model="a"), "7")
    PARTS = tuple(draws(a_device(f"part-{index}", model="b"), "3") for index in range(3))

    def test_totals_hold(self):
        slices = partitioned(*self.PARTS)
        assert isinstance(allocated_by([a_claim(a_request("r", count=2))], slices), Allocated)
        assert isinstance(allocated_by([a_claim(a_request("r", count=3))], slices), NoFit)

    def test_choices_are_undone_for_counters(self):
        small = draws(a_device("small", model="b"), "0")
        claim = a_claim(a_request("any"), a_request("full", MODEL_A))
        slices = partitioned(self.PARTS[0], small, self.FULL)
        assert devices(allocated_by([claim], slices)) == [[("any", "small"), ("full", "full")]]

    def test_devices_in_use_anywhere_in_the_pool_count(self):
        elsewhere = a_slice([self.PARTS[0]], "s3", nodeName="node-2", pool=a_pool(slices=3))
        slices = [
            a_slice([self.FULL], "s1", pool=a_pool(slices=3)),
            a_slice(None, "s2", sharedCounters=COUNTERS, pool=a_pool(slices=3)),
            elsewhere,
        ]
        claim = a_claim(a_request("r"))
        assert isinstance(allocated_by([claim], slices), Allocated)
        assert isinstance(allocated_by([claim], slices, allocated=[in_use("part-0")]), NoFit)

    def test_an_overdrawn_counter_blocks_the_pool(self):
        free = {**a_device("free"), "consumesCounters": [{"counterSet": "other", "counters": {"x": {"value": "1"}}}]}
        sets = [*COUNTERS, {"name": "other", "counters": {"x": {"value": "9"}}}]
        slices = [
            a_slice([self.FULL, self.PARTS[0], free], "s1", pool=a_pool(slices=2)),
            a_slice(None, "s2", sharedCounters=sets, pool=a_pool(slices=2)),
        ]
        held = [in_use("full"), in_use("part-0")]
        assert isinstance(allocated_by([a_claim(a_request("r"))], slices, allocated=held), NoFit)
        assert isinstance(allocated_by([a_claim(a_request("r"))], slices, allocated=held[:1]), Allocated)

    def test_devices_with_counters_are_not_given_while_the_gate_is_off(self):
        claim, off = a_claim(a_request("r")), Features(partitionable_devices=False)
        assert isinstance(allocated_by([claim], [a_slice([self.FULL])], features=off), NoFit)
        slices = [a_slice([self.FULL, a_device("whole")])]
        assert devices(allocated_by([claim], slices, features=off)) == [[("r", "whole")]]

    def test_a_shared_device_draws_its_counters_once(self):
        shared = {**draws(a_device("d"), "7"), **shareable(a_device("d"), {"default": "10Gi"})}
        shared["consumesCounters"] = draws(a_device("d"), "7")["consumesCounters"]
        claim = a_claim(a_request("a"), a_request("b"))
        assert isinstance(allocated_by([claim], partitioned(shared)), Allocated)


class TestShares:
    def test_one_device_serves_several_requests(self):
        shared = shareable(a_device("d"), {"default": "30Gi"})
        claim = a_claim(a_request("a"), a_request("b", capacity={"requests": {"memory": "50Gi"}}))
        outcome = allocated_by([claim], [a_slice([shared])])
        assert [device.consumed_capacity for device in outcome.claims[0].devices] == [
            {"memory": parse_quantity("30Gi")},
            {"memory": parse_quantity("50Gi")},
        ]
        assert all(device.shared for device in outcome.claims[0].devices)

    def test_but_not_one_request_twice(self):
        shared = shareable(a_device("d"), {"default": "1Gi"})
        assert isinstance(allocated_by([a_claim(a_request("a", count=2))], [a_slice([shared])]), NoFit)

    def test_what_others_consume_is_gone(self):
        shared = shareable(a_device("d"), {"default": "30Gi"})
        held = [in_use("d", shareID="1", consumedCapacity={"memory": "60Gi"})]
        assert isinstance(allocated_by([a_claim(a_request("a"))], [a_slice([shared])], allocated=held), NoFit)

    def test_what_others_consume_of_a_device_that_was_shared_is_gone(self):
        held = [in_use("gpu-0", shareID="1", consumedCapacity={"memory": "60Gi"})]
        outcome = allocated_by([a_claim(a_request("a"))], [a_slice(gpus(2))], allocated=held)
        assert devices(outcome) == [[("a", "gpu-1")]]

    def test_without_a_policy_everything_is_taken(self):
        claim = a_claim(a_request("a"), a_request("b"))
        assert isinstance(allocated_by([claim], [a_slice([shareable(a_device("d"))])]), NoFit)

    def test_a_device_without_the_requested_capacity_is_skipped(self):
        claim = a_claim(a_request("a", capacity={"requests": {"cores": "1"}}))
        assert isinstance(allocated_by([claim], [a_slice(gpus(1))]), NoFit)

    def test_on_an_ordinary_device_an_amount_only_filters(self):
        claim = a_claim(a_request("a", capacity={"requests": {"memory": "60Gi"}}))
        offered = [a_device("small", memory="40Gi"), a_device("large", memory="80Gi")]
        outcome = allocated_by([claim], [a_slice(offered)])
        assert devices(outcome) == [[("a", "large")]]
        assert not outcome.claims[0].devices[0].shared

    def test_a_share_given_back_leaves_room(self):
        shared = shareable(a_device("d", model="a"), {"default": "50Gi"})
        plain = a_device("plain", memory="80Gi", model="b")
        claim = a_claim(a_request("any"), a_request("a", MODEL_A))
        assert devices(allocated_by([claim], [a_slice([shared, plain])])) == [[("any", "plain"), ("a", "d")]]

    @pytest.mark.parametrize("others", [{}, {"cores": {"value": "8"}}])
    def test_a_policy_that_does_not_allow_the_whole_of_an_ordinary_device_keeps_it(self, others):
        ranged = {"value": "80Gi", "requestPolicy": {"validRange": {"min": "10Gi", "step": "20Gi"}}}
        offered = [{**a_device("ranged"), "capacity": {"memory": ranged, **others}}, a_device("plain")]
        assert devices(allocated_by([a_claim(a_request("r"))], [a_slice(offered)])) == [[("r", "plain")]]

    def test_selectors_see_whether_a_device_may_be_shared(self):
        offered = [a_device("whole"), shareable(a_device("shared"))]
        claim = a_claim(a_request("r", "device.allowMultipleAllocations"))
        assert devices(allocated_by([claim], [a_slice(offered)])) == [[("r", "shared")]]

    def test_selectors_see_the_total(self):
        shared = shareable(a_device("d"), {"default": "10Gi"})
        selector = f'device.capacity["{DRIVER}"].memory.compareTo(quantity("80Gi")) >= 0'
        held = [in_use("d", shareID="1", consumedCapacity={"memory": "60Gi"})]
        outcome = allocated_by([a_claim(a_request("a", selector))], [a_slice([shared])], allocated=held)
        assert isinstance(outcome, Allocated)


ZONE = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}]}


class TestNodeSelectors:
    def selector(self, outcome):
        return outcome.claims[0].node_selector

    def test_everywhere(self):
        outcome = allocated_by([a_claim(a_request("r"))], [a_slice(gpus(1), nodeName=None, allNodes=True)])
        assert self.selector(outcome) is None

    def test_where_the_slice_is(self):
        slices = [a_slice(gpus(1), nodeName=None, nodeSelector=ZONE)]
        outcome = allocated_by([a_claim(a_request("r"))], slices, node=a_node(zone="a"))
        terms = msgspec.to_builtins(self.selector(outcome))["nodeSelectorTerms"]
        assert [dict(term)["matchExpressions"] for term in terms] == [
            ({"key": "zone", "operator": "In", "values": ("a",)},)
        ]

    def test_a_device_that_binds_to_its_node(self):
        device = {**a_device("d"), "bindsToNode": True}
        outcome = allocated_by([a_claim(a_request("r"))], [a_slice([device], nodeName=None, allNodes=True)])
        assert self.selector(outcome) == pinned_to("node-1")

    def test_one_local_device_binds_the_pod(self):
        slices = [
            a_slice([a_device("everywhere")], "s1", nodeName=None, allNodes=True, pool=a_pool("p1")),
            a_slice([a_device("local")], "s2", pool=a_pool("p2")),
        ]
        assert self.selector(allocated_by([a_claim(a_request("r", count=2))], slices)) == pinned_to("node-1")

    def test_a_claim_without_devices_binds_nothing(self):
        assert self.selector(allocated_by([a_claim()], [])) is None

    def test_a_device_with_its_own_node(self):
        device = {**a_device("d"), "nodeName": "node-1"}
        slices = [a_slice([device], nodeName=None, perDeviceNodeSelection=True)]
        assert self.selector(allocated_by([a_claim(a_request("r"))], slices)) == pinned_to("node-1")

    def test_devices_for_other_nodes_are_judged_and_then_refused(self):
        devices_of_slice = [{**a_device("x"), "nodeName": "node-2"}, {**a_device("y", model="a"), "nodeName": "node-1"}]
        slices = [a_slice(devices_of_slice, nodeName=None, perDeviceNodeSelection=True)]
        assert "no such key" in fatal(allocated_by([a_claim(a_request("r", MODEL_A))], slices))
        assert devices(allocated_by([a_claim(a_request("r"))], slices)) == [[("r", "y")]]

    def test_selectors_with_several_terms_cannot_be_merged(self):
        term = ZONE["nodeSelectorTerms"][0]
        device = {**a_device("d"), "nodeSelector": {"nodeSelectorTerms": [term, term]}}
        slices = [a_slice([device], nodeName=None, perDeviceNodeSelection=True)]
        assert "2 terms" in fatal(allocated_by([a_claim(a_request("r"))], slices, node=a_node(zone="a")))

    def test_an_unreadable_selector_aborts(self):
        broken = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "n", "operator": "Gt", "values": ["x"]}]}]}
        slices = [a_slice(gpus(1), nodeName=None, nodeSelector=broken)]
        assert "node selector" in fatal(allocated_by([a_claim(a_request("r"))], slices))


def test_binding_conditions_behind_their_gate():
    device = {**a_device("d"), "bindingConditions": ["ready"], "bindingFailureConditions": ["broken"]}
    claim = a_claim(a_request("r"))
    assert isinstance(allocated_by([claim], [a_slice([device])]), Allocated)
    off = Features(device_binding_and_status=False)
    assert isinstance(allocated_by([claim], [a_slice([device])], features=off), NoFit)


def test_invalid_pools_are_reported_when_nothing_fits():
    broken = a_slice(gpus(1) * 2, "s2", pool=a_pool("p2"))
    claim = a_claim(a_request("r"))
    assert isinstance(allocated_by([claim], [a_slice(gpus(1)), broken]), Allocated)
    outcome = allocated_by([claim], [broken])
    assert outcome.invalid_pools == (PoolNote(DRIVER, "p2", "duplicate device name gpu-0"),)


class TestManyNodes:
    def allocator(self, *, taken=(), nodes=3, max_steps=100_000):
        slices = [a_slice(gpus(2), f"s{i}", nodeName=f"node-{i}", pool=a_pool(f"p{i}")) for i in range(nodes)]
        held = [in_use("gpu-0", pool=f"p{i}") for i in taken] + [in_use("gpu-1", pool=f"p{i}") for i in taken]
        usage = DeviceUsage.of(decode_in_use(held), Features())
        return Allocator(Inventory(decode_slices(slices)), usage, max_steps=max_steps)

    def place(self, allocator, *requests, nodes=3):
        plan = prepare_claims(decode_claims([a_claim(*requests)]), decode_classes([a_class()]), Features())
        return allocator.allocate_first(plan, [decode_node(a_node(f"node-{index}")) for index in range(nodes)])

    def test_the_first_that_fits(self):
        placed = self.place(self.allocator(taken=[0]), a_request("r"))
        assert isinstance(placed, NodeAllocation)
        assert (placed.node, devices(placed.allocation)) == ("node-1", [[("r", "gpu-0")]])

    def test_none_fits(self):
        outcome = self.place(self.allocator(taken=[0, 1, 2]), a_request("r"))
        assert isinstance(outcome, NoFit)
        assert str(outcome) == "claim claim-0, request r (class gpu) wants 1: 6 devices considered: 6 in use"

    def test_no_nodes(self):
        assert self.place(self.allocator(), a_request("r"), nodes=0) == NoFit(
            self.place(self.allocator(), a_request("r"), nodes=0).requests
        )

    def test_an_error_ends_it(self):
        assert "no such key" in fatal(self.place(self.allocator(), a_request("r", MODEL_A)))
        assert "does not exist" in fatal(self.place(self.allocator(), a_request("r", deviceClassName="x"), nodes=1))

    def test_a_node_that_gives_up_is_passed_over(self):
        outcome = self.place(self.allocator(max_steps=3), a_request("r", count=2), a_request("s"))
        assert isinstance(outcome, GaveUp)


def test_a_selector_is_evaluated_once_for_each_shape():
    asked = []

    class Counting:
        def __init__(self, text):
            self._inner = compile_selector(text, stored=True)

        def evaluate(self, device):
            asked.append(device)
            return self._inner.evaluate(device)

    slices = [a_slice(gpus(8, model="b"), f"s{i}", nodeName=f"node-{i}", pool=a_pool(f"p{i}")) for i in range(50)]
    plan = prepare_claims(
        decode_claims([a_claim(a_request("r", MODEL_A), a_request("s", MODEL_A))]),
        decode_classes([a_class("gpu", "true")]),
        Features(),
        Counting,
    )
    allocator = Allocator(Inventory(decode_slices(slices)))
    assert isinstance(allocator.allocate_first(plan, [decode_node(a_node(f"node-{i}")) for i in range(50)]), NoFit)
    assert len(asked) == 2
