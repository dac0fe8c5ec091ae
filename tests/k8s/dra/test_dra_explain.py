"""Why nothing fits: per request, how many devices failed on what."""

import pytest

from modelplane.k8s.dra import NoFit, Rejection, RejectionCount, RequestExplanation
from modelplane.testing.devices import (
    DRIVER,
    a_choice,
    a_claim,
    a_class,
    a_device,
    a_pool,
    a_request,
    a_slice,
    a_subrequest,
    allocated_by,
    in_use,
)

KIND = f'device.attributes["{DRIVER}"].kind == "gpu"'
MODEL = f'device.attributes["{DRIVER}"].model == "a"'


def explained(claims, slices, **named):
    outcome = allocated_by(claims, slices, **named)
    assert isinstance(outcome, NoFit)
    return outcome


def test_everything_at_once():
    gpu = {"kind": "gpu", "model": "a", "root": "r"}
    offered = [
        a_device("taken", **gpu),
        a_device("nic", kind="nic"),
        a_device("other", kind="gpu", model="b"),
        a_device("small", memory="10Gi", **gpu),
        a_device("bare", **gpu),
        {**a_device("tainted", memory="80Gi", **gpu), "taints": [{"key": "k", "effect": "NoSchedule"}]},
        a_device("rootless", memory="80Gi", kind="gpu", model="a"),
        {
            **a_device("drawn", memory="80Gi", **gpu),
            "consumesCounters": [{"counterSet": "s", "counters": {"c": {"value": "2"}}}],
        },
        a_device("good", memory="80Gi", **gpu),
    ]
    slices = [
        a_slice(offered, "s1", pool=a_pool(slices=2)),
        a_slice(None, "s2", sharedCounters=[{"name": "s", "counters": {"c": {"value": "1"}}}], pool=a_pool(slices=2)),
    ]
    claim = a_claim(
        a_request("gpus", MODEL, count=2, capacity={"requests": {"memory": "40Gi"}}),
        constraints=[{"matchAttribute": f"{DRIVER}/root"}],
    )
    outcome = explained([claim], slices, classes=[a_class("gpu", KIND)], allocated=[in_use("taken")])
    assert outcome.requests == (
        RequestExplanation(
            claim="claim-0",
            request="gpus",
            device_class="gpu",
            wanted="2",
            considered=9,
            rejected=(
                RejectionCount(Rejection.TAKEN, "", 1),
                RejectionCount(Rejection.CLASS_SELECTOR, f"#0 {KIND}", 1),
                RejectionCount(Rejection.REQUEST_SELECTOR, f"#0 {MODEL}", 1),
                RejectionCount(Rejection.CAPACITY_UNKNOWN, "", 1),
                RejectionCount(Rejection.CAPACITY, "", 1),
                RejectionCount(Rejection.COUNTERS, "", 1),
                RejectionCount(Rejection.TAINT, "", 1),
                RejectionCount(Rejection.CONSTRAINT, f"#0 matchAttribute {DRIVER}/root", 1),
                RejectionCount(Rejection.GIVEN_BACK, "", 1),
            ),
        ),
    )


@pytest.mark.parametrize("kind", ["matchAttribute", "distinctAttribute"])
def test_a_constraint_is_named(kind):
    constraint = {kind: f"{DRIVER}/root"}
    outcome = explained([a_claim(a_request("r"), constraints=[constraint])], [a_slice([a_device("rootless")])])
    assert outcome.requests[0].rejected == (RejectionCount(Rejection.CONSTRAINT, f"#0 {kind} {DRIVER}/root", 1),)


def test_requests_and_alternatives_each_have_their_own():
    claim = a_claim(
        a_request("one"), a_choice("c", two=a_subrequest(count=2), all=a_subrequest(MODEL, allocationMode="All"))
    )
    outcome = explained([claim], [a_slice([a_device("d", model="b")])])
    assert [(found.request, found.wanted, found.considered) for found in outcome.requests] == [
        ("one", "1", 1),
        ("c/two", "2", 1),
        ("c/all", "all", 1),
    ]


def test_the_sentence():
    claim = a_claim(a_request("r", MODEL))
    broken = a_slice([a_device("x"), a_device("x")], "s2", pool=a_pool("p2"))
    partial = a_slice([a_device("y")], "s3", pool=a_pool("p3", slices=2))
    outcome = explained([claim], [a_slice([a_device("d", model="b")]), broken, partial])
    assert str(outcome) == (
        "claim claim-0, request r (class gpu) wants 1: 1 devices considered: "
        f"1 request selector is false (#0 {MODEL})\n"
        f"pool {DRIVER}/p2 offers nothing: duplicate device name x\n"
        f"pool {DRIVER}/p3 offers nothing: 1 of 2 slices are there"
    )


def test_no_devices_to_consider():
    outcome = explained([a_claim(a_request("r"))], [])
    assert str(outcome) == "claim claim-0, request r (class gpu) wants 1: 0 devices considered"


def test_devices_on_other_nodes():
    slices = [
        a_slice(
            [{**a_device("x"), "nodeName": "node-2"}, {**a_device("y"), "nodeName": "node-1"}],
            nodeName=None,
            perDeviceNodeSelection=True,
        )
    ]
    outcome = explained([a_claim(a_request("r", count=2))], slices)
    assert {found.reason for found in outcome.requests[0].rejected} == {Rejection.NODE, Rejection.GIVEN_BACK}


def test_a_request_says_how_many_devices_failed_which_check():
    rejected = tuple(RejectionCount(reason, "", at) for at, reason in enumerate(Rejection, 1))
    found = RequestExplanation("c", "r", "gpu", "1 device", 66, (*rejected, RejectionCount(Rejection.TAINT, "a=b", 9)))
    assert str(found) == (
        "claim c, request r (class gpu) wants 1 device: 66 devices considered: 1 in use; 2 class selector is false; "
        "3 request selector is false; 4 not reachable from the node; 5 has binding conditions, which are off; "
        "6 does not have a requested capacity; 7 not enough capacity; 8 shared counters exhausted; 9 tainted; "
        "10 constraint not satisfied; 11 was chosen, but then the rest did not fit; 9 tainted (a=b)"
    )
    assert str(RequestExplanation("c", "r", "gpu", "1 device", 0, ())).endswith("wants 1 device: 0 devices considered")


def test_each_rejection_has_a_sentence_for_people():
    assert {each.name: each.value for each in Rejection} == {
        "TAKEN": "in use",
        "CLASS_SELECTOR": "class selector is false",
        "REQUEST_SELECTOR": "request selector is false",
        "NODE": "not reachable from the node",
        "BINDING_CONDITIONS": "has binding conditions, which are off",
        "CAPACITY_UNKNOWN": "does not have a requested capacity",
        "CAPACITY": "not enough capacity",
        "COUNTERS": "shared counters exhausted",
        "TAINT": "tainted",
        "CONSTRAINT": "constraint not satisfied",
        "GIVEN_BACK": "was chosen, but then the rest did not fit",
    }
