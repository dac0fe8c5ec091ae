"""Every recorded case, one test each: what the real Kubernetes code answered is what this room answers."""

import json
from pathlib import Path

import msgspec
import pytest

from modelplane.conformance.dra import read_cases, run_case
from modelplane.k8s.cel import SelectorOutcome, compile_selector
from modelplane.k8s.device import Device
from modelplane.k8s.dra import (
    Allocated,
    allocate,
    decode_claims,
    decode_classes,
    decode_in_use,
    decode_node,
    decode_slices,
    features_from,
)

_FILES = sorted((Path(__file__).parent / "vectors").glob("*.json"))
_CASES = [case for file in _FILES for case in read_cases(json.loads(file.read_text()))]
_ALLOCATED = [case for case in _CASES if case.set_name == "allocator" and "per_claim" in case.fields["expect"]]
_STORED = [case for case in _CASES if case.set_name == "cel_selectors" and "if_already_stored" in case.fields]


def _ids(cases):
    return [case.identity for case in cases]


def test_that_every_set_is_there():
    sets = {case.set_name for case in _CASES}
    assert sets == {"quantity", "semver", "cel_selectors", "allocator"}
    assert len(_CASES) > 1_500
    assert len(set(_ids(_CASES))) == len(_CASES)


@pytest.mark.parametrize("case", _CASES, ids=_ids(_CASES))
def test_vector(case):
    result = run_case(case)
    assert result.got == result.expected


@pytest.mark.parametrize("case", _ALLOCATED, ids=_ids(_ALLOCATED))
def test_devices_of_an_allocation_are_the_ones_upstream_picked(case):
    outcome = _outcome(case.fields)
    assert isinstance(outcome, Allocated)
    assert [_written(claim) for claim in outcome.claims] == [
        _normative(claim) for claim in case.fields["expect"]["per_claim"]
    ]


def _outcome(fields):
    return allocate(
        decode_claims(fields["claims"]),
        decode_node(fields["node"]),
        decode_slices(fields["slices"]),
        classes=decode_classes(fields["classes"]),
        allocated=decode_in_use(fields["allocated"]),
        features=features_from(fields.get("features") or {}),
    )


def _written(claim):
    return {"claim": claim.claim, "count": len(claim.devices), "devices": [_device(device) for device in claim.devices]}


def _device(device):
    written = {"request": device.request, **device.device._asdict()}
    if device.admin_access:
        written["adminAccess"] = True
    if device.consumed_capacity:
        written["consumedCapacity"] = {name: str(amount) for name, amount in device.consumed_capacity.items()}
    return written


def _normative(claim):
    return {key: value for key, value in claim.items() if key != "nodeSelector"}


@pytest.mark.parametrize("case", [c for c in _ALLOCATED if c.identity.startswith("xa-")], ids=lambda c: c.identity)
def test_node_selector_of_an_allocation_is_upstreams(case):
    outcome = _outcome(case.fields)
    selectors = [_without_nulls(msgspec.to_builtins(claim.node_selector)) for claim in outcome.claims]
    assert selectors == [claim.get("nodeSelector") for claim in case.fields["expect"]["per_claim"]]


def _without_nulls(value):
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list | tuple):
        return [_without_nulls(item) for item in value]
    return value


@pytest.mark.parametrize("case", _STORED, ids=_ids(_STORED))
def test_selector_that_was_stored_before(case):
    fields = case.fields
    features = features_from(fields.get("features") or {})
    selector = compile_selector(fields["expression"], stored=True, gates=features.gates)
    device = Device.from_dict(
        fields["device"]["driver"], fields["device"], list_attributes=features.list_type_attributes
    )
    results = {SelectorOutcome.TRUE: True, SelectorOutcome.FALSE: False, SelectorOutcome.ERROR: "runtime_error"}
    assert results[selector.evaluate(device).outcome] == fields["if_already_stored"]
