"""Why each candidate was taken or not, with numbers.

The scheduler decides for groups of like places and reports each, so keeping a trace costs nothing that
grows with the fleet. `TraceReporter` is the reporter that keeps one; `candidates` spells all of it out; `shown` gives a
bounded part that has something of each group.
"""

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from itertools import islice
from typing import Final

import msgspec

from modelplane.api.meta import ClusterName, PoolName
from modelplane.framework import Refusal, RefusalCode
from modelplane.placement.cluster_info import ClusterInfo
from modelplane.placement.decisions import Placement
from modelplane.placement.index import Place
from modelplane.placement.offers import PlacementOption

_LAST: Final = 1 << 30
"""Behind every position of a pool."""


class CandidateVerdict(StrEnum):
    CHOSEN = "Chosen"
    ELIGIBLE = "Eligible"
    REFUSED = "Refused"


class TraceCandidate(msgspec.Struct, frozen=True, kw_only=True):
    """What was found of a cluster, or of one pool of it."""

    cluster: ClusterName
    verdict: CandidateVerdict
    pool: PoolName | None = None
    engine: str = ""
    """The engine that was refused, where the deployment has several."""
    filter: str = ""
    reason: str = ""
    may_pass: bool = False
    """Refused as things are; not refused for good."""
    score: float | None = None
    parts: tuple[tuple[str, float], ...] = ()
    tier: int | None = None
    """The tier of the cluster, from 1, where the deployment has tiers: it counts before the score."""
    replicas: int | None = None
    """Replicas of the deployment on the cluster, for a place that was scored."""


class CandidateGroup(msgspec.Struct, frozen=True, eq=False):
    """Places that get one answer before there is an offer."""

    places: tuple[Place, ...]
    whole: bool = False
    """It is about clusters, not about pools of them."""
    engine: str = ""
    """The engine that it is about, where the deployment has several."""
    version: int = 0
    """As of a PlacementOption."""


Subject = CandidateGroup | PlacementOption
"""What is reported."""


class GroupReport(msgspec.Struct, frozen=True, eq=False, kw_only=True):
    """One answer for places that are alike."""

    places: tuple[Place, ...]
    refusal: Refusal | None = None
    total: float | None = None
    """The score of what was not refused, and its parts."""
    parts: tuple[tuple[str, float], ...] = ()
    whole: bool
    """It is about clusters, not about pools of them."""
    engine: str = ""
    apart: bool
    """It is about one cluster that the cycle sets apart from similar ones, and replaces what was found of those."""
    option: PlacementOption | None = None
    """What was scored, where a replica has several engines: clusters have one option or several."""
    tier: int | None = None
    replicas: int | None = None
    """Of the deployment, on each of these clusters, for places that were scored."""


class _Notes:
    """Reports about places in one state."""

    __slots__ = ("groups", "offers", "version")

    def __init__(self, version: int) -> None:
        self.version = version
        self.groups: list[GroupReport] = []
        self.offers: dict[int, tuple[PlacementOption, GroupReport]] = {}
        """By identity; the offer is kept so that its identity stays its own."""


class TraceReporter:
    """Keeps the last report of each group of places: a report of a cluster that changed replaces those before."""

    __slots__ = ("_notes",)

    def __init__(self) -> None:
        self._notes: dict[ClusterName | None, _Notes] = {}

    def refused(self, _profile: str, subject: Subject, refusal: Refusal, /) -> None:
        notes = self._about(subject)
        if isinstance(subject, CandidateGroup):
            apart = subject.version > 0
            notes.groups.append(
                GroupReport(
                    places=subject.places, refusal=refusal, whole=subject.whole, engine=subject.engine, apart=apart
                )
            )
        else:
            finding = GroupReport(
                places=subject.places,
                refusal=refusal,
                whole=len(subject.assignments) > 1,
                apart=subject.version > 0,
            )
            notes.offers[id(subject)] = subject, finding

    def scored(self, _profile: str, subject: Subject, total: float, parts: tuple[tuple[str, float], ...], /) -> None:
        if isinstance(subject, PlacementOption):
            several = len(subject.assignments) > 1
            finding = GroupReport(
                places=subject.places,
                total=total,
                parts=parts,
                whole=several,
                apart=subject.version > 0,
                option=subject if several else None,
                tier=subject.view.tier,
                replicas=subject.load,
            )
            self._about(subject).offers[id(subject)] = subject, finding

    def picked(self, _profile: str, subject: Subject, /) -> None:
        """The placements have what was picked."""

    def findings(self) -> tuple[GroupReport, ...]:
        """Reports of like places first, then of clusters that were set apart."""
        found: list[GroupReport] = []
        for _, notes in sorted(self._notes.items(), key=lambda item: item[0] or ""):
            found += notes.groups
            found += [finding for _, finding in notes.offers.values()]
        return tuple(found)

    def _about(self, subject: Subject) -> _Notes:
        key = subject.places[0][0] if subject.version else None
        known = self._notes.get(key)
        if known is None or known.version != subject.version:
            known = self._notes[key] = _Notes(subject.version)
        return known


