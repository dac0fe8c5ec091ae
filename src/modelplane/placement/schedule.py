"""Where each replica of a deployment goes: a pure function of what was observed.

Identity. A replica is (cluster, index) under its deployment's key (namespace, name, uid). It is never moved: moving is
a new replica under another index or cluster, and the old one's deletion. Equal input gives equal output, in whatever
order the objects came.

1. Retain. A replica keeps its place while its cluster exists and its pools still serve it; see `review`. Whatever
   is kept, grown, given room or brought back in a pass is judged on one trial of the fleet, in a fixed order.
2. Repair. Where a pool was promised twice, replicas that do not serve yet give way in an order that every observer
   computes alike; see `repair`.
3. Scale down. Those that do not serve go before those that do; of either, the highest index of the cluster that has
   most goes first, so none that serves is the last of its cluster to go while another has several.
4. Fill. One replica at a time: filter, score, pick; see `board`. Seating one changes the ledger of the pass, so one
   pass cannot promise anything twice.
5. Replace. Replicas whose place is wrong leave when successors serve; where there is no room for both, one at a time.
6. Preempt. Where the deployment may, room is made from replicas of lower priority, after it was announced.

Coarse on purpose: devices are counted, CPU and memory are not; what the cluster's own scheduler does with the pods is
its own affair, and it is authoritative about what runs. Where it is told to pack tightly, it is believed.

Time is an argument. `requeue_after_s` says when time alone will change the answer.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
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
from modelplane.placement.repair import giving_way, is_oversubscribed
from modelplane.placement.request import PlacementRequest
from modelplane.placement.review import ReplicaReview, is_within, make_seat, review, too_much
from modelplane.placement.snapshot import Fleet
from modelplane.placement.taints import FOREVER
from modelplane.placement.trace import GroupReport, PlacementTrace, Subject, TraceReporter
from modelplane.placement.values import PlacedReplica, ReplicaKey, shared_seats


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
    ask: PlacementRequest,
    fleet: Fleet,
    now: float = 0.0,
    *,
    profile: PlacementProfile = DEFAULT_PROFILE,
    reporter: Reporter[Subject] | None = None,
) -> Schedule:
    """The plugins of the profile say where new replicas may go; the reporter hears every answer beside the trace."""
    state = SchedulingCycle(ask, fleet, now)
    found = review(state)
    _repair(state, found)
    _scale_down(ask, found)
    work = _Work(state, found, profile, reporter)
    if len(found.kept) < ask.replicas:
        work.fill()
    movers = work.finish()
    return _schedule(work, movers)


def survey(
    ask: PlacementRequest, fleet: Fleet, now: float = 0.0, *, profile: PlacementProfile = DEFAULT_PROFILE
) -> Schedule:
    """The same decision, with every place judged as if one more replica were asked for: for explanations."""
    decided = schedule(ask, fleet, now, profile=profile)
    state = SchedulingCycle(ask, fleet, now)
    kept = [placement.holding for placement in decided.placements]
    known = {holding.id for holding in fleet.owned_by(ask.deployment)}
    state.stay([holding for holding in kept if holding.id in known], fleet.owned_by(ask.deployment))
    for holding in kept:
        if holding.id not in known:
            state.seat(holding)
    listener = TraceReporter()
    board = CandidateQueue(state, profile, listener)
    board.tell_bare()
    board.close()
    trace = PlacementTrace(listener.findings(), fleet.sites, decided.placements)
    return msgspec.structs.replace(decided, trace=trace)


def _repair(state: SchedulingCycle, found: ReplicaReview) -> None:
    starting = [holding for holding in found.kept if not holding.serving]
    starting += [holding for holding, _ in found.moving if not holding.serving]
    losing = _losing(state, {holding.cluster: None for holding in starting})
    if not losing:
        return
    lost = [holding for holding in starting if holding.id in losing]
    gone = {holding.id for holding in lost}
    found.kept = [holding for holding in found.kept if holding.id not in gone]
    found.moving = [(holding, why) for holding, why in found.moving if holding.id not in gone]
    found.dropped += [
        Dropped(holding, DropReason.OVERSUBSCRIBED, "its place was promised twice and others come first")
        for holding in lost
    ]
    state.release(lost)


def _losing(state: SchedulingCycle, clusters: Iterable[ClusterName]) -> frozenset[ReplicaKey]:
    """Who gives way on some clusters. Those that are used alike keep their promises alike."""
    fine: dict[tuple[int, object, object], bool] = {}
    losing: set[ReplicaKey] = set()
    for name in clusters:
        site = state.fleet.sites[name]
        alike = id(site.kinds), site.uses, site.traits.quotas
        if alike not in fine:
            fine[alike] = not is_oversubscribed(site)
        if not fine[alike]:
            losing |= giving_way(site)
    return frozenset(losing)


def _scale_down(ask: PlacementRequest, found: ReplicaReview) -> None:
    surplus = len(found.kept) - ask.replicas
    if surplus <= 0:
        return
    load = Counter(holding.cluster for holding in found.kept)
    losers: dict[ReplicaKey, PlacedReplica] = {}
    for serves in (False, True):
        candidates = [holding for holding in found.kept if holding.serving is serves]
        for loser in islice(_fullest_first(candidates, load), surplus - len(losers)):
            losers[loser.id] = loser
    found.kept = [holding for holding in found.kept if holding.id not in losers]
    why = f"{ask.replicas} replicas are asked for"
    found.dropped += [Dropped(loser, DropReason.SCALED_DOWN, why) for loser in losers.values()]


def _fullest_first(candidates: Iterable[PlacedReplica], load: Counter[ClusterName]) -> Iterator[PlacedReplica]:
    """The highest index of the cluster that has most, as each that is taken leaves them."""
    by_cluster: dict[ClusterName, list[PlacedReplica]] = {}
    for holding in sorted(candidates, key=lambda holding: holding.index):
        by_cluster.setdefault(holding.cluster, []).append(holding)
    later_first = {name: at for at, name in enumerate(sorted(by_cluster, reverse=True))}
    heap = [(-load[name], later_first[name], name) for name in by_cluster]
    heapify(heap)
    while heap:
        _, order, name = heappop(heap)
        load[name] -= 1
        yield by_cluster[name].pop()
        if by_cluster[name]:
            heappush(heap, (-load[name], order, name))


class _Work:
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
        going = [*(moving for moving, _ in found.moving), *(dropped.holding for dropped in found.dropped)]
        state.returning = frozenset(holding.cluster for holding in going if holding.cluster in state.fleet.sites)
        self.released: frozenset[ReplicaKey] = frozenset()
        """Replicas in the wrong place whose room was offered to others."""

    @property
    def short(self) -> int:
        return self.state.ask.replicas - len(self.found.kept) - len(self.placed)

    @property
    def findings(self) -> tuple[GroupReport, ...]:
        return self._listener.findings()

    def _board(self) -> CandidateQueue:
        """A board of the fleet as it stands. What was heard of an earlier one no longer counts."""
        self._listener = TraceReporter()
        reporter = self._reporter
        return CandidateQueue(
            self.state, self._profile, MultiReporter((self._listener, reporter)) if reporter else self._listener
        )

    def fill(self) -> None:
        self.state.stay(self.found.kept, self.state.fleet.owned_by(self.state.ask.deployment))
        board = self._fill_from(self._board(), self.short)
        if self.short and self.found.moving:
            board = self._make_room()
        if self.short and self.state.ask.may_preempt:
            self._preempt(board)
        if not self.state.fleet.cells:
            board.tell_bare()
        board.close()

    def _fill_from(self, board: CandidateQueue, wanted: int) -> CandidateQueue:
        for _ in range(wanted):
            best = board.best()
            if best is None:
                break
            offer, place, total = best
            holding = _seated(self.state, offer, place)
            self.state.seat(holding)
            self.placed.append(holding)
            board.took(holding.cluster, total)
        return board

    def _make_room(self) -> CandidateQueue:
        """Let go of what does not serve; and of one that serves, when all others do and nothing else is under way."""
        idle = [holding for holding, _ in self.found.moving if not holding.serving]
        self.state.release(idle)
        self.released = frozenset(holding.id for holding in idle)
        board = self._fill_from(self._board(), self.short)
        under_way = self.placed or self.found.leaving or not all(holding.serving for holding in self.found.kept)
        serving = [(holding, why) for holding, why in self.found.moving if holding.serving]
        if not self.short or under_way or not serving:
            return board
        for victim, why in reversed(serving):
            before = self.state.site(victim.cluster)
            left = before.with_holdings(removed=[victim.id])
            if offer_on(self.state, board, left) is None:
                continue
            self.state.trial[victim.cluster] = left
            heard = self._listener
            retried = self._fill_from(self._board(), self.short)
            if self.placed:
                self.found.moving.remove((victim, why))
                self.found.dropped.append(Dropped(victim, DropReason.REPLACED, why))
                return retried
            self.state.trial[victim.cluster] = before
            self._listener = heard
        return board

    def _preempt(self, board: CandidateQueue) -> None:
        found = find_eviction(self.state, board)
        if found is None:
            return
        digests = frozenset(victim.digest for victim in found.victims)
        acted = digests <= self.state.ask.announced
        self.preemption = PreemptionPlan(found.cluster, found.victims, acted)
        if acted:
            place = (found.cluster, found.offer.seats[0].position)
            holding = _seated(self.state, found.offer, place)
            holding = msgspec.structs.replace(holding, preempts=tuple(sorted(digests)))
            self.state.seat(holding, [victim.id for victim in found.victims])
            self.placed.append(holding)

    def finish(self) -> list[tuple[PlacedReplica, str]]:
        """The moving replicas that still stay; the others are dropped as replaced."""
        wanted = self.state.ask.replicas
        serving = sum(holding.serving for holding in self.found.kept)
        gap = wanted - serving
        ordered = sorted(self.found.moving, key=lambda item: (not item[0].serving, item[0].id))
        stay: list[tuple[PlacedReplica, str]] = []
        for holding, why in ordered:
            needed = len(stay) < gap if holding.serving else len(stay) < self.short
            if needed and self._stays(holding):
                stay.append((holding, why))
            else:
                self.found.dropped.append(Dropped(holding, DropReason.REPLACED, why))
        return stay

    def _stays(self, holding: PlacedReplica) -> bool:
        """Whether a replica in the wrong place can have its room back, where that was offered to others."""
        if holding.id not in self.released:
            return True
        site, before = self.state.site(holding.cluster), self.state.fleet.sites[holding.cluster]
        back, namespace = site.with_holdings([holding]), holding.deployment.namespace
        if not is_within(back, before, namespace) and too_much(site, back, namespace) is not None:
            return False
        self.state.trial[holding.cluster] = back
        return True


def _seated(state: SchedulingCycle, offer: PlacementOption, place: Place) -> PlacedReplica:
    cluster, position = place
    site = state.site(cluster)
    seats = tuple(
        make_seat(engine, site.pools[position if seat.position < 0 else seat.position].name, seat.fit.way)
        for engine, seat in zip(state.ask.engines, offer.seats, strict=True)
    )
    return PlacedReplica(
        deployment=state.ask.deployment,
        cluster=cluster,
        index=state.lowest_free_index(cluster),
        seats=shared_seats(seats),
        priority=state.ask.priority,
        protected=state.ask.protected,
    )


def _schedule(work: _Work, movers: list[tuple[PlacedReplica, str]]) -> Schedule:
    state, found = work.state, work.found
    placements = [Placement(holding, ReplicaDecision.KEPT) for holding in found.kept]
    if work.placed or movers:
        placements += [Placement(holding, ReplicaDecision.NEW) for holding in work.placed]
        placements += [Placement(holding, ReplicaDecision.MOVING, why) for holding, why in movers]
        placements.sort(key=lambda placement: placement.holding.id)
    wait = found.requeue_at - state.now
    return Schedule(
        placements=tuple(placements),
        dropped=tuple(sorted(found.dropped, key=lambda dropped: dropped.holding.id)),
        pending=max(state.ask.replicas - len(placements), 0),
        unplaced=max(work.short, 0),
        trace=PlacementTrace(work.findings, state.fleet.sites, placements),
        preemption=work.preemption,
        requeue_after_s=wait if found.requeue_at < FOREVER else None,
    )
