"""The steps of one decision that is logged, traced or recorded for replay."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from modelplane.epp.replay.recording import Recording, RecordingBuilder
from modelplane.epp.scheduling.context import SchedulingContext
from modelplane.epp.scheduling.decisions import Decision
from modelplane.epp.scheduling.endpoints import Endpoint
from modelplane.epp.scheduling.requests import Request
from modelplane.framework import Refusal


class ProfileSteps:
    """One profile's run."""

    __slots__ = ("picked", "refused", "scored")

    def __init__(self) -> None:
        self.refused: Counter[str] = Counter()
        """Endpoints kept out, by filter."""
        self.scored: list[tuple[Endpoint, float, tuple[tuple[str, float], ...]]] = []
        self.picked: Endpoint | None = None

    def best(self, most: int) -> list[tuple[Endpoint, float, tuple[tuple[str, float], ...]]]:
        return sorted(self.scored, key=lambda one: -one[1])[:most]


class DecisionSteps:
    """A reporter of the framework that keeps the steps, by profile."""

    __slots__ = ("logged", "profiles", "traced")

    def __init__(self, *, logged: bool = False, traced: bool = False) -> None:
        self.profiles: dict[str, ProfileSteps] = {}
        self.logged = logged
        self.traced = traced

    def refused(self, profile: str, _candidate: Endpoint, refusal: Refusal, /) -> None:
        self._of(profile).refused[refusal.filter] += 1

    def scored(self, profile: str, candidate: Endpoint, total: float, parts: tuple[tuple[str, float], ...], /) -> None:
        self._of(profile).scored.append((candidate, total, parts))

    def picked(self, profile: str, candidate: Endpoint, /) -> None:
        self._of(profile).picked = candidate

    def _of(self, profile: str) -> ProfileSteps:
        found = self.profiles.get(profile)
        if found is None:
            found = self.profiles[profile] = ProfileSteps()
        return found


class RecordedSteps(DecisionSteps):
    """The steps, and all inputs of the decision (a `DecisionRecorder` of the scheduler)."""

    __slots__ = ("_builder", "recording")

    def __init__(self, *, traced: bool = False) -> None:
        super().__init__(logged=True, traced=traced)
        self._builder = RecordingBuilder()
        self.recording: Recording | None = None
        """None until it is decided, and if no plugin ran."""

    def begin(self, request: Request, chance: Callable[[], float], /) -> tuple[Request, Callable[[], float]]:
        return self._builder.begin(request, chance)

    def record(
        self,
        context: SchedulingContext,
        endpoints: Sequence[Endpoint],
        decision: Decision,
        memories: Mapping[str, object],
        /,
    ) -> None:
        totals = {name: profile.scored for name, profile in self.profiles.items()}
        self.recording = self._builder.build(context, endpoints, decision, memories, totals)
