"""Where each replica of a deployment goes: a pure function of what was observed.

Identity. A replica is (cluster, index) under its deployment's key (namespace, name, uid). It is never moved: moving is
a new replica under another index or cluster, and the old one's deletion. Equal input gives equal output, in whatever
order the objects came.

1. Retain. A replica keeps its place while its cluster exists and its pools still serve it; see `review`. Whatever
   is kept, grown, freed or brought back in a cycle is judged on one assumed fleet, in a fixed order.
2. Repair. Where a pool is oversubscribed, replicas that do not serve yet leave in an order that every observer
   computes alike; see `repair`.
3. Scale down. Those that do not serve go before those that do; of either, the highest index of the cluster that has
   most goes first, so none that serves is the last of its cluster to go while another has several.
4. Fill. One replica at a time: filter, score, pick; see `candidate_queue`. A reservation changes the assumed
   fleet, so one cycle cannot promise anything twice.
5. Replace. Replicas whose place is wrong leave when successors serve; where both do not fit, one at a time.
6. Rebalance. Where the deployment requests it, serving replicas move to better places; see `rebalance`.
7. Preempt. Where the deployment may, replicas of lower priority are evicted, after its status nominated them.

Coarse on purpose: devices are counted, CPU and memory are not; what the cluster's own scheduler does with the pods is
its own affair, and it is authoritative about what runs. Where it is configured to pack tightly, it is trusted.

Time is an argument. `requeue_after_s` says when time alone will change the answer.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from heapq import heapify, heappop, heappush
from itertools import islice

import msgspec

from modelplane.api.meta import ClusterName
from modelplane.framework import MultiReporter, Reporter
from modelplane.placement.candidate_queue import CandidateQueue
from modelplane.placement.cycle import SchedulingCycle
from modelplane.placement.decisions import Dropped, DropReason, Placement, PreemptionPlan, ReplicaDecision
from modelplane.placement.index import Place
from modelplane.placement.offers import PlacementOption
from modelplane.placement.plugins import PlacementProfile
from modelplane.placement.preempt import find_eviction, offer_on
from modelplane.placement.profile import DEFAULT_PROFILE
from modelplane.placement.rebalance import find_better_place, resume
from modelplane.placement.repair import is_oversubscribed, resolve_conflicts
from modelplane.placement.request import PlacementRequest
from modelplane.placement.review import ReplicaReview, is_waiting, is_within, make_assignment, review, too_much
from modelplane.placement.snapshot import Fleet
from modelplane.placement.taints import FOREVER
from modelplane.placement.tiers import tier_of
from modelplane.placement.trace import GroupReport, PlacementTrace, Subject, TraceReporter
from modelplane.placement.values import PlacedReplica, ReplicaKey, shared_assignments


class Schedule(msgspec.Struct, frozen=True, eq=False):
    placements: tuple[Placement, ...]
    """Every replica that should be, by cluster and index."""
    dropped: tuple[Dropped, ...]
    pending: int
    """Replicas that found no place."""
    unplaced: int
    """Those, and those that stay in the wrong place because a successor found none."""
    trace: PlacementTrace
    preemption: PreemptionPlan | None = None
    requeue_after_s: float | None = None


def schedule(
    request: PlacementRequest,
    fleet: Fleet,
    now: float = 0.0,
    *,
    profile: PlacementProfile = DEFAULT_PROFILE,
    reporter: Reporter[Subject] | None = None,
) -> Schedule:
    """The plugins of the profile say where new replicas may go; the reporter gets every answer beside the trace."""
    state = SchedulingCycle(request, fleet, now)
    found = review(state)
    _repair(state, found)
    resume(state, found)
    _scale_down(state, found)
    placer = _Placer(state, found, profile, reporter)
    if len(found.kept) < request.replicas:
        placer.fill()
    elif request.rebalance is not None:
        placer.rebalance()
    movers = placer.finish()
    return _schedule(placer, movers)


def survey(
    request: PlacementRequest, fleet: Fleet, now: float = 0.0, *, profile: PlacementProfile = DEFAULT_PROFILE
) -> Schedule:
    """The same decision, with every place judged as if one more replica were requested: for explanations."""
    decided = schedule(request, fleet, now, profile=profile)
    state = SchedulingCycle(request, fleet, now)
    kept = [placement.replica for placement in decided.placements]
    known = {replica.id for replica in fleet.owned_by(request.deployment)}
    state.stay([replica for replica in kept if replica.id in known], fleet.owned_by(request.deployment))
    for replica in kept:
        if replica.id not in known:
            state.reserve(replica)
    listener = TraceReporter()
    queue = CandidateQueue(state, profile, listener)
    queue.report_missing_pools()
    queue.close()
    trace = PlacementTrace(listener.findings(), fleet.infos, decided.placements)
    return msgspec.structs.replace(decided, trace=trace)


def _repair(state: SchedulingCycle, found: ReplicaReview) -> None:
    starting = [replica for replica in found.kept if not replica.serving]
    starting += [replica for replica, _ in found.moving if not replica.serving]
    losing = _losing(state, {replica.cluster: None for replica in starting})
    if not losing:
        return
    lost = [replica for replica in starting if replica.id in losing]
    gone = {replica.id for replica in lost}
    found.kept = [replica for replica in found.kept if replica.id not in gone]
    found.moving = [(replica, why) for replica, why in found.moving if replica.id not in gone]
    found.dropped += [
        Dropped(
            replica, DropReason.OVERSUBSCRIBED, "its pool or quota is oversubscribed, and other replicas rank before it"
        )
        for replica in lost
    ]
    state.release(lost)


def _losing(state: SchedulingCycle, clusters: Iterable[ClusterName]) -> frozenset[ReplicaKey]:
    """Replicas that lose their place on some clusters. Clusters with equal usage are checked once."""
    fine: dict[tuple[object, ...], bool] = {}
    losing: set[ReplicaKey] = set()
    for name in clusters:
        info = state.fleet.infos[name]
        alike = id(info.kinds), info.usages, info.profile.quotas, id(info.places)
        if alike not in fine:
            fine[alike] = not is_oversubscribed(info)
        if not fine[alike]:
            losing |= resolve_conflicts(info)
    return frozenset(losing)


def _scale_down(state: SchedulingCycle, found: ReplicaReview) -> None:
    request = state.request
    surplus = len(found.kept) - request.replicas
    if surplus <= 0:
        return
    load = Counter(replica.cluster for replica in found.kept)
    losers: dict[ReplicaKey, PlacedReplica] = {}
    for candidates in _least_missed_first(state, found.kept):
        for loser in islice(_last_first(state, candidates, load), surplus - len(losers)):
            losers[loser.id] = loser
    found.kept = [replica for replica in found.kept if replica.id not in losers]
    why = f"the deployment wants {request.replicas} replicas"
    found.dropped += [Dropped(loser, DropReason.SCALED_DOWN, why) for loser in losers.values()]


def _least_missed_first(state: SchedulingCycle, kept: Sequence[PlacedReplica]) -> Iterator[list[PlacedReplica]]:
    """Those that do not serve, then those that wait their turn to leave a drained place, then the rest.

    A successor that serves while another deployment has the turn must not go in the place of the drained replica: both
    deployments would begin again, and the drain would not end.
    """
    yield [replica for replica in kept if not replica.serving]
    serving = [replica for replica in kept if replica.serving]
    waiting = {replica.id for replica in serving if is_waiting(state, replica)}
    yield [replica for replica in serving if replica.id in waiting]
    yield [replica for replica in serving if replica.id not in waiting]


def _last_first(
    state: SchedulingCycle, candidates: Iterable[PlacedReplica], load: Counter[ClusterName]
) -> Iterator[PlacedReplica]:
    """Those of the last tier first, and of a tier those of the fullest cluster."""
    tiers: dict[int, list[PlacedReplica]] = {}
    for replica in candidates:
        cluster = state.fleet.cluster(replica.cluster)
        tier = tier_of(state.request, cluster.labels) if cluster is not None else None
        tiers.setdefault(len(state.request.tiers) if tier is None else tier, []).append(replica)
    for tier in sorted(tiers, reverse=True):
        yield from _fullest_first(tiers[tier], load)


def _fullest_first(candidates: Iterable[PlacedReplica], load: Counter[ClusterName]) -> Iterator[PlacedReplica]:
    """The highest index of the cluster that has most, as each that is taken leaves them."""
    by_cluster: dict[ClusterName, list[PlacedReplica]] = {}
    for replica in sorted(candidates, key=lambda replica: replica.index):
        by_cluster.setdefault(replica.cluster, []).append(replica)
    later_first = {name: at for at, name in enumerate(sorted(by_cluster, reverse=True))}
    heap = [(-load[name], later_first[name], name) for name in by_cluster]
    heapify(heap)
    while heap:
        _, order, name = heappop(heap)
        load[name] -= 1
        yield by_cluster[name].pop()
        if by_cluster[name]:
            heappush(heap, (-load[name], order, name))


class _Placer:
    """Filling and replacing, with what was found so far."""

    def __init__(
        self,
        state: SchedulingCycle,
        found: ReplicaReview,
        profile: PlacementProfile,
        reporter: Reporter[Subject] | None,
    ) -> None:
        self.state = state
        self._profile = profile
        self._reporter = reporter
        self._listener = TraceReporter()
        self.found = found
        self.placed: list[PlacedReplica] = []
        self.preemption: PreemptionPlan | None = None
        going = [*(moving for moving, _ in found.moving), *(dropped.replica for dropped in found.dropped)]
        state.returning = frozenset(replica.cluster for replica in going)
        self.released: frozenset[ReplicaKey] = frozenset()
        """Replicas in the wrong place whose devices were offered to others."""

    @property
    def short(self) -> int:
        return self.state.request.replicas - len(self.found.kept) - len(self.placed)

    @property
    def findings(self) -> tuple[GroupReport, ...]:
        return self._listener.findings()

    def _new_queue(self) -> CandidateQueue:
        """A queue of the fleet as assumed. What was reported of an earlier one no longer counts."""
        self._listener = TraceReporter()
        reporter = self._reporter
        return CandidateQueue(
            self.state, self._profile, MultiReporter((self._listener, reporter)) if reporter else self._listener
        )

    def fill(self) -> None:
        self.state.stay(self.found.kept, self.state.fleet.owned_by(self.state.request.deployment))
        queue = self._fill_from(self._new_queue(), self.short)
        if self.short and self.found.moving:
            queue = self._make_room()
        if self.short and self.state.request.may_preempt:
            self._preempt(queue)
        if self.short:
            queue.report_missing_pools()
        queue.close()

    def rebalance(self) -> None:
        """Place the successor of a replica that can have a better place; the replica leaves when that one serves."""
        self.state.stay(self.found.kept, self.state.fleet.owned_by(self.state.request.deployment))
        better = find_better_place(self.state, self.found, self._new_queue())
        self._listener = TraceReporter()
        if better is None:
            return
        self.found.kept.remove(better.replica)
        self.found.moving.append((better.replica, better.why))
        successor = _assigned(self.state, better.offer, better.place)
        self.state.reserve(successor)
        self.placed.append(successor)

    def _fill_from(self, queue: CandidateQueue, wanted: int) -> CandidateQueue:
        for _ in range(wanted):
            best = queue.pop_best()
            if best is None:
                break
            offer, place, total = best
            replica = _assigned(self.state, offer, place)
            self.state.reserve(replica)
            self.placed.append(replica)
            queue.on_reserved(replica.cluster, total)
        return queue

    def _make_room(self) -> CandidateQueue:
        """Let go of what does not serve; and of one that serves, when all others do and nothing else is under way."""
        idle = [replica for replica, _ in self.found.moving if not replica.serving]
        self.state.release(idle)
        self.released = frozenset(replica.id for replica in idle)
        queue = self._fill_from(self._new_queue(), self.short)
        under_way = self.placed or self.found.leaving or not all(replica.serving for replica in self.found.kept)
        serving = [(replica, why) for replica, why in self.found.moving if replica.serving]
        if not self.short or under_way or not serving:
            return queue
        for victim, why in reversed(serving):
            before = self.state.info(victim.cluster)
            left = before.with_replicas(removed=[victim.id])
            if offer_on(self.state, queue, left) is None:
                continue
            self.state.assumed[victim.cluster] = left
            listener = self._listener
            retried = self._fill_from(self._new_queue(), self.short)
            if self.placed:
                self.found.moving.remove((victim, why))
                self.found.dropped.append(Dropped(victim, DropReason.REPLACED, why))
                return retried
            self.state.assumed[victim.cluster] = before
            self._listener = listener
        return queue

    def _preempt(self, queue: CandidateQueue) -> None:
        found = find_eviction(self.state, queue)
        if found is None:
            return
        digests = frozenset(victim.digest for victim in found.victims)
        acted = digests <= self.state.request.nominated_victims
        self.preemption = PreemptionPlan(found.cluster, found.victims, acted)
        if acted:
            place = (found.cluster, found.offer.assignments[0].position)
            replica = _assigned(self.state, found.offer, place)
            replica = msgspec.structs.replace(replica, preempts=tuple(sorted(digests)))
            self.state.reserve(replica, [victim.id for victim in found.victims])
            self.placed.append(replica)

    def finish(self) -> list[tuple[PlacedReplica, str]]:
        """The moving replicas that still stay; the others are dropped as replaced."""
        wanted = self.state.request.replicas
        serving = sum(replica.serving for replica in self.found.kept)
        gap = wanted - serving
        ordered = sorted(self.found.moving, key=lambda item: (not item[0].serving, item[0].id))
        stay: list[tuple[PlacedReplica, str]] = []
        for replica, why in ordered:
            needed = len(stay) < gap if replica.serving else len(stay) < self.short
            if needed and self._stays(replica):
                stay.append((replica, why))
            else:
                self.found.dropped.append(Dropped(replica, DropReason.REPLACED, why))
        return stay

    def _stays(self, replica: PlacedReplica) -> bool:
        """Whether a replica in the wrong place can have its devices back, where those were offered to others."""
        if replica.id not in self.released:
            return True
        info, before = self.state.info(replica.cluster), self.state.fleet.infos[replica.cluster]
        back, namespace = info.with_replicas([replica]), replica.deployment.namespace
        if not is_within(back, before, namespace) and too_much(info, back, namespace) is not None:
            return False
        self.state.assumed[replica.cluster] = back
        return True


def _assigned(state: SchedulingCycle, offer: PlacementOption, place: Place) -> PlacedReplica:
    cluster, position = place
    info = state.info(cluster)
    assignments = tuple(
        make_assignment(
            engine,
            info.pools[position if assignment.position < 0 else assignment.position].name,
            assignment.fit.allocation,
        )
        for engine, assignment in zip(state.request.engines, offer.assignments, strict=True)
    )
    return PlacedReplica(
        deployment=state.request.deployment,
        cluster=cluster,
        index=state.lowest_free_index(cluster),
        assignments=shared_assignments(assignments),
        priority=state.request.priority,
        protected=state.request.protected,
    )


def _schedule(placer: _Placer, movers: list[tuple[PlacedReplica, str]]) -> Schedule:
    state, found = placer.state, placer.found
    placements = [Placement(replica, ReplicaDecision.KEPT) for replica in found.kept]
    if placer.placed or movers:
        placements += [Placement(replica, ReplicaDecision.NEW) for replica in placer.placed]
        placements += [Placement(replica, ReplicaDecision.MOVING, why) for replica, why in movers]
        placements.sort(key=lambda placement: placement.replica.id)
    wait = found.requeue_at - state.now
    return Schedule(
        placements=tuple(placements),
        dropped=tuple(sorted(found.dropped, key=lambda dropped: dropped.replica.id)),
        pending=max(state.request.replicas - len(placements), 0),
        unplaced=placer.short,
        trace=PlacementTrace(placer.findings, state.fleet.infos, placements),
        preemption=placer.preemption,
        requeue_after_s=wait if found.requeue_at < FOREVER else None,
    )
