"""How many pods each revision of a Deployment should have next: the arithmetic of the Deployment controller.

A step is a function of sizes. Rolling: first grow the new revision up to the surge, else shrink old ones while enough
pods stay available, unhealthy ones first. A change of `replicas` in the middle of that is spread over the revisions in
proportion. Recreate: nothing new before everything old is gone.

Bounds, for `replicas` = n with surge s (percentages round up) and unavailable u (round down, 1 when both come to 0):
sizes never sum to more than n + s by growing, and shrinking never takes available pods below n - u.
"""

from collections.abc import Sequence
from dataclasses import dataclass

Sizes = dict[str, int]
"""New sizes by name; a revision that keeps its size is left out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Revision:
    """A ReplicaSet in numbers. `created` orders by age; the last two are what its annotations remember."""

    name: str
    created: str
    replicas: int
    available: int = 0
    actual: int = 0
    desired_then: int | None = None
    most_then: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutBounds:
    """What a Deployment asks for, its percentages resolved."""

    replicas: int
    surge: int
    unavailable: int
    recreate: bool = False

    @property
    def least_available(self) -> int:
        return self.replicas - self.unavailable

    @property
    def most(self) -> int:
        return self.replicas + self.surge


def bounds(replicas: int, surge: object, unavailable: object) -> RolloutBounds:
    """Bounds of a rolling update, from numbers or percentages."""
    most_surge = scaled(surge, replicas, up=True)
    most_unavailable = scaled(unavailable, replicas, up=False)
    if most_surge == 0 and most_unavailable == 0:
        most_unavailable = 1
    return RolloutBounds(replicas=replicas, surge=most_surge, unavailable=min(most_unavailable, replicas))


def recreate_bounds(replicas: int) -> RolloutBounds:
    return RolloutBounds(replicas=replicas, surge=0, unavailable=0, recreate=True)


def scaled(value: object, total: int, *, up: bool) -> int:
    """A number, or that share of the total; what is neither is 0."""
    if isinstance(value, str) and value.endswith("%") and value[:-1].isdigit():
        product = int(value[:-1]) * total
        return -(-product // 100) if up else product // 100
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def first_size(wanted: RolloutBounds, old: Sequence[Revision]) -> int:
    """The size that a new revision starts with."""
    if wanted.recreate:
        return wanted.replicas
    return max(0, min(wanted.replicas, wanted.most - sum(revision.replicas for revision in old)))


def is_scaling(wanted: RolloutBounds, revisions: Sequence[Revision]) -> bool:
    """Whether `replicas` changed since an active revision was last sized."""
    return any(
        revision.replicas > 0 and revision.desired_then is not None and revision.desired_then != wanted.replicas
        for revision in revisions
    )


def roll(wanted: RolloutBounds, new: Revision, old: Sequence[Revision]) -> Sizes:
    """The next step of a rolling update."""
    grown = _grow(wanted, new, old)
    return grown or _shrink(wanted, new, old)


def _grow(wanted: RolloutBounds, new: Revision, old: Sequence[Revision]) -> Sizes:
    if new.replicas > wanted.replicas:
        return {new.name: wanted.replicas}
    room = wanted.most - new.replicas - sum(revision.replicas for revision in old)
    added = min(room, wanted.replicas - new.replicas)
    return {new.name: new.replicas + added} if added > 0 else {}


def _shrink(wanted: RolloutBounds, new: Revision, old: Sequence[Revision]) -> Sizes:
    total = new.replicas + sum(revision.replicas for revision in old)
    spare = total - wanted.least_available - (new.replicas - new.available)
    sizes = {revision.name: revision.replicas for revision in old if revision.replicas > 0}
    oldest_first = sorted((revision for revision in old if revision.replicas > 0), key=lambda r: (r.created, r.name))
    if spare <= 0:
        return {}
    for revision in oldest_first:
        unhealthy = max(0, min(spare, revision.replicas - revision.available))
        sizes[revision.name] -= unhealthy
        spare -= unhealthy
    takeable = new.available + sum(revision.available for revision in old) - wanted.least_available
    for revision in oldest_first:
        taken = max(0, min(takeable, sizes[revision.name]))
        sizes[revision.name] -= taken
        takeable -= taken
    return {
        revision.name: sizes[revision.name] for revision in oldest_first if sizes[revision.name] < revision.replicas
    }


def rescale(wanted: RolloutBounds, new: Revision | None, old: Sequence[Revision], total_seen: int = 0) -> Sizes:
    """The step after `replicas` changed. `total_seen` is the Deployment's own count of pods."""
    revisions = [*old, *([new] if new is not None else [])]
    active = [revision for revision in revisions if revision.replicas > 0]
    if len(active) <= 1:
        target = active[0] if active else new or max(old, key=lambda r: (r.created, r.name), default=None)
        return {target.name: wanted.replicas} if target is not None and target.replicas != wanted.replicas else {}
    if new is not None and new.replicas == new.available == new.desired_then == wanted.replicas:
        return {revision.name: 0 for revision in active if revision is not new}
    return {} if wanted.recreate else _in_proportion(wanted, active, total_seen)


def _in_proportion(wanted: RolloutBounds, active: Sequence[Revision], total_seen: int) -> Sizes:
    allowed = wanted.most if wanted.replicas > 0 else 0
    to_add = allowed - sum(revision.replicas for revision in active)
    if to_add == 0:
        return {}
    by_age = sorted(active, key=lambda r: (r.created, r.name), reverse=to_add > 0)
    largest_first = sorted(by_age, key=lambda r: -r.replicas)
    sizes: Sizes = {}
    added = 0
    for revision in largest_first:
        share = _share(wanted, revision, to_add - added, total_seen)
        sizes[revision.name] = revision.replicas + share
        added += share
    first = largest_first[0].name
    sizes[first] = max(0, sizes[first] + to_add - added)
    return sizes


def _share(wanted: RolloutBounds, revision: Revision, left: int, total_seen: int) -> int:
    if left == 0:
        return 0
    if wanted.replicas == 0:
        fraction = -revision.replicas
    else:
        before = revision.most_then or total_seen
        if before == 0:
            return 0
        fraction = _rounded(revision.replicas * wanted.most, before) - revision.replicas
    return min(fraction, left) if left > 0 else max(fraction, left)


def _rounded(numerator: int, denominator: int) -> int:
    """Halves go up, as in the real controller."""
    return (2 * numerator + denominator) // (2 * denominator)


def recreate(wanted: RolloutBounds, new: Revision, old: Sequence[Revision], *, old_pods: int) -> Sizes:
    """The next step of a Recreate: the new revision grows only when no pod of an old one is left."""
    shrunk = {revision.name: 0 for revision in old if revision.replicas > 0}
    if shrunk or old_pods:
        return shrunk
    return {new.name: wanted.replicas} if new.replicas != wanted.replicas else {}
