"""Every place that could take the next replica, best first.

Places that are alike are one offer. The board is made once for a pass; seating a replica changes one cluster, so only
that cluster is looked at again. Clusters where the deployment has replicas already are offers of their own, since their
load, and what they hold in this pass, set them apart from their likes.

A cluster that got a replica is looked at again only when it could be the best: its offers were no better than the one
that was taken, and one more replica on it makes them worse by a known amount.

A spread rule depends on where the other replicas are, so offers that it refuses wait and are asked again after each
replica that is seated.
"""

from collections.abc import Iterable, Iterator
from heapq import heappop, heappush
from typing import Final

from modelplane.api.meta import ClusterName
from modelplane.fleet.ask import EngineAsk
from modelplane.fleet.filters import CLUSTER_FILTERS, POOL_FILTERS, Spread, seat_engine
from modelplane.fleet.index import Facts, Place
from modelplane.fleet.offers import ClusterView, Fit, Offer, OfferedSeat, PoolView
from modelplane.fleet.passing import Pass
from modelplane.fleet.room import Use
from modelplane.fleet.scorers import profile_for
from modelplane.fleet.seating import Seated, Unseated, seat_engines
from modelplane.fleet.site import PoolKind, Traits
from modelplane.fleet.trace import Finding
from modelplane.framework import Code, Refusal, Scored, admit, rank, score

_EACH: Final = -1
"""Position of a seat whose pool is named by the place."""
_Entry = tuple[float, Place, int, int, Scored[Offer] | None]
"""Total, place, serial, position of the place in its offer, offer; without an offer, a cluster to look at again."""
_SPREAD: Final = Spread()


