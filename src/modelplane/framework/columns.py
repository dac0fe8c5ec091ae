"""Running a profile thousands of times a second.

`Runner` decides as the steps `admit`, `score` and `rank` do, one after the other, but works by columns: all answers of
a filter, all scores of a scorer, all sums. Only what was picked becomes a `Scored`. With a reporter it decides the
same and tells each step besides, so an explanation is never of another decision.

Plugins may help. A filter whose answer depends on who else is there has `narrow`; a picker that only needs the sums has
`order`. A plugin that answers with the *same tuple* as the last time says that nothing changed: the tuple was checked
when it was new, and what was computed from it stands. That is why a run among candidates whose state did not change
costs little more than asking.

A runner remembers its last answers, so two runs of one runner must not overlap.
"""

from collections.abc import Callable, Sequence
from itertools import compress
from typing import Generic, Protocol, TypeVar, runtime_checkable

from modelplane.framework.faults import PluginFault
from modelplane.framework.outcomes import Code, Refusal, RunOutcome
from modelplane.framework.plugins import Filter, Reporter, Scored
from modelplane.framework.profile import Profile, Result, rank

S = TypeVar("S")
C = TypeVar("C")
S_contra = TypeVar("S_contra", contravariant=True)
C_contra = TypeVar("C_contra", contravariant=True)

Answers = Sequence[Refusal | None]


@runtime_checkable
class SetFilter(Filter[S_contra, C_contra], Protocol[S_contra, C_contra]):
    """A filter that sees all candidates which earlier filters left. `refuse` is its answer for one that is alone."""

    def narrow(self, state: S_contra, candidates: Sequence[C_contra], /) -> Answers:
        """An answer for each candidate in order, or nothing at all where none is refused."""


@runtime_checkable
class Chooser(Protocol[S_contra, C_contra]):
    """A picker that needs the sums of scores only."""

    def order(self, state: S_contra, candidates: Sequence[C_contra], sums: Sequence[float], /) -> Sequence[int]:
        """Positions of the picked, best first.

        Sums are weighted and not yet divided by the weights: they compare as totals do, and equal ones stay equal.
        """


class _Gate(Generic[S, C]):
    """One filter, and what it made of the last candidates."""

    __slots__ = ("_answers", "_candidates", "_kept", "_narrow", "name", "refuse")

    def __init__(self, plugin: Filter[S, C]) -> None:
        self.name = plugin.name
        self.refuse = plugin.refuse
        self._narrow: Callable[[S, Sequence[C]], Answers] | None = None
        if isinstance(plugin, SetFilter):
            self._narrow = plugin.narrow
        self._candidates: Sequence[C] = ()
        self._answers: Answers = ()
        self._kept: Sequence[C] = ()

    def ask(self, state: S, candidates: Sequence[C]) -> Answers:
        try:
            if self._narrow is not None:
                return self._narrow(state, candidates)
            refuse = self.refuse
            return [refuse(state, candidate) for candidate in candidates]
        except Exception as error:
            raise PluginFault(self.name, f"raised {type(error).__name__}: {error}") from error

    def keep(self, candidates: Sequence[C], answers: Answers) -> Sequence[C]:
        """Those without a refusal."""
        if answers is self._answers and candidates is self._candidates and type(answers) is tuple:
            return self._kept
        if len(answers) != len(candidates):
            raise PluginFault(self.name, f"gave {len(answers)} answers for {len(candidates)} candidates")
        kept = tuple(compress(candidates, [answer is None for answer in answers]))
        self._candidates, self._answers, self._kept = candidates, answers, kept
        return kept


