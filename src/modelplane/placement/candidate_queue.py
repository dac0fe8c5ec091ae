"""Every place that could take the next replica, best first.

Places that are alike are one option. The queue is made once for a scheduling cycle. Reserving a place for a replica
changes one cluster, so only that cluster is evaluated again. Clusters that already have replicas of the deployment are
options of their own, since their load and what they hold in this cycle set them apart from similar clusters.

A cluster that got a replica is evaluated again only when it could be the best: its options were no better than the one
that was taken, and one more replica makes them worse by a known amount. That holds for one engine that each pool can
serve by one allocation. Otherwise the next replica may fit elsewhere on the cluster at a better price, so the cluster
is evaluated again at once.

A place that is refused for a while, because it is drained or full, say, is judged further: what would refuse it for
good is the answer. See `lasting`.

A spread rule depends on where the other replicas are, so options that it refuses wait and are checked again after each
reservation. So do plugins that do not declare themselves `steady`. Where one of them scores, or where the picker is not
`best-first`, all options are scored again each time.

Every answer is reported, if there is a reporter, for all places that it holds for.
"""

from collections.abc import Iterable, Iterator, Mapping
from heapq import heappop, heappush
from itertools import islice
from typing import Final

from modelplane.api.meta import ClusterName
from modelplane.framework import Filter, Refusal, RefusalCode, Reporter, Runner, Scored, admit
from modelplane.placement.cluster_info import ClusterInfo, ClusterProfile, PoolShape
from modelplane.placement.cycle import SchedulingCycle
from modelplane.placement.filters import PoolTaintsFilter, fit_engine, never_fits
from modelplane.placement.index import Facts, Place
from modelplane.placement.lasting import LastingRefusals, lasting_first, lasting_refusal, lasts
from modelplane.placement.matching import Unmatched, engine_allocations
from modelplane.placement.offers import ClusterView, Fit, OfferedAssignment, PlacementOption, PoolView
from modelplane.placement.plugins import PlacementProfile, active_plugins
from modelplane.placement.pool_usage import PoolUsage
from modelplane.placement.request import EngineRequest
from modelplane.placement.reservation import Assigned, Unassignable, assign_engines
from modelplane.placement.scorers import BestFirstPicker, SpreadScorer
from modelplane.placement.tiers import tier_of
from modelplane.placement.trace import CandidateGroup, Subject, TraceReporter
from modelplane.placement.values import Cluster

_EACH: Final = -1
"""Position of an assignment whose pool is named by the place."""
_ROUNDING: Final = 1e-9
"""A cluster that may be as good as another is evaluated first, however its total was rounded."""
_NO_POOLS: Final = Refusal("Pools", RefusalCode.UNRESOLVABLE, "the cluster has no pools")
_NO_POOLS_YET: Final = Refusal("Pools", RefusalCode.UNSCHEDULABLE, "the cluster has no pools yet")
_POOLS_UNREAD: Final = Refusal("Pools", RefusalCode.UNSCHEDULABLE, "not all pools of the cluster are read yet")
_Order = tuple[int, int, float]
"""The lowest comes first: tier, replicas of the deployment where those come before scores, and the total negated."""
_Entry = tuple[_Order, Place, int, int, Scored[PlacementOption] | None]
"""Order, place, serial, position of the place in its offer, offer; without an offer, a cluster to evaluate again."""


