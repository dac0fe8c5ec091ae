"""MetricMappings laid over the built-in ones.

A mapping is of a metric, or of a part of one. Where two MetricMappings have the same, the one whose name sorts first
keeps it. A user's mapping replaces the built-in one of the same metric.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from modelplane.api.models import MappedMetric, MetricMapping
from modelplane.compose.telemetry.metric_names import BUILT_IN


@dataclass(frozen=True, slots=True)
class MappingReport:
    metrics: tuple[MappedMetric, ...]
    """Built-in ones too."""
    faults: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """By MetricMapping: sentences that name the field."""


def read_mappings(mappings: Iterable[MetricMapping]) -> MappingReport:
    taken: dict[tuple[str, str], tuple[str, MappedMetric]] = {}
    faults: dict[str, tuple[str, ...]] = {}
    for mapping in sorted(mappings, key=lambda each: each.metadata.name):
        name, found = mapping.metadata.name, list[str]()
        for at, metric in enumerate(mapping.spec.metrics):
            key = _key(metric)
            if key in taken:
                owner = taken[key][0]
                where = "this MetricMapping" if owner == name else f"MetricMapping {owner}"
                found.append(f"spec.metrics[{at}].from: {where} maps {metric.from_} already")
            else:
                taken[key] = (name, metric)
        faults |= {name: tuple(found)} if found else {}
    own = {_key(metric): metric for metric in BUILT_IN}
    return MappingReport(tuple({**own, **{key: metric for key, (_, metric) in taken.items()}}.values()), faults)


def _key(metric: MappedMetric) -> tuple[str, str]:
    return metric.from_, metric.part or ""
