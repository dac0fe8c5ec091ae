"""Rebalance: serving replicas move to better places, where the deployment asks for it. Nothing is interrupted.

One replica moves at a time. Its successor is placed first, beside it, and it leaves when the successor serves. Nothing
moves while a replica does not serve, waits, moves or leaves, or while the youngest is younger than the interval: that
is the rate limit, and it needs no memory. Neither does a move under way: a replica too many whose place is better than
that of another says that the other moves.

Tier     the place is in an earlier tier
Spread   the place's cluster has at least two replicas less, in the same tier
Cost     the place is cheaper by the stated share, in the same tier, and the spread does not get worse

Each move makes the tiers, then the spread, then the cost better, and none of the former worse, so moves come to an end.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec

from modelplane.api.meta import ClusterName
from modelplane.api.timestamps import epoch_s
from modelplane.placement.candidate_queue import CandidateQueue
from modelplane.placement.cluster_info import charges
from modelplane.placement.cycle import SchedulingCycle
from modelplane.placement.index import Place
from modelplane.placement.offers import PlacementOption, pods_price
from modelplane.placement.request import RebalancePolicy
from modelplane.placement.review import ReplicaReview
from modelplane.placement.tiers import tier_of
from modelplane.placement.values import PlacedReplica

_ROUNDING = 1e-9
_MIN_GAIN = 2
"""Replicas that a cluster must have more than another for one to move."""


class _Spot(msgspec.Struct, frozen=True):
    """What counts of a place."""

    cluster: ClusterName
    tier: int
    price: tuple[float, str] | None


class BetterPlace(NamedTuple):
    replica: PlacedReplica
    """Who moves."""
    why: str
    offer: PlacementOption
    place: Place


def resume(state: SchedulingCycle, found: ReplicaReview) -> None:
    """Marks the replica that moves where its successor is there already."""
    policy, wanted = state.request.rebalance, state.request.replicas
    if policy is None or len(found.kept) != wanted + 1 or found.moving:
        return
    successor = max(found.kept, key=lambda replica: (not replica.serving, *_age(replica)))
    others = [replica for replica in found.kept if replica is not successor]
    if not all(replica.serving for replica in others):
        return
    spot = _spot(state, successor)
    better = _mover(state, policy, spot, others) if spot is not None else None
    if better is not None:
        found.kept.remove(better[0])
        found.moving.append(better)


def find_better_place(state: SchedulingCycle, found: ReplicaReview, queue: CandidateQueue) -> BetterPlace | None:
    """The next move. The queue has the fleet as it is, with every replica in its place."""
    policy = state.request.rebalance
    if policy is None or not _is_calm(state, found, policy):
        return None
    for offer, place in queue.options():
        tier = tier_of(state.request, offer.view.sample.labels)
        if tier is None:
            continue
        better = _mover(state, policy, _Spot(place[0], tier, offer.price), found.kept)
        if better is not None:
            return BetterPlace(*better, offer, place)
    found.requeue_at = min(found.requeue_at, state.now + policy.interval_s)
    return None


def _is_calm(state: SchedulingCycle, found: ReplicaReview, policy: RebalancePolicy) -> bool:
    """Whether all replicas serve and none is young."""
    busy = found.moving or found.leaving or found.dropped or not all(replica.serving for replica in found.kept)
    if busy or len(found.kept) != state.request.replicas or not found.kept:
        return False
    ages = [epoch_s(replica.created or None) for replica in found.kept]
    since = max((moment if moment is not None else state.now for moment in ages), default=state.now)
    if since + policy.interval_s > state.now:
        found.requeue_at = min(found.requeue_at, since + policy.interval_s)
        return False
    return True


def _mover(
    state: SchedulingCycle, policy: RebalancePolicy, spot: _Spot, replicas: Sequence[PlacedReplica]
) -> tuple[PlacedReplica, str] | None:
    """Who of some replicas moves to a place, and why."""
    load: dict[ClusterName, int] = {}
    for replica in replicas:
        load[replica.cluster] = load.get(replica.cluster, 0) + 1
    placed = [(replica, found) for replica in replicas if (found := _spot(state, replica)) is not None]
    candidates = [
        *(_later_tier(spot, placed, load) if policy.tier else ()),
        *(_fuller_cluster(spot, placed, load) if policy.spread else ()),
        *(_dearer(spot, placed, load, policy) if policy.cost else ()),
    ]
    if not candidates:
        return None
    _, replica, why = max(candidates, key=lambda found: (found[0], found[1].id))
    return replica, why


_Gain = tuple[float, ...]
_Placed = Sequence[tuple[PlacedReplica, _Spot]]
_Movers = Iterator[tuple[_Gain, PlacedReplica, str]]
"""How much each move would bring: tiers before spread before cost."""


def _later_tier(spot: _Spot, placed: _Placed, load: Mapping[ClusterName, int]) -> _Movers:
    for replica, found in placed:
        if found.tier > spot.tier:
            why = f"a place in tier {spot.tier + 1} is free; it is in tier {found.tier + 1}"
            yield (3.0, found.tier, load[replica.cluster]), replica, why


def _fuller_cluster(spot: _Spot, placed: _Placed, load: Mapping[ClusterName, int]) -> _Movers:
    there = load.get(spot.cluster, 0)
    for replica, found in placed:
        gain = load[replica.cluster] - there
        if found.tier == spot.tier and gain >= _MIN_GAIN:
            why = f"its cluster has {load[replica.cluster]} replicas and cluster {spot.cluster} has {there}"
            yield (2.0, gain, 0.0), replica, why


def _dearer(spot: _Spot, placed: _Placed, load: Mapping[ClusterName, int], policy: RebalancePolicy) -> _Movers:
    for replica, found in placed:
        even = found.cluster == spot.cluster or load.get(spot.cluster, 0) < load[replica.cluster]
        if found.tier != spot.tier or not even or found.price is None or spot.price is None:
            continue
        (had, currency), (price, other) = found.price, spot.price
        saving = 1.0 - price / had if had > 0 and currency == other else 0.0
        if saving >= policy.min_saving - _ROUNDING:
            yield (1.0, saving, 0.0), replica, f"a place costs {price:g} {other} per hour; its place costs {had:g}"


def _spot(state: SchedulingCycle, replica: PlacedReplica) -> _Spot | None:
    info = state.info(replica.cluster)
    tier = tier_of(state.request, info.cluster.labels) if info.cluster is not None else None
    if tier is None:
        return None
    prices = [pods_price(info.kinds[position], pods) for position, pods in charges(replica, info.pools)]
    known = [price for price in prices if price is not None]
    priced = known and len(known) == len(replica.assignments) and len({currency for _, currency in known}) == 1
    return _Spot(replica.cluster, tier, (sum(amount for amount, _ in known), known[0][1]) if priced else None)


def _age(replica: PlacedReplica) -> tuple[bool, str, str, int]:
    """The youngest is the largest; one whose age is not known yet is the youngest."""
    return not replica.created, replica.created, replica.cluster, replica.index
