"""Roll-outs of a ModelDeployment as commands show and change them: a state, a history, and merge patches.

A patch says what to change of the object that it was made from. Those that depend on the template carry the
resourceVersion, so that a change in between is a conflict and not lost.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from modelplane.api.codec import decode
from modelplane.api.errors import InputError, NotFoundError
from modelplane.api.models import ModelDeployment, TemplateRevision
from modelplane.api.objects import Json, Manifest, as_mapping, items_at, text_at, value_at
from modelplane.api.reasons import Reason
from modelplane.compose.revisions import TEMPLATE_FIELDS, template_hash, template_of, unpack

RESTARTED_AT = "kubectl.kubernetes.io/restartedAt"
"""The annotation that kubectl writes into the pod template of a Deployment."""


class RolloutPhase(StrEnum):
    """Closed: what a command that waits does next.

    COMPLETE      it ends
    PROGRESSING   it goes on waiting; so it does while PAUSED, and while the change is UNOBSERVED
    FAILED        it ends with an error: the progress deadline is exceeded
    """

    COMPLETE = "Complete"
    PROGRESSING = "Progressing"
    PAUSED = "Paused"
    UNOBSERVED = "Unobserved"
    FAILED = "Failed"


@dataclass(frozen=True, slots=True)
class RolloutView:
    state: RolloutPhase
    message: str


_STATES = {
    Reason.ROLLOUT_COMPLETE.value: RolloutPhase.COMPLETE,
    Reason.ROLLOUT_PAUSED.value: RolloutPhase.PAUSED,
    Reason.PROGRESS_DEADLINE_EXCEEDED.value: RolloutPhase.FAILED,
}


def rollout_view(item: Manifest) -> RolloutView:
    """How far the update is. A spec that the status is not of yet is unobserved, whatever the status says."""
    deployment = decode(ModelDeployment, item)
    condition = next((each for each in items_at(item, "status", "conditions") if each.get("type") == "Progressing"), {})
    seen = deployment.status.rollout
    if not condition or seen is None:
        return RolloutView(RolloutPhase.UNOBSERVED, "the deployment is not observed yet")
    paused, message = text_at(condition, "reason") == Reason.ROLLOUT_PAUSED, text_at(condition, "message")
    changed = not paused and seen.hash_ != template_hash(template_of(deployment.spec))
    # Crossplane writes conditions after the rest of the status, so a condition may still be of the revision before.
    if paused != deployment.spec.rollout.paused or changed or f"revision {seen.revision}:" not in message:
        return RolloutView(RolloutPhase.UNOBSERVED, "the newest spec is not observed yet")
    return RolloutView(_STATES.get(text_at(condition, "reason"), RolloutPhase.PROGRESSING), message)


def revisions_of(item: Manifest) -> tuple[TemplateRevision, ...]:
    """Oldest first."""
    return decode(ModelDeployment, item).status.revisions


def template_at(item: Manifest, number: int) -> Json:
    """The recorded template of a revision."""
    found = next((each for each in revisions_of(item) if each.revision == number), None)
    if found is None:
        kept = ", ".join(str(each.revision) for each in revisions_of(item)) or "none"
        raise NotFoundError(f"revision {number} is not in the history; revisions: {kept}")
    if not found.template:
        raise NotFoundError(f"revision {number} was too large to be recorded")
    return unpack(found.template)


def undo_patch(item: Manifest, number: int | None = None) -> tuple[Json | None, int]:
    """The patch that restores a revision, the one before the newest by default, and its number.

    None where the template is that of the revision already.
    """
    _refuse_paused(item, "undo")
    known = revisions_of(item)
    if number is None:
        if len(known) <= 1:
            raise NotFoundError("there is no earlier revision")
        number = known[-2].revision
    wanted = template_at(item, number)
    if template_hash(template_of(decode(ModelDeployment, item).spec)) == template_hash(wanted):
        return None, number
    return _template_patch(item, wanted), number


def restart_patch(item: Manifest, at: str) -> Json:
    """The patch that stamps every pod template with a time, which makes a new revision of the same pods."""
    _refuse_paused(item, "restart")
    spec = as_mapping(item.get("spec"))
    template = {name: spec[name] for name in TEMPLATE_FIELDS if name in spec}
    return _template_patch(item, as_mapping(_stamped(template, at)))


def pause_patch(item: Manifest, *, paused: bool) -> Json:
    if bool(value_at(item, "spec", "rollout", "paused")) is paused:
        raise InputError(f"the rollout is {'already paused' if paused else 'not paused'}")
    return {"spec": {"rollout": {"paused": paused}}}


def _refuse_paused(item: Manifest, verb: str) -> None:
    if value_at(item, "spec", "rollout", "paused"):
        raise InputError(f"the rollout is paused; resume it before you {verb} it")


def _template_patch(item: Manifest, wanted: Manifest) -> Json:
    spec = as_mapping(item.get("spec"))
    now = {name: spec[name] for name in TEMPLATE_FIELDS if name in spec}
    version = text_at(item, "metadata", "resourceVersion")
    return {"metadata": {"resourceVersion": version}, "spec": merge_patch(now, wanted)}


def merge_patch(before: Manifest, after: Manifest) -> Json:
    """The JSON merge patch (RFC 7386) from one object to another."""
    patch: Json = {name: None for name in before if name not in after}
    for name, value in after.items():
        known = before.get(name)
        if isinstance(known, Mapping) and isinstance(value, Mapping):
            inner = merge_patch(known, value)
            if inner:
                patch[name] = inner
        elif name not in before or known != value:
            patch[name] = value
    return patch


def _stamped(value: object, at: str) -> object:
    if isinstance(value, list):
        return [_stamped(each, at) for each in value]
    if not isinstance(value, Mapping):
        return value
    return {
        name: _with_stamp(inner, at) if name == "template" and _is_pod(inner) else _stamped(inner, at)
        for name, inner in value.items()
    }


def _is_pod(value: object) -> bool:
    return isinstance(value, Mapping) and isinstance(value_at(value, "spec", "containers"), list)


def _with_stamp(pod: object, at: str) -> Json:
    template = as_mapping(pod)
    metadata = as_mapping(template.get("metadata"))
    annotations = {**as_mapping(metadata.get("annotations")), RESTARTED_AT: at}
    return {**template, "metadata": {**metadata, "annotations": annotations}}
