"""Sampled decisions, each as a line of JSON: the request, the endpoint, and the scores.

A share of the decisions is sampled; those without an endpoint are always logged. Both are limited in lines per second,
and dropped lines are counted. A sampled decision can be replayed from its line (`picker.recording` describes it, and
what is never recorded); the configuration has a line of its own, each time that it changes.
"""

import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Final

import msgspec

from modelplane.epp.config.config import Config
from modelplane.epp.replay.recording import digest_of
from modelplane.epp.replay.replay import CONFIGURATION, DECISION
from modelplane.epp.scheduling.decisions import Decision
from modelplane.epp.scheduling.endpoints import Endpoint
from modelplane.epp.scheduling.outcomes import Outcome
from modelplane.epp.scheduling.requests import Request
from modelplane.epp.server.line_log import open_line_log
from modelplane.epp.server.observe.decision_steps import DecisionSteps, ProfileSteps, RecordedSteps

ENDING: Final = "ending"
_SHOWN: Final = 5
_NAME_MOST: Final = 256


MOST_PER_S: Final = 100.0


class DecisionLog:
    """`write` is given whole lines."""

    def __init__(
        self,
        write: Callable[[bytes], object],
        *,
        share: float,
        most_per_s: float = MOST_PER_S,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        if not 0 <= share <= 1:
            raise ValueError(f"the share of decisions to log must be in [0, 1], not {share}")
        self._write = write
        self._wall_clock = wall_clock
        self._share = share
        self._most = max(1.0, most_per_s)
        self._left = self._most
        self._filled_s = 0.0
        self.dropped = 0
        """Lines that would have been more than allowed."""
        self._digest = ""

    def configured(self, config: Config) -> None:
        """Decisions are made by this configuration from here on."""
        self._digest = digest_of(config)
        line = {
            "event": CONFIGURATION, "at": self._now(), "config": self._digest, "source": config.source,
            "text": config.text,
        }  # fmt: skip
        self._write(msgspec.json.encode(line) + b"\n")

    def wants(self, chance: float, now_s: float) -> bool:
        """Whether a decision is drawn; `chance` is in [0, 1). None is while there would be no room for its line."""
        if chance >= self._share:
            return False
        self._refill(now_s)
        if self._left < 1:
            self.dropped += 1
            return False
        return True

    def decided(
        self, request: Request, decision: Decision, spent_s: float, steps: DecisionSteps | None, now_s: float
    ) -> None:
        """Write a sampled decision (`steps` is set), or one without an endpoint."""
        if steps is None and decision.outcome is Outcome.PICKED:
            return
        if not self._allowed(now_s):
            self.dropped += 1
            return
        line = {
            "event": DECISION, "at": self._now(), **_line(request, decision, spent_s, steps), "config": self._digest
        }  # fmt: skip
        if isinstance(steps, RecordedSteps) and steps.recording is not None:
            line["replay"] = steps.recording
        self._write(msgspec.json.encode(line) + b"\n")

    def evicted(self, request: Request, now_s: float) -> None:
        """Write that a request which was sent on had to make room: it has a line as picked, if it was drawn."""
        if not self._allowed(now_s):
            self.dropped += 1
            return
        ending = Decision(Outcome.EVICTED, why="the request had to make room for a more urgent one")
        line = {"event": ENDING, "at": self._now(), **_line(request, ending, now_s - request.received_s, None)}
        self._write(msgspec.json.encode(line) + b"\n")

    def _now(self) -> str:
        return datetime.fromtimestamp(self._wall_clock(), UTC).isoformat(timespec="microseconds")

    def _refill(self, now_s: float) -> None:
        self._left = min(self._most, self._left + (now_s - self._filled_s) * self._most)
        self._filled_s = now_s

    def _allowed(self, now_s: float) -> bool:
        self._refill(now_s)
        if self._left < 1:
            return False
        self._left -= 1
        return True


def _line(request: Request, decision: Decision, spent_s: float, steps: DecisionSteps | None) -> Mapping[str, object]:
    line: dict[str, object] = {
        "request": request.id[:_NAME_MOST],
        "model": request.model[:_NAME_MOST],
        "tenant": request.fairness_id[:_NAME_MOST],
        "priority": request.priority,
        "outcome": decision.outcome.title,
        "status": decision.outcome.status,
        "spentMicros": round(spent_s * 1e6, 1),
    }
    if decision.outcome is Outcome.PICKED:
        line |= {"endpoint": decision.picked.name, "address": decision.picked.address, "profile": decision.profile}
        if decision.others:
            line["others"] = {name: [endpoint.name for endpoint in picks] for name, picks in decision.others}
        if decision.shadows:
            line["shadows"] = {name: [endpoint.name for endpoint in picks] for name, picks in decision.shadows}
    else:
        line["why"] = decision.why
    if steps is not None:
        line["profiles"] = {name: _profile(one) for name, one in steps.profiles.items()}
    return line


def _profile(steps: ProfileSteps) -> Mapping[str, object]:
    shown: dict[str, object] = {"candidates": len(steps.scored), "best": [_scored(*one) for one in steps.best(_SHOWN)]}
    if steps.refused:
        shown["refused"] = dict(steps.refused)
    return shown


def _scored(endpoint: Endpoint, total: float, parts: tuple[tuple[str, float], ...]) -> Mapping[str, object]:
    return {"endpoint": endpoint.name, "total": round(total, 4), "scores": {name: round(s, 4) for name, s in parts}}


def open_decision_log(path: str, share: float, *, workers: int = 1) -> DecisionLog:
    """To this file, of which - is standard output. Workers divide the lines that may be written in a second."""
    return DecisionLog(open_line_log("--decision-log", path), share=share, most_per_s=MOST_PER_S / workers)
