"""Changes of a deployment reach its replicas one at a time.

A replica has one set of pods and no room for a second, so a change takes it out of service until its weights are loaded
again. What is done with a replica that should change:

it does not serve              changed at once: nobody would notice
another one is being changed   left as it is, so that the others go on answering
otherwise                      changed, the first in the deployment's order

A replica is being changed from the moment it has another version until all its pods serve that. One that refuses the
change goes on as before and holds nothing up. One that cannot start with it holds the others back, and the next change
of the deployment reaches it at once. Replicas that are new start with the new version and hold nothing up either:
whether they find their devices says nothing of the version.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter

import msgspec

from modelplane.api.conditions import ConditionStatus, ConditionType
from modelplane.api.models import ModelReplica
from modelplane.api.objects import Manifest
from modelplane.compose.readiness import serves

_VERSIONED = ("priority", "serving", "tolerations", "caches", "engines")
"""What the pods of a replica are made from. The rest of a replica can change without them."""
_version = attrgetter(*_VERSIONED)


@dataclass(frozen=True, slots=True)
class Rollout:
    replicas: tuple[ModelReplica, ...]
    """As they should be after this pass, in the order given."""
    updated: int
    """How many of them have the new version."""

    @property
    def message(self) -> str:
        """Empty when every replica has the new version."""
        total = len(self.replicas)
        if self.updated == total:
            return ""
        return f"{self.updated} of {total} replicas {'runs' if self.updated == 1 else 'run'} the new version"


@dataclass(frozen=True, slots=True)
class _Known:
    wanted: ModelReplica
    seen: ModelReplica | None
    serving: bool

    @property
    def outdated(self) -> bool:
        return self.seen is not None and bool(_version(self.seen.spec) != _version(self.wanted.spec))

    @property
    def changing(self) -> bool:
        """Whether it served before it was changed and does not serve the change yet."""
        if self.seen is None or self.seen.status.served_generation is None or _refuses(self.seen):
            return False
        return self.seen.status.served_generation < self.seen.metadata.generation


def roll(
    wanted: Sequence[ModelReplica], seen: Mapping[str, Manifest], decode: Callable[[Manifest], ModelReplica]
) -> Rollout:
    """Which of the replicas change in this pass. `seen` has the observed ones by name, which `decode` reads."""
    known = [_known(replica, seen.get(replica.metadata.name), decode) for replica in wanted]
    waiting = [item for item in known if item.outdated and item.serving and not item.changing]
    held = waiting if any(item.changing for item in known) else waiting[1:]
    names = {item.wanted.metadata.name for item in held}
    replicas = tuple(_as_it_runs(item) if item.wanted.metadata.name in names else item.wanted for item in known)
    return Rollout(replicas, len(known) - len(held))


def _known(wanted: ModelReplica, seen: Manifest | None, decode: Callable[[Manifest], ModelReplica]) -> _Known:
    if seen is None:
        return _Known(wanted, None, serving=False)
    return _Known(wanted, decode(seen), serves(seen))


def _as_it_runs(item: _Known) -> ModelReplica:
    """The replica with the pods that it has and whatever else is new."""
    if item.seen is None:
        return item.wanted
    running = dict(zip(_VERSIONED, _version(item.seen.spec), strict=True))
    return msgspec.structs.replace(item.wanted, spec=msgspec.structs.replace(item.wanted.spec, **running))


def _refuses(replica: ModelReplica) -> bool:
    return any(
        condition.type == ConditionType.ACCEPTED
        and condition.status is ConditionStatus.FALSE
        and condition.observed_generation == replica.metadata.generation
        for condition in replica.status.conditions
    )
