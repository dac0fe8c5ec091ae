"""What the router decided lately, and why: a bounded ring that `modelplane explain request` reads.

A record has the steps of each attempt of a request: what every filter refused, what every scorer gave, what was chosen
and how it ended. It has no prompt, no key and no header of the client. Texts are made when a record is read.
"""

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from typing import Final

from modelplane.epp.scheduling.endpoints import Endpoint
from modelplane.framework import Refusal
from modelplane.framework.plugins import Columns
from modelplane.views.request_decisions import AttemptShown, CandidateStep, RequestShown

RECORDS: Final = 4096
_MOST_ATTEMPTS: Final = 16
_Scored = tuple[Sequence[Endpoint], Sequence[float], Sequence[str], Columns]


class AttemptSteps:
    """The steps of one decision (a `Reporter` of the framework)."""

    __slots__ = ("_scored", "chosen", "refusals")

    def __init__(self) -> None:
        self.refusals: list[tuple[str, Refusal]] = []
        self._scored: list[_Scored] = []
        self.chosen = ""

    def refused(self, _profile: str, candidate: Endpoint, refusal: Refusal, /) -> None:
        self.refusals.append((candidate.name, refusal))

    def scored(self, _profile: str, candidate: Endpoint, total: float, parts: tuple[tuple[str, float], ...], /) -> None:
        self.scored_all((candidate,), (total,), [name for name, _ in parts], [(score,) for _, score in parts])

    def scored_all(
        self, candidates: Sequence[Endpoint], totals: Sequence[float], scorers: Sequence[str], columns: Columns, /
    ) -> None:
        self._scored.append((candidates, totals, scorers, columns))

    def picked(self, _profile: str, candidate: Endpoint, /) -> None:
        self.chosen = candidate.name

    def scores(self) -> Iterator[tuple[str, float, dict[str, float]]]:
        """Of each endpoint that no filter refused: its total, and what each scorer gave."""
        for candidates, totals, scorers, columns in self._scored:
            for at, candidate in enumerate(candidates):
                parts = {name: column[at] for name, column in zip(scorers, columns, strict=True)}
                yield candidate.name, totals[at], parts


class Attempt:
    """One decision, and how it ended."""

    __slots__ = ("at_s", "ended_s", "number", "outcome", "status", "steps", "why")

    def __init__(self, number: int, at_s: float, outcome: str, why: str, steps: AttemptSteps | None) -> None:
        self.number = number
        self.at_s = at_s
        self.outcome = outcome
        self.why = why
        self.steps = steps
        self.status = 0
        self.ended_s = -1.0


class Record:
    """One request."""

    __slots__ = ("attempts", "caller", "id", "model", "path", "residency", "service", "session")

    def __init__(self, identity: str) -> None:
        self.id = identity
        self.service = ""
        self.model = ""
        self.path = ""
        self.caller = ""
        self.residency = ""
        self.session = False
        self.attempts: list[Attempt] = []

    def began_s(self, now_s: float) -> float:
        """When its first attempt was; now, where this is the first."""
        return self.attempts[0].at_s if self.attempts else now_s


class DecisionRing:
    """The latest records by request id."""

    __slots__ = ("_limit", "_records")

    def __init__(self, most: int = RECORDS) -> None:
        self._limit = most
        self._records: OrderedDict[str, Record] = OrderedDict()

    def __len__(self) -> int:
        return len(self._records)

    def open(self, identity: str, *, again: bool) -> Record:
        """The record of a request; `again`: it is a further attempt of one that may be known."""
        found = self._records.get(identity) if again else None
        if found is None or len(found.attempts) >= _MOST_ATTEMPTS:
            found = self._records[identity] = Record(identity)
            self._records.move_to_end(identity)
            if len(self._records) > self._limit:
                self._records.popitem(last=False)
        return found

    def tried(self, identity: str) -> frozenset[str]:
        """The endpoints of the attempts so far."""
        found = self._records.get(identity)
        if found is None:
            return frozenset()
        return frozenset(attempt.steps.chosen for attempt in found.attempts if attempt.steps and attempt.steps.chosen)

    def find(self, identity: str, now_s: float) -> RequestShown | None:
        found = self._records.get(identity)
        return None if found is None else shown(found, now_s)

    def latest(self, most: int, now_s: float) -> list[RequestShown]:
        """The newest first."""
        newest = list(reversed(self._records.values()))[:most]
        return [shown(record, now_s) for record in newest]


def shown(record: Record, now_s: float) -> RequestShown:
    attempts = tuple(_attempt_shown(attempt) for attempt in record.attempts)
    return RequestShown(
        record.id, record.service, record.model, record.path, record.caller, record.residency, record.session,
        round(now_s - record.began_s(now_s), 3), attempts,
    )  # fmt: skip


def _attempt_shown(attempt: Attempt) -> AttemptShown:
    steps = attempt.steps
    duration_ms = -1.0 if attempt.ended_s < 0.0 else round((attempt.ended_s - attempt.at_s) * 1000.0, 3)
    candidates = tuple(_candidates(steps)) if steps is not None else ()
    endpoint = steps.chosen if steps is not None else ""
    return AttemptShown(attempt.number, attempt.outcome, endpoint, attempt.why, attempt.status, duration_ms, candidates)


def _candidates(steps: AttemptSteps) -> Iterator[CandidateStep]:
    for name, total, parts in sorted(steps.scores(), key=lambda each: -each[1]):
        yield CandidateStep(
            name, total=round(total, 4), scores={scorer: round(value, 4) for scorer, value in parts.items()}
        )
    for name, refusal in steps.refusals:
        yield CandidateStep(name, refusal.filter, refusal.reason)