class Runner(Generic[S, C]):
    """A profile that is ready to run."""

    __slots__ = (
        "_gates",
        "_names",
        "_order",
        "_scorers",
        "_seen",
        "_sums",
        "_sums_of",
        "_weights",
        "_whole",
        "profile",
    )

    def __init__(self, profile: Profile[S, C]) -> None:
        self.profile = profile
        self._gates = [_Gate(plugin) for plugin in profile.filters]
        self._names = tuple(weighted.scorer.name for weighted in profile.scorers)
        self._scorers = tuple(weighted.scorer.score for weighted in profile.scorers)
        self._weights = tuple(float(weighted.weight) for weighted in profile.scorers)
        self._whole = sum(self._weights) or 1.0
        self._seen: list[Sequence[float]] = [()] * len(self._names)
        self._sums: list[float] = []
        self._sums_of: tuple[Sequence[float], ...] = ()
        picker = profile.picker
        self._order: Callable[[S, Sequence[C], Sequence[float]], Sequence[int]] | None = None
        if isinstance(picker, Chooser):
            self._order = picker.order

    def run(self, state: S, candidates: Sequence[C], reporter: Reporter[C] | None = None) -> Result[C]:
        if not candidates:
            return Result(RunOutcome.NOTHING_OFFERED)
        given: list[Answers] = []
        for gate in self._gates:
            answers = gate.ask(state, candidates)
            if not answers or answers.count(None) == len(candidates):
                continue
            if reporter is not None:
                _tell(self.profile.name, candidates, answers, reporter)
            given.append(answers)
            candidates = gate.keep(candidates, answers)
            if not candidates:
                return _nothing(given)
        columns = self._columns(state, candidates)
        sums = self._sum(columns, len(candidates))
        if reporter is not None:
            for found in self._all(candidates, sums, columns):
                reporter.scored(self.profile.name, found.candidate, found.total, found.parts)
        ranked = self._rank(state, candidates, sums, columns)
        if reporter is not None:
            reporter.picked(self.profile.name, ranked[0].candidate)
        return Result(RunOutcome.PICKED, ranked)

    def _columns(self, state: S, candidates: Sequence[C]) -> tuple[Sequence[float], ...]:
        count = len(candidates)
        seen = self._seen
        at = 0
        try:
            for at, score in enumerate(self._scorers):
                column = score(state, candidates)
                if column is not seen[at] or type(column) is not tuple or len(column) != count:
                    _check(self._names[at], column, count)
                    seen[at] = column
        except PluginFault:
            raise
        except Exception as error:
            raise PluginFault(self._names[at], f"raised {type(error).__name__}: {error}") from error
        return tuple(seen)

    def _sum(self, columns: tuple[Sequence[float], ...], count: int) -> list[float]:
        before = self._sums_of
        if columns and len(before) == len(columns):
            for column, old in zip(columns, before, strict=True):
                if column is not old or type(column) is not tuple:
                    break
            else:
                return self._sums
        counted = [(weight, column) for weight, column in zip(self._weights, columns, strict=True) if weight]
        self._sums = _weighted(counted, count)
        self._sums_of = columns
        return self._sums

    def _rank(
        self, state: S, candidates: Sequence[C], sums: Sequence[float], columns: Sequence[Sequence[float]]
    ) -> tuple[Scored[C], ...]:
        if self._order is None:
            return rank(self.profile, state, self._all(candidates, sums, columns))
        picker = self.profile.picker.name
        try:
            order = self._order(state, candidates, sums)
            ranked = tuple([self._scored(at, candidates, sums, columns) for at in order])
        except Exception as error:
            raise PluginFault(picker, f"raised {type(error).__name__}: {error}") from error
        if not ranked:
            raise PluginFault(picker, f"picked none of {len(candidates)} candidates")
        return ranked

    def _scored(
        self, at: int, candidates: Sequence[C], sums: Sequence[float], columns: Sequence[Sequence[float]]
    ) -> Scored[C]:
        parts = tuple([(name, float(column[at])) for name, column in zip(self._names, columns, strict=True)])
        return Scored(candidates[at], sums[at] / self._whole, parts)

    def _all(
        self, candidates: Sequence[C], sums: Sequence[float], columns: Sequence[Sequence[float]]
    ) -> list[Scored[C]]:
        return [self._scored(at, candidates, sums, columns) for at in range(len(candidates))]


def _tell(profile: str, candidates: Sequence[C], answers: Answers, reporter: Reporter[C]) -> None:
    for candidate, refusal in zip(candidates, answers, strict=True):
        if refusal is not None:
            reporter.refused(profile, candidate, refusal)


def _telling(answers: Answers) -> list[Refusal]:
    """One refusal of each code: enough to say why nothing was left."""
    found: dict[Code, Refusal] = {}
    for answer in answers:
        if answer is not None and answer.code not in found:
            found[answer.code] = answer
            if len(found) == len(Code):
                break
    return list(found.values())


def _nothing(given: Sequence[Answers]) -> Result[C]:
    refusals = [refusal for answers in given for refusal in _telling(answers)]
    may_pass = any(refusal.code is Code.REFUSED for refusal in refusals)
    return Result(RunOutcome.ALL_REFUSED if may_pass else RunOutcome.ALL_EXCLUDED, refusals=tuple(refusals))


def _check(scorer: str, column: Sequence[float], count: int) -> None:
    if len(column) != count:
        raise PluginFault(scorer, f"gave {len(column)} scores for {count} candidates")
    # Comparisons alone can step over a NaN; a sum cannot.
    if min(column) >= 0.0 and max(column) <= 1.0 and sum(column) >= 0.0:
        return
    wrong = next(value for value in column if not 0.0 <= value <= 1.0)
    raise PluginFault(scorer, f"scored {wrong}, which is not in [0, 1]")


def _weighted(counted: Sequence[tuple[float, Sequence[float]]], count: int) -> list[float]:
    """Sums of a few columns at once cost half of one column at a time."""
    match counted:
        case []:
            return [0.0] * count
        case [(u, a)]:
            return [u * x for x in a]
        case [(u, a), (v, b)]:
            return [u * x + v * y for x, y in zip(a, b, strict=True)]
        case [(u, a), (v, b), (w, c)]:
            return [u * x + v * y + w * z for x, y, z in zip(a, b, c, strict=True)]
        case _:
            *front, (v, b), (w, c) = counted
            sums = _weighted(front, count)
            return [total + v * y + w * z for total, y, z in zip(sums, b, c, strict=True)]
