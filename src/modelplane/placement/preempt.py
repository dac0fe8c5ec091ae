"""Preemption: who would make room for a replica that waits.

Only replicas of strictly lower priority that are not protected are looked at, so an eviction never travels upwards. On
each cluster that the filters admit, candidates leave from the lowest priority and the youngest until the replica fits;
then those that need not have left are spared again, the most important first. The cluster whose victims matter least is
taken: lowest priority of the highest victim, then fewest victims, then by name.
"""

from collections.abc import Iterator

import msgspec

from modelplane.api.meta import ClusterName
from modelplane.framework import Refusal, admit
from modelplane.placement.candidate_queue import CandidateQueue
from modelplane.placement.cluster_info import ClusterInfo
from modelplane.placement.cycle import SchedulingCycle
from modelplane.placement.evicted import condemned
from modelplane.placement.offers import OfferedAssignment, PlacementOption
from modelplane.placement.reservation import Unassignable, seat_engines
from modelplane.placement.values import Cluster, PlacedReplica

MAX_VICTIMS = 64
"""As many as a status and a replica can name."""


class Eviction(msgspec.Struct, frozen=True, eq=False):
    cluster: ClusterName
    offer: PlacementOption
    victims: tuple[PlacedReplica, ...]


def find_eviction(state: SchedulingCycle, board: CandidateQueue) -> Eviction | None:
    """The eviction that would do least harm, or None where none helps."""
    best: tuple[tuple[int, int], Eviction] | None = None
    for name in sorted(state.fleet.sites):
        site = state.site(name)
        cluster = site.cluster
        if cluster is None or not site.held or (best is not None and _least_harm(site, cluster) >= best[0]):
            continue
        found = _on_cluster(state, board, name)
        if found is None:
            continue
        rank = max(cluster.priority_value(victim.priority) for victim in found.victims), len(found.victims)
        if best is None or rank < best[0]:
            best = rank, found
    return best[1] if best else None


def _least_harm(site: ClusterInfo, cluster: Cluster) -> tuple[int, int]:
    """As good as an eviction there can be: a clear no for most clusters once a good one was found."""
    return min(cluster.priority_value(holding.priority) for holding in site.held.values()), 1


def _on_cluster(state: SchedulingCycle, board: CandidateQueue, name: ClusterName) -> Eviction | None:
    site = state.site(name)
    victims = _candidates(state, site)
    if site.cluster is None or not victims:
        return None
    if board.view(site.traits, state.reading.facts(site.cluster), name)[1] is not None:
        return None
    left = site
    for count, victim in enumerate(victims[:MAX_VICTIMS], start=1):
        left = left.with_holdings(removed=[victim.id])
        if offer_on(state, board, left) is not None:
            return _spare(state, board, left, victims[:count])
    return None


def _candidates(state: SchedulingCycle, site: ClusterInfo) -> list[PlacedReplica]:
    """Who may be evicted for the deployment: the least important first."""
    cluster = site.cluster
    if cluster is None:
        return []
    mine = cluster.priority_value(state.ask.priority)
    going = condemned(site)
    lower = [
        holding
        for holding in site.held.values()
        if cluster.priority_value(holding.priority) < mine
        and not holding.protected
        and not holding.leaving
        and holding.deployment != state.ask.deployment
        and holding.id not in going
    ]
    by_age = sorted(lower, key=lambda found: (found.created == "", found.created, found.id), reverse=True)
    return sorted(by_age, key=lambda found: cluster.priority_value(found.priority))


def _spare(
    state: SchedulingCycle, board: CandidateQueue, left: ClusterInfo, victims: list[PlacedReplica]
) -> Eviction | None:
    """Bring back those whose leaving is not needed, the most important first."""
    needed = list(victims)
    for victim in reversed(victims):
        back = left.with_holdings([victim])
        if offer_on(state, board, back) is not None:
            left = back
            needed.remove(victim)
    offer = offer_on(state, board, left)
    if offer is None or left.cluster is None or not needed:
        return None
    return Eviction(left.cluster.name, offer, tuple(needed))


def offer_on(state: SchedulingCycle, board: CandidateQueue, site: ClusterInfo) -> PlacementOption | None:
    """The seats that a replica would get on a site, with every filter asked."""
    if site.cluster is None:
        return None
    view, refusal = board.view(site.traits, state.reading.facts(site.cluster), site.cluster.name)
    if refusal is not None:
        return None
    for seats in _seatings(state, board, site):
        offer = PlacementOption(view, ((site.cluster.name, 0),), seats, state.load[site.cluster.name], version=1)
        if admit(board.filters, state, offer) is None:
            return offer
    return None


def _seatings(
    state: SchedulingCycle, board: CandidateQueue, site: ClusterInfo
) -> Iterator[tuple[OfferedAssignment, ...]]:
    engines = state.ask.engines
    if len(engines) > 1:
        seated = seat_engines(engines, site.kinds, site.uses, board.judge)
        if not isinstance(seated, Unassignable):
            yield seated
        return
    for position, (kind, use) in enumerate(zip(site.kinds, site.uses, strict=True)):
        fit = board.judge(engines[0], kind, use)
        if not isinstance(fit, Refusal):
            yield (OfferedAssignment(kind, position, fit),)
