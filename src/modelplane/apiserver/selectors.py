"""Label and field selectors, read and judged as the API server does."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from modelplane.api.objects import Manifest, as_mapping, labels_of, metadata_of
from modelplane.apiserver.failures import bad_request
from modelplane.apiserver.resources import Resource
from modelplane.k8s.admission.names import fault_in_label_key, fault_in_label_value

_TOKEN: Final = re.compile(r"\s*(==|!=|=|!|\(|\)|,|<|>|[^\s,()=!<>]+)\s*")
_EVENT_FIELDS: Final = (
    *(f"involvedObject.{name}" for name in (
        "kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath",
    )),
    "reason", "reportingComponent", "source", "type",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class SelectorTerm:
    """One term of a label selector. `values` is None where the mere presence counts."""

    key: str
    values: frozenset[str] | None
    negated: bool = False
    bound: tuple[str, int] | None = None

    def holds(self, labels: Mapping[str, str]) -> bool:
        if self.bound is not None:
            return _is_within(labels.get(self.key, ""), self.bound)
        if self.values is None:
            return (self.key in labels) is not self.negated
        if self.negated:
            return labels.get(self.key) not in self.values
        return self.key in labels and labels[self.key] in self.values


@dataclass(frozen=True, slots=True)
class ListSelector:
    """The label and field selectors of a list or a watch."""

    labels: tuple[SelectorTerm, ...] = ()
    fields: tuple[tuple[str, str, bool], ...] = ()
    """Field, value, and whether they must be equal."""

    @property
    def is_everything(self) -> bool:
        return not self.labels and not self.fields

    def equal_labels(self) -> dict[str, str]:
        """Labels that every match has: the store indexes them."""
        return {
            term.key: next(iter(term.values))
            for term in self.labels
            if term.values is not None and len(term.values) == 1 and not term.negated
        }

    def name(self) -> str | None:
        """The only name that can match, if the selector has one."""
        return next((value for field, value, equal in self.fields if field == "metadata.name" and equal), None)

    def matches(self, manifest: Manifest) -> bool:
        if self.labels:
            labels = labels_of(manifest)
            if not all(term.holds(labels) for term in self.labels):
                return False
        return all((_field(manifest, field) == value) is equal for field, value, equal in self.fields)


EVERYTHING: Final = ListSelector()


def read_selector(resource: Resource, labels: str, fields: str) -> ListSelector:
    """The selector of a request. ApiError where it cannot be read."""
    if not labels and not fields:
        return EVERYTHING
    return ListSelector(_Labels(labels).read(), _read_fields(resource, fields))


class _Labels:
    """Reads `a=b,c in (d,e),!f,g`."""

    def __init__(self, text: str) -> None:
        self._tokens: list[str] = []
        place = 0
        while place < len(text):
            found = _TOKEN.match(text, place)
            if found is None:
                break
            self._tokens.append(found.group(1))
            place = found.end()
        self._at = 0

    def read(self) -> tuple[SelectorTerm, ...]:
        found: list[SelectorTerm] = []
        while self._peek():
            found.append(self._requirement())
            if self._peek() and self._next() != ",":
                raise _unreadable(f"found '{self._tokens[self._at - 1]}', expected: ',' or 'end of string'")
        return tuple(found)

    def _peek(self) -> str:
        return self._tokens[self._at] if self._at < len(self._tokens) else ""

    def _next(self) -> str:
        token = self._peek()
        self._at += 1
        return token

    def _requirement(self) -> SelectorTerm:
        absent = self._peek() == "!"
        if absent:
            self._next()
        key = _checked_key(self._identifier())
        if absent or self._peek() in {"", ","}:
            return SelectorTerm(key, None, negated=absent)
        operator = self._next()
        match operator:
            case "=" | "==":
                return SelectorTerm(key, frozenset((self._value(),)))
            case "!=":
                return SelectorTerm(key, frozenset((self._value(),)), negated=True)
            case "in" | "notin":
                return SelectorTerm(key, self._values(), negated=operator == "notin")
            case "<" | ">":
                return SelectorTerm(key, frozenset(), bound=(operator, _number(self._value())))
            case _:
                raise _unreadable(f"found '{operator}', expected: in, notin, =, ==, !=, gt, lt")

    def _identifier(self) -> str:
        token = self._next()
        if not token or token in {"=", "==", "!=", "!", "(", ")", ",", "<", ">"}:
            raise _unreadable(f"found '{token}', expected: identifier")
        return token

    def _value(self) -> str:
        if self._peek() in {"", ","}:
            return ""
        return _checked_value(self._identifier())

    def _values(self) -> frozenset[str]:
        opening = self._next()
        if opening != "(":
            raise _unreadable(f"found '{opening}' expected: '('")
        found: set[str] = set()
        while self._peek() not in {")", ""}:
            found.add("" if self._peek() == "," else _checked_value(self._identifier()))
            if self._peek() == ",":
                self._next()
        if self._next() != ")":
            raise _unreadable("found '', expected: ')'")
        return frozenset(found)


def _unreadable(why: str) -> Exception:
    return bad_request(f"unable to parse requirement: {why}")


def _checked_key(key: str) -> str:
    if fault := fault_in_label_key(key):
        raise _unreadable(f'<nil>: Invalid value: "{key}": {fault}')
    return key


def _checked_value(value: str) -> str:
    if fault := fault_in_label_value(value):
        raise _unreadable(f'<nil>: Invalid value: "{value}": {fault}')
    return value


def _number(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise _unreadable(
            f"values[0]: Invalid value: \"{text}\": for 'Gt', 'Lt' the value must be an integer"
        ) from None


def _is_within(text: str, bound: tuple[str, int]) -> bool:
    try:
        number = int(text)
    except ValueError:
        return False
    return number < bound[1] if bound[0] == "<" else number > bound[1]


def _read_fields(resource: Resource, text: str) -> tuple[tuple[str, str, bool], ...]:
    return tuple(_read_field(resource, term) for term in _split(text) if term)


def _split(text: str) -> list[str]:
    return re.split(r"(?<!\\),", text)


def _read_field(resource: Resource, term: str) -> tuple[str, str, bool]:
    found = re.fullmatch(r"([^=!]+)(==|!=|=)((?:[^=!\\,]|\\[\\,=])*)", term)
    if found is None:
        raise bad_request(f"invalid selector: '{term}'; can't understand '{term}'")
    field, operator, value = found.groups()
    _check_field(resource, field)
    return field, re.sub(r"\\([\\,=])", r"\1", value), operator != "!="


def _check_field(resource: Resource, field: str) -> None:
    known = ["metadata.name", "metadata.namespace"]
    if field in known or (resource.kind == "Event" and field in _EVENT_FIELDS):
        return
    if (resource.kind, field) in {("Secret", "type"), ("Namespace", "status.phase")}:
        return
    if resource.kind == "ConfigMap":
        raise bad_request(f'"{field}" is not a known field selector: only "metadata.name", "metadata.namespace"')
    raise bad_request(f"field label not supported: {field}")


def _field(manifest: Manifest, field: str) -> str:
    if field.startswith("metadata."):
        return str(metadata_of(manifest).get(field.removeprefix("metadata."), ""))
    read = _SPECIAL.get(field)
    if read is not None:
        return read(manifest)
    found: object = manifest
    for step in field.split("."):
        found = as_mapping(found).get(step, "")
    return str(found)


_SPECIAL: Final[Mapping[str, Callable[[Manifest], str]]] = {
    "source": lambda manifest: str(as_mapping(manifest.get("source")).get("component", "")),
}
