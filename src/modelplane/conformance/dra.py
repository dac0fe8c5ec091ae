"""Conformance vectors: cases executed against the real Kubernetes code, run against this room.

A document describes itself: `set` names the kind of cases, `format` is 1, `cases` lists them, each with an `id`, its
inputs and what to `expect`. Four sets are known: quantity, semver, cel_selectors, allocator. What is compared is
what the format calls normative: every field of `expect` for quantity and semver, the result for cel_selectors,
outcome and count for allocator. Costs, reasons, other releases and the identity of devices are informative.

Divergences from upstream, by case id: none.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from modelplane.api.errors import InputError
from modelplane.k8s import quantity as quantities
from modelplane.k8s import semver
from modelplane.k8s.cel import CompileError, SelectorOutcome, compile_selector
from modelplane.k8s.device import Device
from modelplane.k8s.dra import (
    Allocated,
    Fatal,
    NoFit,
    allocate,
    claim_problems,
    class_problems,
    decode_claims,
    decode_classes,
    decode_in_use,
    decode_node,
    decode_slices,
    features_from,
    slice_problems,
)

_FORMAT = 1


class ConformanceError(InputError):
    """A document that is not in the vector format."""


@dataclass(frozen=True, slots=True)
class DraCase:
    """One case of a document, not run yet."""

    identity: str
    set_name: str
    fields: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class DraCaseResult:
    """The expected and the actual result of a case, both as the document writes them."""

    identity: str
    expected: object
    got: object

    @property
    def passed(self) -> bool:
        """Whether everything normative agrees."""
        return self.expected == self.got


def read_cases(document: object) -> tuple[DraCase, ...]:
    """The cases of a document, or ConformanceError saying what is not in the format."""
    fields = _mapping(document, "the document")
    set_name = fields.get("set")
    if not isinstance(set_name, str) or set_name not in _RUNNERS:
        raise ConformanceError(f"set: expected one of {', '.join(_RUNNERS)}")
    if fields.get("format") != _FORMAT:
        raise ConformanceError(f"format: expected {_FORMAT}")
    cases = fields.get("cases")
    if not isinstance(cases, Sequence) or isinstance(cases, str):
        raise ConformanceError("cases: expected a list")
    return tuple(_read_case(set_name, case, f"cases[{index}]") for index, case in enumerate(cases))


def _read_case(set_name: str, case: object, place: str) -> DraCase:
    fields = _mapping(case, place)
    identity = fields.get("id")
    if not isinstance(identity, str) or "expect" not in fields:
        raise ConformanceError(f"{place}: expected an id and what to expect")
    return DraCase(identity, set_name, fields)


def run_case(case: DraCase) -> DraCaseResult:
    """Run one case. Input that this room refuses where the case does not expect it is a difference, not an error."""
    try:
        return _RUNNERS[case.set_name](case)
    except InputError as error:
        return DraCaseResult(case.identity, case.fields["expect"], f"refused: {error}")


def _mapping(value: object, place: str) -> Mapping[str, object]:
    if not isinstance(value, Mapping):
        raise ConformanceError(f"{place}: expected a mapping")
    return value


def _text(fields: Mapping[str, object], name: str) -> str:
    value = fields.get(name)
    if not isinstance(value, str):
        raise ConformanceError(f"{name}: expected a text")
    return value


def _compared(case: DraCase, got: Mapping[str, object]) -> DraCaseResult:
    """Compare just the fields that the case has an opinion about."""
    expected = _mapping(case.fields["expect"], "expect")
    return DraCaseResult(case.identity, expected, {name: got.get(name) for name in expected})


def _run_quantity(case: DraCase) -> DraCaseResult:
    fields = case.fields
    operation = fields.get("op")
    if operation == "parse":
        return _compared(case, _parsed_quantity(_text(fields, "input")))
    left = quantities.parse_quantity(_text(fields, "a"))
    operand = fields.get("b")
    right = quantities.from_int(operand) if isinstance(operand, int) else quantities.parse_quantity(_text(fields, "b"))
    if operation == "compare":
        return DraCaseResult(case.identity, fields["expect"], quantities.compare(left, right))
    if operation not in {"add", "sub"}:
        raise ConformanceError(f"op: {operation} is unknown")
    combine = quantities.add if operation == "add" else quantities.subtract
    return _compared(case, _described_quantity(combine(left, right)))


def _parsed_quantity(text: str) -> Mapping[str, object]:
    try:
        quantity = quantities.parse_quantity(text)
    except quantities.QuantityError:
        return {"valid": False}
    return {"valid": True, **_described_quantity(quantity)}


def _described_quantity(quantity: quantities.Quantity) -> dict[str, object]:
    integer = quantities.as_integer(quantity)
    return {
        "value": quantities.decimal_text(quantity),
        "canonical": quantities.canonical(quantity),
        "format": quantity.notation.value,
        "sign": quantities.sign(quantity),
        "is_integer": integer is not None,
        "as_integer": integer,
        "approx_float": quantities.as_approximate_float(quantity),
    }


def _run_semver(case: DraCase) -> DraCaseResult:
    fields = case.fields
    operation = fields.get("op")
    if operation == "compare":
        left, right = semver.parse_version(_text(fields, "a")), semver.parse_version(_text(fields, "b"))
        return DraCaseResult(case.identity, fields["expect"], semver.compare_versions(left, right))
    text = _text(fields, "input")
    if operation == "attribute":
        readings = {"api_accepts": semver.is_valid_attribute(text), "blang_parses": semver.is_version(text)}
        return _compared(case, readings)
    if operation not in {"parse", "parse_normalized"}:
        raise ConformanceError(f"op: {operation} is unknown")
    return _compared(case, _parsed_version(text, normalize=operation == "parse_normalized"))


def _parsed_version(text: str, *, normalize: bool) -> Mapping[str, object]:
    try:
        version = semver.parse_version(text, normalize=normalize)
    except semver.VersionError:
        return {"valid": False}
    return {
        "valid": True,
        "string": str(version),
        "major": version.major,
        "minor": version.minor,
        "patch": version.patch,
        "prerelease": list(version.prerelease),
        "build": list(version.build),
    }


def _run_selector(case: DraCase) -> DraCaseResult:
    features = features_from(_mapping(case.fields.get("features") or {}, "features"))
    try:
        selector = compile_selector(_text(case.fields, "expression"), gates=features.gates)
    except CompileError:
        return DraCaseResult(case.identity, case.fields["expect"], "compile_error")
    fields = _mapping(case.fields.get("device"), "device")
    device = Device.from_dict(_text(fields, "driver"), fields, list_attributes=features.list_type_attributes)
    results: Mapping[SelectorOutcome, object] = {
        SelectorOutcome.TRUE: True,
        SelectorOutcome.FALSE: False,
        SelectorOutcome.ERROR: "runtime_error",
    }
    return DraCaseResult(case.identity, case.fields["expect"], results[selector.evaluate(device).outcome])


def _run_allocator(case: DraCase) -> DraCaseResult:
    expected = _mapping(case.fields["expect"], "expect")
    normative = {name: expected[name] for name in ("outcome", "count") if name in expected}
    got = _allocated(case.fields)
    return DraCaseResult(case.identity, normative, {name: got.get(name) for name in normative})


def _allocated(fields: Mapping[str, object]) -> Mapping[str, object]:
    features = features_from(_mapping(fields.get("features") or {}, "features"))
    documents = {name: _list(fields, name) for name in ("claims", "classes", "slices")}
    try:
        claims, classes = decode_claims(documents["claims"]), decode_classes(documents["classes"])
        slices = decode_slices(documents["slices"])
    except InputError as error:
        return {"outcome": "invalid", "reason": str(error)}
    problems = [
        *(problem for claim in claims for problem in claim_problems(claim, features)),
        *(problem for device_class in classes for problem in class_problems(device_class, features)),
        *(problem for item in slices for problem in slice_problems(item)),
    ]
    if problems:
        return {"outcome": "invalid", "reason": problems[0]}
    in_use = decode_in_use(_list(fields, "allocated"))
    node = decode_node(fields.get("node"))
    outcome = allocate(claims, node, slices, classes=classes, allocated=in_use, features=features)
    match outcome:
        case Allocated():
            return {"outcome": "allocated", "count": outcome.count}
        case NoFit():
            return {"outcome": "no_fit_error_on_node" if outcome.invalid_pools else "no_fit"}
        case Fatal():
            return {"outcome": "error", "reason": outcome.reason}
    return {"outcome": "gave_up"}


def _list(fields: Mapping[str, object], name: str) -> Sequence[object]:
    value = fields.get(name) or ()
    if not isinstance(value, Sequence) or isinstance(value, str):
        raise ConformanceError(f"{name}: expected a list")
    return value


_RUNNERS: Mapping[str, Callable[[DraCase], DraCaseResult]] = {
    "quantity": _run_quantity,
    "semver": _run_semver,
    "cel_selectors": _run_selector,
    "allocator": _run_allocator,
}
