"""How far an update has come: the condition Progressing and status.rollout.

An update is complete when every replica of spec.replicas serves the newest revision with all its pods and no other
replica is left. It stays complete until the next revision, whatever fails later. It makes progress when the number of
updated or of ready replicas changes, or the step of the canary. Without progress for progressDeadlineSeconds,
Progressing is False; nothing else follows from that, as with Deployments. No deadline holds while canaries serve and
their step lasts.
"""

from dataclasses import dataclass

import msgspec

from modelplane.api.conditions import Condition, ConditionType, fails, holds, unknown
from modelplane.api.models import CanaryProgress, ModelDeployment, StatusRollout, TemplateRevision
from modelplane.api.reasons import Reason
from modelplane.api.timestamps import epoch_s, timestamp
from modelplane.compose.canary import CanaryState
from modelplane.compose.canary_analysis import Verdict
from modelplane.compose.rolling_update import Rollout

_NO_CANARY = CanaryState()
_MAX_MESSAGE, _MAX_WORDS = 1024, 512


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
    leaving: bool,
    canary: CanaryState = _NO_CANARY,
) -> RolloutProgress:
    """`leaving`: whether replicas that are being replaced are still there."""
    status = _status(deployment, newest, rollout, now, leaving=leaving, canary=canary)
    message = _message(deployment, status)
    kind = ConditionType.PROGRESSING
    if canary.halt is not None:
        return RolloutProgress(status, fails(kind, Reason.ROLLOUT_HALTED, _halted(deployment, status, rollout)))
    if deployment.spec.rollout.paused:
        return RolloutProgress(status, unknown(kind, Reason.ROLLOUT_PAUSED, f"{message}; changes of the pods wait"))
    if status.complete:
        return RolloutProgress(status, holds(kind, Reason.ROLLOUT_COMPLETE, message))
    left_s = None if canary.serving else _left_s(deployment, status, now)
    if left_s is not None and left_s <= 0:
        given = deployment.spec.rollout.progress_deadline_seconds
        return RolloutProgress(
            status, fails(kind, Reason.PROGRESS_DEADLINE_EXCEEDED, f"no progress for {given} s; {message}")
        )
    if canary.promoted:
        return RolloutProgress(status, holds(kind, Reason.ROLLING_OUT, message), left_s)
    waits = [wait for wait in (left_s, canary.left_s) if wait is not None]
    detail = f"{message}; {canary_words(canary, now)}"
    return RolloutProgress(status, holds(kind, Reason.CANARY_BAKING, detail[:_MAX_MESSAGE]), min(waits, default=None))


def canary_words(canary: CanaryState, now: float) -> str:
    """The step, since when, what was measured, what happens next and when."""
    parts = [] if canary.finding is None else [canary.finding.message]
    if not canary.step:
        return "; ".join([f"{canary.baked} of {canary.limit} canaries have served for long enough", *parts])
    since = "" if canary.since is None else f" since {timestamp(canary.since)}"
    head = f"step {canary.step} of {canary.steps}: {canary.weight} % of requests{since}"
    follows = "all replicas" if canary.step == canary.steps else f"step {canary.step + 1}"
    return "; ".join([head, *parts, f"next: {follows} {_when(canary, now)}"])


def _when(canary: CanaryState, now: float) -> str:
    if not canary.serving:
        return "after its canaries serve"
    if canary.finding is not None and canary.finding.verdict is Verdict.NOT_MEASURED:
        return "when it is promoted, since it is not measured"
    if canary.left_s is not None and now:
        return f"at {timestamp(now + canary.left_s)}"
    if canary.finding is not None and (canary.limit is None or canary.baked >= canary.limit):
        return "when the analysis passes"
    return "when it is promoted"


def _canary_status(canary: CanaryState, now: float) -> CanaryProgress | None:
    if canary.promoted or canary.halt is not None:
        return None
    left = canary.left_s if canary.serving and now else None
    return CanaryProgress(
        step=max(1, canary.step),
        steps=max(1, canary.steps),
        weight=canary.weight,
        since=timestamp(canary.since) if canary.since is not None else None,
        next_at=timestamp(now + left) if left is not None else None,
        analysis=canary.finding.verdict.value if canary.finding is not None else None,
        message=canary_words(canary, now)[:_MAX_WORDS],
    )


def _halted(deployment: ModelDeployment, status: StatusRollout, rollout: Rollout) -> str:
    why = status.halted.message if status.halted is not None else ""
    back = f"{rollout.ready} of {deployment.spec.replicas} replicas serve the revision before"
    return f"revision {status.revision}: {why}; {back}"[:_MAX_MESSAGE]


def _status(
    deployment: ModelDeployment,
    newest: TemplateRevision,
    rollout: Rollout,
    now: float,
    *,
    leaving: bool,
    canary: CanaryState,
) -> StatusRollout:
    before = deployment.status.rollout or StatusRollout()
    same = before.hash_ == newest.hash_ and before.revision == newest.revision
    progress = _canary_status(canary, now)
    status = StatusRollout(
        revision=newest.revision,
        hash_=newest.hash_,
        updated_replicas=rollout.updated if canary.halt is None else 0,
        ready_replicas=rollout.ready if canary.halt is None else 0,
        promoted=canary.promoted,
        stable=(newest.hash_ if canary.promoted else canary.stable) or None,
        canary=progress,
        halted=canary.halt,
    )
    if canary.halt is not None:
        return msgspec.structs.replace(status, last_progress_time=before.last_progress_time)
    done = not leaving and rollout.ready >= deployment.spec.replicas and rollout.updated == len(rollout.replicas)
    stood = same and _numbers(before) == _numbers(status)
    return msgspec.structs.replace(
        status,
        complete=done or bool(same and before.complete),
        last_progress_time=before.last_progress_time if stood or not now else timestamp(now),
    )


def _numbers(status: StatusRollout) -> tuple[int | None, int | None, int | None]:
    step = status.canary.step if status.canary is not None else None
    return status.updated_replicas, status.ready_replicas, step


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
