"""The one runner of profiles: filter, score, pick, thousands of times a second.

`Runner` works by columns: all results of a filter, all scores of a scorer, all sums. Only picked candidates become
`Scored`. With a reporter it decides the same and reports each step, so an explanation always matches the decision;
without one, a candidate picked by `order` or `take` has its total and no parts. A picker with neither gets every
candidate with its total and parts. The total depends on the candidate's own scores only, so totals of two runs compare.

Optional methods make a run cheaper. A filter whose result depends on the other candidates has `narrow`; a picker that
needs only the sums has `order`, and one that takes one of the best has `take`. A plugin that returns the *same tuple*
as the last time reports no change: the tuple was checked when it was new, and what was computed from it is reused. A
scorer that scores few candidates returns a `SparseVector`. A scorer that reads each candidate independent of the
request is a `MetricScorer`. With metric scorers, sparse scores, a picker with `take` and candidates that report
changes, the cost of a run depends only on what changed: see `ranking`.

A runner caches its last results, so two runs of one runner must not overlap.
"""

from collections.abc import Mapping, Sequence
from operator import mul
from typing import Final, Generic, TypeGuard, TypeVar

from modelplane.framework.faults import PluginFault, raised
from modelplane.framework.filtering import MemoizedFilter
from modelplane.framework.outcomes import Refusal, RefusalCode, RunOutcome
from modelplane.framework.plugins import (
    Answers,
    ColumnReporter,
    Columns,
    Reporter,
    Scored,
    is_metric_scorer,
    is_ordering_picker,
    is_tie_breaking_picker,
)
from modelplane.framework.profile import Profile, Result
from modelplane.framework.ranking import (
    IncrementalRanking,
    MetricScorers,
    Watch,
    add_sparse,
    highest_of,
    out_of_range,
)
from modelplane.framework.sparse_vector import SparseVector

S = TypeVar("S")
C = TypeVar("C")

Parts = tuple[tuple[str, float], ...]


_PICKED: Final = RunOutcome.PICKED
_MAX_RANKINGS: Final = 4
"""One profile is run for several sets of candidates where the caller narrows them; this many are kept up."""


class _Scores:
    """Scores of one run, with their weights."""

    __slots__ = ("columns", "constant", "sparse")

    def __init__(self) -> None:
        self.columns: list[tuple[float, Sequence[float]]] = []
        self.sparse: list[tuple[float, Mapping[int, float]]] = []
        self.constant = 0.0

    def add_to(self, sums: list[float]) -> list[float]:
        if self.columns or self.constant:
            sums = _weighted(sums, self.constant, self.columns)
        return add_sparse(sums, self.sparse)


_NO_SCORES: Final = _Scores()


class _ScorerCalls(Generic[S, C]):
    """Scorers that are called at each run, and what they returned the last time."""

    __slots__ = ("_is_constant", "_scorers", "last")

    def __init__(self, profile: Profile[S, C]) -> None:
        self._scorers = [
            (at, each.scorer.name, float(each.weight), each.scorer.score)
            for at, each in enumerate([each for each in profile.scorers if not is_metric_scorer(each.scorer)])
        ]
        self.last: list[Sequence[float]] = [()] * len(self._scorers)
        self._is_constant = [False] * len(self._scorers)

    def call(self, state: S, candidates: Sequence[C]) -> _Scores:
        """PluginFault unless each returns what it may."""
        count, last, scores, name = len(candidates), self.last, _NO_SCORES, ""
        try:
            for at, name, weight, score in self._scorers:
                column = score(state, candidates)
                if type(column) is SparseVector and column.length == count and not column.values:
                    last[at] = column
                    continue
                if scores is _NO_SCORES:
                    scores = _Scores()
                if type(column) is SparseVector:
                    _check_sparse(name, column, count)
                    scores.sparse.append((weight, column.values))
                    last[at] = column
                else:
                    self._add(scores, column, (at, name, weight), count)
        except PluginFault:
            raise
        except Exception as error:
            raise raised(name, error) from error
        return scores

    def _add(self, scores: _Scores, column: Sequence[float], scorer: tuple[int, str, float], count: int) -> None:
        """Add a constant column as one number."""
        at, name, weight = scorer
        if column is not self.last[at] or type(column) is not tuple or len(column) != count:
            self._is_constant[at] = _check(name, column, count)
            self.last[at] = column
        if self._is_constant[at]:
            scores.constant += weight * column[0]
        elif weight:
            scores.columns.append((weight, column))


