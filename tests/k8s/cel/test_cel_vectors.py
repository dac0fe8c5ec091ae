"""The shared selector vectors, as far as they say more than the outcome: costs, and what the scheduler answers."""

import json
from pathlib import Path

import pytest

from modelplane.k8s.cel import CompileError, Gates, SelectorOutcome, compile_selector
from modelplane.k8s.device import Device

_FILE = Path(__file__).parent.parent / "vectors" / "cel_selectors.json"
_CASES = json.loads(_FILE.read_text())["cases"]
_STORED = [case for case in _CASES if "if_already_stored" in case]
_OUTCOMES = {SelectorOutcome.TRUE: True, SelectorOutcome.FALSE: False, SelectorOutcome.ERROR: "runtime_error"}


def _compiled(case, *, stored):
    features = case.get("features") or {}
    gates = Gates(
        consumable_capacity=features.get("ConsumableCapacity", True),
        list_attributes=features.get("ListTypeAttributes", False),
    )
    device = Device.from_dict(case["device"]["driver"], case["device"], list_attributes=gates.list_attributes)
    return compile_selector(case["expression"], stored=stored, gates=gates), device


@pytest.mark.parametrize("case", _CASES, ids=lambda case: case["id"])
def test_outcome_and_costs_of_a_new_selector(case):
    if case["expect"] == "compile_error":
        with pytest.raises(CompileError):
            _compiled(case, stored=False)
        return
    selector, device = _compiled(case, stored=False)
    assert _OUTCOMES[selector.evaluate(device).outcome] == case["expect"]
    assert selector.estimated_cost == case["estimated_cost"]
    if device.fault is None:
        cost = selector.trace(device)[1]
        assert cost == case.get("actual_cost", cost)


@pytest.mark.parametrize("case", _STORED, ids=lambda case: case["id"])
def test_outcome_of_a_stored_selector(case):
    selector, device = _compiled(case, stored=True)
    evaluation, cost = selector.trace(device)
    assert _OUTCOMES[evaluation.outcome] == case["if_already_stored"]
    assert cost == case["actual_cost"]