class PlacementTrace:
    """Everything that was found in one cycle."""

    __slots__ = ("_apart", "_findings", "_infos", "_placements")

    def __init__(
        self,
        findings: tuple[GroupReport, ...] = (),
        infos: Mapping[ClusterName, ClusterInfo] | None = None,
        placements: Sequence[Placement] = (),
    ) -> None:
        self._findings = findings
        self._infos = infos or {}
        self._placements = placements
        self._apart = frozenset(finding.places[0][0] for finding in findings if finding.apart)

    def candidates(self) -> tuple[TraceCandidate, ...]:
        """All of it, by cluster and pool."""
        found: dict[tuple[ClusterName, str, str], TraceCandidate] = {}
        for finding in self._findings:
            for place in finding.places:
                if self._is_elsewhere(finding, place):
                    continue
                candidate = self._candidate(finding, place)
                pools = candidate.pool or "".join(f"{name}," for name in self._pools_of(finding, place[0]))
                found[candidate.cluster, pools, candidate.engine] = candidate
        for candidate in self._picked(found):
            found[candidate.cluster, candidate.pool or "", ""] = candidate
        return tuple(candidate for _, candidate in sorted(found.items()))

    def shown(self, limit: int) -> tuple[tuple[TraceCandidate, ...], int]:
        """What fits a status: the chosen, then the best of each sort, then more; and how many are left out."""
        # Without scores: the next pass, which has nothing to place, would not know them.
        picked = (
            msgspec.structs.replace(found, score=None, parts=(), tier=None, replicas=None)
            for found in islice(self._picked({}), limit)
        )
        found = {(candidate.cluster, candidate.pool): candidate for candidate in picked}
        ordered = sorted(self._findings, key=_importance)
        depth = 0
        while len(found) < limit and ordered:
            ordered = [finding for finding in ordered if depth < len(finding.places)]
            for finding in ordered:
                if len(found) >= limit:
                    break
                cluster, position = finding.places[depth]
                pool = None if finding.whole else self._infos[cluster].pools[position].name
                if (cluster, pool) not in found and not self._is_elsewhere(finding, finding.places[depth]):
                    found[cluster, pool] = self._candidate(finding, finding.places[depth])
            depth += 1
        return tuple(found.values()), max(self.total - len(found), 0)

    @property
    def total(self) -> int:
        """How many candidates there are, counting a place once for each finding about it."""
        return sum(map(self._count, self._findings)) or self._chosen().total()

    def refusals(self) -> Iterator[tuple[Refusal, int]]:
        """Each sort of refusal with how many places it is about."""
        return ((refusal, places) for _, refusal, places in self._refused())

    @property
    def fits_nowhere(self) -> bool:
        """Whether no place would take a replica even if all that is held were free: waiting does not help."""
        return not any(refusal.code is RefusalCode.UNSCHEDULABLE for refusal in self._answers())

    @property
    def decisive(self) -> tuple[Refusal, ...]:
        """The refusals of places that may pass, or all of them where none may: what is to be waited for or changed."""
        answers = tuple(self._answers())
        return tuple(refusal for refusal in answers if refusal.code is RefusalCode.UNSCHEDULABLE) or answers

    def _answers(self) -> Iterator[Refusal]:
        """Without those of single engines on a pool, which explain the answer of their cluster."""
        return (refusal for engine, refusal, _ in self._refused() if not engine)

    def _refused(self) -> Iterator[tuple[str, Refusal, int]]:
        for finding in self._findings:
            if finding.refusal is not None and (places := self._count(finding)):
                yield finding.engine, finding.refusal, places

    def _is_elsewhere(self, finding: GroupReport, place: Place) -> bool:
        """Whether another finding replaces this one for a place."""
        return not finding.apart and place[0] in self._apart

    def _count(self, finding: GroupReport) -> int:
        """How many places a finding is the last for. Places are sorted by cluster, so few are visited."""
        places = finding.places
        if finding.apart or not self._apart:
            return len(places)
        return len(places) - sum(
            bisect_right(places, (name, _LAST)) - bisect_left(places, (name, 0)) for name in self._apart
        )

    def _candidate(self, finding: GroupReport, place: Place) -> TraceCandidate:
        cluster, position = place
        pool = None if finding.whole else self._infos[cluster].pools[position].name
        refusal = finding.refusal
        if refusal is not None:
            return TraceCandidate(
                cluster=cluster,
                pool=pool,
                engine=finding.engine,
                verdict=CandidateVerdict.REFUSED,
                filter=refusal.filter,
                reason=refusal.reason,
                may_pass=refusal.code is RefusalCode.UNSCHEDULABLE,
            )
        score = round(finding.total, 6) if finding.total is not None else None
        return TraceCandidate(
            cluster=cluster,
            pool=pool,
            verdict=CandidateVerdict.ELIGIBLE,
            reason=self._described(finding, cluster),
            score=score,
            parts=finding.parts,
            tier=_from_one(finding.tier),
            replicas=finding.replicas,
        )

    def _pools_of(self, finding: GroupReport, cluster: ClusterName) -> list[PoolName]:
        """The pool of each engine, where there are several."""
        assignments = finding.option.assignments if finding.option is not None else ()
        return [self._infos[cluster].pools[found.position].name for found in assignments]

    def _described(self, finding: GroupReport, cluster: ClusterName) -> str:
        """Pools and price of an option for several engines: what sets it apart from others of its cluster."""
        if finding.option is None:
            return ""
        price = finding.option.price
        pools = ", ".join(self._pools_of(finding, cluster))
        return f"pools {pools}" if price is None else f"pools {pools}; {price[0]:g} {price[1]} per hour"

    def _picked(self, found: Mapping[tuple[ClusterName, str, str], TraceCandidate]) -> Iterator[TraceCandidate]:
        """Where replicas are, with what was found of that place for one more."""
        for (cluster, pool), replicas in self._chosen().items():
            known = self._last_finding(cluster, pool)
            refusal = known.refusal if known is not None else None
            best = self._best_with(found, cluster, pool)
            if best is None and known is not None and refusal is None:
                best = self._candidate(known, (cluster, 0))
            yield TraceCandidate(
                cluster=cluster,
                pool=pool,
                verdict=CandidateVerdict.CHOSEN,
                reason=f"holds {_replicas(replicas)}{_one_more(known, refusal)}",
                may_pass=refusal is not None and refusal.code is RefusalCode.UNSCHEDULABLE,
                score=best.score if best is not None else None,
                parts=best.parts if best is not None else (),
                tier=best.tier if best is not None else None,
                replicas=best.replicas if best is not None else None,
            )

    @staticmethod
    def _best_with(
        found: Mapping[tuple[ClusterName, str, str], TraceCandidate], cluster: ClusterName, pool: PoolName
    ) -> TraceCandidate | None:
        """The best option of a cluster for several engines, one of which is on a pool."""
        options = [
            candidate
            for (name, pools, _), candidate in found.items()
            if name == cluster and pool in pools.split(",")[:-1] and candidate.score is not None
        ]
        return max(options, key=lambda candidate: candidate.score or 0.0, default=None)

    def _last_finding(self, cluster: ClusterName, pool: PoolName) -> GroupReport | None:
        """The last finding about a pool, or about its cluster. Places are sorted, so few are visited."""
        info = self._infos.get(cluster)
        position = info.position(pool) if info is not None else None
        found: GroupReport | None = None
        for finding in self._findings:
            low, high = (0, _LAST) if finding.whole or position is None else (position, position)
            there = bisect_right(finding.places, (cluster, high)) > bisect_left(finding.places, (cluster, low))
            if there and (finding.apart or cluster not in self._apart):
                found = finding
        return found

    def _chosen(self) -> Counter[tuple[ClusterName, PoolName]]:
        """Where replicas are, and how many."""
        chosen: Counter[tuple[ClusterName, PoolName]] = Counter()
        for placement in self._placements:
            cluster, assignments = placement.replica.cluster, placement.replica.assignments
            pools = (
                (assignments[0].pool,)
                if len(assignments) == 1
                else dict.fromkeys(assignment.pool for assignment in assignments)
            )
            for pool in pools:
                chosen[cluster, pool] = chosen.get((cluster, pool), 0) + 1
        return chosen


