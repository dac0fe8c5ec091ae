import pytest

from modelplane.api.definitions import definitions
from modelplane.k8s.admission import rules
from modelplane.k8s.admission.correlate import is_unchanged
from modelplane.k8s.admission.problems import CauseType, Problem
from modelplane.k8s.admission.rules import check_rules
from modelplane.k8s.admission.schemas import SchemaKey

NUMBER = {"type": "integer"}


def ruled(*rules, **schema):
    return {"type": "object", "x-kubernetes-validations": list(rules), **schema}


RANGE = ruled(
    {"rule": "self.low <= self.high", "message": "low must not be above high", "fieldPath": ".low"},
    properties={"low": NUMBER, "high": NUMBER},
)
POOLS = {
    "type": "object",
    "properties": {
        "pools": {
            "type": "array",
            "maxItems": 8,
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
            "items": ruled(
                {"rule": "self.size >= oldSelf.size", "message": "a pool cannot shrink"},
                properties={"name": {"type": "string", "maxLength": 10}, "size": NUMBER},
            ),
        }
    },
}
ATOMIC = {
    **POOLS,
    "properties": {"pools": {**POOLS["properties"]["pools"], "x-kubernetes-list-type": "atomic"}},
}


def lines(value, schema, **others):
    return [str(problem) for problem in check_rules(value, schema, **others)]


def test_messages_places_and_reasons():
    assert check_rules({"low": 2, "high": 1}, RANGE) == (Problem(("low",), "low must not be above high"),)
    assert check_rules({"low": 1, "high": 2}, RANGE) == ()
    forbidden = ruled({"rule": "false", "message": " no ", "reason": "FieldValueForbidden"}, properties={"a": NUMBER})
    assert check_rules({}, forbidden) == (Problem((), "no", cause=CauseType.FORBIDDEN),)


def test_a_rule_without_a_message_shows_itself():
    assert lines({"a": 0}, ruled({"rule": "self.a\n  > 0"}, properties={"a": NUMBER})) == [".: failed rule: self.a > 0"]


def test_a_message_may_be_worked_out():
    rule = {"rule": "self.a > 0", "message": "plain", "messageExpression": "'a is ' + string(self.a)"}
    assert lines({"a": 0}, ruled(rule, properties={"a": NUMBER})) == [".: a is 0"]
    failing = {**rule, "messageExpression": "string(1 / self.a)"}
    assert lines({"a": 0}, ruled(failing, properties={"a": NUMBER})) == [".: plain"]


def test_rules_run_at_every_node():
    positive = {"type": "integer", "x-kubernetes-validations": [{"rule": "self > 0", "message": "must be positive"}]}
    schema = {
        "type": "object",
        "properties": {
            "list": {"type": "array", "items": positive},
            "map": {"type": "object", "additionalProperties": positive},
            "none": {"type": "integer", "nullable": True, "x-kubernetes-validations": [{"rule": "false"}]},
            "both": {
                "type": "integer",
                "allOf": [{"x-kubernetes-validations": [{"rule": "self == 1", "message": "x"}]}],
            },
        },
    }
    value = {"list": [1, 0], "map": {"a": 1, "b/c": -1}, "none": None, "both": 2, "unknown": 0}
    assert lines(value, schema) == ["list[1]: must be positive", "map[b/c]: must be positive", "both: x"]


def test_field_paths():
    schema = ruled(
        {"rule": "false", "message": "m", "fieldPath": ".spec.labels['a.b']"},
        properties={"spec": {"type": "object", "properties": {"labels": {"additionalProperties": NUMBER}}}},
    )
    assert lines({}, schema) == ["spec.labels[a.b]: m"]


def test_a_failing_rule_is_reported():
    assert lines({"a": 0}, ruled({"rule": "1 / self.a == 1"}, properties={"a": NUMBER})) == [
        ".: a rule cannot be evaluated: division by zero; the rule is: 1 / self.a == 1"
    ]


