"""Checks after type checking: literal durations, timestamps, patterns and formats, and lists and maps of one type."""

from dataclasses import dataclass, field

from modelplane.k8s.cel.errors import EvaluationError, SyntaxFault
from modelplane.k8s.cel.library import regex
from modelplane.k8s.cel.library.formatting import CLAUSE_KINDS, FormatError, clauses
from modelplane.k8s.cel.library.timestamps import parse_duration, parse_timestamp
from modelplane.k8s.cel.syntax import CallExpr, ListNode, Literal, MapNode, Node
from modelplane.k8s.cel.types import DYN, CelType

_PARSERS = {"duration": parse_duration, "timestamp": parse_timestamp}


# Calls whose literal arguments are validated at compile time.
CHECKED_CALLS = frozenset({"duration", "timestamp", "matches", "format"})


@dataclass(slots=True, eq=False)
class Watched:
    """The nodes to validate once all types are resolved; those inside `format` may mix types.

    `plans`: some constant may turn out to be impossible when the evaluator is planned.
    """

    plans: bool = False
    calls: list[CallExpr] = field(default_factory=list)
    lists: list[tuple[ListNode, bool]] = field(default_factory=list)
    maps: list[tuple[MapNode, bool]] = field(default_factory=list)

    def validate(self) -> None:
        """Raises SyntaxFault at the first literal that can never be right."""
        for call in self.calls:
            _validate_call(call)
        for literal, exempt in self.lists:
            _validate_list(literal, exempt=exempt)
        for mapping, exempt in self.maps:
            _validate_map(mapping, exempt=exempt)


def _validate_call(node: CallExpr) -> None:
    if node.function == "format":
        _validate_format(node)
        return
    first = node.args[0] if node.args else None
    if not isinstance(first, Literal) or not isinstance(first.value, str):
        return
    parser = _PARSERS.get(node.function)
    try:
        if parser is not None:
            parser(first.value)
        elif node.function == "matches":
            # Upstream checks the first argument of either form, so the function's subject is read as a pattern too.
            regex.pattern(first.value)
    except (EvaluationError, regex.PatternError):
        raise SyntaxFault(f"invalid {node.function} argument", first.offset) from None


def _validate_list(node: ListNode, *, exempt: bool) -> None:
    expected: CelType | None = None
    for index, element in enumerate(node.elements):
        found = _element_type(element, optional=index in node.optionals)
        if exempt:
            continue
        if expected is None:
            expected = found
        elif found is not expected:
            raise SyntaxFault(f"expected type '{expected}' but found '{found}'", element.offset)


def _element_type(node: Node, *, optional: bool) -> CelType:
    found = node.type or DYN
    if not optional:
        return found
    if not found.params:
        raise SyntaxFault("an optional element must have an optional type", node.offset)
    return found.params[0]


def _validate_map(node: MapNode, *, exempt: bool) -> None:
    expected: tuple[CelType, CelType] | None = None
    for entry in node.entries:
        found = entry.key.type or DYN, _element_type(entry.value, optional=entry.optional)
        if exempt:
            continue
        if expected is None:
            expected = found
        for part, wanted, actual in zip((entry.key, entry.value), expected, found, strict=True):
            if actual is not wanted:
                raise SyntaxFault(f"expected type '{wanted}' but found '{actual}'", part.offset)


def _validate_format(node: CallExpr) -> None:
    template = node.target
    if not isinstance(template, Literal) or not isinstance(template.value, str):
        return
    values = node.args[0] if len(node.args) == 1 else None
    if not isinstance(values, ListNode):
        return
    used = 0
    try:
        for clause in clauses(template.value):
            if clause.verb:
                _validate_argument(clause.verb, values.elements, used)
                used += 1
    except FormatError as error:
        raise SyntaxFault(str(error), node.offset) from None
    if len(values.elements) > used:
        raise SyntaxFault(
            f"too many arguments supplied to format (expected {used}, got {len(values.elements)})", node.offset
        )


def _validate_argument(verb: str, values: list[Node], index: int) -> None:
    if index >= len(values):
        raise FormatError(f"index {index} out of range")
    _validate_clause(verb, values[index])


def _validate_clause(verb: str, value: Node) -> None:
    found = value.type or DYN
    if found is not DYN and found.kind not in CLAUSE_KINDS[verb]:
        raise SyntaxFault(f"the clause %{verb} cannot format a value of type '{found}'", value.offset)
    if verb == "s" and isinstance(value, ListNode):
        for element in value.elements:
            _validate_clause(verb, element)
    if verb == "s" and isinstance(value, MapNode):
        for entry in value.entries:
            _validate_clause(verb, entry.key)
            _validate_clause(verb, entry.value)
