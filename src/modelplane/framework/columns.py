"""Running a profile thousands of times a second.

`Runner` decides as the steps `admit`, `score` and `rank` do, one after the other, but works by columns: all answers of
a filter, all scores of a scorer, all sums. Only what was picked becomes a `Scored`. With a reporter it decides the
same and tells each step besides, so an explanation is never of another decision; without one, what a picker with
`order` or `take` picked carries its total and no parts.

Plugins may help. A filter whose answer depends on who else is there has `narrow`; a picker that only needs the sums has
`order`, and one that takes one of the best has `take`. A plugin that answers with the *same tuple* as the last time
says that nothing changed: the tuple was checked when it was new, and what was computed from it stands. A scorer of
a few candidates only returns a `SparseVector`, and one that reads each candidate by itself, whatever is asked for, is a
`Gauge`. With gauges, columns of few values and a picker that takes one of the best, a run among
candidates that say when they change costs what changed, however many they are: see `standings`.

A runner remembers its last answers, so two runs of one runner must not overlap.
"""

from collections.abc import Mapping, Sequence
from typing import Generic, TypeVar

from modelplane.framework.faults import PluginFault
from modelplane.framework.gates import Gate
from modelplane.framework.outcomes import Refusal, RefusalCode, RunOutcome
from modelplane.framework.plugins import Answers, Chooser, Gauge, Reporter, Scored, Taker
from modelplane.framework.profile import Profile, Result, rank
from modelplane.framework.sparse_vector import SparseVector
from modelplane.framework.standings import Gauges, Standing, Watch, highest_of, keep_up, lift, out_of_range, raised

S = TypeVar("S")
C = TypeVar("C")

Parts = tuple[tuple[str, float], ...]


_MOST_KEPT = 4
"""One profile is run for several sets of candidates where the caller narrows them; this many are kept up."""


class _Said:
    """Scores of one run, with their weights."""

    __slots__ = ("columns", "few", "same")

    def __init__(self) -> None:
        self.columns: list[tuple[float, Sequence[float]]] = []
        self.few: list[tuple[float, Mapping[int, float]]] = []
        self.same = 0.0

    def add_to(self, sums: list[float]) -> list[float]:
        if self.columns or self.same:
            sums = _weighted(sums, self.same, self.columns)
        return lift(sums, self.few)


_NOTHING_SAID = _Said()


class _Asked(Generic[S, C]):
    """Scorers that are asked at each run, and what they said the last time."""

    __slots__ = ("_flat", "_scorers", "seen")

    def __init__(self, profile: Profile[S, C]) -> None:
        self._scorers = [
            (at, each.scorer.name, float(each.weight), each.scorer.score)
            for at, each in enumerate([each for each in profile.scorers if not isinstance(each.scorer, Gauge)])
        ]
        self.seen: list[Sequence[float]] = [()] * len(self._scorers)
        self._flat = [False] * len(self._scorers)

    def ask(self, state: S, candidates: Sequence[C]) -> _Said:
        """PluginFault unless each of them says what it may."""
        count, seen, said, name = len(candidates), self.seen, _NOTHING_SAID, ""
        try:
            for at, name, weight, score in self._scorers:
                column = score(state, candidates)
                if type(column) is SparseVector and column.length == count and not column.values:
                    seen[at] = column
                    continue
                if said is _NOTHING_SAID:
                    said = _Said()
                if type(column) is SparseVector:
                    _check_few(name, column, count)
                    said.few.append((weight, column.values))
                    seen[at] = column
                else:
                    self._take_in(said, column, (at, name, weight), count)
        except PluginFault:
            raise
        except Exception as error:
            raise raised(name, error) from error
        return said

    def _take_in(self, said: _Said, column: Sequence[float], scorer: tuple[int, str, float], count: int) -> None:
        """A column with one value for all is a number to add, and no column to go through."""
        at, name, weight = scorer
        if column is not self.seen[at] or type(column) is not tuple or len(column) != count:
            self._flat[at] = _check(name, column, count)
            self.seen[at] = column
        if self._flat[at]:
            said.same += weight * column[0]
        elif weight:
            said.columns.append((weight, column))


