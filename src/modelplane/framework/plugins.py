"""What a plugin can be. A plugin is any object with a name and the one method of its part.

`S` is the state of a run, given by the caller; `C` is a candidate. Filters answer for one candidate, so that a caller
may remember the answer for all that are alike. Scorers see all candidates at once, since a score is often relative.
"""

from collections.abc import Sequence
from typing import Generic, Protocol, TypeVar, runtime_checkable

import msgspec

from modelplane.framework.outcomes import Refusal

S_contra = TypeVar("S_contra", contravariant=True)
C_contra = TypeVar("C_contra", contravariant=True)
S = TypeVar("S")
C = TypeVar("C")

Answers = Sequence[Refusal | None]


class Scored(msgspec.Struct, Generic[C], frozen=True, eq=False):
    """A candidate that was admitted: the weighted mean of its scores, and each score beside its scorer's name."""

    candidate: C
    total: float
    parts: tuple[tuple[str, float], ...]


@runtime_checkable
class Filter(Protocol[S_contra, C_contra]):
    """Keeps candidates out. Pure: equal state and candidate, equal answer."""

    @property
    def name(self) -> str: ...

    def refuse(self, state: S_contra, candidate: C_contra, /) -> Refusal | None:
        """None admits."""


@runtime_checkable
class Scorer(Protocol[S_contra, C_contra]):
    """Says how good candidates are: one number in [0, 1] for each, in their order. Higher is better."""

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
    """A scorer and how much its score counts beside the others'."""

    scorer: Scorer[S, C]
    weight: float = 1.0


class Reporter(Protocol[C_contra]):
    """Hears every step of a run."""

    def refused(self, profile: str, candidate: C_contra, refusal: Refusal, /) -> None: ...

    def scored(self, profile: str, candidate: C_contra, total: float, parts: tuple[tuple[str, float], ...], /) -> None:
        """An admitted candidate with its scores."""

    def picked(self, profile: str, candidate: C_contra, /) -> None:
        """The first of the ranking."""


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


@runtime_checkable
class Taker(Protocol[S_contra, C_contra]):
    """A picker that takes one of the best."""

    def take(self, state: S_contra, candidates: Sequence[C_contra], best: Sequence[int], /) -> int:
        """One of the positions, which are several in ascending order: those of equals with the highest sum."""


@runtime_checkable
class Gauge(Scorer[S_contra, C_contra], Protocol[S_contra, C_contra]):
    """A scorer that reads the candidate alone. Without `grade`, what it reads is the score."""

    def read(self, candidate: C_contra, /) -> float: ...


@runtime_checkable
class RelativeGauge(Gauge[S_contra, C_contra], Protocol[S_contra, C_contra]):
    """A gauge whose score depends on the numbers of the others, by their least and most."""

    def grade(self, number: float, least: float, most: float, /) -> float: ...
