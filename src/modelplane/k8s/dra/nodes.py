"""Node selection of slices and devices, and the node selector of an allocation."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from modelplane.k8s.dra.names import is_label_key, is_label_value
from modelplane.k8s.dra.resources import CoreNodeSelector, Node, NodeRequirement, NodeTerm

_INTEGER = re.compile(r"[+-]?[0-9]{1,19}")
_MAX_INT64 = 2**63 - 1


@dataclass(frozen=True, slots=True)
class NodeScope:
    """One of: a node by name, every node, the nodes a selector matches, or none. `fault` is an unreadable selector."""

    node_name: str | None = None
    everywhere: bool = False
    selector: CoreNodeSelector | None = None
    fault: str | None = None

    @classmethod
    def of(cls, *, node_name: str | None, all_nodes: bool | None, selector: CoreNodeSelector | None) -> "NodeScope":
        """The scope in the fields that slices and devices share."""
        fault = None if selector is None else _selector_fault(selector)
        return cls(node_name, all_nodes is True, selector, fault)

    @property
    def is_set(self) -> bool:
        """Whether any of the fields is set."""
        return bool(self.node_name) or self.everywhere or self.selector is not None


class UnreadableSelector(Exception):  # noqa: N818  a broken input object that ends the attempt, not an error of ours
    """A node selector that cannot be evaluated."""


def reaches(scope: NodeScope, node: Node) -> bool:
    """Whether the scope includes the node."""
    if scope.node_name:
        return scope.node_name == node.metadata.name
    if scope.everywhere:
        return True
    if scope.selector is None:
        return False
    if scope.fault is not None:
        raise UnreadableSelector(scope.fault)
    return any(_term_matches(term, node) for term in scope.selector.node_selector_terms or ())


def _selector_fault(selector: CoreNodeSelector) -> str | None:
    for term in selector.node_selector_terms or ():
        for requirement in term.match_expressions or ():
            if not _is_readable(requirement):
                return (
                    f"node selector: {requirement.key} {requirement.operator} {requirement.values} is not a requirement"
                )
        for requirement in term.match_fields or ():
            if requirement.operator not in {"In", "NotIn"} or len(requirement.values or ()) != 1:
                return f"node selector: field {requirement.key} takes In or NotIn with exactly one value"
    return None


def _is_readable(requirement: NodeRequirement) -> bool:
    values = requirement.values or ()
    if not is_label_key(requirement.key) or not all(is_label_value(value) for value in values):
        return False
    match requirement.operator:
        case "In" | "NotIn":
            return bool(values)
        case "Exists" | "DoesNotExist":
            return not values
        case "Gt" | "Lt":
            return len(values) == 1 and _integer(values[0]) is not None
    return False


def _integer(text: str) -> int | None:
    if _INTEGER.fullmatch(text) is None:
        return None
    number = int(text)
    return number if -_MAX_INT64 - 1 <= number <= _MAX_INT64 else None


def _term_matches(term: NodeTerm, node: Node) -> bool:
    expressions, fields = term.match_expressions or (), term.match_fields or ()
    if not expressions and not fields:
        return False
    labels = node.metadata.labels or {}
    if not all(_label_matches(requirement, labels) for requirement in expressions):
        return False
    if not node.metadata.name:
        return True
    return all(_field_matches(requirement, node.metadata.name) for requirement in fields)


def _label_matches(requirement: NodeRequirement, labels: Mapping[str, str]) -> bool:
    value = labels.get(requirement.key)
    values = requirement.values or ()
    match requirement.operator:
        case "In":
            return value is not None and value in values
        case "NotIn":
            return value is None or value not in values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
    number, bound = _integer(value or ""), _integer(values[0])
    if number is None or bound is None:
        return False
    return number > bound if requirement.operator == "Gt" else number < bound


def _field_matches(requirement: NodeRequirement, node_name: str) -> bool:
    actual = node_name if requirement.key == "metadata.name" else ""
    wanted = (requirement.values or ("",))[0]
    return (actual == wanted) == (requirement.operator == "In")


def pinned_to(node_name: str) -> CoreNodeSelector:
    """A selector for exactly one node."""
    requirement = NodeRequirement(key="metadata.name", operator="In", values=(node_name,))
    return CoreNodeSelector(node_selector_terms=(NodeTerm(match_fields=(requirement,)),))


def merged(selectors: Iterable[CoreNodeSelector]) -> CoreNodeSelector | None:
    """One selector that requires what all of the given ones require, or None where none requires anything."""
    expressions: list[NodeRequirement] = []
    fields: list[NodeRequirement] = []
    for selector in selectors:
        terms = selector.node_selector_terms or ()
        if len(terms) > 1:
            raise UnreadableSelector(f"a node selector with {len(terms)} terms cannot be combined with others")
        for term in terms:
            _add_new(term.match_fields or (), fields)
            _add_new(term.match_expressions or (), expressions)
    if not expressions and not fields:
        return None
    term = NodeTerm(match_expressions=tuple(expressions) or None, match_fields=tuple(fields) or None)
    return CoreNodeSelector(node_selector_terms=(term,))


def _add_new(requirements: Iterable[NodeRequirement], known: list[NodeRequirement]) -> None:
    for requirement in requirements:
        if not any(_is_same_requirement(requirement, other) for other in known):
            known.append(requirement)


def _is_same_requirement(left: NodeRequirement, right: NodeRequirement) -> bool:
    return (
        left.key == right.key and left.operator == right.operator and set(left.values or ()) == set(right.values or ())
    )
