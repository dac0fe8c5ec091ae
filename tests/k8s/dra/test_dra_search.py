"""The search against a plain one, its memory, and its budget."""

import itertools
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from modelplane.k8s.dra import (
    Allocated,
    DeviceUsage,
    Fatal,
    Features,
    GaveUp,
    NoFit,
    decode_claims,
    decode_classes,
    decode_node,
    decode_slices,
)
from modelplane.k8s.dra.allocation_state import AllocationState
from modelplane.k8s.dra.inventory import Inventory
from modelplane.k8s.dra.plan import prepare_claims
from modelplane.k8s.dra.search import Search
from modelplane.testing.devices import (
    DRIVER,
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

MODELS = "abc"


def guarded(model):
    return f'has(device.attributes["{DRIVER}"].model) && device.attributes["{DRIVER}"].model == "{model}"'


def plain(model):
    return f'device.attributes["{DRIVER}"].model == "{model}"'


@st.composite
def problems(draw):
    """Devices with a model and a root, some in use; requests for a number of a model, with one constraint perhaps."""
    devices = draw(
        st.lists(st.tuples(st.sampled_from(MODELS), st.sampled_from("rs"), st.booleans()), min_size=1, max_size=6)
    )
    subrequests = draw(
        st.lists(st.tuples(st.sampled_from(["", *MODELS]), st.integers(1, 3), st.booleans()), min_size=1, max_size=3)
    )
    return devices, subrequests, draw(st.booleans())


def documents(problem):
    devices, subrequests, matched = problem
    offered = [a_device(f"d{i}", model=model, root=root) for i, (model, root, _) in enumerate(devices)]
    held = [in_use(f"d{i}") for i, (_, _, taken) in enumerate(devices) if taken]
    requests = []
    for index, (model, count, optional) in enumerate(subrequests):
        selectors = [guarded(model)] if model else []
        subrequest = a_subrequest(*selectors, count=count)
        if optional:
            requests.append(a_choice(f"r{index}", first=subrequest, second=a_subrequest(*selectors, count=1)))
        else:
            requests.append({"name": f"r{index}", "exactly": subrequest})
    constraints = [{"matchAttribute": f"{DRIVER}/root"}] if matched else []
    return [a_claim(*requests, constraints=constraints)], [a_slice(offered)], held


def solvable(problem):
    """Try every assignment of devices to requests."""
    devices, subrequests, matched = problem
    free = {i: device for i, device in enumerate(devices) if not device[2]}

    def serve(position, used):
        if position == len(subrequests):
            return not matched or len({free[i][1] for i in used}) <= 1
        model, count, optional = subrequests[position]
        fitting = [i for i in free if i not in used and (not model or free[i][0] == model)]
        return any(
            serve(position + 1, used | set(chosen))
            for size in ([count, 1] if optional else [count])
            for chosen in itertools.combinations(fitting, size)
        )

    return serve(0, frozenset())


@given(problems())
@settings(max_examples=100, deadline=None)
def test_a_solution_is_found_exactly_when_there_is_one(problem):
    claims, slices, held = documents(problem)
    outcome = allocated_by(claims, slices, allocated=held)
    assert isinstance(outcome, Allocated if solvable(problem) else NoFit)


@given(problems())
@settings(max_examples=100, deadline=None)
def test_a_solution_is_sound(problem):
    devices, subrequests, matched = problem
    claims, slices, held = documents(problem)
    outcome = allocated_by(claims, slices, allocated=held)
    if not isinstance(outcome, Allocated):
        return
    given = [(device.request, int(device.device.device[1:])) for device in outcome.claims[0].devices]
    chosen = [index for _, index in given]
    assert len(chosen) == len(set(chosen))
    assert not any(devices[index][2] for index in chosen)
    assert not matched or len({devices[index][1] for index in chosen}) <= 1
    for position, (model, count, optional) in enumerate(subrequests):
        mine = [index for request, index in given if request.partition("/")[0] == f"r{position}"]
        assert len(mine) == count or (optional and len(mine) == 1)
        assert not model or all(devices[index][0] == model for index in mine)
        assert mine == sorted(mine)


@given(problems())
@settings(max_examples=50, deadline=None)
def test_the_same_question_gets_the_same_answer(problem):
    claims, slices, held = documents(problem)
    assert allocated_by(claims, slices, allocated=held) == allocated_by(claims, slices, allocated=held)


@given(problems(), st.integers(1, 40))
@settings(max_examples=100, deadline=None)
def test_a_small_budget_gives_up_or_agrees(problem, steps):
    claims, slices, held = documents(problem)
    outcome = allocated_by(claims, slices, allocated=held, max_steps=steps)
    if not isinstance(outcome, GaveUp):
        assert outcome == allocated_by(claims, slices, allocated=held)


# A search that walks every combination takes many orders of magnitude more than this.
_FEW_STEPS = 2_000

MANY = [a_device(f"other-{index}", model="z") for index in range(300)]
"""After so many a search takes long: it remembers what has no solution."""


def drawing(name, amount, **attributes):
    consumed = [{"counterSet": "s", "counters": {"c": {"value": str(amount)}}}]
    return {**a_device(name, **attributes), "consumesCounters": consumed}


def taken(outcome):
    return [(device.request, device.device.device) for device in outcome.claims[0].devices]


class TestBlowUp:
    def gpus(self, count, **fields):
        return [a_device(f"gpu-{index}", uuid=f"GPU-{index}", model="a", **fields) for index in range(count)]

    def test_too_few_devices_for_the_last_request(self):
        claim = a_claim(a_request("many", count=15), a_request("more", count=15), a_request("rest", guarded("z")))
        outcome = allocated_by([claim], [a_slice(self.gpus(64))], max_steps=_FEW_STEPS)
        assert isinstance(outcome, NoFit)

    def test_interchangeable_devices_before_an_impossible_constraint(self):
        offered = self.gpus(24)
        for index, device in enumerate(offered):
            device["attributes"]["root"] = {"int": index % 6}
        claim = a_claim(a_request("six", count=6), constraints=[{"matchAttribute": f"{DRIVER}/root"}])
        outcome = allocated_by([claim], [a_slice(offered)], max_steps=_FEW_STEPS)
        assert isinstance(outcome, NoFit)

    def test_counters_that_cannot_hold(self):
        offered = [
            {**device, "consumesCounters": [{"counterSet": "s", "counters": {"c": {"value": "1"}}}]}
            for device in self.gpus(32)
        ]
        slices = [
            a_slice(offered, "s1", pool=a_pool(slices=2)),
            a_slice(
                None, "s2", sharedCounters=[{"name": "s", "counters": {"c": {"value": "15"}}}], pool=a_pool(slices=2)
            ),
        ]
        outcome = allocated_by([a_claim(a_request("r", count=16))], slices, max_steps=_FEW_STEPS)
        assert isinstance(outcome, NoFit)

    def test_a_set_of_devices_without_a_solution_is_not_tried_in_another_order(self):
        """Each request excludes another device, so that no two are equivalent; a matching exists, the counters fail."""
        draws = {"consumesCounters": [{"counterSet": "s", "counters": {"c": {"value": "1"}}}]}
        offered = [{**a_device(f"d{index}", number=index), **draws} for index in range(9)]
        sets = [{"name": "s", "counters": {"c": {"value": "5"}}}]
        slices = [
            a_slice(offered, "s1", pool=a_pool(slices=2)),
            a_slice(None, "s2", sharedCounters=sets, pool=a_pool(slices=2)),
        ]
        requests = [a_request(f"r{index}", f'device.attributes["{DRIVER}"].number != {index}') for index in range(6)]
        outcome = allocated_by([a_claim(*requests)], slices, max_steps=_FEW_STEPS)
        assert isinstance(outcome, NoFit)

    def test_no_other_devices_are_tried_where_the_limit_of_a_claim_is_exceeded(self):
        claim = a_claim(
            a_choice("first", many=a_subrequest(count=30), one=a_subrequest(count=1)),
            a_choice("second", many=a_subrequest(count=20), some=a_subrequest(count=10)),
        )
        outcome = allocated_by([claim], [a_slice(self.gpus(40))], max_steps=100)
        assert Counter(device.request for device in outcome.claims[0].devices) == {"first/one": 1, "second/many": 20}

    def test_other_devices_are_tried_where_an_alternative_has_no_device(self):
        offered = [a_device("a", model="a"), a_device("b", model="b")]
        claim = a_claim(a_request("any"), a_choice("choice", a=a_subrequest(guarded("a"))))
        assert taken(allocated_by([claim], [a_slice(offered)])) == [("any", "b"), ("choice/a", "a")]

    def test_shared_devices_are_never_equivalent(self):
        others = [a_device(f"d{index}", model="z") for index in range(120)]
        slices = [a_slice(others, f"s{part}", pool=a_pool(f"p{part}")) for part in range(3)]
        shared = [shareable(a_device(name, model="a", root=root)) for name, root in (("x", "r"), ("y", "q"))]
        claim = a_claim(
            a_request("share", guarded("a")),
            a_request("whole", guarded("b")),
            constraints=[{"matchAttribute": f"{DRIVER}/root"}],
        )
        outcome = allocated_by(
            [claim], [*slices, a_slice([*shared, a_device("w", model="b", root="q")], "s", pool=a_pool("p9"))]
        )
        assert [str(device.device) for device in outcome.claims[0].devices] == [f"{DRIVER}/p9/y", f"{DRIVER}/p9/w"]

    def test_a_device_of_another_kind_is_tried(self):
        offered = [*MANY, a_device("a", model="a"), a_device("b", model="b")]
        claim = a_claim(a_request("any", f"!({guarded('z')})"), a_request("one", guarded("a")))
        assert taken(allocated_by([claim], [a_slice(offered)])) == [("any", "b"), ("one", "a")]

    def test_a_device_in_use_does_not_stand_for_a_free_one(self):
        offered = [*MANY, a_device("free", model="a"), a_device("used", model="a")]
        claim = a_claim(a_request("admin", guarded("a"), adminAccess=True), a_request("one", guarded("a")))
        outcome = allocated_by([claim], [a_slice(offered)], allocated=[in_use("used")])
        assert taken(outcome) == [("admin", "used"), ("one", "free")]

    def test_a_set_of_devices_without_a_solution_is_given_back_whole(self):
        """The last request takes 4 of 9, which leaves room for the two smallest devices only."""
        offered = [*MANY, *(drawing(f"d{amount}", amount, model="a") for amount in (5, 4, 3, 2)), drawing("last", 4)]
        slices = [
            a_slice(offered, "s1", pool=a_pool(slices=2)),
            a_slice(
                None, "s2", sharedCounters=[{"name": "s", "counters": {"c": {"value": "9"}}}], pool=a_pool(slices=2)
            ),
        ]
        last = f'!has(device.attributes["{DRIVER}"].model)'
        claim = a_claim(a_request("one", guarded("a")), a_request("other", guarded("a")), a_request("last", last))
        assert taken(allocated_by([claim], slices)) == [("one", "d3"), ("other", "d2"), ("last", "last")]

    @pytest.mark.parametrize(("budget", "is_enough"), [(9, False), (10, True)])
    def test_each_device_of_a_request_for_all_is_a_step(self, budget, is_enough):
        offered = [*self.gpus(3), a_device("d3", model="z"), a_device("d4", model="z"), a_device("d5", model="b")]
        claim = a_claim(a_request("all", guarded("a"), allocationMode="All"), a_request("b", guarded("b")))
        outcome = allocated_by([claim], [a_slice(offered)], max_steps=budget)
        assert isinstance(outcome, Allocated if is_enough else GaveUp)

    def test_what_cannot_be_cut_short_runs_out_of_steps(self):
        offered = self.gpus(24)
        for index, device in enumerate(offered):
            device["attributes"]["unique"] = {"int": index % 12}
        requests = [a_request(f"r{index}") for index in range(14)]
        claim = a_claim(*requests, constraints=[{"distinctAttribute": f"{DRIVER}/unique"}])
        outcome = allocated_by([claim], [a_slice(offered)], max_steps=20_000)
        assert isinstance(outcome, GaveUp)
        assert outcome.steps == 20_000
        assert [request.request for request in outcome.requests] == [f"r{index}" for index in range(14)]

    def test_many_claims_do_not_exhaust_the_stack(self):
        claims = [a_claim(a_request("r", count=32), name=f"c{index}") for index in range(34)]
        slices = [
            a_slice([a_device(f"d{index}") for index in range(128)], f"s{part}", pool=a_pool(f"p{part}"))
            for part in range(9)
        ]
        assert allocated_by(claims, slices).count == 1_088

    def test_one_device_too_few_for_many_claims(self):
        claims = [a_claim(a_request("r", count=8), name=f"c{index}") for index in range(12)]
        slices = [a_slice([a_device(f"d{index}") for index in range(95)])]
        outcome = allocated_by(claims, slices, max_steps=_FEW_STEPS)
        assert isinstance(outcome, NoFit)


@pytest.mark.parametrize(
    ("kind", "steps", "expected"),
    [
        pytest.param("matchAttribute", 256, False, id="soon"),
        pytest.param("matchAttribute", 257, True, id="after a while"),
        pytest.param("distinctAttribute", 257, False, id="where what was tried before counts"),
    ],
)
def test_a_search_remembers_failures_after_a_while_where_they_stay_failures(kind, steps, expected):
    claim = a_claim(a_request("r"), constraints=[{kind: f"{DRIVER}/root"}])
    plan, node = prepare_claims(decode_claims([claim]), decode_classes([a_class()]), Features()), decode_node(a_node())
    view = Inventory(decode_slices([a_slice([a_device("d", root="r")])])).view(node)
    search = Search(plan, AllocationState(plan, view, DeviceUsage(), node, {}), [1], 1000)
    search.steps = steps
    assert search.caches_failures is expected


class TestErrorsAreKept:
    """Whatever shortens a search must not turn an error into something else."""

    def offered(self, count):
        return [a_device(f"d{index}", model="a") for index in range(count)] + [a_device("broken")]

    @pytest.mark.parametrize("count", [2, 9, 30])
    def test_a_selector_that_fails_on_a_device_that_is_reached(self, count):
        claim = a_claim(a_request("r", plain("a"), count=count + 1))
        assert isinstance(allocated_by([claim], [a_slice(self.offered(count))]), Fatal)

    def test_a_selector_of_a_later_request(self):
        claim = a_claim(a_request("any", count=3), a_request("r", plain("a"), count=30))
        assert isinstance(allocated_by([claim], [a_slice(self.offered(30))]), Fatal)

    def test_a_request_that_is_never_reached(self):
        claim = a_claim(a_request("none", guarded("z")), a_request("r", plain("a")))
        assert isinstance(allocated_by([claim], [a_slice(self.offered(20))]), NoFit)

    def test_admin_access_is_judged_too(self):
        claim = a_claim(a_request("one"), a_request("admin", plain("b"), adminAccess=True), a_request("many", count=9))
        assert isinstance(allocated_by([claim], [a_slice(self.offered(5))]), Fatal)
