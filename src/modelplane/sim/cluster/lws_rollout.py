"""How many groups a LeaderWorkerSet should have next, and which of them may be of the newest revision: its arithmetic.

Groups are numbered, and replaced from the highest number down: those below the partition keep their revision. With a
surge, groups beyond `replicas` are added first and given back as those within it become ready. The partition only ever
falls during one update, and never so far that more than maxUnavailable groups would be missing.
"""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LwsGroup:
    """One group, in what decides about an update."""

    ready: bool = False
    updated: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What the LeaderWorkerSet asks for, its percentages resolved."""

    replicas: int
    surge: int = 0
    unavailable: int = 1
    partition: int = 0

    @property
    def most(self) -> int:
        return self.replicas + min(self.surge, self.replicas)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizing:
    """The set of leaders as it is or should be. `sized_for` is the number of replicas that it was last sized for."""

    replicas: int
    partition: int
    sized_for: int


def next_sizing(wanted: Wanted, known: Sizing | None, groups: Sequence[LwsGroup], *, changed: bool) -> Sizing:
    """`changed` says that the template is another than the one that the leaders were made from."""
    partition, replicas = _next(wanted, known, groups, changed=changed)
    return Sizing(replicas=replicas, partition=max(partition, wanted.partition), sized_for=wanted.replicas)


def _next(wanted: Wanted, known: Sizing | None, groups: Sequence[LwsGroup], *, changed: bool) -> tuple[int, int]:
    if known is None:
        return 0, wanted.replicas
    grows = known.replicas < wanted.replicas
    if changed:
        partition = min(wanted.replicas, known.replicas)
        return partition, wanted.replicas if grows else _with_surge(wanted, wanted.replicas)
    if grows or (known.partition == 0 and known.replicas == wanted.replicas):
        return known.partition, wanted.replicas
    lacking = wanted.replicas - sum(group.ready and group.updated for group in groups[: wanted.replicas])
    if known.sized_for != wanted.replicas:
        return min(known.partition, wanted.most), _with_surge(wanted, lacking)
    step = wanted.unavailable + known.replicas - wanted.replicas
    return min(_partition(groups, step), known.partition), _with_surge(wanted, lacking)


def _with_surge(wanted: Wanted, lacking: int) -> int:
    """The surge is kept as long as it makes up for groups that are missing beyond maxUnavailable."""
    if lacking > wanted.most - wanted.replicas:
        return wanted.most
    return wanted.replicas + max(0, lacking - wanted.unavailable)


def _partition(groups: Sequence[LwsGroup], step: int) -> int:
    done = 0
    for group in reversed(groups):
        if not (group.ready and group.updated):
            break
        done += 1
    lowest = max(0, len(groups) - done - step)
    partition = lowest + sum(not group.ready for group in groups[:lowest])
    for number in range(min(partition, len(groups) - 1), lowest - 1, -1):
        if groups[number].ready and not groups[number].updated:
            break
        partition = number
    return partition
