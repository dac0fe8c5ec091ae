"""Running a profile thousands of times a second.

`Runner` decides as the steps `admit`, `score` and `rank` do, one after the other, but works by columns: all answers of
a filter, all scores of a scorer, all sums. Only what was picked becomes a `Scored`. With a reporter it decides the
same and tells each step besides, so an explanation is never of another decision; without one, what a picker with
`order` picked carries its total and no parts.

Plugins may help. A filter whose answer depends on who else is there has `narrow`; a picker that only needs the sums has
`order`. A plugin that answers with the *same tuple* as the last time says that nothing changed: the tuple was checked
when it was new, and what was computed from it stands. That is why a run among candidates whose state did not change
costs little more than asking. A scorer that has something to say of a few candidates only says it with `Few`, and one
whose column differs in a few places from the one it gave before says so with `Revised`.

A runner remembers its last answers, so two runs of one runner must not overlap.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import compress
from typing import Generic, Protocol, TypeVar, overload, runtime_checkable

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

        Sums are weighted and not yet divided by the weights: they compare as totals do, and equal ones stay equal. The
        same object as the last time holds the same numbers.
        """


class Few(Sequence[float]):
    """A column of zeros but for a few values, which cost only themselves."""

    __slots__ = ("length", "values")

    def __init__(self, length: int, values: Mapping[int, float]) -> None:
        self.length = length
        self.values = values

    def __len__(self) -> int:
        return self.length

    @overload
    def __getitem__(self, at: int, /) -> float: ...
    @overload
    def __getitem__(self, at: slice, /) -> list[float]: ...
    def __getitem__(self, at: int | slice, /) -> float | list[float]:
        if isinstance(at, slice):
            return [self.values.get(place, 0.0) for place in range(self.length)[at]]
        return self.values.get(range(self.length)[at], 0.0)


class Revised(Sequence[float]):
    """A column, and where it differs from the one that it was made of: only those places are added up anew.

    `was` are the values of the earlier column, None where there is none; neither changes any more.
    """

    __slots__ = ("changes", "values", "was")

    def __init__(
        self, values: Sequence[float], was: Sequence[float] | None = None, changes: Sequence[int] = ()
    ) -> None:
        self.values = values
        self.was = was
        self.changes = changes

    def __len__(self) -> int:
        return len(self.values)

    def __iter__(self) -> Iterator[float]:
        return iter(self.values)

    @overload
    def __getitem__(self, at: int, /) -> float: ...
    @overload
    def __getitem__(self, at: slice, /) -> Sequence[float]: ...
    def __getitem__(self, at: int | slice, /) -> float | Sequence[float]:
        return self.values[at]