class Runner(Generic[S, C]):
    """A profile that is ready to run.

    `watch` subscribes to changes of candidates. Without it no ranking is kept between runs.
    """

    __slots__ = (
        "_calls", "_filters", "_metrics", "_names", "_order", "_rankings", "_scores", "_seen_once", "_take",
        "_total_weight", "_watch", "_weights", "profile",
    )  # fmt: skip

    def __init__(self, profile: Profile[S, C], watch: Watch[C] | None = None) -> None:
        self.profile = profile
        self._filters = [MemoizedFilter(plugin) for plugin in profile.filters]
        self._calls = _ScorerCalls(profile)
        self._metrics: MetricScorers[C] = MetricScorers(profile.scorers)
        self._scores = [
            (each.scorer.name, each.scorer.score if is_metric_scorer(each.scorer) else None) for each in profile.scorers
        ]
        """The method of metric scorers; None for those that are called at each run."""
        self._names = tuple([name for name, _ in self._scores])
        self._weights = tuple([float(weighted.weight) for weighted in profile.scorers])
        self._total_weight = sum(self._weights) or 1.0
        self._watch = watch
        self._rankings: list[IncrementalRanking[C]] = []
        self._seen_once: list[Sequence[C]] = []
        """Sets of candidates seen once: a ranking costs more than it saves unless the set comes again."""
        picker = profile.picker
        self._order = picker.order if is_ordering_picker(picker) else None
        self._take = picker.take if is_tie_breaking_picker(picker) else None

    def run(self, state: S, candidates: Sequence[C], reporter: Reporter[C] | None = None) -> Result[C]:
        if not candidates:
            return Result(RunOutcome.NOTHING_OFFERED)
        if self._filters:
            given: list[Answers] = []
            candidates = self._admit(state, candidates, given, reporter)
            if not candidates:
                return _none_admitted(given)
        if self._order is None and self._take is None:
            ranked = self.rank(state, candidates, reporter)
        else:
            ranked = self._pick(state, candidates, reporter)
        if reporter is not None:
            reporter.picked(self.profile.name, ranked[0].candidate)
        return Result(_PICKED, ranked)

    def catch_up(self) -> None:
        """Read the candidates that changed, for the next run to find those that change from here on."""
        for ranking in list(self._rankings):
            try:
                ranking.refresh()
            except PluginFault:
                self._rankings.remove(ranking)

    def rank(self, state: S, candidates: Sequence[C], reporter: Reporter[C] | None = None) -> tuple[Scored[C], ...]:
        """The picker's order of candidates that were admitted, each with its total and its parts.

        Callers that decide many times among nearly the same candidates keep the order and rank what changed.
        """
        self._calls.call(state, candidates)
        names, weights, total_weight = self._names, self._weights, self._total_weight
        rows = _rows(self._columns(state, candidates), candidates)
        scored = [
            Scored(candidate, sum(map(mul, row, weights)) / total_weight, tuple(zip(names, row, strict=True)))
            for candidate, row in zip(candidates, rows, strict=True)
        ]
        if reporter is not None:
            for each in scored:
                reporter.scored(self.profile.name, each.candidate, each.total, each.parts)
        picker = self.profile.picker
        try:
            ranked = tuple(picker.pick(state, scored))
        except Exception as error:
            raise raised(picker.name, error) from error
        if not ranked:
            raise PluginFault(picker.name, f"picked none of {len(candidates)} candidates")
        return ranked

    def _pick(self, state: S, candidates: Sequence[C], reporter: Reporter[C] | None) -> tuple[Scored[C], ...]:
        """The pick of a picker that needs the sums only. Parts are built for a reporter."""
        ranking = self._ranking(candidates)
        scores = self._calls.call(state, candidates)
        sums = self._sums(candidates, ranking, scores) if reporter is not None or self._take is None else []
        parts = self._report(state, candidates, sums, reporter) if reporter is not None else ()
        if self._take is not None:
            total, at = self._best(state, candidates, ranking, scores)
            return (Scored(candidates[at], total, parts[at] if parts else ()),)
        return self._in_order(state, candidates, sums, parts)

    def _admit(
        self, state: S, candidates: Sequence[C], given: list[Answers], reporter: Reporter[C] | None
    ) -> Sequence[C]:
        """The candidates that every filter admits; `given` collects the results of filters that refused any."""
        for each in self._filters:
            answers = each.answers(state, candidates)
            if not answers:
                continue
            kept = each.admitted(candidates, answers)
            if kept is candidates:
                continue
            if reporter is not None:
                _report_refusals(self.profile.name, candidates, answers, reporter)
            given.append(answers)
            candidates = kept
            if not candidates:
                break
        return candidates

    def _ranking(self, candidates: Sequence[C]) -> IncrementalRanking[C] | None:
        """The ranking of these candidates, kept from the second time they are given."""
        for ranking in self._rankings:
            if ranking.candidates is candidates:
                try:
                    ranking.refresh()
                except PluginFault:
                    self._rankings.remove(ranking)
                    raise
                return ranking
        if self._watch is None or type(candidates) is not tuple:
            return None
        if not any(seen is candidates for seen in self._seen_once):
            self._seen_once = [*self._seen_once[1 - _MAX_RANKINGS :], candidates]
            return None
        made = IncrementalRanking(self._metrics, candidates, self._watch)
        self._rankings = [*self._rankings[1 - _MAX_RANKINGS :], made]
        return made

    def _sums(self, candidates: Sequence[C], ranking: IncrementalRanking[C] | None, scores: _Scores) -> list[float]:
        return scores.add_to(self._metrics.sums(candidates) if ranking is None else ranking.sums())

    def _best(
        self, state: S, candidates: Sequence[C], ranking: IncrementalRanking[C] | None, scores: _Scores
    ) -> tuple[float, int]:
        """The total and the position of the candidate that the picker takes.

        Equal sums must be equal whether they are kept up or not, so both leave out what is the same for all.
        """
        if scores.columns:
            highest, best = highest_of(self._sums(candidates, ranking, scores))
        else:
            if ranking is None:
                highest, best = highest_of(add_sparse(self._metrics.sums(candidates), scores.sparse))
            else:
                highest, best = ranking.best(scores.sparse)
            highest += scores.constant
        return highest / self._total_weight, best[0] if len(best) == 1 else self._one_of(state, candidates, best)

    def _one_of(self, state: S, candidates: Sequence[C], best: Sequence[int]) -> int:
        picker = self.profile.picker.name
        try:
            at = best[0] if self._take is None else self._take(state, candidates, best)
        except Exception as error:
            raise raised(picker, error) from error
        if at not in best:
            raise PluginFault(picker, f"took candidate {at}, which is none of the best")
        return at

    def _report(
        self, state: S, candidates: Sequence[C], sums: Sequence[float], reporter: Reporter[C]
    ) -> Sequence[Parts]:
        """Reports the scores of all, and returns them; nothing where the reporter takes them by columns."""
        columns, total_weight = self._columns(state, candidates), self._total_weight
        if _takes_columns(reporter):
            totals = [total / total_weight for total in sums]
            reporter.scored_all(candidates, totals, self._names, [_fixed(column) for column in columns])
            return ()
        parts = [tuple(zip(self._names, row, strict=True)) for row in _rows(columns, candidates)]
        for candidate, total, scores in zip(candidates, sums, parts, strict=True):
            reporter.scored(self.profile.name, candidate, total / total_weight, scores)
        return parts

    def _in_order(
        self, state: S, candidates: Sequence[C], sums: Sequence[float], parts: Sequence[Parts]
    ) -> tuple[Scored[C], ...]:
        picker, total_weight = self.profile.picker.name, self._total_weight
        try:
            order = range(len(sums)) if self._order is None else self._order(state, candidates, sums)
            ranked = tuple(
                [Scored(candidates[at], sums[at] / total_weight, parts[at] if parts else ()) for at in order]
            )
        except Exception as error:
            raise raised(picker, error) from error
        if not ranked:
            raise PluginFault(picker, f"picked none of {len(candidates)} candidates")
        return ranked

    def _columns(self, state: S, candidates: Sequence[C]) -> list[Sequence[float]]:
        """The scores of each scorer, after the scorers were called."""
        called = iter(self._calls.last)
        columns: list[Sequence[float]] = []
        name = ""
        try:
            for name, score in self._scores:
                if score is None:
                    columns.append(next(called))
                else:
                    columns.append(score(state, candidates))
                    _check(name, columns[-1], len(candidates))
        except PluginFault:
            raise
        except Exception as error:
            raise raised(name, error) from error
        return columns


