"""References between the objects of one set.

A set is all objects that were given together, such as a directory of manifests. It may be incomplete, so a missing
reference is judged by what is present:

- A name that is not in the set is an **error** when the set has objects of that kind in that place, since then it is
  probably misspelled, and a **warning** when it has none, since then they are probably kept elsewhere. This goes for
  the InferenceClass of a node pool and for the ModelCache (of the same namespace) of a deployment.
- A Secret that a deployment or an endpoint names and that is not in the set is a **warning**, unless it is optional.
- A service whose selector matches nothing is always a **warning**: endpoints come and go, and a selector may wait.
  What a deployment's endpoints will carry is known: its labels, `modelplane.ai/deployment` with its name, and the
  placement labels of a cluster. Where the set has no cluster, labels that nothing in the namespace has may be those of
  clusters elsewhere. Other labels under `modelplane.ai/` are ours to set. Conditions on both are taken as met.
- The same kind, namespace and name twice is an **error**, and a **note** where both say the same with their defaults:
  folders that are used one by one may each bring what they share. An absent namespace is `default`, as for `kubectl`.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple

from modelplane.api.codec import decode
from modelplane.api.labels import DEPLOYMENT, RESERVED_PREFIX, selects
from modelplane.api.models import LabelSelector
from modelplane.k8s.admission.paths import Path
from modelplane.k8s.admission.problems import CauseType, Problem, describe
from modelplane.k8s.admission.structure import nearest

DEFAULT_NAMESPACE: Final = "default"
_SECRET_FIELDS: Final = frozenset({"secretKeyRef", "secretRef"})


class Severity(StrEnum):
    """An error refuses the set; a warning does so only when asked to; a note never does."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


class Name(NamedTuple):
    """The identity of an object; cluster-scoped ones have no namespace."""

    kind: str
    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class ReferencedObject:
    """An object of the set. One that is not valid by itself can be named by others; its own references wait."""

    name: Name
    value: Mapping[str, object]
    is_valid: bool = True


@dataclass(frozen=True, slots=True)
class ReferenceProblem:
    """A problem of one member, by its place in the set. `other` is the member it clashes with, where there is one."""

    member: int
    problem: Problem
    severity: Severity
    other: int | None = None


def check_references(members: Sequence[ReferencedObject], others: Iterable[Name] = ()) -> tuple[ReferenceProblem, ...]:
    """What is wrong between the members, in the order of the set. `others` are objects of other groups in it."""
    names = {*(member.name for member in members), *others}
    endpoints = _Endpoints(members)
    problems = [*_duplicates(members)]
    for index, member in enumerate(members):
        if member.is_valid:
            problems += [ReferenceProblem(index, *found) for found in _check_member(member, names, endpoints)]
    return tuple(sorted(problems, key=lambda problem: problem.member))


def _duplicates(members: Sequence[ReferencedObject]) -> Iterator[ReferenceProblem]:
    first: dict[Name, int] = {}
    for index, member in enumerate(members):
        seen = first.setdefault(member.name, index)
        if seen != index and member.name.name:
            same = member.is_valid and members[seen].is_valid and member.value == members[seen].value
            right = "both are the same and count once" if same else "keep one"
            problem = Problem(("metadata", "name"), "is given twice in this set", right, CauseType.DUPLICATE)
            yield ReferenceProblem(index, problem, Severity.NOTE if same else Severity.ERROR, seen)


def _check_member(
    member: ReferencedObject, names: set[Name], endpoints: "_Endpoints"
) -> Iterator[tuple[Problem, Severity]]:
    match member.name.kind:
        case "InferenceCluster":
            for path, name in _named(member.value, ("spec", "nodePools"), "className"):
                yield from _missing(path, Name("InferenceClass", "", name), names)
        case "ModelDeployment":
            for path, name in _caches(member.value):
                yield from _missing(path, Name("ModelCache", member.name.namespace, name), names)
            yield from _missing_secrets(member, names)
        case "ModelEndpoint":
            yield from _missing_secrets(member, names)
        case "ModelService":
            yield from _unmatched_selectors(member, endpoints)


def _caches(value: Mapping[str, object]) -> Iterator[tuple[Path, str]]:
    yield from _named(value, ("spec", "caches"), "name")
    path = ("spec", "template", "spec", "modelCacheRef", "name")
    name = _at(value, path)
    if isinstance(name, str):
        yield path, name


def _named(value: Mapping[str, object], path: Path, field: str) -> Iterator[tuple[Path, str]]:
    found = _at(value, path)
    for index, item in enumerate(found if isinstance(found, list) else ()):
        yield (*path, index, field), item[field]


def _missing(path: Path, target: Name, names: set[Name]) -> Iterator[tuple[Problem, Severity]]:
    if target in names:
        return
    present = sorted(each.name for each in names if each[:2] == target[:2])
    guess = nearest(target.name, present)
    place = f" in namespace {target.namespace}" if target.namespace else ""
    wrong = f"{target.kind} {describe(target.name)} is not in this set{place}"
    right = f"did you mean {guess}?" if guess else "add it, or make sure that it exists"
    yield Problem(path, wrong, right), Severity.ERROR if present else Severity.WARNING


