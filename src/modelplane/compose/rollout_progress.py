"""How far an update has come: the condition Progressing and status.rollout.

An update is complete when every replica of spec.replicas serves the newest revision with all its pods and no other
replica is left. It stays complete until the next revision, whatever fails later. It makes progress when the number of
updated or of ready replicas changes. Without progress for progressDeadlineSeconds, Progressing is False; nothing else
follows from that, as with Deployments.
"""

from dataclasses import dataclass

import msgspec

from modelplane.api.conditions import Condition, ConditionType, fails, holds, unknown
from modelplane.api.models import ModelDeployment, StatusRollout, TemplateRevision
from modelplane.api.reasons import Reason
from modelplane.api.timestamps import epoch_s, timestamp
from modelplane.compose.canary import CanaryState
from modelplane.compose.rolling_update import Rollout

_NO_CANARY = CanaryState()


@dataclass(frozen=True, slots=True)
class RolloutProgress:
    status: StatusRollout
    condition: Condition
    requeue_after_s: float | None = None


def rollout_progress(
    deployment: ModelDeployment,
    newest: TemplateRevision,
    rollout: Rollout,
    now: float,
    *,
    leaving: int,
    canary: CanaryState = _NO_CANARY,
) -> RolloutProgress:
    """`leaving`: replicas that are being replaced and still there."""
    status = _status(deployment, newest, rollout, now, leaving=leaving)
    status = msgspec.structs.replace(status, promoted=canary.promoted)
    message = _message(deployment, status)
    kind = ConditionType.PROGRESSING
    if deployment.spec.rollout.paused:
        return RolloutProgress(status, unknown(kind, Reason.ROLLOUT_PAUSED, f"{message}; changes of the pods wait"))
    if status.complete:
        return RolloutProgress(status, holds(kind, Reason.ROLLOUT_COMPLETE, message))
    left_s = _left_s(deployment, status, now)
    if left_s is not None and left_s <= 0:
        given = deployment.spec.rollout.progress_deadline_seconds
        return RolloutProgress(
            status, fails(kind, Reason.PROGRESS_DEADLINE_EXCEEDED, f"no progress for {given} s; {message}")
        )
    if canary.promoted:
        return RolloutProgress(status, holds(kind, Reason.ROLLING_OUT, message), left_s)
    waits = [wait for wait in (left_s, canary.left_s) if wait is not None]
    detail = f"{message}; {canary.baked} of {canary.limit} canaries have served for long enough"
    return RolloutProgress(status, holds(kind, Reason.CANARY_BAKING, detail), min(waits, default=None))


def _status(
    deployment: ModelDeployment, newest: TemplateRevision, rollout: Rollout, now: float, *, leaving: int
) -> StatusRollout:
    before = deployment.status.rollout or StatusRollout()
    same = before.hash_ == newest.hash_ and before.revision == newest.revision
    done = not leaving and rollout.ready >= deployment.spec.replicas and rollout.updated == len(rollout.replicas)
    stood = same and (before.updated_replicas, before.ready_replicas) == (rollout.updated, rollout.ready)
    return StatusRollout(
        revision=newest.revision,
        hash_=newest.hash_,
        updated_replicas=rollout.updated,
        ready_replicas=rollout.ready,
        complete=done or bool(same and before.complete),
        last_progress_time=before.last_progress_time if stood or not now else timestamp(now),
    )


def _left_s(deployment: ModelDeployment, status: StatusRollout, now: float) -> float | None:
    """Seconds until the deadline; None where no time is known."""
    since = epoch_s(status.last_progress_time)
    return None if since is None or not now else since + deployment.spec.rollout.progress_deadline_seconds - now


def _message(deployment: ModelDeployment, status: StatusRollout) -> str:
    wanted = deployment.spec.replicas
    return (
        f"revision {status.revision}: {status.updated_replicas} of {wanted} replicas updated, "
        f"{status.ready_replicas} of {wanted} ready"
    )
