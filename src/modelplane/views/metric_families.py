"""Metric families as values: what is on a metrics page, before any host writes it.

Names and units follow OpenMetrics: a unit ends the name, and the samples of a counter or an info have a suffix more.
A family has a bounded number of series whatever the fleet is: the first by their labels stay, and how many do not is
said by a family of its own.
"""

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from typing import Final, Literal

import msgspec

MOST_SERIES: Final = 10_000
LEFT_OUT: Final = "modelplane_metrics_series_left_out"
_SUFFIXES: Final = {"counter": "_total", "info": "_info"}
Labels = tuple[str, ...]


class MetricSpec(msgspec.Struct, frozen=True, kw_only=True):
    """What a page of the documentation says of a metric."""

    name: str
    type: Literal["counter", "gauge", "histogram", "info"] = "gauge"
    labels: Labels = ()
    help: str
    unit: str = ""

    @property
    def shown_name(self) -> str:
        """The name that queries have."""
        return self.name + _SUFFIXES.get(self.type, "")


class SecondsHistogram(msgspec.Struct, frozen=True):
    """How many took at most so long. The last count is of those beyond every bound."""

    bounds: tuple[float, ...]
    counts: tuple[int, ...]
    total_s: float = 0.0

    @classmethod
    def empty(cls, bounds: tuple[float, ...]) -> "SecondsHistogram":
        return cls(bounds, (0,) * (len(bounds) + 1))

    def with_one(self, seconds: float) -> "SecondsHistogram":
        place = bisect_left(self.bounds, seconds)
        counts = tuple(count + (place == position) for position, count in enumerate(self.counts))
        return SecondsHistogram(self.bounds, counts, self.total_s + seconds)


class SampleFamily(msgspec.Struct, frozen=True):
    spec: MetricSpec
    values: Mapping[Labels, float | SecondsHistogram]


SERIES_LEFT_OUT: Final = MetricSpec(
    name=LEFT_OUT, labels=("metric",), help=f"Series beyond the {MOST_SERIES} that one metric may have on this page."
)


def bounded(families: Iterable[SampleFamily], most: int = MOST_SERIES) -> tuple[SampleFamily, ...]:
    """The families with at most so many series each, and one that says how many are left out."""
    kept: list[SampleFamily] = []
    left_out: dict[Labels, float] = {}
    for family in families:
        values = family.values
        if len(values) > most:
            left_out[family.spec.shown_name,] = len(values) - most
            values = {labels: values[labels] for labels in sorted(values)[:most]}
        kept.append(SampleFamily(family.spec, values))
    return (*kept, SampleFamily(SERIES_LEFT_OUT, left_out))