def _missing_secrets(member: ReferencedObject, names: set[Name]) -> Iterator[tuple[Problem, Severity]]:
    """Always warnings: Secrets are rarely kept beside manifests. Each name is reported once."""
    reported: set[str] = set()
    for path, name in _secrets(member.value.get("spec"), ("spec",)):
        if name not in reported:
            reported.add(name)
            for problem, _ in _missing(path, Name("Secret", member.name.namespace, name), names):
                yield problem, Severity.WARNING


def _secrets(value: object, path: Path) -> Iterator[tuple[Path, str]]:
    """Where Secrets are named that have to exist, anywhere below."""
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from _secrets(item, (*path, index))
    for key, item in value.items() if isinstance(value, dict) else ():
        inner = (*path, key)
        for place, named in _references(key, item, inner):
            yield (*place, "name"), named
        yield from _secrets(item, inner)


def _references(key: str, value: object, path: Path) -> Iterator[tuple[Path, str]]:
    items = enumerate(value) if key == "imagePullSecrets" and isinstance(value, list) else ()
    places = [((*path, index), item) for index, item in items]
    if key in _SECRET_FIELDS:
        places.append((path, value))
    for place, item in places:
        name = item.get("name") if isinstance(item, dict) and not item.get("optional") else None
        if isinstance(name, str):
            yield place, name


def _unmatched_selectors(service: ReferencedObject, endpoints: "_Endpoints") -> Iterator[tuple[Problem, Severity]]:
    namespace = service.name.namespace
    groups = _at(service.value, ("spec", "endpoints"))
    for index, group in enumerate(groups if isinstance(groups, list) else ()):
        if not endpoints.have(namespace, _knowable(decode(LabelSelector, group["selector"]), _is_knowable)):
            right = "compare it with the labels of deployments, endpoints and placements, or make sure that they exist"
            wrong = f"matches no endpoint in namespace {namespace} of this set"
            yield Problem(("spec", "endpoints", index, "selector"), wrong, right), Severity.WARNING


class _Endpoints:
    """The labels of the endpoints that members are or will have, found by namespace and any one of them."""

    def __init__(self, members: Sequence[ReferencedObject]) -> None:
        self._all: dict[str, list[dict[str, str]]] = {}
        self._by_label: dict[tuple[str, str, str], list[dict[str, str]]] = {}
        self._keys: dict[str, set[str]] = {}
        placements = [_placement_labels(member) for member in members if member.name.kind == "InferenceCluster"]
        self._knows_clusters = bool(placements)
        for member in members:
            for labels in _endpoint_labels(member, placements):
                self._add(member.name.namespace, labels)

    def have(self, namespace: str, selector: LabelSelector) -> bool:
        """Whether the selector matches an endpoint of the namespace."""
        if not self._knows_clusters:
            known = self._keys.get(namespace, set())
            left = _knowable(selector, known.__contains__)
            selector = left if left.match_labels or left.match_expressions else selector
        candidates = self._all.get(namespace, [])
        for key, value in selector.match_labels.items():
            found = self._by_label.get((namespace, key, value), [])
            candidates = min(candidates, found, key=len)
        return any(selects(selector, labels) for labels in candidates)

    def _add(self, namespace: str, labels: dict[str, str]) -> None:
        self._all.setdefault(namespace, []).append(labels)
        self._keys.setdefault(namespace, set()).update(labels)
        for key, value in labels.items():
            self._by_label.setdefault((namespace, key, value), []).append(labels)


def _endpoint_labels(member: ReferencedObject, placements: Sequence[dict[str, str]]) -> Iterator[dict[str, str]]:
    """Those of an endpoint, and of the endpoints of a deployment on each kind of cluster."""
    if member.name.kind == "ModelEndpoint":
        yield _texts(member.value, ("metadata", "labels"))
    if member.name.kind == "ModelDeployment":
        written = _texts(member.value, ("spec", "labels"))
        templated = _texts(member.value, ("spec", "template", "metadata", "labels"))
        own = {**written, **templated, DEPLOYMENT: member.name.name}
        yield own
        for placed in {tuple(sorted(each.items())) for each in placements if each}:
            yield {**dict(placed), **own}


def _placement_labels(cluster: ReferencedObject) -> dict[str, str]:
    return _texts(cluster.value, ("spec", "placement", "metadata", "labels"))


def _knowable(selector: LabelSelector, is_known: Callable[[str], bool]) -> LabelSelector:
    """The selector without conditions on labels that are not known."""
    return LabelSelector(
        match_labels={key: value for key, value in selector.match_labels.items() if is_known(key)},
        match_expressions=tuple(each for each in selector.match_expressions if is_known(each.key)),
    )


def _is_knowable(key: str) -> bool:
    return key == DEPLOYMENT or not key.startswith(RESERVED_PREFIX)


def _texts(value: Mapping[str, object], path: Path) -> dict[str, str]:
    found = _at(value, path)
    return {key: text for key, text in found.items() if isinstance(text, str)} if isinstance(found, dict) else {}


def _at(value: object, path: Path) -> object:
    for step in path:
        value = value.get(step) if isinstance(value, dict) else None
    return value
