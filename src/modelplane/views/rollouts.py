"""Roll-outs of a ModelDeployment as commands show and change them: a state, a history, and merge patches.

A patch says what to change of the object that it was made from. Those that depend on the template carry the
resourceVersion, so that a change in between is a conflict and not lost.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from modelplane.api.codec import decode
from modelplane.api.errors import InputError, NotFoundError
from modelplane.api.labels import ABORT, PROMOTE, RETRY
from modelplane.api.models import ModelDeployment, RolloutHalt, StatusRollout, TemplateRevision
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
    HALTED        it ends with an error: a canary exceeded a limit, or was aborted
    """

    COMPLETE = "Complete"
    PROGRESSING = "Progressing"
    PAUSED = "Paused"
    UNOBSERVED = "Unobserved"
    FAILED = "Failed"
    HALTED = "Halted"


@dataclass(frozen=True, slots=True)
class RolloutView:
    state: RolloutPhase
    message: str


_STATES = {
    Reason.ROLLOUT_COMPLETE.value: RolloutPhase.COMPLETE,
    Reason.ROLLOUT_PAUSED.value: RolloutPhase.PAUSED,
    Reason.PROGRESS_DEADLINE_EXCEEDED.value: RolloutPhase.FAILED,
    Reason.ROLLOUT_HALTED.value: RolloutPhase.HALTED,
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
    """The patch that restores a revision and its number, by default the one before the newest.

    While the newest is not promoted, that is the one that was promoted last. None where the template is that of the
    revision already.
    """
    _refuse_paused(item, "undo")
    known = revisions_of(item)
    if number is None:
        if len(known) <= 1:
            raise NotFoundError("there is no earlier revision; correct the manifest and apply it")
        number = _revision_before(item, known)
    wanted = template_at(item, number)
    if template_hash(template_of(decode(ModelDeployment, item).spec)) == template_hash(wanted):
        return None, number
    return _template_patch(item, wanted), number


def _revision_before(item: Manifest, known: Sequence[TemplateRevision]) -> int:
    rollout = decode(ModelDeployment, item).status.rollout
    unpromoted = rollout is not None and rollout.promoted is False and rollout.hash_ == known[-1].hash_
    stable = rollout.stable if rollout is not None and unpromoted else None
    return next((each.revision for each in known[:-1] if each.hash_ == stable), known[-2].revision)


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


def resume_patch(item: Manifest, at: str) -> Json:
    """The patch that ends a pause, or a halt: its revision begins again with the first step."""
    if value_at(item, "spec", "rollout", "paused") or _halted(item) is None:
        return pause_patch(item, paused=False)
    return _annotation_patch({ABORT: None, PROMOTE: None, RETRY: at})


def promote_patch(item: Manifest, *, full: bool = False) -> tuple[Json, str]:
    """The patch that ends the step of the canary, or all of them, and what that means."""
    rollout = _canary(item)
    canary = rollout.canary
    step, steps = (canary.step or 1, canary.steps or 1) if canary is not None else (1, 1)
    if full or step >= steps:
        return _annotation_patch({PROMOTE: f"{rollout.hash_}/all"}), f"promoted revision {rollout.revision}"
    outcome = f"promoted revision {rollout.revision} to step {step + 1} of {steps}"
    return _annotation_patch({PROMOTE: f"{rollout.hash_}/{step}"}), outcome


def abort_patch(item: Manifest) -> tuple[Json, str]:
    """The patch that halts the rollout, and what that means."""
    rollout = _canary(item)
    return _annotation_patch({ABORT: rollout.hash_}), f"aborted revision {rollout.revision}"


def _canary(item: Manifest) -> StatusRollout:
    """The update, where it is at a canary. InputError where there is nothing to promote or to abort."""
    deployment = decode(ModelDeployment, item)
    found = deployment.status.rollout
    if found is None or found.hash_ != template_hash(template_of(deployment.spec)):
        raise InputError("the newest spec is not observed yet")
    if found.halted is not None:
        raise InputError(f"revision {found.revision} is halted; resume or undo it")
    if found.promoted is not False:
        raise InputError(f"revision {found.revision} has no canary: it is promoted; undo it to take it back")
    return found


def _halted(item: Manifest) -> RolloutHalt | None:
    found = decode(ModelDeployment, item).status.rollout
    return found.halted if found is not None else None


def _annotation_patch(annotations: Mapping[str, str | None]) -> Json:
    """It names the revision itself, so it needs no resourceVersion: it means nothing to another revision."""
    return {"metadata": {"annotations": dict(annotations)}}


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
