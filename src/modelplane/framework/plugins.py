"""The extension points. A plugin is any object with a name and the method of its extension point.

`S` is the state of a run, given by the caller; `C` is a candidate. Filters judge one candidate, so a caller may reuse
the result for equal candidates. Scorers get all candidates at once, since a score is often relative.
"""

from collections.abc import Sequence
from typing import Generic, Protocol, TypeGuard, TypeVar, runtime_checkable

import msgspec

from modelplane.framework.outcomes import Refusal

S_contra = TypeVar("S_contra", contravariant=True)
C_contra = TypeVar("C_contra", contravariant=True)
S = TypeVar("S")
C = TypeVar("C")

Answers = Sequence[Refusal | None]
Columns = Sequence[Sequence[float]]
"""The scores of all candidates, scorer by scorer."""


class Scored(msgspec.Struct, Generic[C], frozen=True, eq=False):
    """An admitted candidate: the weighted mean of its scores, and each score with its scorer's name."""

    candidate: C
    total: float
    parts: tuple[tuple[str, float], ...]


@runtime_checkable
class Filter(Protocol[S_contra, C_contra]):
    """Refuses candidates. Pure: equal state and candidate, equal result."""

    @property
    def name(self) -> str: ...

    def refuse(self, state: S_contra, candidate: C_contra, /) -> Refusal | None:
        """None admits."""


@runtime_checkable
class Scorer(Protocol[S_contra, C_contra]):
    """Scores candidates: one number in [0, 1] for each, in their order. Higher is better."""

    @property
    def name(self) -> str: ...

    def score(self, state: S_contra, candidates: Sequence[C_contra], /) -> Sequence[float]: ...


@runtime_checkable
class Picker(Protocol[S_contra, C]):
    """Puts what was scored in order, best first. The caller takes the first and falls back along the order."""

    @property
    def name(self) -> str: ...

    def pick(self, state: S_contra, scored: Sequence[Scored[C]], /) -> Sequence[Scored[C]]: ...


class Weighted(msgspec.Struct, Generic[S, C], frozen=True, eq=False):
    """A scorer and its weight."""

    scorer: Scorer[S, C]
    weight: float = 1.0


class Reporter(Protocol[C_contra]):
    """Receives every step of a run."""

    def refused(self, profile: str, candidate: C_contra, refusal: Refusal, /) -> None: ...

    def scored(self, profile: str, candidate: C_contra, total: float, parts: tuple[tuple[str, float], ...], /) -> None:
        """An admitted candidate with its scores."""

    def picked(self, profile: str, candidate: C_contra, /) -> None:
        """The first of the ranking."""


class ColumnReporter(Reporter[C_contra], Protocol[C_contra]):
    """A reporter that takes the scores of all candidates at once, as they are computed, where the picker allows it."""

    def scored_all(
        self, candidates: Sequence[C_contra], totals: Sequence[float], scorers: Sequence[str], columns: Columns, /
    ) -> None:
        """The totals, and a column of each scorer; none of it changes later."""


class SetFilter(Filter[S_contra, C_contra], Protocol[S_contra, C_contra]):
    """A filter that gets all candidates which earlier filters left. `refuse` is its result for a single candidate."""

    def narrow(self, state: S_contra, candidates: Sequence[C_contra], /) -> Answers:
        """A result for each candidate in order, or empty if none is refused."""


class OrderingPicker(Protocol[S_contra, C_contra]):
    """A picker that needs the sums of scores only."""

    def order(self, state: S_contra, candidates: Sequence[C_contra], sums: Sequence[float], /) -> Sequence[int]:
        """Positions of the picked, best first.

        Sums are weighted and not yet divided by the weights: they compare as totals do, and equal ones stay equal.
        """


class TieBreakingPicker(Protocol[S_contra, C_contra]):
    """A picker that takes one of the best."""

    def take(self, state: S_contra, candidates: Sequence[C_contra], best: Sequence[int], /) -> int:
        """One of several positions in ascending order: those with the highest sum."""


class MetricScorer(Scorer[S_contra, C_contra], Protocol[S_contra, C_contra]):
    """A scorer that reads the candidate alone. Without `relative_score`, what it reads is the score."""

    def read(self, candidate: C_contra, /) -> float: ...


class RelativeMetricScorer(MetricScorer[S_contra, C_contra], Protocol[S_contra, C_contra]):
    """A metric scorer whose score depends on the least and the most that it reads of all candidates."""

    def relative_score(self, number: float, least: float, most: float, /) -> float: ...


# A runner calls these when it is built. `isinstance` with a protocol takes ten times as long.


def is_set_filter(plugin: Filter[S, C]) -> TypeGuard[SetFilter[S, C]]:
    return hasattr(plugin, "narrow")


def is_ordering_picker(plugin: Picker[S, C]) -> TypeGuard[OrderingPicker[S, C]]:
    return hasattr(plugin, "order")


def is_tie_breaking_picker(plugin: Picker[S, C]) -> TypeGuard[TieBreakingPicker[S, C]]:
    return hasattr(plugin, "take")


def is_metric_scorer(plugin: Scorer[S, C]) -> TypeGuard[MetricScorer[S, C]]:
    return hasattr(plugin, "read")


def is_relative_metric_scorer(plugin: Scorer[S, C]) -> TypeGuard[RelativeMetricScorer[S, C]]:
    return hasattr(plugin, "read") and hasattr(plugin, "relative_score")
