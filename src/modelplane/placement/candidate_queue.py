"""Every place that could take the next replica, best first.

Places that are alike are one offer. The board is made once for a pass; seating a replica changes one cluster, so only
that cluster is looked at again. Clusters where the deployment has replicas already are offers of their own, since their
load, and what they hold in this pass, set them apart from their likes.

A cluster that got a replica is looked at again only when it could be the best: its offers were no better than the one
that was taken, and one more replica on it makes them worse by a known amount. That holds for one engine that each pool
can serve in one way. Otherwise the next replica may sit elsewhere on the cluster and at a better price, so the cluster
is looked at again at once.

A spread rule depends on where the other replicas are, so offers that it refuses wait and are asked again after each
replica that is seated. So do plugins that do not say that they are steady; where one of them scores, or another than
the usual picker ranks, all offers are looked at again each time.

Every answer is told to the reporter, if there is one, about all places that it holds for.
"""

from collections.abc import Iterable, Iterator
from heapq import heappop, heappush
from itertools import islice
from typing import Final

from modelplane.api.meta import ClusterName
from modelplane.framework import Filter, Refusal, RefusalCode, Reporter, Runner, Scored, admit
from modelplane.placement.cluster_info import ClusterProfile, PoolShape
from modelplane.placement.cycle import SchedulingCycle
from modelplane.placement.filters import PoolTaintsFilter, seat_engine
from modelplane.placement.index import Facts, Place
from modelplane.placement.matching import Unmatched, engine_ways
from modelplane.placement.offers import ClusterView, Fit, OfferedAssignment, PlacementOption, PoolView
from modelplane.placement.plugins import PlacementProfile, line_up
from modelplane.placement.request import EngineRequest
from modelplane.placement.reservation import Seated, Unassignable, seat_engines
from modelplane.placement.room import Use
from modelplane.placement.scorers import BestFirstPicker, SpreadScorer
from modelplane.placement.trace import CandidateGroup, Subject, TraceReporter

_EACH: Final = -1
"""Position of a seat whose pool is named by the place."""
_ROUNDING: Final = 1e-9
"""A cluster that may be as good as another is looked at first, whichever way its total was rounded."""
_Entry = tuple[float, Place, int, int, Scored[PlacementOption] | None]
"""Order, place, serial, position of the place in its offer, offer; without an offer, a cluster to look at again."""