@pytest.mark.parametrize(
    "rule",
    [
        {"rule": "self.nope > 0"},
        {"rule": "self.a +"},
        {"rule": "'text'"},
        {"rule": "true", "messageExpression": "1 == 1"},
    ],
)
def test_a_rule_that_does_not_compile_is_reported(rule):
    (line,) = lines({"a": 0}, ruled(rule, properties={"a": NUMBER}))
    assert line.startswith(".: a rule does not compile: ")
    assert line.endswith(f"the rule is: {rule['rule']}")


def test_transition_rules_compare_with_the_old_value():
    old = {"pools": [{"name": "a", "size": 2}, {"name": "b", "size": 2}]}
    new = {"pools": [{"name": "b", "size": 3}, {"name": "a", "size": 1}, {"name": "c", "size": 0}]}
    assert lines(new, POOLS, old=old) == ["pools[1]: a pool cannot shrink"]
    assert lines(new, POOLS) == []
    assert lines(new, ATOMIC, old=old) == []


def test_an_optional_old_value():
    schema = ruled({"rule": "!oldSelf.hasValue() || self.a > 1", "optionalOldSelf": True}, properties={"a": NUMBER})
    assert lines({"a": 0}, schema) == []
    assert len(lines({"a": 0}, schema, old={"a": 3})) == 1
    assert lines({"a": 2}, schema, old={"a": 3}) == []


def test_what_did_not_change_is_not_judged_again():
    bad = {"low": 2, "high": 1}
    assert lines(bad, RANGE, old=dict(bad)) == []
    assert lines(bad, RANGE, old={"low": 1, "high": 1}) == ["low: low must not be above high"]


def test_rules_wait_until_the_shape_is_right():
    schema = {"type": "object", "properties": {"a": RANGE, "b": RANGE}}
    bad = {"low": 2, "high": 1}
    missing = Problem(("a", "high"), "is required", cause=CauseType.REQUIRED)
    assert lines({"a": {"low": 2}, "b": bad}, schema, problems=[missing]) == ["b.low: low must not be above high"]
    small = Problem(("a", "high"), "is too small")
    assert len(lines({"a": bad, "b": bad}, schema, problems=[small])) == 2


def test_the_root_sees_the_name_of_the_object():
    schema = ruled({"rule": "self.metadata.name != 'no'", "message": "not that name"})
    assert lines({"apiVersion": "v1", "kind": "A", "metadata": {"name": "no"}}, schema) == [".: not that name"]


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ((), False),
        (("pools", 0, "size"), False),
        (("pools", 1), True),
        (("pools", 1, "size"), True),
        (("pools", 2), False),
        (("pools", 9), False),
        (("pools", "x"), False),
        (("absent",), False),
    ],
)
def test_unchanged(path, expected):
    old = {"pools": [{"name": "b", "size": 2}, {"name": "a", "size": 2}]}
    new = {"pools": [{"name": "a", "size": 3}, {"name": "b", "size": 2}, {"name": "c"}]}
    assert is_unchanged(path, new, old, POOLS) is expected


def test_an_atomic_map_has_no_old_fields():
    schema = {"type": "object", "x-kubernetes-map-type": "atomic", "properties": {"a": NUMBER}}
    assert not is_unchanged(("a",), {"a": 1}, {"a": 1}, schema)


def nodes(schema):
    yield schema
    children = [*schema.get("properties", {}).values(), schema.get("additionalProperties"), schema.get("items")]
    for child in children:
        if isinstance(child, dict):
            yield from nodes(child)


@pytest.mark.parametrize("definition", definitions().values(), ids=lambda definition: definition.kind)
def test_every_rule_of_every_kind_compiles(definition):
    schema = definition.schema
    compiled = [rule for node in nodes(schema) for rule in rules._rules_of(SchemaKey(node), root=node is schema)]
    assert [rule for rule in compiled if isinstance(rule, rules._BrokenRule)] == []
