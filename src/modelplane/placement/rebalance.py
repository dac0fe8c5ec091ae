"""Rebalance: serving replicas move to better places, where the deployment requests it. Nothing is interrupted.

One replica moves at a time. Its successor is placed first, beside it, and it leaves when the successor serves. Nothing
moves while a replica does not serve, waits, moves or leaves, or while the youngest is younger than the interval: that
is the rate limit, and it needs no memory. Neither does a move under way: a replica too many whose place is better than
that of another says that the other moves.

Nothing moves during a roll-out either. Its surge makes a replica too many, which is no successor of a move; and the
successor of a move would have the new revision, whatever a pause or a canary says.

Tier     the place is in an earlier tier
Spread   the place's cluster has at least two replicas less, in the same tier
Cost     the place is cheaper by the stated share, in the same tier, and the spread does not get worse

Each move makes the tiers, then the spread, then the cost better, and none of the former worse, so moves come to an end.
"""

from collections import Counter
from collections.abc import Sequence
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
from modelplane.placement.values import PlacedReplica, ReplicaKey

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
    if policy is None or state.request.rolling_out or len(found.kept) != wanted + 1 or found.moving:
        return
    successor = max(found.kept, key=lambda replica: (not replica.serving, *_age(replica)))
    others = [replica for replica in found.kept if replica is not successor]
    if not all(replica.serving for replica in others):
        return
    spot = _spot(state, successor)
    better = _Movers(state, policy, others).to(spot) if spot is not None else None
    if better is not None:
        found.kept.remove(better[0])
        found.moving.append(better)


def find_better_place(state: SchedulingCycle, found: ReplicaReview, queue: CandidateQueue) -> BetterPlace | None:
    """The next move. The queue has the fleet as it is, with every replica in its place."""
    policy = state.request.rebalance
    if policy is None or not _is_calm(state, found, policy):
        return None
    movers = _Movers(state, policy, found.kept)
    for offer, place in queue.options():
        tier = tier_of(state.request, offer.view.sample.labels)
        better = movers.to(_Spot(place[0], tier, offer.price)) if tier is not None else None
        if better is not None:
            return BetterPlace(*better, offer, place)
    found.requeue_at = min(found.requeue_at, state.now + policy.interval_s)
    return None


def _is_calm(state: SchedulingCycle, found: ReplicaReview, policy: RebalancePolicy) -> bool:
    """Whether all replicas serve, have one revision, and none is young."""
    busy = found.moving or found.leaving or found.dropped or not all(replica.serving for replica in found.kept)
    if busy or state.request.rolling_out or len(found.kept) != state.request.replicas or not found.kept:
        return False
    ages = [epoch_s(replica.created or None) for replica in found.kept]
    since = max((placed_s if placed_s is not None else state.now for placed_s in ages), default=state.now)
    if since + policy.interval_s > state.now:
        found.requeue_at = min(found.requeue_at, since + policy.interval_s)
        return False
    return True


_Why = tuple[PlacedReplica, str]
_Dear = tuple[float, PlacedReplica]


class _Movers:
    """Who would gain by a place. What matters of the replicas is gathered once, so that many places can be tried."""

    def __init__(self, state: SchedulingCycle, policy: RebalancePolicy, replicas: Sequence[PlacedReplica]) -> None:
        self._policy = policy
        self._load = Counter(replica.cluster for replica in replicas)
        self._of_tier: dict[int, PlacedReplica] = {}
        """The one on the fullest cluster of each tier."""
        self._dearest: dict[tuple[int, str], dict[int, _Dear]] = {}
        """By tier and currency, then by how many replicas its cluster has."""
        self._dearest_on: dict[tuple[ClusterName, str], _Dear] = {}
        for replica in replicas:
            spot = _spot(state, replica)
            if spot is not None:
                self._note(replica, spot)

    def _note(self, replica: PlacedReplica, spot: _Spot) -> None:
        known = self._of_tier.get(spot.tier)
        if known is None or self._rank(known) < self._rank(replica):
            self._of_tier[spot.tier] = replica
        if spot.price is None:
            return
        amount, currency = spot.price
        by_load = self._dearest.setdefault((spot.tier, currency), {})
        load = self._load[replica.cluster]
        by_load[load] = max(by_load.get(load, (amount, replica)), (amount, replica), key=_dearness)
        on = self._dearest_on.get((spot.cluster, currency), (amount, replica))
        self._dearest_on[spot.cluster, currency] = max(on, (amount, replica), key=_dearness)

    def _rank(self, replica: PlacedReplica) -> tuple[int, ReplicaKey]:
        return self._load[replica.cluster], replica.id

    def to(self, spot: _Spot) -> _Why | None:
        """Who moves to a place, and why: tiers count before the spread, and that before the cost."""
        policy = self._policy
        return (
            (self._from_later_tier(spot) if policy.tier else None)
            or (self._from_fuller_cluster(spot) if policy.spread else None)
            or (self._from_dearer_place(spot) if policy.cost else None)
        )

    def _from_later_tier(self, spot: _Spot) -> _Why | None:
        last = max(self._of_tier, default=spot.tier)
        if last <= spot.tier:
            return None
        return self._of_tier[last], f"a place in tier {spot.tier + 1} is free; it is in tier {last + 1}"

    def _from_fuller_cluster(self, spot: _Spot) -> _Why | None:
        replica, there = self._of_tier.get(spot.tier), self._load[spot.cluster]
        if replica is None or self._load[replica.cluster] < there + _MIN_GAIN:
            return None
        have = self._load[replica.cluster]
        return replica, f"its cluster has {have} replicas and cluster {spot.cluster} has {there}"

    def _from_dearer_place(self, spot: _Spot) -> _Why | None:
        if spot.price is None:
            return None
        price, currency = spot.price
        fuller = self._dearest.get((spot.tier, currency), {}).items()
        found = [dear for load, dear in fuller if load > self._load[spot.cluster]]
        same = self._dearest_on.get((spot.cluster, currency))
        found += [same] if same is not None else []
        if not found:
            return None
        had, replica = max(found, key=_dearness)
        if price >= had or price > had * (1.0 - self._policy.min_saving) + _ROUNDING:
            return None
        return replica, f"a place costs {price:g} {currency} per hour; its place costs {had:g}"


def _dearness(dear: _Dear) -> tuple[float, ReplicaKey]:
    return dear[0], dear[1].id


def _spot(state: SchedulingCycle, replica: PlacedReplica) -> _Spot | None:
    info = state.info(replica.cluster)
    tier = tier_of(state.request, info.cluster.labels) if info.cluster is not None else None
    if tier is None:
        return None
    prices = [pods_price(info.kinds[position], pods) for position, pods in charges(replica, info.pools)]
    known = [price for price in prices if price is not None]
    priced = len(known) == len(replica.assignments) and len({currency for _, currency in known}) == 1
    return _Spot(replica.cluster, tier, (sum(amount for amount, _ in known), known[0][1]) if priced else None)


def _age(replica: PlacedReplica) -> tuple[bool, str, str, int]:
    """The youngest is the largest; one whose age is not known yet is the youngest."""
    return not replica.created, replica.created, replica.cluster, replica.index
