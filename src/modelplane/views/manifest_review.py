"""Manifests as `modelplane validate` reviews them: what an API server would refuse, and what would never run.

The second half asks the code that decides later, so that both agree: composers say what they do not accept, and the
devices of a deployment are compared with its topology and with the classes beside it.
"""

from collections.abc import Iterator, Mapping, Sequence

from modelplane.api.codec import decode
from modelplane.api.conditions import Condition, ConditionStatus, ConditionType
from modelplane.api.errors import InputError
from modelplane.api.models import InferenceClass, ModelCache
from modelplane.api.objects import value_at
from modelplane.api.reasons import Reason
from modelplane.compose.caching.source import older_forms
from modelplane.compose.contract import ComposeRequest
from modelplane.compose.refusal import CLOUD_FIELDS, NOTED_FIELDS
from modelplane.compose.registry import COMPOSERS
from modelplane.k8s.admission.layout import Document
from modelplane.k8s.admission.paths import Path
from modelplane.k8s.admission.problems import CauseType, Problem
from modelplane.k8s.admission.references import ReferencedObject, ReferenceProblem, Severity
from modelplane.k8s.admission.review import ManifestReview, review
from modelplane.views.device_review import KnownDevices, review_devices


def validate(documents: Sequence[Document]) -> ManifestReview:
    """What is wrong with manifests: what an API server would refuse, references that lead nowhere, what cannot run."""
    return review(documents, _cannot_run)


def _cannot_run(members: Sequence[ReferencedObject]) -> Iterator[ReferenceProblem]:
    known = KnownDevices.of(_classes(members))
    for index, member in enumerate(members):
        if member.is_valid:
            yield from (ReferenceProblem(index, *found) for found in _problems(member, known))


def _classes(members: Sequence[ReferencedObject]) -> Iterator[InferenceClass]:
    for member in members:
        if member.name.kind == "InferenceClass" and member.is_valid:
            yield decode(InferenceClass, member.value)


def _problems(member: ReferencedObject, known: KnownDevices) -> Iterator[tuple[Problem, Severity]]:
    kind = member.name.kind
    if kind == "ModelDeployment":
        yield from review_devices(member.value, known)
    if kind == "ModelCache":
        for field, newer in older_forms(decode(ModelCache, member.value).spec):
            yield Problem(field, "is an older form", f"write {newer}"), Severity.WARNING
    if kind == "InferenceCluster" and value_at(member.value, "spec", "cluster", "source") == "Existing":
        for place in (place for path in CLOUD_FIELDS for place in _places(member.value, path, ())):
            yield Problem(place, "has no effect on a cluster that exists already", "leave it out"), Severity.WARNING
    for path, message, hint in NOTED_FIELDS.get(kind, ()):
        for place in _places(member.value, path, ()):
            yield Problem(place, message, hint), Severity.WARNING
    yield from _not_accepted(kind, member.value)


def _not_accepted(kind: str, value: Mapping[str, object]) -> Iterator[tuple[Problem, Severity]]:
    """What the composer of the kind would say in its condition Accepted."""
    entry = COMPOSERS[kind]
    try:
        conditions = entry.compose(ComposeRequest(decode(entry.resource, value))).conditions
    except InputError:
        return
    for condition in conditions:
        if condition.type == ConditionType.ACCEPTED and condition.status is ConditionStatus.FALSE:
            yield _problem(condition), Severity.ERROR if condition.reason == Reason.INVALID else Severity.WARNING


def _problem(condition: Condition) -> Problem:
    """A message that begins with a field is about that field."""
    field, colon, rest = condition.message.partition(": ")
    if colon and field.startswith("spec.") and " " not in field:
        return Problem(tuple(field.partition("[")[0].split(".")), rest)
    return Problem((), condition.message, "", CauseType.NOT_SUPPORTED)


def _places(value: object, path: Sequence[str], at: Path) -> Iterator[Path]:
    """Where a field is set; `[]` stands for every item of a list."""
    if not path:
        yield at
    elif path[0] == "[]":
        for index, item in enumerate(value if isinstance(value, list) else ()):
            yield from _places(item, path[1:], (*at, index))
    elif isinstance(value, dict) and path[0] in value:
        yield from _places(value[path[0]], path[1:], (*at, path[0]))