def _one_more(known: GroupReport | None, refusal: Refusal | None) -> str:
    if known is None or refusal is None:
        return ""
    engine = f"engine {known.engine}: " if known.engine else ""
    return f"; one more is refused: {refusal.filter}: {engine}{refusal.reason}"


def _from_one(tier: int | None) -> int | None:
    return None if tier is None else tier + 1


def _replicas(replicas: int) -> str:
    return "a replica" if replicas == 1 else f"{replicas} replicas"


def _importance(finding: GroupReport) -> tuple[bool, float, bool, Place]:
    """Scored places before refused ones, the best first; refusals that may pass before those that will not."""
    total, refusal = finding.total, finding.refusal
    return (
        total is None,
        -(total or 0.0),
        refusal is not None and refusal.code is RefusalCode.UNRESOLVABLE,
        finding.places[0],
    )


def summarise(refusals: Iterable[tuple[Refusal, int]], limit: int = 3) -> str:
    """The commonest refusals in one sentence."""
    counted: dict[str, int] = {}
    for refusal, places in refusals:
        text = f"{refusal.filter}: {refusal.reason}"
        counted[text] = counted.get(text, 0) + places
    ordered = sorted(counted.items(), key=lambda item: (-item[1], item[0]))
    parts = [f"{count} x {text}" if count > 1 else text for text, count in ordered[:limit]]
    more = len(ordered) - limit
    return "; ".join(parts) + (f"; and {more} other reasons" if more > 0 else "")
