import pytest

from modelplane.k8s.dra.decode import decode_claims, decode_classes, decode_slices
from modelplane.k8s.dra.features import Features
from modelplane.k8s.dra.offers import prepare_slices
from modelplane.k8s.dra.plan import MATCHES, Aborted, prepare_claims
from modelplane.testing.devices import DRIVER, a_choice, a_claim, a_class, a_device, a_request, a_slice, a_subrequest

MODEL = f'device.attributes["{DRIVER}"].model == "a"'
INDEX = f'device.attributes["{DRIVER}"].index < 2'


def planned(*claims, classes=None, **gates):
    return prepare_claims(decode_claims(claims), decode_classes(classes or [a_class()]), Features(**gates))


def shape(**attributes):
    return (
        prepare_slices(decode_slices([a_slice([a_device("d", **attributes)])]), list_attributes=False)[0]
        .offers[0]
        .shape
    )


def test_subrequests_are_numbered_over_claims_and_alternatives():
    plan = planned(
        a_claim(a_request("r", count=2), a_choice("c", s=a_subrequest(), t=a_subrequest(count=3))),
        a_claim(a_request("r"), name="other"),
    )
    assert [
        (subrequest.index, subrequest.claim_index, subrequest.request_index, subrequest.full_name, subrequest.count)
        for subrequest in plan.subrequests
    ] == [
        (0, 0, 0, "r", 2),
        (1, 0, 1, "c/s", 1),
        (2, 0, 1, "c/t", 3),
        (3, 1, 0, "r", 1),
    ]
    assert plan.counts == (2, 1, 3, 1)
    assert plan.fault is None


def test_counts_depend_on_the_node_where_all_is_wanted():
    assert planned(a_claim(a_request("r", allocationMode="All"))).counts is None


def test_verdicts_name_the_first_selector_that_is_false():
    plan = planned(a_claim(a_request("r", INDEX)), classes=[a_class("gpu", "true", MODEL)])
    subrequest = plan.subrequests[0]
    assert subrequest.failed_check(shape(model="a", index=1)) == MATCHES
    assert subrequest.failed_check(shape(model="b")) == 1
    assert subrequest.failed_check(shape(model="a", index=2)) == 2
    with pytest.raises(Aborted, match=r"^claim claim-0, request r: selector #0: CEL runtime error: "):
        subrequest.failed_check(shape(model="a"))


def test_a_false_selector_shields_those_behind_it():
    subrequest = planned(a_claim(a_request("r", "false", INDEX))).subrequests[0]
    assert subrequest.failed_check(shape()) == 0


def test_an_unusable_device_fails_every_selector_but_none_passes_it():
    broken = {**a_device("d"), "attributes": {"v": {"version": "99999999999999999999.0.0"}}}
    found = prepare_slices(decode_slices([a_slice([broken])]), list_attributes=False)[0].offers[0].shape
    with pytest.raises(Aborted, match="parse semantic version"):
        planned(a_claim(a_request("r", "true"))).subrequests[0].failed_check(found)
    assert planned(a_claim(a_request("r"))).subrequests[0].failed_check(found) == MATCHES


def test_what_is_stored_is_not_measured_again():
    subrequest = planned(a_claim(a_request("r", MODEL + " " * 20_000))).subrequests[0]
    assert subrequest.failed_check(shape(model="a")) == MATCHES


def test_one_text_is_compiled_once():
    compiled = []

    def compile_text(text):
        compiled.append(text)

    claims = decode_claims([a_claim(a_request("r", MODEL, MODEL), a_request("s", MODEL, "true"))])
    prepare_claims(claims, decode_classes([a_class("gpu", "true")]), Features(), compile_text)
    assert compiled == ["true", MODEL]


@pytest.mark.parametrize(
    ("claims", "gates", "forgetful", "admin"),
    [
        ([a_claim(a_request("r"))], {}, False, False),
        ([a_claim(a_request("r"), constraints=[{"matchAttribute": "a/b"}])], {}, False, False),
        ([a_claim(a_request("r"), constraints=[{"distinctAttribute": "a/b"}])], {}, True, False),
        (
            [a_claim(a_request("r"), constraints=[{"matchAttribute": "a/b"}])],
            {"list_type_attributes": True},
            True,
            False,
        ),
        ([a_claim(a_request("r", adminAccess=True))], {}, False, True),
        ([a_claim(a_request("r", adminAccess=False))], {}, False, False),
        ([a_claim(a_request("r"), a_request("s", adminAccess=True))], {}, False, True),
    ],
)
def test_what_the_search_may_remember(claims, gates, forgetful, admin):
    plan = planned(*claims, **gates)
    assert (plan.is_order_dependent, plan.has_admin_access) == (forgetful, admin)


def test_constrained_attributes():
    plan = planned(
        a_claim(a_request("r"), constraints=[{"matchAttribute": "a/b"}, {"distinctAttribute": "c/d"}]),
    )
    assert plan.constrained == ("a/b", "c/d")


def test_a_fault_replaces_everything():
    plan = planned(a_claim(a_request("r", deviceClassName="nope")))
    assert (plan.claims, plan.subrequests) == ((), ())
    assert plan.fault == "claim claim-0, request r: device class nope does not exist"
