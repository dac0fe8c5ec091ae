"""Endpoints whose labels match: a Kubernetes label selector, or one label with a list of values."""

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum

import msgspec

from modelplane.api.errors import InputError
from modelplane.epp.scheduling.endpoints import Endpoint
from modelplane.epp.scheduling.static_filter import StaticFilter
from modelplane.framework import Refusal, RefusalCode
from modelplane.framework.registry import Parameters, plugin_type


class LabelOperator(StrEnum):
    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"


_HOLDS: Mapping[LabelOperator, Callable[[str | None, Sequence[str]], bool]] = {
    LabelOperator.IN: lambda value, values: value in values,
    LabelOperator.NOT_IN: lambda value, values: value not in values,
    LabelOperator.EXISTS: lambda value, _values: value is not None,
    LabelOperator.DOES_NOT_EXIST: lambda value, _values: value is None,
}


class LabelMatchParameters(Parameters, frozen=True):
    key: str
    operator: LabelOperator
    values: tuple[str, ...] = ()

    def holds(self, labels: Mapping[str, str]) -> bool:
        return _HOLDS[self.operator](labels.get(self.key), self.values)


class SelectorParameters(Parameters, frozen=True):
    match_labels: dict[str, str] = msgspec.field(default_factory=dict)
    match_expressions: tuple[LabelMatchParameters, ...] = ()


class ByLabelParameters(Parameters, frozen=True):
    label: str
    valid_values: tuple[str, ...] = ()
    allows_no_label: bool = False


def make_selector(name: str, parameters: SelectorParameters) -> StaticFilter:
    for at, requirement in enumerate(parameters.match_expressions):
        needs_values = requirement.operator in {LabelOperator.IN, LabelOperator.NOT_IN}
        if needs_values != bool(requirement.values):
            rule = "needs values" if needs_values else "takes no values"
            raise InputError(f"matchExpressions[{at}]: operator {requirement.operator} {rule}")
    return StaticFilter(name, _selects(name, parameters))


def make_by_label(name: str, parameters: ByLabelParameters) -> StaticFilter:
    if not parameters.label:
        raise InputError("label is required")
    if not parameters.valid_values and not parameters.allows_no_label:
        raise InputError("validValues is empty and allowsNoLabel is false: no endpoint would ever pass")
    return StaticFilter(name, _has_value(name, parameters))


def _selects(name: str, parameters: SelectorParameters) -> Callable[[Endpoint], Refusal | None]:
    def judge(endpoint: Endpoint) -> Refusal | None:
        for key, wanted in parameters.match_labels.items():
            found = endpoint.labels.get(key)
            if found != wanted:
                shown = "no label" if found is None else f"label {found}"
                return Refusal(name, RefusalCode.UNRESOLVABLE, "has {} for {}, not {}", (shown, key, wanted))
        for requirement in parameters.match_expressions:
            if not requirement.holds(endpoint.labels):
                values = (requirement.key, str(requirement.operator), ", ".join(requirement.values))
                return Refusal(name, RefusalCode.UNRESOLVABLE, "its labels do not match {} {} ({})", values)
        return None

    return judge


def _has_value(name: str, parameters: ByLabelParameters) -> Callable[[Endpoint], Refusal | None]:
    def judge(endpoint: Endpoint) -> Refusal | None:
        found = endpoint.labels.get(parameters.label)
        if found is None:
            return (
                None
                if parameters.allows_no_label
                else Refusal(name, RefusalCode.UNRESOLVABLE, "has no {}", (parameters.label,))
            )
        if found in parameters.valid_values:
            return None
        values = (found, parameters.label, ", ".join(parameters.valid_values))
        return Refusal(name, RefusalCode.UNRESOLVABLE, "has {} for {}; allowed are {}", values)

    return judge


TYPES = (
    plugin_type("label-selector-filter", make_selector, SelectorParameters),
    plugin_type("by-label-selector", make_selector, SelectorParameters, replaced_by="label-selector-filter"),
    plugin_type("by-label", make_by_label, ByLabelParameters, replaced_by="label-selector-filter"),
)
