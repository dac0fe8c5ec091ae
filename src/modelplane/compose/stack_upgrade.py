"""When a change of the software reaches a cluster: upgrades in waves.

A change is another table of a newer Modelplane, or an edit of the cluster that its software depends on. Clusters with
`spec.software.upgrade` take it in turns. Each decides for itself, from the InferenceClusters that it reads:

- A wave starts when every cluster of the earlier waves is up to date by the same table and healthy, and after a pause.
- In a wave the clusters go by name, `maxUnavailable` at a time. The order does not depend on who decides first, so two
  clusters that decide at once do not both take the last place.
- An upgrade that is not healthy within its deadline has failed. It stops all that wait, until `resume` of the failed
  cluster names the release.

A cluster says by which table it decided (`status.software.release`): one that has not seen the newest table yet is not
up to date, and neither is one that says nothing yet. Clusters that are paused, and those whose first installation is
not done, are not waited for.

What is installed stays while a change waits. This module decides when, and `stack` what.
"""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace

import msgspec

from modelplane.api.codec import decode
from modelplane.api.conditions import ConditionStatus, ConditionType
from modelplane.api.errors import InputError
from modelplane.api.models import InferenceCluster, StatusSoftware, Upgrade
from modelplane.api.objects import Manifest, name_of
from modelplane.api.timestamps import epoch_s, timestamp

_SETTLED_S = 10.0
"""A provider needs a moment to see a change; what was ready before may still be shown as ready."""
_REQUEUE_S = 15.0
_MAX_MESSAGE = 1024
_SHOWN = 5
_PAUSED = "spec.software.paused keeps what is installed"
_EARLIER = "earlier"
"""Of a cluster whose software was complete before its revision was written down."""
_UNDER_WAY = frozenset({"Upgrading", "Failed"})


@dataclass(frozen=True, slots=True)
class SoftwareChange:
    """What a cluster should have, and how far it is."""

    release: str
    """The table."""
    revision: str | None
    """Of what the table, the overrides and the features of the cluster come to. None: an input is not read."""
    late: tuple[str, ...]
    """Components that are not ready."""
    fault: str | None
    """Why it cannot be installed on this cluster."""
    installed: bool
    """Whether every component is ready, in whichever version."""


@dataclass(frozen=True, slots=True)
class UpgradePlan:
    status: StatusSoftware
    held: bool = False
    """Whether what is installed stays as it is."""
    reads_fleet: bool = False
    """Whether the other InferenceClusters are an input."""
    requeue_after_s: float | None = None


@dataclass(frozen=True, slots=True)
class _Turn:
    """Why a cluster waits; empty where it is its turn."""

    message: str = ""
    wait_s: float = _REQUEUE_S


def plan_upgrade(
    cluster: InferenceCluster, change: SoftwareChange, fleet: Iterable[Manifest] | None, now: float
) -> UpgradePlan:
    """`fleet` has all InferenceClusters; None where they are not read."""
    known = cluster.status.software or StatusSoftware()
    if change.revision is None:
        return UpgradePlan(known, held=known.revision is not None)
    if known.revision is None and change.installed and change.late:
        known = msgspec.structs.replace(known, revision=_EARLIER)
    if known.revision is None:
        return _first_installation(cluster, change)
    if known.revision == change.revision:
        return _applied(cluster, known, change, now)
    return _pending(cluster, known, change, fleet, now)


def _first_installation(cluster: InferenceCluster, change: SoftwareChange) -> UpgradePlan:
    if change.late and cluster.spec.software is not None and cluster.spec.software.paused:
        return _held(StatusSoftware(), change, "Paused", _PAUSED)
    if change.late:
        return UpgradePlan(StatusSoftware(release=change.release, phase="Installing", message=change.fault))
    return UpgradePlan(StatusSoftware(release=change.release, revision=change.revision, phase="UpToDate"))


def _applied(cluster: InferenceCluster, known: StatusSoftware, change: SoftwareChange, now: float) -> UpgradePlan:
    status = msgspec.structs.replace(known, release=change.release, message=None)
    if known.phase not in _UNDER_WAY:
        return UpgradePlan(msgspec.structs.replace(status, phase="UpToDate"))
    upgrade = cluster.spec.software.upgrade if cluster.spec.software is not None else None
    began = epoch_s(known.start_time) or now
    resumed = upgrade is not None and upgrade.resume == change.release
    done = not change.late and now - began >= _SETTLED_S
    if done and (known.phase == "Upgrading" or resumed):
        return UpgradePlan(msgspec.structs.replace(status, phase="UpToDate", completion_time=timestamp(now)))
    deadline_s = (upgrade or Upgrade()).deadline_seconds
    if known.phase == "Failed" or now - began > deadline_s:
        why = _failure(change, deadline_s, resumed=resumed)
        return UpgradePlan(msgspec.structs.replace(status, phase="Failed", message=why), requeue_after_s=_REQUEUE_S)
    message = f"not ready: {', '.join(change.late)}"[:_MAX_MESSAGE] if change.late else None
    return UpgradePlan(msgspec.structs.replace(status, message=message), requeue_after_s=_REQUEUE_S)


def _failure(change: SoftwareChange, deadline_s: int, *, resumed: bool) -> str:
    late = f"not ready: {', '.join(change.late)}" if change.late else "everything is ready by now"
    others = "others go on" if resumed else f"others wait until spec.software.upgrade.resume is {change.release}"
    return f"not healthy {deadline_s} s after its upgrade began; {late}; {others}"[:_MAX_MESSAGE]


