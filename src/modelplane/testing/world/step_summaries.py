"""One sentence for each step: what moved, after how long the fleet was whole again, and what clients lost."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from modelplane.testing.world.scenario_record import ReplicaRecord
from modelplane.testing.world.scenario_steps import ScenarioStep
from modelplane.testing.world.store import ObjectId
from modelplane.views.simulation_report import ReplicaPoint, RequestCounts, clock_text

_TITLES: Mapping[str, str] = {
    "lose cluster": "{2} lost",
    "lose region": "region {2} lost",
    "recover cluster": "{2} back",
    "recover region": "region {2} back",
    "delete cluster": "{2} deleted",
    "drain cluster": "{2} drained",
    "undrain cluster": "drain of {2} ended",
    "cordon cluster": "{2} cordoned",
    "uncordon cluster": "{2} uncordoned",
    "add pool": "pool {2} added ({4} x {3})",
    "resize pool": "nodes of pool {2} set to {3}",
    "scale": "{1} scaled to {2}",
    "double": "replicas of {1} doubled",
    "roll": "{1} rolled to {2}",
    "traffic": "traffic of {1} set to {2} times its curve",
    "restart plane": "control plane restarted",
}
_NOTABLE = 0.25
_SECOND_MS = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class StepWindow:
    """A step and the time until the next one."""

    step: ScenarioStep
    until_s: float
    clusters: tuple[str, ...]
    replicas: Sequence[ReplicaRecord]
    points: Mapping[ObjectId, Sequence[ReplicaPoint]]
    counts: RequestCounts
    ttft_before_ms: int | None
    ttft_after_ms: int | None
    has_traffic: bool

    @property
    def placed(self) -> list[ReplicaRecord]:
        """Those that came in the window."""
        return [each for each in self.replicas if self.step.at_s <= each.placed_s < self.until_s]

    @property
    def gone(self) -> int:
        """Those that left in the window, and those on clusters that the step takes away and that have not left yet."""
        lost = self.clusters if self.step.verb in {"lose", "delete"} else ()
        return sum(
            each.placed_s < self.step.at_s
            and (each.left_s is None or each.left_s >= self.step.at_s)
            and (each.cluster in lost or (each.left_s is not None and each.left_s < self.until_s))
            for each in self.replicas
        )

    @property
    def there(self) -> int:
        """How many replicas there were when it happened."""
        return sum(
            each.placed_s < self.step.at_s and (each.left_s is None or each.left_s >= self.step.at_s)
            for each in self.replicas
        )

    @property
    def moved(self) -> int:
        return min(len(self.placed), self.gone)

    def missing(self) -> list[tuple[float, int]]:
        """How many replicas were not ready, from each time on."""
        times = sorted({point.at_s for points in self.points.values() for point in points} | {self.step.at_s})
        return [(at, self._missing_at(at)) for at in times if self.step.at_s <= at < self.until_s]

    def _missing_at(self, at: float) -> int:
        now = [[point for point in points if point.at_s <= at] for points in self.points.values()]
        return sum(max(0, points[-1].wanted - points[-1].ready) for points in now if points)

    @property
    def wanted(self) -> int:
        return sum(points[-1].wanted for points in self._until_end() if points)

    def _until_end(self) -> Iterator[list[ReplicaPoint]]:
        for points in self.points.values():
            yield [point for point in points if point.at_s < self.until_s]

    @property
    def recovered_s(self) -> float | None:
        """After how long none was missing any more."""
        found = self.missing()
        if not any(number for _, number in found) or found[-1][1]:
            return None
        last = max(at for at, (_, number) in enumerate(found) if number)
        return round(found[last + 1][0] - self.step.at_s, 1)


def summary_of(window: StepWindow) -> str:
    """`east lost at 02:00: 3 of 8 replicas moved to west, all 8 ready after 92 s, 41 requests failed`."""
    parts = [_placement(window), _readiness(window), *_requests(window), _latency(window)]
    return f"{_title(window.step)} at {_clock(window.step.at_s)}: {', '.join(part for part in parts if part)}"


def _title(step: ScenarioStep) -> str:
    found = next(text for verb, text in _TITLES.items() if f"{step} ".startswith(f"{verb} "))
    return found.format(*step.words)


def _clock(seconds: float) -> str:
    return clock_text(seconds).removesuffix(":00") if seconds >= 60 else clock_text(seconds)  # noqa: PLR2004  a minute


def _placement(window: StepWindow) -> str:
    where = _places(window.placed)
    moved, gone = window.moved, window.gone
    if moved:
        more = len(window.placed) - moved
        text = f"{moved} of {window.there} {_replicas(window.there)} moved to {where}"
        left = gone - moved
        also = f", {more} more placed" if more > 0 else f", {left} not replaced" if left else ""
        return text + also
    if window.placed:
        return f"{len(window.placed)} {_replicas(len(window.placed))} placed on {where}"
    if gone:
        return f"{gone} of {window.there} {_replicas(window.there)} gone and not replaced"
    return "no replica moved"


def _replicas(number: int) -> str:
    return "replica" if number == 1 else "replicas"


def _places(placed: Sequence[ReplicaRecord]) -> str:
    found = Counter(each.cluster for each in placed)
    if len(found) == 1:
        return next(iter(found))
    return ", ".join(f"{name} ({number})" for name, number in sorted(found.items()))


def _readiness(window: StepWindow) -> str:
    missing = window.missing()
    if missing and missing[-1][1]:
        return f"{missing[-1][1]} of {window.wanted} not ready at {_clock(window.until_s)}"
    recovered = window.recovered_s
    return "" if recovered is None else f"all {window.wanted} ready after {recovered:.0f} s"


def _requests(window: StepWindow) -> Iterator[str]:
    if not window.has_traffic:
        return
    counts = window.counts
    for number, word in ((counts.failed, "failed"), (counts.shed, "shed")):
        if number:
            yield f"{number} {'request' if number == 1 else 'requests'} {word}"
    if not counts.failed and not counts.shed:
        yield f"none of {counts.requests} requests lost"


def _latency(window: StepWindow) -> str:
    before, after = window.ttft_before_ms, window.ttft_after_ms
    if not before or not after or abs(after - before) <= _NOTABLE * before:
        return ""
    return f"TTFT p95 {_time(before)} before and {_time(after)} after"


def _time(milliseconds: int) -> str:
    return f"{milliseconds} ms" if milliseconds < _SECOND_MS else f"{milliseconds / _SECOND_MS:.1f} s"
