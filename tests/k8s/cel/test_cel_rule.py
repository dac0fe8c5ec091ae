import pytest

from modelplane.k8s.cel import ABSENT, CompileError, Evaluation, SelectorOutcome, compile_rule

_SCHEMA = {
    "type": "object",
    "properties": {
        "replicas": {"type": "integer"},
        "min": {"type": "integer"},
        "name": {"type": "string", "maxLength": 10},
        "a-b": {"type": "string"},
        "items": {
            "type": "array",
            "maxItems": 5,
            "items": {"type": "object", "properties": {"port": {"type": "integer"}}},
        },
    },
}


@pytest.mark.parametrize(
    ("rule", "value", "outcome"),
    [
        ("!has(self.min) || self.min <= self.replicas", {"replicas": 3}, SelectorOutcome.TRUE),
        ("!has(self.min) || self.min <= self.replicas", {"replicas": 3, "min": 4}, SelectorOutcome.FALSE),
        ("self.min <= self.replicas", {"replicas": 3}, SelectorOutcome.ERROR),
        ("self.a__dash__b == 'x'", {"a-b": "x"}, SelectorOutcome.TRUE),
        (
            "self.items.all(i, self.items.exists_one(j, j.port == i.port))",
            {"items": [{"port": 1}, {"port": 1}]},
            SelectorOutcome.FALSE,
        ),
        ("self.?name.orValue('none') == 'none'", {}, SelectorOutcome.TRUE),
    ],
)
def test_outcome(rule, value, outcome):
    assert compile_rule(rule, _SCHEMA).evaluate(value).outcome is outcome


def test_a_transition_rule_needs_an_old_value():
    rule = compile_rule("self.replicas >= oldSelf.replicas", _SCHEMA)
    assert rule.uses_old_self
    assert rule.evaluate({"replicas": 2}, {"replicas": 1}).outcome is SelectorOutcome.TRUE
    assert "old value" in rule.evaluate({"replicas": 2}).message
    assert rule.evaluate({"replicas": 2}, ABSENT) == rule.evaluate({"replicas": 2}, None)
    assert not compile_rule("self.replicas > 0", _SCHEMA).uses_old_self


def test_the_old_value_may_be_optional():
    rule = compile_rule("oldSelf.optMap(o, o.replicas <= self.replicas).orValue(true)", _SCHEMA, optional_old_self=True)
    values = [rule.evaluate({"replicas": 2}, old).outcome for old in (ABSENT, {"replicas": 1}, {"replicas": 3})]
    assert values == [SelectorOutcome.TRUE, SelectorOutcome.TRUE, SelectorOutcome.FALSE]


def test_a_message_is_a_string():
    rule = compile_rule("'%s has %d'.format([self.name, self.replicas])", _SCHEMA)
    assert rule.is_message
    assert rule.render({"name": "a", "replicas": 3}) == "a has 3"
    assert rule.render({"replicas": 3}) is None
    assert not compile_rule("true", _SCHEMA).is_message


def test_the_root_shows_the_names_of_the_object():
    rule = compile_rule("self.metadata.name == 'x' && self.kind == 'K'", _SCHEMA, root=True)
    assert rule.evaluate({"kind": "K", "metadata": {"name": "x"}}).outcome is SelectorOutcome.TRUE
    with pytest.raises(CompileError, match="undefined field 'metadata'"):
        compile_rule("self.metadata.name == 'x'", _SCHEMA)


@pytest.mark.parametrize(
    ("rule", "schema", "complaint"),
    [
        ("self.nope == 1", _SCHEMA, "undefined field 'nope'"),
        ("self.replicas", _SCHEMA, "must evaluate to bool"),
        ("cel.bind(x, 1, x == 1)", _SCHEMA, "undeclared reference"),
        ("device.driver == ''", _SCHEMA, "undeclared reference to 'device'"),
        ("true", {}, "no type"),
        ("self ==", _SCHEMA, "syntax error"),
    ],
)
def test_refusals(rule, schema, complaint):
    with pytest.raises(CompileError, match=complaint):
        compile_rule(rule, schema)


def test_the_estimate_knows_the_bounds_of_the_schema():
    bounded = compile_rule("self.items.all(i, i.port > 0)", _SCHEMA)
    assert bounded.estimated_cost == 33
    assert compile_rule("self.name == 'x'", _SCHEMA).estimated_cost == 3


def test_a_rule_has_a_budget():
    schema = {"type": "array", "items": {"type": "integer"}}
    rule = compile_rule("self.all(x, self.all(y, x != y || x == y))", schema)
    assert rule.evaluate(list(range(500))) == Evaluation(
        SelectorOutcome.ERROR, "the evaluation costs more than its budget of 1000000 units"
    )
