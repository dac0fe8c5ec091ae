"""Reporters of general use: one records the steps, one forwards them to several."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from modelplane.framework.outcomes import Refusal
from modelplane.framework.plugins import Reporter

C = TypeVar("C")


@dataclass(frozen=True, slots=True)
class StepRecorder(Generic[C]):
    refusals: list[tuple[C, Refusal]] = field(default_factory=list)
    scores: list[tuple[C, float, tuple[tuple[str, float], ...]]] = field(default_factory=list)
    picks: list[C] = field(default_factory=list)

    def refused(self, _profile: str, candidate: C, refusal: Refusal, /) -> None:
        self.refusals.append((candidate, refusal))

    def scored(self, _profile: str, candidate: C, total: float, parts: tuple[tuple[str, float], ...], /) -> None:
        self.scores.append((candidate, total, parts))

    def picked(self, _profile: str, candidate: C, /) -> None:
        self.picks.append(candidate)

    def lines(self) -> Iterator[str]:
        """One line a candidate, for people."""
        for candidate, refusal in self.refusals:
            yield f"{candidate}: {refusal.filter}: {refusal.reason}"
        for candidate, total, parts in self.scores:
            shown = ", ".join(f"{name} {value:.3f}" for name, value in parts)
            yield f"{candidate}: {total:.3f} ({shown})"


@dataclass(frozen=True, slots=True)
class MultiReporter(Generic[C]):
    """Forwards every step to every reporter, in order."""

    listeners: tuple[Reporter[C], ...]

    def refused(self, profile: str, candidate: C, refusal: Refusal, /) -> None:
        for listener in self.listeners:
            listener.refused(profile, candidate, refusal)

    def scored(self, profile: str, candidate: C, total: float, parts: tuple[tuple[str, float], ...], /) -> None:
        for listener in self.listeners:
            listener.scored(profile, candidate, total, parts)

    def picked(self, profile: str, candidate: C, /) -> None:
        for listener in self.listeners:
            listener.picked(profile, candidate)