_KEPT = (tuple, Revised)
"""Columns of these types hold what they held before, if they are the same object."""


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
        "_flat",
        "_gates",
        "_names",
        "_order",
        "_scorers",
        "_seen",
        "_sums",
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
        self._flat = [False] * len(self._names)
        self._sums: list[float] = []
        picker = profile.picker
        self._order: Callable[[S, Sequence[C], Sequence[float]], Sequence[int]] | None = None
        if isinstance(picker, Chooser):
            self._order = picker.order

    def run(self, state: S, candidates: Sequence[C], reporter: Reporter[C] | None = None) -> Result[C]:
        if not candidates:
            return Result(RunOutcome.NOTHING_OFFERED)
        if self._gates:
            given: list[Answers] = []
            candidates = self._admit(state, candidates, given, reporter)
            if not candidates:
                return _nothing(given)
        sums = self._sum(state, candidates)
        if reporter is not None:
            for found in self._all(candidates, sums):
                reporter.scored(self.profile.name, found.candidate, found.total, found.parts)
        if self._order is None:
            ranked = rank(self.profile, state, self._all(candidates, sums))
        else:
            ranked = self._choose(state, candidates, sums, told=reporter is not None)
        if reporter is not None:
            reporter.picked(self.profile.name, ranked[0].candidate)
        return Result(RunOutcome.PICKED, ranked)

    def _admit(
        self, state: S, candidates: Sequence[C], given: list[Answers], reporter: Reporter[C] | None
    ) -> Sequence[C]:
        """Those whom every filter admits; `given` gets the answers of filters that refused somebody."""
        for gate in self._gates:
            answers = gate.ask(state, candidates)
            if not answers or answers.count(None) == len(candidates):
                continue
            kept = gate.keep(candidates, answers)
            if reporter is not None:
                _tell(self.profile.name, candidates, answers, reporter)
            given.append(answers)
            candidates = kept
            if not candidates:
                break
        return candidates

    def _sum(self, state: S, candidates: Sequence[C]) -> list[float]:
        """The weighted sums of all scores; those of the last time where every scorer gave what it gave then."""
        count, seen = len(candidates), self._seen
        stale = len(self._sums) != count
        few: list[tuple[float, Few]] = []
        changed: Sequence[int] = ()
        at = 0
        try:
            for at, score in enumerate(self._scorers):
                column = score(state, candidates)
                before = seen[at]
                if column is before and type(column) in _KEPT and len(column) == count:
                    continue
                if type(column) is Few:
                    _check_few(self._names[at], column, count)
                    if column.values:
                        few.append((self._weights[at], column))
                    stale = stale or type(before) is not Few
                elif type(column) is Revised and type(before) is Revised and column.was is before.values:
                    _check_some(self._names[at], column)
                    changed = column.changes if column.changes is changed else (*changed, *column.changes)
                else:
                    stale = True
                    self._flat[at] = _check(self._names[at], column, count) and type(column) is not Revised
                seen[at] = column
        except Exception as error:
            self._sums = []
            if isinstance(error, PluginFault):
                raise
            raise PluginFault(self._names[at], f"raised {type(error).__name__}: {error}") from error
        if stale:
            self._sums = _weighted(*self._terms(), count)
        elif changed:
            self._sums = _again(*self._terms(), self._sums, changed)
        return _with_few(self._sums, few) if few else self._sums

    def _terms(self) -> tuple[list[tuple[float, Sequence[float]]], float]:
        """What is to be added up. A column with one value for all is a number to add, and no column to go through."""
        same = 0.0
        differing: list[tuple[float, Sequence[float]]] = []
        for weight, column, flat in zip(self._weights, self._seen, self._flat, strict=True):
            if type(column) is Few:
                continue
            if flat:
                same += weight * column[0]
            elif weight:
                differing.append((weight, column.values if type(column) is Revised else column))
        return differing, same

    def _choose(self, state: S, candidates: Sequence[C], sums: Sequence[float], *, told: bool) -> tuple[Scored[C], ...]:
        picker, whole = self.profile.picker.name, self._whole
        try:
            order = self._order(state, candidates, sums) if self._order is not None else ()
            ranked = tuple([Scored(candidates[at], sums[at] / whole, self._parts(at) if told else ()) for at in order])
        except Exception as error:
            raise PluginFault(picker, f"raised {type(error).__name__}: {error}") from error
        if not ranked:
            raise PluginFault(picker, f"picked none of {len(candidates)} candidates")
        return ranked

    def _parts(self, at: int) -> tuple[tuple[str, float], ...]:
        return tuple([(name, column[at]) for name, column in zip(self._names, self._seen, strict=True)])

    def _all(self, candidates: Sequence[C], sums: Sequence[float]) -> list[Scored[C]]:
        whole = self._whole
        return [Scored(candidate, sums[at] / whole, self._parts(at)) for at, candidate in enumerate(candidates)]


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


def _check(scorer: str, column: Sequence[float], count: int) -> bool:
    """PluginFault unless the column is right. Whether all of it is one value."""
    if len(column) != count:
        raise PluginFault(scorer, f"gave {len(column)} scores for {count} candidates")
    # Comparisons alone can step over a NaN; a sum cannot.
    low, high = min(column), max(column)
    if low >= 0.0 and high <= 1.0 and sum(column) >= 0.0:
        return low == high
    wrong = next(value for value in column if not 0.0 <= value <= 1.0)
    raise PluginFault(scorer, f"scored {wrong}, which is not in [0, 1]")


def _check_some(scorer: str, column: Revised) -> None:
    for at in column.changes:
        value = column.values[at]
        if not 0.0 <= value <= 1.0:
            raise PluginFault(scorer, f"scored {value}, which is not in [0, 1]")


def _check_few(scorer: str, column: Few, count: int) -> None:
    if column.length != count:
        raise PluginFault(scorer, f"gave {column.length} scores for {count} candidates")
    for at, value in column.values.items():
        if not 0.0 <= value <= 1.0:
            raise PluginFault(scorer, f"scored {value}, which is not in [0, 1]")
        if not 0 <= at < count:
            raise PluginFault(scorer, f"scored candidate {at} of {count}")


def _with_few(sums: Sequence[float], few: Sequence[tuple[float, Few]]) -> list[float]:
    whole = list(sums)
    for weight, column in few:
        for at, value in column.values.items():
            whole[at] += weight * value
    return whole


def _again(
    counted: Sequence[tuple[float, Sequence[float]]], same: float, sums: Sequence[float], changed: Iterable[int]
) -> list[float]:
    """The sums with those at a few places made anew, added in the order in which all of them are."""
    found = list(sums)
    for at in changed:
        total = same
        for weight, column in counted:
            total += weight * column[at]
        found[at] = total
    return found


def _weighted(counted: Sequence[tuple[float, Sequence[float]]], same: float, count: int) -> list[float]:
    """Sums of a few columns at once cost half of one column at a time."""
    match counted:
        case []:
            return [same] * count
        case [(u, a)]:
            return [same + u * x for x in a]
        case [(u, a), (v, b)]:
            return [same + u * x + v * y for x, y in zip(a, b, strict=True)]
        case [(u, a), (v, b), (w, c)]:
            return [same + u * x + v * y + w * z for x, y, z in zip(a, b, c, strict=True)]
        case _:
            *front, (v, b), (w, c) = counted
            sums = _weighted(front, same, count)
            return [total + v * y + w * z for total, y, z in zip(sums, b, c, strict=True)]
