"""Preemption: the victims of a replica that is pending.

Only replicas of strictly lower priority that are not protected are considered, so an eviction never travels upwards. On
each cluster that the filters admit, candidates leave from the lowest priority and the youngest until the replica fits;
then those that need not have left are spared again, the most important first. The cluster whose victims matter least is
taken: lowest priority of the highest victim, then fewest victims, then by name.

All candidates of a cluster are considered, however many they are; only the victims are bounded. What fits stays fitting
when one more leaves, so both searches halve what is left to try: a check for each victim and each doubling of the
candidates, not one for each candidate.
"""

from collections.abc import Iterator

import msgspec

from modelplane.api.meta import ClusterName
from modelplane.framework import Refusal, admit
from modelplane.placement.candidate_queue import CandidateQueue
from modelplane.placement.cluster_info import ClusterInfo
from modelplane.placement.cycle import SchedulingCycle
from modelplane.placement.offers import OfferedAssignment, PlacementOption
from modelplane.placement.preempted import preempted
from modelplane.placement.reservation import Unassignable, assign_engines
from modelplane.placement.values import Cluster, PlacedReplica

MAX_VICTIMS = 512
"""As many as a status and a replica can name."""


class Eviction(msgspec.Struct, frozen=True, eq=False):
    cluster: ClusterName
    offer: PlacementOption
    victims: tuple[PlacedReplica, ...]


def find_eviction(state: SchedulingCycle, queue: CandidateQueue) -> Eviction | None:
    """The eviction that would do least harm, or None where none helps."""
    best: tuple[tuple[int, int], Eviction] | None = None
    for name in sorted(state.fleet.infos):
        info = state.info(name)
        cluster = info.cluster
        if cluster is None or not info.held or (best is not None and _least_harm(info, cluster) >= best[0]):
            continue
        found = _on_cluster(state, queue, name)
        if found is None:
            continue
        rank = max(cluster.priority_value(victim.priority) for victim in found.victims), len(found.victims)
        if best is None or rank < best[0]:
            best = rank, found
    return best[1] if best else None


def _least_harm(info: ClusterInfo, cluster: Cluster) -> tuple[int, int]:
    """As good as an eviction there can be: a clear no for most clusters once a good one was found."""
    return min(cluster.priority_value(replica.priority) for replica in info.held.values()), 1


def _on_cluster(state: SchedulingCycle, queue: CandidateQueue, name: ClusterName) -> Eviction | None:
    info = state.info(name)
    victims = _candidates(state, info)
    if not victims or queue.view(info.profile, state.reading.facts(info.existing), name)[1] is not None:
        return None
    count = _fewest(state, queue, info, victims)
    return None if count is None else _spare(state, queue, info, victims[:count])


def _fewest(
    state: SchedulingCycle, queue: CandidateQueue, info: ClusterInfo, victims: list[PlacedReplica]
) -> int | None:
    """How many of the least important must leave until the replica fits; None where all of them are not enough."""
    low, high = 0, len(victims)
    if not _fits_without(state, queue, info, victims):
        return None
    while high - low > 1:
        middle = (low + high) // 2
        if _fits_without(state, queue, info, victims[:middle]):
            high = middle
        else:
            low = middle
    return high


def _fits_without(state: SchedulingCycle, queue: CandidateQueue, info: ClusterInfo, gone: list[PlacedReplica]) -> bool:
    left = info.with_replicas(removed=[victim.id for victim in gone])
    return offer_on(state, queue, left) is not None


def _candidates(state: SchedulingCycle, info: ClusterInfo) -> list[PlacedReplica]:
    """Who may be evicted for the deployment: the least important first."""
    cluster = info.existing
    mine = cluster.priority_value(state.request.priority)
    going = preempted(info)
    lower = [
        replica
        for replica in info.held.values()
        if cluster.priority_value(replica.priority) < mine
        and not replica.protected
        and not replica.leaving
        and replica.deployment != state.request.deployment
        and replica.id not in going
    ]
    by_age = sorted(lower, key=lambda found: (found.created == "", found.created, found.id), reverse=True)
    return sorted(by_age, key=lambda found: cluster.priority_value(found.priority))


def _spare(
    state: SchedulingCycle, queue: CandidateQueue, info: ClusterInfo, victims: list[PlacedReplica]
) -> Eviction | None:
    """Bring back those whose leaving is not needed, the most important first, in blocks where whole blocks can stay."""
    left = info.with_replicas(removed=[victim.id for victim in victims])
    needed: list[PlacedReplica] = []
    blocks = [victims]
    while blocks and len(needed) <= MAX_VICTIMS:
        block = blocks.pop()
        back = left.with_replicas(block)
        if offer_on(state, queue, back) is not None:
            left = back
        elif len(block) == 1:
            needed += block
        else:
            blocks += (block[: len(block) // 2], block[len(block) // 2 :])
    offer = offer_on(state, queue, left)
    if offer is None or not 0 < len(needed) <= MAX_VICTIMS:
        return None
    return Eviction(info.existing.name, offer, tuple(reversed(needed)))


def offer_on(state: SchedulingCycle, queue: CandidateQueue, info: ClusterInfo) -> PlacementOption | None:
    """The option that a replica would get on a cluster, with every filter applied."""
    if info.cluster is None:
        return None
    view, refusal = queue.view(info.profile, state.reading.facts(info.cluster), info.cluster.name)
    if refusal is not None:
        return None
    for assignments in _assignments_on(state, queue, info):
        offer = PlacementOption(view, ((info.cluster.name, 0),), assignments, state.load[info.cluster.name], version=1)
        if admit(queue.filters, state, offer) is None:
            return offer
    return None


def _assignments_on(
    state: SchedulingCycle, queue: CandidateQueue, info: ClusterInfo
) -> Iterator[tuple[OfferedAssignment, ...]]:
    engines = state.request.engines
    if len(engines) > 1:
        assigned = assign_engines(engines, info.kinds, info.usages, queue.check_fit)
        if not isinstance(assigned, Unassignable):
            yield from assigned
        return
    for position, (kind, usage) in enumerate(zip(info.kinds, info.usages, strict=True)):
        fit = queue.check_fit(engines[0], kind, usage)
        if not isinstance(fit, Refusal):
            yield (OfferedAssignment(kind, position, fit),)
