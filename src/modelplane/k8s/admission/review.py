"""Admits a set of documents: each by itself, then the references between them.

Kinds of other groups are counted and left alone, and so are files of our own commands. An object that claims to be of
one of our groups has to be of a kind and version that exist. One that has the name of our kind under a foreign group
gets a warning, since a misspelled group would otherwise make every check pass.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from modelplane.api.definitions import Definition, definitions
from modelplane.api.objects import GROUP
from modelplane.k8s.admission.admit import Admitted, admit
from modelplane.k8s.admission.layout import Document
from modelplane.k8s.admission.problems import CauseType, Problem, describe, listing
from modelplane.k8s.admission.references import (
    DEFAULT_NAMESPACE,
    Name,
    ReferencedObject,
    ReferenceProblem,
    Severity,
    check_references,
)
from modelplane.k8s.admission.structure import nearest

_SUPERSEDED: Final[Mapping[str, str]] = {
    "ModelPlacement": "ModelReplica",
    "InferenceProvider": "ModelEndpoint",
    "CapabilityVocabulary": "InferenceClass",
}
"""Kinds of earlier designs, with those that have taken their place."""

_SUPERSEDED_FIELDS: Final[Mapping[tuple[object, ...], str]] = {
    ("ModelDeployment", "topology", "strategy"): "give the sizes: tensor, pipeline, data and dataLocal",
    ("ModelDeployment", "spec", "scaling"): "set replicas; an autoscaler uses the scale subresource",
    ("ModelDeployment", "spec", "adapters"): "mount adapters by caches, or name them in the engine's args",
    ("ModelDeployment", "spec", "model"): "name the model in the engine's args",
    ("ModelDeployment", "spec", "nodeSelector"): "spec.nodeSelector chooses the pool, and affinity nodes of it",
    ("ModelDeployment", "spec", "nodeName"): "spec.nodeSelector chooses the pool, and affinity nodes of it",
    ("ModelDeployment", "spec", "tolerations"): "leave it out: pods tolerate the taints of their pool's nodes; "
    "spec.tolerations is for taints of clusters and pools",
    ("ModelDeployment", "spec", "schedulerName"): "leave it out: spec.scheduling of the InferenceCluster names it",
    ("ModelDeployment", "spec", "priorityClassName"): "write spec.priority; the InferenceCluster has its class",
    ("ModelDeployment", "spec", "restartPolicy"): "leave it out: containers are always restarted",
    ("ModelDeployment", "spec", "resourceClaims"): "write spec.nodeSelector.devices: claims are made of it",
}
"""Fields of earlier designs and of pods, by kind and the last two steps of their path, with what is written instead."""


_FILES: Final = frozenset({"FleetSnapshot", "PlacementProfile", "Scenario"})
"""Kinds of files that commands read, and no API server stores."""


@dataclass(frozen=True, slots=True)
class ReviewFinding:
    """One problem of one object, and where it was written."""

    source: str
    line: int
    kind: str
    namespace: str
    name: str
    problem: Problem
    severity: Severity


@dataclass(frozen=True, slots=True)
class ManifestReview:
    """How many objects were checked, the findings in their order, and how many objects of other kinds were skipped."""

    objects: int
    findings: tuple[ReviewFinding, ...]
    skipped: Mapping[str, int]

    def count(self, severity: Severity) -> int:
        return sum(finding.severity is severity for finding in self.findings)


@dataclass(frozen=True, slots=True)
class _Entry:
    """A document of ours, and what is wrong with it by itself."""

    document: Document
    member: ReferencedObject
    problems: tuple[tuple[Problem, Severity], ...]

    def finding(self, problem: Problem, severity: Severity) -> ReviewFinding:
        spelling = self.document.spelling_of(problem.path) if problem.quote else ""
        spelled = replace(problem, quote=spelling) if spelling else problem
        line = self.document.line_of(problem.path)
        return ReviewFinding(self.document.source, line, *self.member.name, spelled, severity)


SetCheck: TypeAlias = Callable[[Sequence[ReferencedObject]], Iterable[ReferenceProblem]]
"""Finds further problems of the members of a set."""


def review(documents: Sequence[Document], further: SetCheck = lambda _members: ()) -> ManifestReview:
    """Admit the documents as one set. `further` finds what is wrong with objects that an API server would store."""
    others: list[Name] = []
    entries: list[_Entry] = []
    for document in documents:
        found = _classify(document.value)
        if found is None:
            others.append(_name_of(document.value))
        else:
            entries.append(_admit(document, found))
    skipped = Counter(other.kind for other in others)
    members = [entry.member for entry in entries]
    between = [*check_references(members, others), *further(members)]
    return ManifestReview(len(entries), tuple(_findings(entries, between)), dict(sorted(skipped.items())))


def _findings(entries: Sequence[_Entry], references: Sequence[ReferenceProblem]) -> Iterator[ReviewFinding]:
    between: dict[int, list[ReviewFinding]] = {}
    for reference in references:
        problem = reference.problem
        if reference.other is not None:
            first = entries[reference.other].document
            problem = replace(problem, wrong=f"{problem.wrong}, first at {first.source}:{first.line}")
        between.setdefault(reference.member, []).append(entries[reference.member].finding(problem, reference.severity))
    for index, entry in enumerate(entries):
        own = [entry.finding(problem, severity) for problem, severity in entry.problems]
        yield from sorted((*own, *between.get(index, ())), key=lambda finding: finding.line)


def _admit(document: Document, found: "Definition | _UnknownKind") -> _Entry:
    if isinstance(found, _UnknownKind):
        return _Entry(
            document, ReferencedObject(_name_of(document.value), {}, is_valid=False), ((found.problem, found.severity),)
        )
    name = _name_of(document.value, namespaced=found.namespaced)
    verdict = admit(document.value, found)
    if isinstance(verdict, Admitted):
        warnings = tuple((problem, Severity.WARNING) for problem in verdict.warnings)
        return _Entry(document, ReferencedObject(name, verdict.value), warnings)
    given = document.value if isinstance(document.value, dict) else {}
    errors = tuple((_with_successor(problem, name.kind), Severity.ERROR) for problem in verdict.problems)
    return _Entry(document, ReferencedObject(name, given, is_valid=False), errors)


def _with_successor(problem: Problem, kind: str) -> Problem:
    right = _SUPERSEDED_FIELDS.get((kind, *problem.path[-2:]))
    return replace(problem, right=right) if right and problem.cause is CauseType.UNKNOWN_FIELD else problem


@dataclass(frozen=True, slots=True)
class _UnknownKind:
    """A document that is of no kind we can check, and should be."""

    problem: Problem
    severity: Severity = Severity.ERROR


def _classify(value: object) -> Definition | _UnknownKind | None:
    """The kind of an object; None for a kind of another group."""
    if not isinstance(value, dict):
        right = "a manifest is an object with apiVersion and kind"
        return _UnknownKind(Problem((), f"is {describe(value)}", right, CauseType.TYPE))
    for field in ("apiVersion", "kind"):
        if not isinstance(value.get(field), str) or not value[field]:
            return _UnknownKind(Problem((field,), "is required", "give a string", CauseType.REQUIRED))
    known = definitions()
    version, kind = value["apiVersion"], value["kind"]
    if (version, kind) in known:
        return known[version, kind]
    return _unknown_kind(version, kind)


def _unknown_kind(version: str, kind: str) -> _UnknownKind | None:
    homes = sorted(home for home, name in definitions() if name == kind)
    group = version.rpartition("/")[0]
    ours = group == GROUP or group.endswith(f".{GROUP}")
    if homes:
        severity = Severity.ERROR if ours else Severity.WARNING
        return _UnknownKind(Problem(("apiVersion",), f"{describe(version)} has no {kind}", f"use {homes[0]}"), severity)
    if not ours or kind in _FILES:
        return None
    kinds = sorted({name for _, name in definitions()})
    guess = _SUPERSEDED.get(kind) or nearest(kind, kinds)
    right = _hint(kind, guess) if guess else f"the kinds are {listing(kinds, last='and')}"
    return _UnknownKind(Problem(("kind",), f"{describe(kind)} is not a kind of {GROUP}", right))


def _hint(kind: str, guess: str) -> str:
    return f"it is now {guess}" if kind in _SUPERSEDED else f"did you mean {guess}?"


def _name_of(value: object, *, namespaced: bool = True) -> Name:
    fields = value if isinstance(value, dict) else {}
    metadata = fields.get("metadata")
    texts = metadata if isinstance(metadata, dict) else {}
    namespace = (_text(texts.get("namespace")) or DEFAULT_NAMESPACE) if namespaced else ""
    return Name(_text(fields.get("kind")), namespace, _text(texts.get("name")))


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
