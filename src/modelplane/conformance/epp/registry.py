"""What a conformance case is: a name, a level, a sentence of what a picker does, one of why, and what the kit needs."""

from collections.abc import Awaitable, Callable
from enum import Enum, StrEnum
from typing import NamedTuple

from modelplane.conformance.epp.bench import Bench

CaseRun = Callable[[Bench], Awaitable[None]]


class CaseLevel(StrEnum):
    """MUST is the protocol; SHOULD is what operators rely on in addition; MAY is a feature that a picker may lack."""

    MUST = "MUST"
    SHOULD = "SHOULD"
    MAY = "MAY"


class CaseNeed(Enum):
    """What the kit has to have for a case. The value says what is missing."""

    POOL = "the kit cannot change the pool"
    PODS = "the pool has no pods, whose readiness the kit could change"
    PORTS = "no two endpoints of the pool share an address"
    PROCESS = "the kit did not start the picker and cannot stop it"


class ConformanceCase(NamedTuple):
    name: str
    level: CaseLevel
    run: CaseRun
    needs: tuple[CaseNeed, ...] = ()

    @property
    def title(self) -> str:
        """What a picker does that conforms."""
        return self._paragraphs[0]

    @property
    def why(self) -> str:
        return self._paragraphs[-1]

    @property
    def _paragraphs(self) -> list[str]:
        return [" ".join(part.split()) for part in (self.run.__doc__ or "").split("\n\n")]


CASES: list[ConformanceCase] = []


def case(level: CaseLevel, *needs: CaseNeed) -> Callable[[CaseRun], CaseRun]:
    def listed(run: CaseRun) -> CaseRun:
        CASES.append(ConformanceCase(run.__name__.replace("_", "-"), level, run, needs))
        return run

    return listed
