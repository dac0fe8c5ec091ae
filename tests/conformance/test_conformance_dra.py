import pytest

from modelplane.api.errors import InputError
from modelplane.conformance.dra import ConformanceError, DraCase, DraCaseResult, read_cases, run_case

GATES = (
    "AdminAccess",
    "PrioritizedList",
    "PartitionableDevices",
    "DeviceTaints",
    "ConsumableCapacity",
    "DeviceBindingAndStatus",
    "ListTypeAttributes",
)


def document(*cases, **fields):
    return {"set": "quantity", "format": 1, "cases": list(cases), **fields}


def case(**fields):
    return {"id": "x-1", "op": "parse", "input": "1", "expect": {"valid": True}, **fields}


def result(set_name="quantity", **fields):
    return run_case(read_cases(document(case(**fields), set=set_name))[0])


def test_reading():
    assert read_cases(document(case())) == (DraCase("x-1", "quantity", case()),)
    assert read_cases(document()) == ()


@pytest.mark.parametrize(
    ("found", "sentence"),
    [
        ([], "the document: expected a mapping"),
        ({}, "set: expected one of quantity, semver, cel_selectors, allocator"),
        (document(set="other"), "set: expected one of quantity, semver, cel_selectors, allocator"),
        (document(set=["quantity"]), "set: expected one of quantity, semver, cel_selectors, allocator"),
        (document(format=2), "format: expected 1"),
        (document(cases="x"), "cases: expected a list"),
        (document(3), "cases[0]: expected a mapping"),
        (document(case(), {"id": "x"}), "cases[1]: expected an id and what to expect"),
        (document({"expect": 1}), "cases[0]: expected an id and what to expect"),
    ],
)
def test_what_is_not_in_the_format(found, sentence):
    with pytest.raises(ConformanceError) as error:
        read_cases(found)
    assert str(error.value) == sentence
    assert isinstance(error.value, InputError)


def test_passing_and_failing():
    assert result() == DraCaseResult("x-1", {"valid": True}, {"valid": True})
    assert result().passed
    wrong = result(expect={"valid": True, "canonical": "2"})
    assert wrong == DraCaseResult("x-1", {"valid": True, "canonical": "2"}, {"valid": True, "canonical": "1"})
    assert not wrong.passed


def test_only_what_the_case_has_an_opinion_about_is_compared():
    assert result(expect={"sign": 1}).passed
    assert not result(input="x", expect={"valid": True}).passed
    assert result(input="x", expect={"valid": False}).passed


@pytest.mark.parametrize(
    "fields",
    [
        {"op": "compare", "a": "1", "b": "2", "expect": -1},
        {"op": "add", "a": "1", "b": 1, "expect": {"value": "2"}},
        {"op": "sub", "a": "1", "b": "1", "expect": {"value": "0"}},
        {"set_name": "semver", "op": "compare", "a": "1.0.0", "b": "1.0.1", "expect": -1},
        {"set_name": "semver", "op": "parse", "input": "1", "expect": {"valid": False}},
        {"set_name": "semver", "op": "parse_normalized", "input": "1", "expect": {"string": "1.0.0", "minor": 0}},
        {"set_name": "semver", "op": "attribute", "input": "1.0.0", "expect": {"api_accepts": True}},
        {"set_name": "cel_selectors", "expression": "true", "device": {"driver": ""}, "expect": True},
        {"set_name": "cel_selectors", "expression": "1 +", "device": {"driver": ""}, "expect": "compile_error"},
        {
            "set_name": "cel_selectors",
            "expression": "true",
            "device": {"driver": "", "attributes": {"v": {"version": "99999999999999999999.0.0"}}},
            "expect": "runtime_error",
        },
        {
            "set_name": "cel_selectors",
            "expression": "device.allowMultipleAllocations",
            "features": {"ConsumableCapacity": False},
            "device": {"driver": ""},
            "expect": "compile_error",
        },
    ],
)
def test_every_operation(fields):
    assert result(**fields).passed


@pytest.mark.parametrize(
    ("fields", "got"),
    [
        ({"op": "halve", "a": "1", "b": "1"}, "refused: op: halve is unknown"),
        ({"set_name": "semver", "op": "halve"}, "refused: op: halve is unknown"),
        ({"input": 3}, "refused: input: expected a text"),
        ({"op": "compare", "a": "1", "b": None}, "refused: b: expected a text"),
        ({"expect": 3}, "refused: expect: expected a mapping"),
        ({"set_name": "cel_selectors", "expression": "true"}, "refused: device: expected a mapping"),
        ({"set_name": "allocator", "expect": {"outcome": "no_fit"}, "slices": 3}, "refused: slices: expected a list"),
        (
            {"set_name": "allocator", "expect": {"outcome": "no_fit"}, "features": {"X": True}},
            f"refused: features.X: expected one of {', '.join(GATES)} with true or false",
        ),
    ],
)
def test_cases_that_cannot_be_run_fail_with_the_reason(fields, got):
    found = result(**fields)
    assert found.got == got
    assert not found.passed


def allocation(**fields):
    node = {"metadata": {"name": "node-1"}}
    return result("allocator", node=node, slices=[], classes=[], claims=[], allocated=[], **fields)


def test_outcome_and_count_of_an_allocation():
    assert allocation(expect={"outcome": "allocated", "count": 0, "per_claim": ["informative"]}).passed
    assert not allocation(expect={"outcome": "allocated", "count": 1}).passed
    assert not allocation(expect={"outcome": "no_fit"}).passed


def test_objects_that_are_not_objects_are_invalid():
    found = result("allocator", node={}, slices=[], classes=[], claims=["x"], expect={"outcome": "invalid"})
    assert found.passed