class Board:
    def __init__(self, state: Pass) -> None:
        self._state = state
        self._views: dict[tuple[Traits, Facts], tuple[ClusterView, Refusal | None]] = {}
        self._seatings: dict[tuple[tuple[PoolKind, ...], tuple[Use, ...]], Seated] = {}
        self._refused: list[Finding] = []
        self._scored: dict[int, Scored[Offer]] = {}
        self._singles: dict[ClusterName, tuple[list[Finding], dict[int, Scored[Offer]]]] = {}
        self._waiting: list[tuple[Offer, int]] = []
        self._heap: list[_Entry] = []
        self._serial = 0
        self._versions = dict.fromkeys(sorted({*state.load, *state.trial, *state.returning}), 1)
        """Clusters that differ from their likes, by how often they changed."""
        offers = [*self._grouped(), *(offer for name in self._versions for offer in self._single(name))]
        _note_domains(state, offers, self._refused)
        _note_prices(state, offers)
        self.profile = profile_for(state, [traits for traits, _ in self._views])
        self._soft = any(not rule.hard for rule in state.ask.spread)
        self._put((offer, 0) for offer in offers)

    def best(self) -> tuple[Offer, Place, float] | None:
        """The best offer, the place to take and its total; None when no place is left that may be taken."""
        while self._heap:
            _, place, _, cursor, scored = heappop(self._heap)
            if scored is None:
                self._put((offer, 0) for offer in self._single(place[0]))
                continue
            offer = scored.candidate
            self._push(scored, cursor + 1)
            if offer.version != self._versions.get(place[0], 0):
                continue
            if self._state.domains and _SPREAD.refuse(self._state, offer) is not None:
                self._waiting.append((offer, cursor))
                continue
            return offer, place, scored.total
        return None

    def took(self, cluster: ClusterName, total: float) -> None:
        """A cluster got a replica, by an offer of this total."""
        self._versions[cluster] = self._versions.get(cluster, 0) + 1
        again, self._waiting = self._waiting, []
        if self._soft:
            again += [(entry[4].candidate, entry[3]) for entry in self._heap if entry[4] is not None]
            again += [(offer, 0) for offer in self._single(cluster)]
            self._heap = []
        else:
            self._serial += 1
            heappush(self._heap, (self._loss(cluster) - total, (cluster, 0), self._serial, 0, None))
        self._put(again)

    def _loss(self, cluster: ClusterName) -> float:
        """How much the score for spreading alone lowers a cluster's total with its latest replica."""
        load = self._state.load[cluster]
        whole = sum(weighted.weight for weighted in self.profile.scorers)
        spread = self._state.ask.weights.spread
        return spread * (1.0 / load - 1.0 / (load + 1)) / whole if whole else 0.0

    def findings(self) -> tuple[Finding, ...]:
        """What is known of every place, as the pass leaves it."""
        found = list(self._refused)
        found += [self._shown(scored) for scored in self._scored.values()]
        for refused, scored_offers in self._singles.values():
            found += refused
            found += [self._shown(scored) for scored in scored_offers.values()]
        return tuple(found)

    def view(self, traits: Traits, facts: Facts, name: ClusterName) -> tuple[ClusterView, Refusal | None]:
        """A make of cluster, and why all of it is refused."""
        known = self._views.get((traits, facts))
        if known is None:
            cluster = self._state.fleet.sites[name].cluster
            if cluster is None:
                raise LookupError(f"cluster {name} is in the index and not in the fleet")
            view = ClusterView(traits, facts, cluster)
            known = view, admit(CLUSTER_FILTERS, self._state, view)
            self._views[traits, facts] = known
        return known

    def judge(self, engine: EngineAsk, kind: PoolKind, use: Use) -> Fit | Refusal:
        """What the filters say of an engine on a pool."""
        if kind.taints:
            refusal = admit(POOL_FILTERS, self._state, PoolView(engine, kind, use))
            if refusal is not None:
                return refusal
        return seat_engine(engine, kind, use)

    def _grouped(self) -> Iterator[Offer]:
        return self._by_pool() if len(self._state.ask.engines) == 1 else self._by_cluster()

    def _by_pool(self) -> Iterator[Offer]:
        """One engine: pools of one kind and use are alike, whatever else their clusters have."""
        state = self._state
        engine, sites, reading = state.ask.engines[0], state.fleet.sites, state.reading
        refused: dict[tuple[Traits, Facts], set[ClusterName]] = {}
        for (traits, kind, use), cell in state.fleet.cells.items():
            for facts, places in cell.split(reading, sites):
                view, refusal = self.view(traits, facts, places[0][0])
                if refusal is not None:
                    refused.setdefault((traits, facts), set()).update(name for name, _ in places)
                    continue
                fit = self.judge(engine, kind, use)
                if isinstance(fit, Refusal):
                    self._refused.append(Finding(places, fit))
                    continue
                yield Offer(view, places, (OfferedSeat(kind, _EACH, fit),))
        for key, names in refused.items():
            self._refused.append(Finding(tuple((name, 0) for name in sorted(names)), self._views[key][1], whole=True))

    def _by_cluster(self) -> Iterator[Offer]:
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
        traits: Traits,
        facts: Facts,
        pools: tuple[tuple[PoolKind, ...], tuple[Use, ...]],
        places: tuple[Place, ...],
    ) -> Iterator[Offer]:
        view, refusal = self.view(traits, facts, places[0][0])
        if refusal is not None:
            self._refused.append(Finding(places, refusal, whole=True))
            return
        seated = self._seated(pools)
        if isinstance(seated, Unseated):
            self._refused += _unseated(seated, places)
            return
        yield Offer(view, places, seated)

    def _seated(self, pools: tuple[tuple[PoolKind, ...], tuple[Use, ...]]) -> Seated:
        known = self._seatings.get(pools)
        if known is None:
            known = self._seatings[pools] = seat_engines(self._state.ask.engines, *pools, self.judge)
        return known

    def _single(self, name: ClusterName) -> list[Offer]:
        """The offers of one cluster as it is in this pass."""
        state = self._state
        site = state.site(name)
        findings: list[Finding] = []
        self._singles[name] = findings, {}
        if site.cluster is None:
            return []
        view, refusal = self.view(site.traits, state.reading.facts(site.cluster), name)
        if refusal is not None:
            findings.append(Finding(((name, 0),), refusal, whole=True))
            return []
        load, returning, version = state.load[name], name in state.returning, self._versions[name]
        if len(state.ask.engines) > 1:
            seated = self._seated((site.kinds, site.uses))
            if isinstance(seated, Unseated):
                findings += _unseated(seated, ((name, 0),))
                return []
            return [Offer(view, ((name, 0),), seated, load, returning, version)]
        offers: list[Offer] = []
        for at, (kind, use) in enumerate(zip(site.kinds, site.uses, strict=True)):
            fit = self.judge(state.ask.engines[0], kind, use)
            if isinstance(fit, Refusal):
                findings.append(Finding(((name, at),), fit))
            else:
                offers.append(Offer(view, ((name, at),), (OfferedSeat(kind, _EACH, fit),), load, returning, version))
        return offers

    def _put(self, offers: Iterable[tuple[Offer, int]]) -> None:
        """Score what is admitted and rank it. What only the spread rules refuse is ranked too, since that may pass."""
        cursors: dict[int, int] = {}
        admitted: list[Offer] = []
        for offer, cursor in offers:
            refusal = admit(self.profile.filters, self._state, offer)
            if refusal is None or refusal.filter == _SPREAD.name:
                admitted.append(offer)
                cursors[id(offer)] = cursor
            else:
                findings = self._singles[offer.cluster][0] if offer.version else self._refused
                findings.append(Finding(offer.places, refusal, whole=len(offer.seats) > 1))
        if not admitted:
            return
        for scored in rank(self.profile, self._state, score(self.profile, self._state, admitted)):
            offer = scored.candidate
            known = self._singles[offer.cluster][1] if offer.version else self._scored
            known[id(offer)] = scored
            self._push(scored, cursors[id(offer)])

    def _push(self, scored: Scored[Offer], cursor: int) -> None:
        places = scored.candidate.places
        if cursor < len(places):
            self._serial += 1
            heappush(self._heap, (-scored.total, places[cursor], self._serial, cursor, scored))

    def _shown(self, scored: Scored[Offer]) -> Finding:
        offer = scored.candidate
        refusal = _SPREAD.refuse(self._state, offer) if self._state.domains else None
        if refusal is not None:
            return Finding(offer.places, refusal, whole=len(offer.seats) > 1)
        return Finding(offer.places, None, scored, whole=len(offer.seats) > 1)


def _unseated(seated: Unseated, places: tuple[Place, ...]) -> list[Finding]:
    details = [
        Finding(tuple((name, at) for name, _ in places), refusal, engine=engine) for engine, at, refusal in seated.pools
    ]
    return [Finding(places, seated.refusal, whole=True), *details]


def _note_domains(state: Pass, offers: Iterable[Offer], refused: Iterable[Finding]) -> None:
    """The values of labels where a replica could run, were there room: what spread rules compare."""
    if not state.domains:
        return
    samples = [offer.places[0][0] for offer in offers]
    samples += [
        finding.places[0][0]
        for finding in refused
        if finding.refusal is not None and finding.refusal.code is Code.REFUSED and not finding.whole
    ]
    for domain in state.domains:
        for name in samples:
            cluster = state.fleet.cluster(name)
            value = cluster.labels.get(domain.rule.key) if cluster is not None else None
            if value is not None:
                domain.values.add(value)


def _note_prices(state: Pass, offers: Iterable[Offer]) -> None:
    for offer in offers:
        price = offer.price
        if price is not None:
            amount, currency = price
            state.cheapest[currency] = min(state.cheapest.get(currency, amount), amount)
