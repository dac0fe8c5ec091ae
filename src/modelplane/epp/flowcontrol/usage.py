"""Usage-limit policies: the saturation at which a priority band has to wait, its ceiling.

A band whose ceiling the saturation has reached waits, and so do the bands below it.

    Static            one ceiling for all
    Holdback          lower bands get lower ceilings, evenly between two
    SoftReflective    the fuller the pool, the lower the ceilings of lower bands; a band that is shut lets one through
                      every so often, seldomer as the pool fills, until at 1 all is shut
"""

from collections.abc import Sequence
from enum import StrEnum
from math import floor
from typing import Annotated, Protocol, runtime_checkable

import msgspec

from modelplane.framework.registry import NoParameters, Parameters

Share = Annotated[float, msgspec.Meta(ge=0.0, le=1.0)]
OPEN = 1.0


@runtime_checkable
class UsageLimitPolicy(Protocol):
    @property
    def name(self) -> str: ...

    def ceilings(self, priorities: Sequence[int], saturation: float, /) -> Sequence[float]:
        """For the priorities, highest first. Called once for each dispatch."""


class StaticParameters(Parameters, frozen=True):
    threshold: Annotated[float, msgspec.Meta(gt=0.0)] = OPEN


class Static:
    def __init__(self, name: str, parameters: StaticParameters | None = None) -> None:
        self.name = name
        self._threshold = (parameters or StaticParameters()).threshold

    def ceilings(self, priorities: Sequence[int], _saturation: float) -> Sequence[float]:
        return [self._threshold] * len(priorities)


class UsageDomain(StrEnum):
    RANK = "rank"
    VALUE = "value"


class LimitShape(StrEnum):
    LINEAR = "linear"


class HoldbackParameters(Parameters, frozen=True):
    min_ceiling: Share
    max_ceiling: Share = OPEN
    shape: LimitShape = LimitShape.LINEAR
    domain: UsageDomain = UsageDomain.RANK
    """Whether bands are spread by their rank or by the value of their priority."""

    def __post_init__(self) -> None:
        if self.min_ceiling > self.max_ceiling:
            raise ValueError(f"minCeiling {self.min_ceiling} is above maxCeiling {self.max_ceiling}")


class Holdback:
    def __init__(self, name: str, parameters: HoldbackParameters) -> None:
        self.name = name
        self._parameters = parameters

    def ceilings(self, priorities: Sequence[int], _saturation: float) -> Sequence[float]:
        top, low = self._parameters.max_ceiling, self._parameters.min_ceiling
        places: Sequence[int] = range(len(priorities))
        if self._parameters.domain is UsageDomain.VALUE:
            places = [priorities[0] - priority for priority in priorities]
        width = places[-1] if places else 0
        return [top - (top - low) * place / width if width else top for place in places]


class SoftReflective:
    """Counts, for each priority that is shut, how often it was passed over."""

    def __init__(self, name: str, _parameters: NoParameters | None = None) -> None:
        self.name = name
        self._passed: dict[int, int] = {}

    def ceilings(self, priorities: Sequence[int], saturation: float) -> Sequence[float]:
        if len(self._passed) > len(priorities):
            self._passed = {each: count for each, count in self._passed.items() if each in priorities}
        last = len(priorities) - 1
        return [
            self._ceiling(priority, OPEN - rank * saturation / last if last else OPEN, saturation)
            for rank, priority in enumerate(priorities)
        ]

    def _ceiling(self, priority: int, ceiling: float, saturation: float) -> float:
        if saturation < ceiling or saturation >= OPEN:
            return max(0.0, ceiling)
        passed = self._passed.get(priority, 0) + 1
        opens = passed >= max(1, floor(saturation / (OPEN - saturation) + 0.5))
        self._passed[priority] = 0 if opens else passed
        return OPEN if opens else max(0.0, ceiling)