class CandidateQueue:
    def __init__(
        self, state: SchedulingCycle, profile: PlacementProfile, reporter: Reporter[Subject] | None = None
    ) -> None:
        self._state = state
        self._plugins = profile
        self._reporter = reporter
        self._picks = None if isinstance(reporter, TraceReporter) else reporter
        """Who hears of picks; a trace learns of them from the placements."""
        self._asks_pools = not all(isinstance(plugin, PoolTaintsFilter) for plugin in profile.pool_filters)
        """Whether pools without taints are asked about, too."""
        self._falling: dict[int, bool] = {}
        state.reading = profile.reading(state)
        self._views: dict[tuple[ClusterProfile, Facts], tuple[ClusterView, Refusal | None]] = {}
        self._seatings: dict[tuple[tuple[PoolShape, ...], tuple[Use, ...]], Seated] = {}
        self._roomless: list[ClusterName] = []
        """One cluster of each sort where a replica could run, were there room."""
        self._waiting: list[tuple[PlacementOption, int]] = []
        self._heap: list[_Entry] = []
        self._serial = 0
        self._versions = dict.fromkeys(sorted({*state.load, *state.trial, *state.returning}), 1)
        """Clusters that differ from their likes, by how often they changed."""
        grouped = list(self._grouped())
        samples = [*(offer.cluster for offer in grouped), *self._roomless]
        offers = [*grouped, *(offer for name in self._versions for offer in self._single(name))]
        _note_domains(state, samples)
        _note_prices(state, offers)
        lineup = line_up(profile, state, [traits for traits, _ in self._views])
        self._profile, self._shifting = lineup.profile, lineup.shifting
        self._runner = Runner(self._profile)
        weights = [(weighted.scorer, weighted.weight) for weighted in self._profile.scorers]
        spread = sum(weight for scorer, weight in weights if isinstance(scorer, SpreadScorer))
        self._spread = spread / sum(weight for _, weight in weights) if spread else 0.0
        """What the score for spreading is of the total."""
        self._usual = isinstance(profile.picker, BestFirstPicker)
        self._eager = not lineup.steady or not self._usual
        self._offered: dict[ClusterName | None, dict[int, PlacementOption]] = {}
        """What was scored: on clusters that differ from their likes, and under None on all others."""
        self._put((offer, 0) for offer in offers)

    @property
    def filters(self) -> tuple[Filter[SchedulingCycle, PlacementOption], ...]:
        """All that are asked about whole offers in this pass."""
        return (*self._profile.filters, *self._shifting)

    def best(self) -> tuple[PlacementOption, Place, float] | None:
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
            if self._shifting and admit(self._shifting, self._state, offer) is not None:
                self._waiting.append((offer, cursor))
                continue
            if self._picks is not None:
                self._picks.picked(self._profile.name, CandidateGroup((place,), whole=len(offer.seats) > 1))
            return offer, place, scored.total
        return None

    def took(self, cluster: ClusterName, total: float) -> None:
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
            order = self._loss(cluster) - total - _ROUNDING
            heappush(self._heap, (order, (cluster, 0), self._serial, 0, None))
        self._put(again)

    def _only_falls(self, cluster: ClusterName) -> bool:
        """Whether no offer of a cluster can be better than one of it that was taken."""
        engines = self._state.ask.engines
        if len(engines) > 1:
            return False
        kinds = self._state.fleet.sites[cluster].kinds
        known = self._falling.get(id(kinds))
        if known is None:
            ways = (engine_ways(engines[0], kind.hardware) for kind in kinds)
            known = all(isinstance(found, Unmatched) or len(found) == 1 for found in ways)
            self._falling[id(kinds)] = known
        return known

    def _loss(self, cluster: ClusterName) -> float:
        """How much the score for spreading alone lowers a cluster's total with its latest replica."""
        load = self._state.load[cluster]
        return self._spread * (1.0 / load - 1.0 / (load + 1))

    def close(self) -> None:
        """Tells what was scored and is refused as the pass leaves things."""
        reporter = self._reporter
        if reporter is None or not self._shifting:
            return
        for offer in (offer for offers in self._offered.values() for offer in offers.values()):
            refusal = admit(self._shifting, self._state, offer)
            if refusal is not None:
                reporter.refused(self._profile.name, offer, refusal)

    def tell_bare(self) -> None:
        """Tells of clusters without pools, which are in no cell. It reads the whole fleet."""
        if len(self._state.ask.engines) > 1:
            return
        for name, site in sorted(self._state.fleet.sites.items()):
            if site.cluster is not None and not site.pools:
                _, refusal = self.view(site.traits, self._state.reading.facts(site.cluster), name)
                nothing = Refusal("Pools", RefusalCode.UNSCHEDULABLE, "the cluster has no pools yet")
                self._refuse(CandidateGroup(((name, 0),), whole=True), refusal or nothing)

    def _refuse(self, subject: Subject, refusal: Refusal) -> None:
        if self._reporter is not None:
            self._reporter.refused(self._plugins.name, subject, refusal)

    def view(self, traits: ClusterProfile, facts: Facts, name: ClusterName) -> tuple[ClusterView, Refusal | None]:
        """A make of cluster, and why all of it is refused."""
        known = self._views.get((traits, facts))
        if known is None:
            cluster = self._state.fleet.sites[name].cluster
            if cluster is None:
                raise LookupError(f"cluster {name} is in the index and not in the fleet")
            view = ClusterView(traits, facts, cluster)
            known = view, admit(self._plugins.cluster_filters, self._state, view)
            self._views[traits, facts] = known
        return known

    def judge(self, engine: EngineRequest, kind: PoolShape, use: Use) -> Fit | Refusal:
        """What the filters say of an engine on a pool."""
        if kind.taints or self._asks_pools:
            refusal = admit(self._plugins.pool_filters, self._state, PoolView(engine, kind, use))
            if refusal is not None:
                return refusal
        return seat_engine(engine, kind, use)

    def _grouped(self) -> Iterator[PlacementOption]:
        return self._by_pool() if len(self._state.ask.engines) == 1 else self._by_cluster()

    def _by_pool(self) -> Iterator[PlacementOption]:
        """One engine: pools of one kind and use are alike, whatever else their clusters have."""
        state = self._state
        engine, sites, reading = state.ask.engines[0], state.fleet.sites, state.reading
        refused: dict[tuple[ClusterProfile, Facts], tuple[Refusal, set[ClusterName]]] = {}
        for (traits, kind, use), cell in state.fleet.cells.items():
            for facts, places in cell.split(reading, sites):
                view, refusal = self.view(traits, facts, places[0][0])
                if refusal is not None:
                    refused.setdefault((traits, facts), (refusal, set()))[1].update(name for name, _ in places)
                    continue
                fit = self.judge(engine, kind, use)
                if isinstance(fit, Refusal):
                    self._note_roomless(fit, places)
                    self._refuse(CandidateGroup(places), fit)
                    continue
                yield PlacementOption(view, places, (OfferedAssignment(kind, _EACH, fit),))
        for refusal, names in refused.values():
            self._refuse(CandidateGroup(tuple((name, 0) for name in sorted(names)), whole=True), refusal)

    def _by_cluster(self) -> Iterator[PlacementOption]:
        """Several engines: clusters are alike where all their pools are."""
        state = self._state
        sites, reading = state.fleet.sites, state.reading
        for (traits, kinds, uses), names in state.fleet.groups.items():
            parts: dict[Facts, list[Place]] = {}
            for name in names:
                cluster = sites[name].cluster
                if cluster is not None:
                    parts.setdefault(reading.facts(cluster), []).append((name, 0))
            for facts, places in parts.items():
                yield from self._seat_all(traits, facts, (kinds, uses), tuple(places))

    def _seat_all(
        self,
        traits: ClusterProfile,
        facts: Facts,
        pools: tuple[tuple[PoolShape, ...], tuple[Use, ...]],
        places: tuple[Place, ...],
    ) -> Iterator[PlacementOption]:
        view, refusal = self.view(traits, facts, places[0][0])
        if refusal is not None:
            self._refuse(CandidateGroup(places, whole=True), refusal)
            return
        seated = self._seated(pools)
        if isinstance(seated, Unassignable):
            self._tell_unseated(seated, places)
            return
        yield PlacementOption(view, places, seated)

    def _seated(self, pools: tuple[tuple[PoolShape, ...], tuple[Use, ...]]) -> Seated:
        known = self._seatings.get(pools)
        if known is None:
            known = self._seatings[pools] = seat_engines(self._state.ask.engines, *pools, self.judge)
        return known

    def _single(self, name: ClusterName) -> list[PlacementOption]:
        """The offers of one cluster as it is in this pass."""
        state = self._state
        site = state.site(name)
        if site.cluster is None:
            return []
        load, returning, version = state.load[name], name in state.returning, self._versions[name]
        view, refusal = self.view(site.traits, state.reading.facts(site.cluster), name)
        if refusal is not None:
            self._refuse(CandidateGroup(((name, 0),), whole=True, version=version), refusal)
            return []
        if len(state.ask.engines) > 1:
            seated = self._seated((site.kinds, site.uses))
            if isinstance(seated, Unassignable):
                self._tell_unseated(seated, ((name, 0),), version)
                return []
            return [PlacementOption(view, ((name, 0),), seated, load, returning, version)]
        offers: list[PlacementOption] = []
        for at, (kind, use) in enumerate(zip(site.kinds, site.uses, strict=True)):
            fit = self.judge(state.ask.engines[0], kind, use)
            if isinstance(fit, Refusal):
                self._refuse(CandidateGroup(((name, at),), version=version), fit)
            else:
                offers.append(
                    PlacementOption(
                        view, ((name, at),), (OfferedAssignment(kind, _EACH, fit),), load, returning, version
                    )
                )
        return offers

    def _put(self, offers: Iterable[tuple[PlacementOption, int]]) -> None:
        """Score what is admitted and rank it. What shifting filters refuse is ranked too, since that may pass."""
        cursors: dict[int, int] = {}
        admitted: list[PlacementOption] = []
        for offer, cursor in offers:
            refusal = admit(self._profile.filters, self._state, offer)
            if refusal is None:
                admitted.append(offer)
                cursors[id(offer)] = cursor
            else:
                self._refuse(offer, refusal)
        if not admitted:
            return
        ranked = self._runner.rank(self._state, admitted, self._reporter)
        for at, scored in enumerate(ranked):
            offer = scored.candidate
            if self._shifting:
                self._remember(offer)
            self._push(scored, cursors[id(offer)], -scored.total if self._usual else at)

    def _remember(self, offer: PlacementOption) -> None:
        key = offer.cluster if offer.version else None
        known = self._offered.setdefault(key, {})
        if any(found.version != offer.version for found in islice(known.values(), 1)):
            known.clear()
        known[id(offer)] = offer

    def _push(self, scored: Scored[PlacementOption], cursor: int, order: float) -> None:
        places = scored.candidate.places
        if cursor < len(places):
            self._serial += 1
            heappush(self._heap, (order, places[cursor], self._serial, cursor, scored))

    def _note_roomless(self, refusal: Refusal, places: tuple[Place, ...]) -> None:
        if self._state.domains and refusal.code is RefusalCode.UNSCHEDULABLE:
            self._roomless.append(places[0][0])

    def _tell_unseated(self, seated: Unassignable, places: tuple[Place, ...], version: int = 0) -> None:
        self._refuse(CandidateGroup(places, whole=True, version=version), seated.refusal)
        for engine, at, refusal in seated.pools:
            self._note_roomless(refusal, places)
            self._refuse(
                CandidateGroup(tuple((name, at) for name, _ in places), engine=engine, version=version), refusal
            )


def _note_domains(state: SchedulingCycle, samples: Iterable[ClusterName]) -> None:
    """The values of labels where a replica could run, were there room: what spread rules compare."""
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