def _takes_columns(reporter: Reporter[C]) -> TypeGuard[ColumnReporter[C]]:
    """Here, where it is compiled: each run with a reporter calls it."""
    return hasattr(reporter, "scored_all")


def _rows(columns: Columns, candidates: Sequence[C]) -> list[tuple[float, ...]]:
    """The scores of each candidate, in the order of the scorers."""
    return list(zip(*columns, strict=True)) if columns else [()] * len(candidates)


def _fixed(column: Sequence[float]) -> Sequence[float]:
    """A column that its scorer does not change later."""
    return column if type(column) is SparseVector else tuple(column)


def _report_refusals(profile: str, candidates: Sequence[C], answers: Answers, reporter: Reporter[C]) -> None:
    for candidate, refusal in zip(candidates, answers, strict=True):
        if refusal is not None:
            reporter.refused(profile, candidate, refusal)


def _examples(answers: Answers) -> list[Refusal]:
    """One refusal of each code, as examples."""
    found: dict[RefusalCode, Refusal] = {}
    for answer in answers:
        if answer is not None and answer.code not in found:
            found[answer.code] = answer
            if len(found) == len(RefusalCode):
                break
    return list(found.values())


def _none_admitted(given: Sequence[Answers]) -> Result[C]:
    refusals = [refusal for answers in given for refusal in _examples(answers)]
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


def _check_sparse(scorer: str, column: SparseVector[float], count: int) -> None:
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
