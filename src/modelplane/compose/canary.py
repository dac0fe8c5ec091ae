"""A canary: a few replicas get a new revision first, and the others follow when those have served it well enough.

    no replica has another revision      nothing waits; so it is for the revision that was promoted last
    a limit is exceeded, or aborted      halted: see `rollout_halts`
    the last step is over                promoted: the update goes on, and stays promoted
    otherwise                            the step's share of replicas gets the revision, and its share of requests

A step is over when its canaries have served for its pause without a break and the analysis passes, or when a user
promotes it. Nothing is promoted by itself that is not measured. Without steps there is one, of `bakeSeconds`, in which
all endpoints share requests equally. While it lasts, canaries and their endpoints have the label modelplane.ai/track.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from modelplane.api.labels import ABORT, PROMOTE, REVISION
from modelplane.api.models import CanarySettings, CanaryStep, ModelDeployment, RolloutHalt
from modelplane.api.objects import Manifest, is_deleting, labels_of
from modelplane.api.timestamps import epoch_s, timestamp
from modelplane.compose.canary_analysis import CanaryFinding, Verdict, canary_figures, judge, stable_figures
from modelplane.compose.contract import ComposeRequest
from modelplane.compose.observed_replicas import ENDPOINT_PREFIX, REPLICA_PREFIX
from modelplane.compose.readiness import serving_since
from modelplane.compose.rollout_halts import halt_of

_ALL = "all"
_PERCENT = 100
_NEXT_STEP_S = 1.0


@dataclass(frozen=True, slots=True)
class CanaryState:
    promoted: bool = True
    limit: int | None = None
    """How many replicas may have the new revision; None: all."""
    baked: int = 0
    """Canaries that have served for long enough."""
    left_s: float | None = None
    """Until the next canary has served for long enough; None where none serves."""
    stable: str = ""
    """Hash of the revision that was promoted last; empty where it is unknown."""
    step: int = 0
    """From 1; 0 without steps."""
    steps: int = 0
    weight: int | None = None
    """Percentage of the requests; None: endpoints share them equally."""
    since: float | None = None
    """When the step began."""
    serving: bool = False
    """Whether all canaries of the step serve, so that only time or traffic is missing."""
    finding: CanaryFinding | None = None
    halt: RolloutHalt | None = None

    def endpoint_weight(self, revision: str, newest: str) -> int | None:
        """The percentage for endpoints of a revision; None where it shares requests as others do."""
        if self.promoted or revision == self.stable:
            return None
        if self.halt is not None:
            return 0
        if self.weight is None:
            return None
        return self.weight if revision == newest else 0


def canary_state(request: ComposeRequest[ModelDeployment], revision: str) -> CanaryState:
    """Of the revision with this hash."""
    given, before = request.resource.spec.rollout.canary, request.resource.status.rollout
    stable = stable_hash(request, revision)
    halt = halt_of(request.resource, revision)
    if halt is not None:
        return CanaryState(promoted=False, limit=0, stable=stable, weight=0, halt=halt)
    stands = before is not None and before.hash_ == revision and bool(before.promoted)
    if given is None or stands or revision == stable or not outdated_count(request, revision):
        return CanaryState(stable=stable)
    found = _at_step(request, given, revision, stable)
    message = _why_halt(request, revision, found)
    if message is None:
        return _after(request, given, revision, found)
    stopped = "" if found.weight is None else f"; stopped at {found.weight} %"
    at = timestamp(request.now) if request.now else None
    made = RolloutHalt(at=at, weight=found.weight, message=f"{message}{stopped}"[:512])
    return replace(found, limit=0, weight=0, halt=made)


def _why_halt(request: ComposeRequest[ModelDeployment], revision: str, found: CanaryState) -> str | None:
    if request.resource.metadata.annotations.get(ABORT) == revision:
        return "aborted by a user"
    finding = found.finding
    return finding.message if finding is not None and finding.verdict is Verdict.FAILING else None


def steps_of(given: CanarySettings) -> Sequence[CanaryStep | None]:
    """None: the one step of a canary without any."""
    return given.steps or (None,)


def _at_step(
    request: ComposeRequest[ModelDeployment], given: CanarySettings, revision: str, stable: str
) -> CanaryState:
    """The state within the step that the status has, whatever follows from it."""
    steps = steps_of(given)
    known = request.resource.status.rollout
    before = known.canary if known is not None and known.hash_ == revision else None
    number = min((before.step if before is not None else None) or 1, len(steps))
    since = (epoch_s(before.since) if before is not None else None) or request.now or None
    step = steps[number - 1]
    limit = _limit(request, given, step)
    enough = min(limit, request.resource.spec.replicas)
    starts = [at for item in _of_revision(request, revision) if (at := serving_since(item)) is not None]
    begins = [at if step is None else max(at, since or at) for at in starts]
    pause = given.bake_seconds if step is None else step.pause_seconds
    left = sorted(max(0.0, at + pause - request.now) for at in begins) if pause is not None else []
    baked = left.count(0.0) if request.now else 0
    waits = [wait for wait in left if wait]
    return CanaryState(
        promoted=False,
        limit=limit,
        baked=baked,
        left_s=min(waits, default=None),
        stable=stable,
        step=number if step is not None else 0,
        steps=len(given.steps),
        weight=step.weight if step is not None else None,
        since=since if step is not None else None,
        serving=len(starts) >= enough,
        finding=_finding(request, given, revision, begins, pause),
    )


def _limit(request: ComposeRequest[ModelDeployment], given: CanarySettings, step: CanaryStep | None) -> int:
    """At least the step's share of the replicas, and never all: requests are divided with the stable revision."""
    if step is None:
        return given.replicas
    replicas = request.resource.spec.replicas
    share = -(-replicas * step.weight // _PERCENT)
    return max(1, min(max(given.replicas, share), replicas - 1))


def _finding(
    request: ComposeRequest[ModelDeployment],
    given: CanarySettings,
    revision: str,
    begins: Sequence[float],
    pause: int | None,
) -> CanaryFinding | None:
    """What the analysis says. A pass is one of this step: its window lies in the step, or in its pause."""
    if given.analysis is None:
        return None
    endpoints = [
        seen.manifest
        for key, seen in request.observed.items()
        if key.startswith(ENDPOINT_PREFIX) and not is_deleting(seen.manifest)
    ]
    canaries = [item for item in endpoints if labels_of(item).get(REVISION) == revision]
    others = [item for item in endpoints if labels_of(item).get(REVISION) != revision]
    settled = max(begins, default=request.now) + min(given.analysis.window_seconds, pause or 0)
    figures = canary_figures(canaries, request.now), stable_figures(others, request.now)
    return judge(given.analysis, *figures, settled)


def _after(
    request: ComposeRequest[ModelDeployment], given: CanarySettings, revision: str, found: CanaryState
) -> CanaryState:
    """The state after the step where that is over."""
    promoted = _promoted_step(request, revision)
    number = max(found.step, 1)
    if promoted < number and not _is_over(request, found):
        return found
    if promoted > len(given.steps) or number >= len(steps_of(given)):
        return CanaryState(baked=found.baked, stable=found.stable)
    step = given.steps[number]
    return replace(
        found,
        step=number + 1,
        limit=_limit(request, given, step),
        weight=step.weight,
        baked=0,
        since=request.now or None,
        serving=False,
        left_s=_NEXT_STEP_S,
        finding=None if found.finding is None else replace(found.finding, verdict=Verdict.MEASURING),
    )


def _is_over(request: ComposeRequest[ModelDeployment], found: CanaryState) -> bool:
    passes = found.finding is None or found.finding.verdict is Verdict.PASSING
    return passes and (found.limit is None or found.baked >= min(found.limit, request.resource.spec.replicas))


def _promoted_step(request: ComposeRequest[ModelDeployment], revision: str) -> int:
    """The step up to which a user promoted the revision; 0: none."""
    named, _, step = request.resource.metadata.annotations.get(PROMOTE, "").partition("/")
    if named != revision:
        return 0
    return _PERCENT if step == _ALL else int(step) if step.isascii() and step.isdecimal() else 0


def stable_hash(request: ComposeRequest[ModelDeployment], revision: str) -> str:
    """The revision that was promoted last; where the status does not say, the one that most other replicas have."""
    known = request.resource.status.rollout
    if known is not None and known.stable:
        return known.stable
    found = Counter(labels_of(item).get(REVISION, "") for item in _replicas(request))
    found.pop(revision, None)
    return max(found, key=lambda each: (found[each], each), default="")


def outdated_count(request: ComposeRequest[ModelDeployment], revision: str) -> int:
    return sum(labels_of(item).get(REVISION) != revision for item in _replicas(request))


def _of_revision(request: ComposeRequest[ModelDeployment], revision: str) -> list[Manifest]:
    return [item for item in _replicas(request) if labels_of(item).get(REVISION) == revision]


def _replicas(request: ComposeRequest[ModelDeployment]) -> Iterator[Manifest]:
    for key, seen in request.observed.items():
        if key.startswith(REPLICA_PREFIX) and not is_deleting(seen.manifest):
            yield seen.manifest