class CandidateQueue:
    def __init__(
        self, state: SchedulingCycle, profile: PlacementProfile, reporter: Reporter[Subject] | None = None
    ) -> None:
        self._state = state
        self._plugins = profile
        self._reporter = reporter
        self._picks = None if isinstance(reporter, TraceReporter) else reporter
        """The reporter that gets picks; a trace reads them from the placements."""
        self._filters_untainted_pools = not all(isinstance(plugin, PoolTaintsFilter) for plugin in profile.pool_filters)
        """Whether pools without taints are filtered, too."""
        self._falling: dict[int, bool] = {}
        state.reading = profile.reading(state)
        self._views: dict[tuple[ClusterProfile, Facts], tuple[ClusterView, Refusal | None]] = {}
        self._lasting = LastingRefusals(state, profile.offer_filters)
        self._known_assignments: dict[tuple[tuple[PoolShape, ...], tuple[PoolUsage, ...]], Assigned] = {}
        self._full_clusters: list[ClusterName] = []
        """One cluster of each sort where a replica could run if its pools were not full."""
        self._waiting: list[tuple[PlacementOption, int]] = []
        self._heap: list[_Entry] = []
        self._serial = 0
        self._versions = dict.fromkeys(sorted({*state.load, *state.assumed, *state.returning}), 1)
        """Clusters that differ from their likes, by how often they changed."""
        grouped = list(self._grouped())
        samples = [*(offer.cluster for offer in grouped), *self._full_clusters]
        offers = [*grouped, *(offer for name in self._versions for offer in self._single(name))]
        _note_domains(state, samples)
        _note_prices(state, offers)
        active = active_plugins(profile, state, [cluster_profile for cluster_profile, _ in self._views])
        self._profile, self._rechecked, self._evenly = active.profile, active.rechecked, active.evenly
        self._runner = Runner(self._profile)
        weights = [(weighted.scorer, weighted.weight) for weighted in self._profile.scorers]
        spread = sum(weight for scorer, weight in weights if isinstance(scorer, SpreadScorer))
        self._spread = spread / sum(weight for _, weight in weights) if spread else 0.0
        """What the score for spreading is of the total."""
        self._best_first = isinstance(profile.picker, BestFirstPicker)
        self._eager = not active.steady or not self._best_first
        self._offered: dict[ClusterName | None, dict[int, PlacementOption]] = {}
        """What was scored: on clusters that differ from their likes, and under None on all others."""
        self._put((offer, 0) for offer in offers)

    @property
    def filters(self) -> tuple[Filter[SchedulingCycle, PlacementOption], ...]:
        """All filters for whole options in this cycle."""
        return (*self._profile.filters, *self._rechecked)

    def pop_best(self) -> tuple[PlacementOption, Place, float] | None:
        """The best offer, the place to take and its total; None when no place is left that may be taken."""
        while self._heap:
            order, place, _, cursor, scored = heappop(self._heap)
            if scored is None:
                self._put((offer, 0) for offer in self._single(place[0]))
                continue
            offer = scored.candidate
            self._push(scored, cursor + 1, order)
            if offer.version != self._versions.get(place[0], 0):
                continue
            if self._rechecked and admit(self._rechecked, self._state, offer) is not None:
                self._waiting.append((offer, cursor))
                continue
            if self._picks is not None:
                self._picks.picked(self._profile.name, CandidateGroup((place,), whole=len(offer.assignments) > 1))
            return offer, place, scored.total
        return None

    def on_reserved(self, cluster: ClusterName, total: float) -> None:
        """A cluster got a replica, by an offer of this total."""
        self._versions[cluster] = self._versions.get(cluster, 0) + 1
        again, self._waiting = self._waiting, []
        if self._eager:
            again += [(entry[4].candidate, entry[3]) for entry in self._heap if entry[4] is not None]
            self._heap = []
        if self._eager or not self._only_falls(cluster):
            again += [(offer, 0) for offer in self._single(cluster)]
        else:
            self._serial += 1
            order = self._order(self._tier(self._state.info(cluster).existing), self._state.load[cluster], total)
            order = (*order[:2], order[2] + self._loss(cluster) - _ROUNDING)
            heappush(self._heap, (order, (cluster, 0), self._serial, 0, None))
        self._put(again)

    def _order(self, tier: int, load: int, total: float) -> _Order:
        return tier, load if self._evenly else 0, -total

    def _tier(self, cluster: Cluster) -> int:
        """Clusters in no tier are refused; they come last where the profile has no filter for that."""
        request = self._state.request
        tier = tier_of(request, cluster.labels)
        return len(request.tiers) if tier is None else tier

    def options(self) -> Iterator[tuple[PlacementOption, Place]]:
        """What may be taken, best first: each option once, with the first of its places."""
        for _, _, _, cursor, scored in sorted(self._heap, key=lambda entry: entry[:3]):
            if scored is None or admit(self._rechecked, self._state, scored.candidate) is not None:
                continue
            places = scored.candidate.places[cursor:]
            version = scored.candidate.version
            free = next((found for found in places if self._versions.get(found[0], 0) == version), None)
            if free is not None:
                yield scored.candidate, free

    def _only_falls(self, cluster: ClusterName) -> bool:
        """Whether no offer of a cluster can be better than one of it that was taken."""
        engines = self._state.request.engines
        if len(engines) > 1:
            return False
        kinds = self._state.fleet.infos[cluster].kinds
        known = self._falling.get(id(kinds))
        if known is None:
            allocations = (engine_allocations(engines[0], kind.hardware) for kind in kinds)
            known = all(isinstance(found, Unmatched) or len(found) == 1 for found in allocations)
            self._falling[id(kinds)] = known
        return known

    def _loss(self, cluster: ClusterName) -> float:
        """How much the score for spreading alone lowers a cluster's total with its latest replica."""
        load = self._state.load[cluster]
        return self._spread * (1.0 / load - 1.0 / (load + 1))

    def close(self) -> None:
        """Reports options that were scored and that are refused at the end of the cycle."""
        reporter = self._reporter
        if reporter is None:
            return
        for offer in (offer for offers in self._offered.values() for offer in offers.values()):
            if offer.version and offer.version != self._versions[offer.cluster]:
                # The cluster changed since: what was found of it later is the answer.
                continue
            refusal = lasting_first(self._rechecked, self._state, offer)
            if refusal is not None:
                reporter.refused(self._profile.name, offer, refusal)

    def report_missing_pools(self) -> None:
        """Reports clusters without pools, which are in no equivalence class, and those with pools that are not read.

        With several engines each cluster has one answer, which says so.
        """
        if len(self._state.request.engines) > 1:
            return
        self._report_clusters_without_pools()
        self._report_unread_pools()

    def _report_clusters_without_pools(self) -> None:
        for name in sorted(self._state.fleet.without_pools):
            info = self._state.fleet.infos[name]
            _, refusal = self.view(info.profile, self._state.reading.facts(info.existing), name)
            if info.profile.hardware_known:
                refusal = refusal if refusal is not None and lasts(refusal) else _NO_POOLS
            self._refuse(CandidateGroup(((name, 0),), whole=True), refusal or _NO_POOLS_YET)

    def _report_unread_pools(self) -> None:
        """That all other pools never fit is no answer while one is not read."""
        infos, classes = self._state.fleet.infos, self._state.fleet.equivalence_classes
        unread = (alike.places for (profile, _, _), alike in classes.items() if not profile.hardware_known)
        for name in sorted({name for places in unread for name, _ in places}):
            info = infos[name]
            _, refusal = self.view(info.profile, self._state.reading.facts(info.existing), name)
            if refusal is None:
                version = self._versions.get(name, 0)
                self._refuse(CandidateGroup(((name, 0),), whole=True, version=version), _POOLS_UNREAD)

    def _refuse(self, subject: Subject, refusal: Refusal) -> None:
        if self._reporter is not None:
            self._reporter.refused(self._plugins.name, subject, refusal)

    def view(
        self, cluster_profile: ClusterProfile, facts: Facts, name: ClusterName
    ) -> tuple[ClusterView, Refusal | None]:
        """A make of cluster, and why all of it is refused."""
        known = self._views.get((cluster_profile, facts))
        if known is None:
            cluster = self._state.fleet.infos[name].existing
            tier = self._tier(cluster) if self._state.request.tiers else None
            view = ClusterView(cluster_profile, facts, cluster, tier)
            known = view, lasting_first(self._plugins.cluster_filters, self._state, view)
            self._views[cluster_profile, facts] = known
        return known

    def check_fit(self, engine: EngineRequest, kind: PoolShape, usage: PoolUsage) -> Fit | Refusal:
        """The answer of the filters for an engine on a pool."""
        if kind.taints or self._filters_untainted_pools:
            refusal = lasting_first(self._plugins.pool_filters, self._state, PoolView(engine, kind, usage))
            if refusal is not None:
                return refusal if lasts(refusal) else never_fits(engine, kind) or refusal
        return fit_engine(engine, kind, usage)

    def _grouped(self) -> Iterator[PlacementOption]:
        return self._by_pool() if len(self._state.request.engines) == 1 else self._by_cluster()

    def _by_pool(self) -> Iterator[PlacementOption]:
        """One engine: pools of one kind and use are alike, whatever else their clusters have."""
        state = self._state
        engine, infos, reading = state.request.engines[0], state.fleet.infos, state.reading
        refused: dict[tuple[ClusterProfile, Facts], tuple[Refusal, set[ClusterName]]] = {}
        for (cluster_profile, kind, usage), alike in state.fleet.equivalence_classes.items():
            for facts, places in alike.split(reading, infos):
                view, refusal = self.view(cluster_profile, facts, places[0][0])
                lasting = None if refusal is None else self._lasting.of_pool(view, kind, refusal)
                if lasting is not None:
                    self._refuse(CandidateGroup(places), lasting)
                    continue
                if refusal is not None:
                    refused.setdefault((cluster_profile, facts), (refusal, set()))[1].update(name for name, _ in places)
                    continue
                fit = self.check_fit(engine, kind, usage)
                if isinstance(fit, Refusal):
                    self._note_full(fit, places)
                    self._refuse(CandidateGroup(places), self._lasting.of_pool(view, kind, fit) or fit)
                    continue
                yield PlacementOption(view, places, (OfferedAssignment(kind, _EACH, fit),))
        for refusal, names in refused.values():
            self._refuse(CandidateGroup(tuple((name, 0) for name in sorted(names)), whole=True), refusal)

    def _by_cluster(self) -> Iterator[PlacementOption]:
        """Several engines: clusters are alike where all their pools are."""
        state = self._state
        for (cluster_profile, kinds, usages), names in state.fleet.groups.items():
            for facts, places in self._split(names).items():
                yield from self._assign_all(cluster_profile, facts, (kinds, usages), tuple(places))

    def _split(self, names: tuple[ClusterName, ...]) -> Mapping[Facts, list[Place]]:
        """Clusters whose pools are alike, by what the plugins read of them."""
        infos, reading = self._state.fleet.infos, self._state.reading
        if not reading.labels and not reading.staged:
            return {(): [(name, 0) for name in names]}
        parts: dict[Facts, list[Place]] = {}
        for name in names:
            parts.setdefault(reading.facts(infos[name].existing), []).append((name, 0))
        return parts

    def _assign_all(
        self,
        cluster_profile: ClusterProfile,
        facts: Facts,
        pools: tuple[tuple[PoolShape, ...], tuple[PoolUsage, ...]],
        places: tuple[Place, ...],
    ) -> Iterator[PlacementOption]:
        view, refusal = self.view(cluster_profile, facts, places[0][0])
        assigned = self._assigned(cluster_profile, pools, refusal)
        if isinstance(assigned, Unassignable):
            self._report_unassignable(view, pools[0], assigned, places)
            return
        for assignments in assigned:
            yield PlacementOption(view, places, assignments)

    def _assigned(
        self,
        cluster_profile: ClusterProfile,
        pools: tuple[tuple[PoolShape, ...], tuple[PoolUsage, ...]],
        refusal: Refusal | None,
    ) -> Assigned:
        kinds, usages = pools
        if refusal is None and not kinds and not cluster_profile.hardware_known:
            refusal = _NO_POOLS_YET
        if refusal is not None:
            return Unassignable(refusal)
        known = self._known_assignments.get(pools)
        if known is None:
            known = assign_engines(self._state.request.engines, kinds, usages, self.check_fit)
            self._known_assignments[pools] = known
        if isinstance(known, Unassignable) and lasts(known.refusal) and not cluster_profile.hardware_known:
            return Unassignable(_POOLS_UNREAD, known.pools)
        return known

    def _single(self, name: ClusterName) -> list[PlacementOption]:
        """The options of one cluster as it is in this cycle."""
        state = self._state
        info = state.info(name)
        if info.cluster is None:
            return []
        load, returning, version = state.load[name], name in state.returning, self._versions[name]
        view, refusal = self.view(info.profile, state.reading.facts(info.cluster), name)
        if len(state.request.engines) > 1:
            assigned = self._assigned(info.profile, (info.kinds, info.usages), refusal)
            if isinstance(assigned, Unassignable):
                self._report_unassignable(view, info.kinds, assigned, ((name, 0),), version)
                return []
            return [PlacementOption(view, ((name, 0),), found, load, returning, version) for found in assigned]
        if refusal is not None:
            self._refuse_cluster(view, info, refusal, version)
            return []
        offers: list[PlacementOption] = []
        for at, (kind, usage) in enumerate(zip(info.kinds, info.usages, strict=True)):
            fit = self.check_fit(state.request.engines[0], kind, usage)
            if isinstance(fit, Refusal):
                self._refuse(
                    CandidateGroup(((name, at),), version=version), self._lasting.of_pool(view, kind, fit) or fit
                )
            else:
                offers.append(
                    PlacementOption(
                        view, ((name, at),), (OfferedAssignment(kind, _EACH, fit),), load, returning, version
                    )
                )
        return offers

    def _refuse_cluster(self, view: ClusterView, info: ClusterInfo, refusal: Refusal, version: int) -> None:
        """Reports one cluster that is refused as a whole, and its pools that are refused for good."""
        name = info.existing.name
        lasting = [self._lasting.of_pool(view, kind, refusal) for kind in info.kinds]
        for at, why in enumerate(lasting):
            if why is not None:
                self._refuse(CandidateGroup(((name, at),), version=version), why)
        if not lasting or None in lasting:
            self._refuse(CandidateGroup(((name, 0),), whole=True, version=version), refusal)

    def _put(self, offers: Iterable[tuple[PlacementOption, int]]) -> None:
        """Scores and ranks what is admitted. Options that rechecked filters refuse are ranked too: that may change."""
        cursors: dict[int, int] = {}
        admitted: list[PlacementOption] = []
        for offer, cursor in offers:
            refusal = admit(self._profile.filters, self._state, offer)
            if refusal is None:
                admitted.append(offer)
                cursors[id(offer)] = cursor
            else:
                self._refuse(offer, lasting_refusal(self.filters, self._state, offer) or refusal)
        if not admitted:
            return
        ranked = self._runner.rank(self._state, admitted, self._reporter)
        for at, scored in enumerate(ranked):
            offer = scored.candidate
            if self._rechecked:
                self._remember(offer)
            tier = offer.view.tier or 0
            order = self._order(tier, offer.load, scored.total) if self._best_first else (0, 0, float(at))
            self._push(scored, cursors[id(offer)], order)

    def _remember(self, offer: PlacementOption) -> None:
        key = offer.cluster if offer.version else None
        known = self._offered.setdefault(key, {})
        if any(found.version != offer.version for found in islice(known.values(), 1)):
            known.clear()
        known[id(offer)] = offer

    def _push(self, scored: Scored[PlacementOption], cursor: int, order: _Order) -> None:
        places = scored.candidate.places
        if cursor < len(places):
            self._serial += 1
            heappush(self._heap, (order, places[cursor], self._serial, cursor, scored))

    def _note_full(self, refusal: Refusal, places: tuple[Place, ...]) -> None:
        if self._state.domains and refusal.code is RefusalCode.UNSCHEDULABLE:
            self._full_clusters.append(places[0][0])

    def _report_unassignable(
        self,
        view: ClusterView,
        kinds: tuple[PoolShape, ...],
        assigned: Unassignable,
        places: tuple[Place, ...],
        version: int = 0,
    ) -> None:
        shown = self._lasting.of_cluster(view, kinds, assigned.refusal) or assigned
        self._refuse(CandidateGroup(places, whole=True, version=version), shown.refusal)
        for engine, at, refusal in shown.pools:
            if not lasts(shown.refusal):
                self._note_full(refusal, places)
            self._refuse(
                CandidateGroup(tuple((name, at) for name, _ in places), engine=engine, version=version), refusal
            )


def _note_domains(state: SchedulingCycle, samples: Iterable[ClusterName]) -> None:
    """The label values where a replica could run if pools were not full: what spread rules compare."""
    for domain in state.domains:
        for name in samples:
            cluster = state.fleet.cluster(name)
            value = cluster.labels.get(domain.rule.key) if cluster is not None else None
            if value is not None:
                domain.values.add(value)


def _note_prices(state: SchedulingCycle, offers: Iterable[PlacementOption]) -> None:
    for offer in offers:
        price = offer.price
        if price is not None:
            amount, currency = price
            state.cheapest[currency] = min(state.cheapest.get(currency, amount), amount)