def _pending(
    cluster: InferenceCluster,
    known: StatusSoftware,
    change: SoftwareChange,
    fleet: Iterable[Manifest] | None,
    now: float,
) -> UpgradePlan:
    software = cluster.spec.software
    if software is not None and software.paused:
        return _held(known, change, "Paused", _PAUSED)
    if change.fault is not None:
        return _held(known, change, "Incompatible", change.fault)
    upgrade = software.upgrade if software is not None else None
    if upgrade is None or known.phase in _UNDER_WAY:
        return _started(change, now)
    if fleet is None:
        return replace(_held(known, change, "Waiting", "the other clusters are not read yet"), reads_fleet=True)
    turn = _turn(cluster, upgrade, change.release, tuple(_others(cluster, fleet)), now)
    if turn.message:
        waiting = _held(known, change, "Waiting", turn.message)
        return replace(waiting, reads_fleet=True, requeue_after_s=turn.wait_s)
    return replace(_started(change, now), reads_fleet=True)


def _held(known: StatusSoftware, change: SoftwareChange, phase: str, message: str) -> UpgradePlan:
    changes = {"release": change.release, "phase": phase, "message": message[:_MAX_MESSAGE]}
    return UpgradePlan(msgspec.structs.replace(known, **changes), held=True)


def _started(change: SoftwareChange, now: float) -> UpgradePlan:
    status = StatusSoftware(
        release=change.release, revision=change.revision, phase="Upgrading", start_time=timestamp(now) if now else None
    )
    return UpgradePlan(status, requeue_after_s=_REQUEUE_S)


def _others(cluster: InferenceCluster, fleet: Iterable[Manifest]) -> Iterator["_Other"]:
    for item in fleet:
        if name_of(item) == cluster.metadata.name:
            continue
        with suppress(InputError):
            found = decode(InferenceCluster, item)
            software, status = found.spec.software, found.status.software
            if software is None or software.upgrade is None or software.paused or not is_managed(found):
                continue
            if status is None or status.revision is not None:
                yield _Other(found.metadata.name, software.upgrade, status or StatusSoftware(), _is_healthy(found))


def is_managed(cluster: InferenceCluster) -> bool:
    """Whether Modelplane installs the software."""
    existing = cluster.spec.cluster.existing
    return cluster.spec.cluster.source != "Existing" or (existing is not None and existing.components == "Managed")


@dataclass(frozen=True, slots=True)
class _Other:
    name: str
    upgrade: Upgrade
    software: StatusSoftware
    healthy: bool

    def failed(self, release: str) -> bool:
        return self.software.phase == "Failed" and not self.is_ignored(release)

    def is_ignored(self, release: str) -> bool:
        return self.software.phase == "Failed" and self.upgrade.resume == release

    def is_done(self, release: str) -> bool:
        return self.is_ignored(release) or (self.software.release == release and self.software.phase == "UpToDate")


def _is_healthy(cluster: InferenceCluster) -> bool:
    wanted = {ConditionType.REQUIREMENTS_MET, ConditionType.READY}
    return all(found.status is ConditionStatus.TRUE for found in cluster.status.conditions if found.type in wanted)


def _turn(cluster: InferenceCluster, upgrade: Upgrade, release: str, others: tuple[_Other, ...], now: float) -> _Turn:
    failed = [other.name for other in others if other.failed(release)]
    if failed:
        return _Turn(
            f"stopped: the upgrade of {_names(failed)} failed; its spec.software.upgrade.resume has to be {release}"
        )
    before = [other for other in others if other.upgrade.wave <= upgrade.wave]
    sick = [other.name for other in before if other.is_done(release) and not other.healthy]
    if sick:
        return _Turn(f"waiting: {_names(sick)} {_be(sick)} upgraded and not healthy")
    earlier = [other for other in before if other.upgrade.wave < upgrade.wave]
    unfinished = [other.name for other in earlier if not other.is_done(release)]
    if unfinished:
        return _Turn(f"waiting for {_names(unfinished)} of earlier waves")
    return _after_pause(upgrade, earlier, now) or _in_wave(cluster, upgrade, release, before)


def _after_pause(upgrade: Upgrade, earlier: Iterable[_Other], now: float) -> _Turn | None:
    ends = [epoch_s(other.software.completion_time) or 0.0 for other in earlier]
    left = max(ends) + upgrade.pause_seconds - now if ends else 0.0
    if left <= 0.0:
        return None
    return _Turn(f"waiting until {timestamp(now + left)}: the pause after the earlier waves", wait_s=max(left, 1.0))


def _in_wave(cluster: InferenceCluster, upgrade: Upgrade, release: str, before: Iterable[_Other]) -> _Turn:
    """Those that have begun hold their places; the others are in the order of their names."""
    same = [other for other in before if other.upgrade.wave == upgrade.wave and not other.is_done(release)]
    ahead = [other.name for other in same if other.software.phase in _UNDER_WAY or other.name < cluster.metadata.name]
    if len(ahead) < upgrade.max_unavailable:
        return _Turn()
    return _Turn(f"waiting for {_names(ahead)} of its wave; maxUnavailable is {upgrade.max_unavailable}")


def _names(names: Iterable[str]) -> str:
    found = sorted(names)
    more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    return ", ".join(found[:_SHOWN]) + more


def _be(names: list[str]) -> str:
    return "is" if len(names) == 1 else "are"