class Runner(Generic[S, C]):
    """A profile that is ready to run.

    `watch` is how candidates are asked to say when they change. Without it nothing is kept up between runs.
    """

    __slots__ = (
        "_asked", "_gates", "_gauges", "_once", "_order", "_scores", "_standings", "_take", "_watch", "_whole",
        "profile",
    )  # fmt: skip

    def __init__(self, profile: Profile[S, C], watch: Watch[C] | None = None) -> None:
        self.profile = profile
        self._gates = [Gate(plugin) for plugin in profile.filters]
        self._asked = _Asked(profile)
        self._gauges: Gauges[C] = Gauges(profile.scorers)
        self._scores = [
            (each.scorer.name, each.scorer.score if isinstance(each.scorer, Gauge) else None)
            for each in profile.scorers
        ]
        """Those that are read by themselves; None where they are asked anyway."""
        self._whole = sum([float(weighted.weight) for weighted in profile.scorers]) or 1.0
        self._watch = watch
        self._standings: list[Standing[C]] = []
        self._once: list[Sequence[C]] = []
        """Seen once: to keep up what is not asked about again costs more than it saves."""
        picker = profile.picker
        self._order = picker.order if isinstance(picker, Chooser) else None
        self._take = picker.take if isinstance(picker, Taker) else None

    def run(self, state: S, candidates: Sequence[C], reporter: Reporter[C] | None = None) -> Result[C]:
        if not candidates:
            return Result(RunOutcome.NOTHING_OFFERED)
        if self._gates:
            given: list[Answers] = []
            candidates = self._admit(state, candidates, given, reporter)
            if not candidates:
                return _nothing(given)
        standing = self._standing(candidates)
        said = self._asked.ask(state, candidates)
        if reporter is not None:
            ranked = self._tell(state, candidates, standing, said, reporter)
        elif self._take is not None:
            total, at = self._best(state, candidates, standing, said)
            ranked = (Scored(candidates[at], total, ()),)
        else:
            sums = self._sums(candidates, standing, said)
            ranked = self._rank(
                state, candidates, sums, () if self._order is not None else self._parts(state, candidates)
            )
        return Result(RunOutcome.PICKED, ranked)

    def _admit(
        self, state: S, candidates: Sequence[C], given: list[Answers], reporter: Reporter[C] | None
    ) -> Sequence[C]:
        """Those whom every filter admits; `given` gets the answers of filters that refused somebody."""
        for gate in self._gates:
            answers = gate.ask(state, candidates)
            if not answers:
                continue
            kept = gate.keep(candidates, answers)
            if kept is candidates:
                continue
            if reporter is not None:
                _tell(self.profile.name, candidates, answers, reporter)
            given.append(answers)
            candidates = kept
            if not candidates:
                break
        return candidates

    def _standing(self, candidates: Sequence[C]) -> Standing[C] | None:
        """The standing of these candidates, kept up from the second time they are asked about."""
        for standing in self._standings:
            if standing.candidates is candidates:
                try:
                    standing.refresh()
                except PluginFault:
                    self._standings.remove(standing)
                    raise
                return standing
        if self._watch is None or type(candidates) is not tuple:
            return None
        if not any(seen is candidates for seen in self._once):
            self._once = [*self._once[1 - _MOST_KEPT :], candidates]
            return None
        made = keep_up(self._gauges, candidates, self._watch)
        self._standings = [*self._standings[1 - _MOST_KEPT :], made]
        return made

    def _sums(self, candidates: Sequence[C], standing: Standing[C] | None, said: _Said) -> list[float]:
        return said.add_to(self._gauges.sums(candidates) if standing is None else standing.sums())

    def _best(self, state: S, candidates: Sequence[C], standing: Standing[C] | None, said: _Said) -> tuple[float, int]:
        """The total and the place of the one that the picker takes.

        Equal sums must be equal whether they are kept up or not, so both leave out what is the same for all.
        """
        if said.columns:
            highest, best = highest_of(self._sums(candidates, standing, said))
        else:
            if standing is None:
                highest, best = highest_of(lift(self._gauges.sums(candidates), said.few))
            else:
                highest, best = standing.best(said.few)
            highest += said.same
        return highest / self._whole, best[0] if len(best) == 1 else self._one_of(state, candidates, best)

    def _one_of(self, state: S, candidates: Sequence[C], best: Sequence[int]) -> int:
        picker = self.profile.picker.name
        try:
            at = best[0] if self._take is None else self._take(state, candidates, best)
        except Exception as error:
            raise raised(picker, error) from error
        if at not in best:
            raise PluginFault(picker, f"took candidate {at}, which is none of the best")
        return at

    def _tell(
        self, state: S, candidates: Sequence[C], standing: Standing[C] | None, said: _Said, reporter: Reporter[C]
    ) -> tuple[Scored[C], ...]:
        """Decides, and reports the scores of all."""
        name, parts, sums = self.profile.name, self._parts(state, candidates), self._sums(candidates, standing, said)
        whole = self._whole
        for candidate, total, scores in zip(candidates, sums, parts, strict=True):
            reporter.scored(name, candidate, total / whole, scores)
        if self._take is not None:
            total, at = self._best(state, candidates, standing, said)
            ranked: tuple[Scored[C], ...] = (Scored(candidates[at], total, parts[at]),)
        else:
            ranked = self._rank(state, candidates, sums, parts)
        reporter.picked(name, ranked[0].candidate)
        return ranked

    def _rank(
        self, state: S, candidates: Sequence[C], sums: Sequence[float], parts: Sequence[Parts]
    ) -> tuple[Scored[C], ...]:
        """What the picker makes of the sums; `parts` may be left out where it only needs those."""
        picker, whole = self.profile.picker.name, self._whole
        if self._order is None:
            rows = zip(candidates, sums, parts, strict=True)
            return rank(self.profile, state, [Scored(each, total / whole, scores) for each, total, scores in rows])
        try:
            order = self._order(state, candidates, sums)
            ranked = tuple([Scored(candidates[at], sums[at] / whole, parts[at] if parts else ()) for at in order])
        except Exception as error:
            raise raised(picker, error) from error
        if not ranked:
            raise PluginFault(picker, f"picked none of {len(candidates)} candidates")
        return ranked

    def _parts(self, state: S, candidates: Sequence[C]) -> list[Parts]:
        """The scores of each candidate beside their scorers' names."""
        asked = iter(self._asked.seen)
        columns: list[Sequence[float]] = []
        name = ""
        try:
            for name, score in self._scores:  # noqa: B007  it is named where it fails
                columns.append(next(asked) if score is None else score(state, candidates))
        except Exception as error:
            raise raised(name, error) from error
        if not columns:
            return [()] * len(candidates)
        names = [name for name, _ in self._scores]
        return [tuple(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def _tell(profile: str, candidates: Sequence[C], answers: Answers, reporter: Reporter[C]) -> None:
    for candidate, refusal in zip(candidates, answers, strict=True):
        if refusal is not None:
            reporter.refused(profile, candidate, refusal)


def _telling(answers: Answers) -> list[Refusal]:
    """One refusal of each code: enough to say why nothing was left."""
    found: dict[RefusalCode, Refusal] = {}
    for answer in answers:
        if answer is not None and answer.code not in found:
            found[answer.code] = answer
            if len(found) == len(RefusalCode):
                break
    return list(found.values())


def _nothing(given: Sequence[Answers]) -> Result[C]:
    refusals = [refusal for answers in given for refusal in _telling(answers)]
    may_pass = any(refusal.code is RefusalCode.UNSCHEDULABLE for refusal in refusals)
    return Result(RunOutcome.ALL_UNSCHEDULABLE if may_pass else RunOutcome.ALL_UNRESOLVABLE, refusals=tuple(refusals))


def _check(scorer: str, column: Sequence[float], count: int) -> bool:
    """PluginFault unless the column is right. Whether all of it is one value."""
    if len(column) != count:
        raise PluginFault(scorer, f"gave {len(column)} scores for {count} candidates")
    # Comparisons alone can step over a NaN; a sum cannot.
    low, high = min(column), max(column)
    if low >= 0.0 and high <= 1.0 and sum(column) >= 0.0:
        return low == high
    wrong = next(value for value in column if not 0.0 <= value <= 1.0)
    raise out_of_range(scorer, wrong)


def _check_few(scorer: str, column: SparseVector[float], count: int) -> None:
    if column.length != count:
        raise PluginFault(scorer, f"gave {column.length} scores for {count} candidates")
    for at, value in column.values.items():
        if not 0.0 <= value <= 1.0:
            raise out_of_range(scorer, value)
        if not 0 <= at < count:
            raise PluginFault(scorer, f"scored candidate {at} of {count}")


def _weighted(sums: list[float], same: float, counted: Sequence[tuple[float, Sequence[float]]]) -> list[float]:
    """With these columns added. Two columns at once cost little more than one at a time."""
    match counted:
        case []:
            return [total + same for total in sums]
        case [(u, a)]:
            return [total + same + u * x for total, x in zip(sums, a, strict=True)]
        case _:
            (u, a), (v, b), *rest = counted
            sums = [total + same + u * x + v * y for total, x, y in zip(sums, a, b, strict=True)]
            return _weighted(sums, 0.0, rest) if rest else sums
