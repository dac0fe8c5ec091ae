"""A rolling update: a change of a deployment reaches its replicas one at a time.

In place, a replica has one set of pods and no capacity for a second, so an update takes it out of service until its
weights are loaded again. An outdated replica is

the rollout is paused          left unchanged
not serving                    updated at once
serving, with surge            left unchanged: a new replica is placed, and this one deleted when that serves
serving, another is updating   left unchanged; so it is while canaries have the version and are not promoted
serving otherwise              updated, the first in the deployment's order

A replica is updating from the moment that it has the new version until all its pods serve it, have done so for
minReadySeconds, and its endpoint is ready: until then no client reaches it. A replica that does not
accept the version keeps its pods and blocks nothing. One that cannot start with it blocks the others, and the next
change of the deployment reaches it at once. New replicas start with the new version and block nothing.

What a pod may request of its node (`nodeShare`) comes with the next change and is none itself.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter

import msgspec

from modelplane.api.conditions import ConditionStatus, ConditionType
from modelplane.api.labels import REVISION, TRACK
from modelplane.api.models import ModelReplica, ReplicaEngine, ReplicaMember
from modelplane.api.objects import Manifest
from modelplane.compose.readiness import serves, serving_since

_VERSIONED = ("priority", "serving", "tolerations", "caches", "warm_up", "engines")
"""Fields that the pods of a replica depend on. Other fields change without a restart."""
_version = attrgetter(*_VERSIONED)


@dataclass(frozen=True, slots=True)
class Rollout:
    replicas: tuple[ModelReplica, ...]
    """As desired after this pass, in the order given."""
    updated: int
    """How many of them have the new version."""
    ready: int
    """How many of those serve it with all their pods."""

    @property
    def message(self) -> str:
        """Empty when every replica has the new version."""
        total = len(self.replicas)
        if self.updated == total:
            return ""
        return f"{self.updated} of {total} replicas updated"


@dataclass(frozen=True, slots=True)
class RolloutRules:
    paused: bool = False
    surge: bool = False
    min_ready_s: float = 0.0
    now: float = 0.0
    """0: unknown, and nobody waits for minReadySeconds."""
    canary: int | None = None
    """How many replicas may have the new version; None: all."""
    stable: str = ""
    """The revision that goes last while there is a canary: replicas of an abandoned one are updated first."""
    unreached: frozenset[str] = frozenset()
    """Names of replicas whose endpoint is not ready."""


_IN_PLACE = RolloutRules()


@dataclass(frozen=True, slots=True)
class _Known:
    wanted: ModelReplica
    seen: ModelReplica | None
    serving: bool
    settling: bool
    """Whether it serves for less than minReadySeconds."""
    unreached: bool

    @property
    def outdated(self) -> bool:
        return self.seen is not None and bool(_version(self.seen.spec) != _version(self.wanted.spec))

    @property
    def updating(self) -> bool:
        """Whether it served before the update and does not serve the new version yet."""
        if self.seen is None or self.seen.status.served_generation is None or _rejects(self.seen):
            return False
        if self.unreached and not self.outdated:
            return True
        return self.settling or self.seen.status.served_generation < self.seen.metadata.generation

    @property
    def ready(self) -> bool:
        return self.serving and not self.outdated and not self.updating and not self.settling


def roll(
    wanted: Sequence[ModelReplica],
    seen: Mapping[str, Manifest],
    decode: Callable[[Manifest], ModelReplica],
    rules: RolloutRules = _IN_PLACE,
) -> Rollout:
    """Which of the replicas change in this pass. `seen` has the observed ones by name, which `decode` reads."""
    known = [_known(replica, seen.get(replica.metadata.name), decode, rules) for replica in wanted]
    held = _held(known, rules)
    names = {item.wanted.metadata.name for item in held}
    replicas = tuple(
        item.wanted
        if item.seen is None or item.wanted.metadata.name not in names
        else _as_it_runs(item.wanted, item.seen)
        for item in known
    )
    return Rollout(replicas, len(known) - len(held), sum(item.ready for item in known))


def _held(known: Sequence[_Known], rules: RolloutRules) -> Sequence[_Known]:
    """The outdated replicas that are left unchanged in this pass."""
    if rules.paused:
        return [item for item in known if item.outdated]
    waiting = [item for item in known if item.outdated and item.serving and not item.updating]
    allowed = 0 if rules.surge or any(item.updating for item in known) else 1
    if rules.canary is not None:
        waiting.sort(key=lambda item: _revision_of(item.seen) == rules.stable)
        allowed = min(allowed, max(0, rules.canary - sum(not item.outdated for item in known)))
    return waiting[allowed:]


def _revision_of(replica: ModelReplica | None) -> str:
    return "" if replica is None else replica.metadata.labels.get(REVISION, "")


def _known(
    wanted: ModelReplica, seen: Manifest | None, decode: Callable[[Manifest], ModelReplica], rules: RolloutRules
) -> _Known:
    item = seen or {}
    found, serving = decode(item) if item else None, serves(item)
    if found is not None:
        wanted = _with_shares_of(wanted, found)
    settling = serving and settling_s(item, rules.min_ready_s, rules.now) > 0
    return _Known(wanted, found, serving, settling, serving and wanted.metadata.name in rules.unreached)


def _with_shares_of(wanted: ModelReplica, seen: ModelReplica) -> ModelReplica:
    """With what placement alone decided of its pods, where nothing else differs: that rolls no pods."""
    if wanted.spec.engines == seen.spec.engines:
        return wanted
    kept = msgspec.structs.replace(wanted.spec, engines=seen.spec.engines)
    same = _version(kept) == _version(seen.spec)
    if not same or _without_shares(wanted.spec.engines) != _without_shares(seen.spec.engines):
        return wanted
    return msgspec.structs.replace(wanted, spec=kept)


def _without_shares(engines: tuple[ReplicaEngine, ...]) -> tuple[ReplicaEngine, ...]:
    def bare(member: ReplicaMember) -> ReplicaMember:
        return msgspec.structs.replace(member, node_share=None, root_requests=())

    return tuple(
        msgspec.structs.replace(engine, members=tuple(bare(each) for each in engine.members)) for engine in engines
    )


def settling_s(replica: Manifest, min_ready_s: float, now: float) -> float:
    """Seconds until a replica that serves has done so for `min_ready_s`; 0: it has, or the times are unknown."""
    since = serving_since(replica) if min_ready_s and now else None
    return 0.0 if since is None else max(0.0, since + min_ready_s - now)


def _as_it_runs(wanted: ModelReplica, seen: ModelReplica) -> ModelReplica:
    """The replica with the pods that it has and its other fields updated."""
    running = dict(zip(_VERSIONED, _version(seen.spec), strict=True))
    labels = {name: text for name, text in wanted.metadata.labels.items() if name not in {REVISION, TRACK}}
    if REVISION in seen.metadata.labels:
        labels[REVISION] = seen.metadata.labels[REVISION]
    return msgspec.structs.replace(
        wanted,
        metadata=msgspec.structs.replace(wanted.metadata, labels=labels),
        spec=msgspec.structs.replace(wanted.spec, **running),
    )


def _rejects(replica: ModelReplica) -> bool:
    return any(
        condition.type == ConditionType.ACCEPTED
        and condition.status is ConditionStatus.FALSE
        and condition.observed_generation == replica.metadata.generation
        for condition in replica.status.conditions
    )
