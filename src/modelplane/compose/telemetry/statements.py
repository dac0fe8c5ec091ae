"""Mapped metrics as statements of the collector's transform language (OTTL), in the order in which they must run.

parts       a counter is taken out of a histogram, while it has its own name
values      scaled to the base unit, buckets of histograms too
labels      set from constants and from labels of the engine
aggregated  over labels that are not kept: data-parallel ranks of one server become one series
names       last, for everything before finds a metric by its own name
"""

import json
from collections.abc import Iterable, Iterator
from typing import Final

from modelplane.api.models import MappedLabel, MappedMetric

IDENTITY: Final = ("cluster", "namespace", "deployment", "replica", "engine", "role", "node")
"""Labels that say where a metric is from. Scraping sets them."""
_FACTORS: Final = {
    "Millijoules": "0.001",
    "Milliseconds": "0.001",
    "Nanoseconds": "0.000000001",
    "Mebibytes": "1048576.0",
    "Percent": "0.01",
}
_SUFFIX: Final = {"Count": "_count", "Sum": "_sum"}
_COPY: Final = "modelplane.copy"
_AVERAGED: Final = ("_ratio", "_celsius")


def metric_statements(metrics: Iterable[MappedMetric]) -> list[dict[str, object]]:
    """By context, as the transform processor has them."""
    found = list(metrics)
    groups = (
        ("metric", [*_parts(found), *_scales(found)]),
        ("datapoint", [text for metric in found for text in _labels(metric)]),
        ("metric", [*map(_aggregate, found), *map(_rename, found)]),
    )
    return [{"context": context, "statements": texts} for context, texts in groups if texts]


def _source(metric: MappedMetric) -> str:
    """Its name once a part is taken out."""
    return metric.from_ + _SUFFIX.get(metric.part or "", "")


def _where(metric: MappedMetric) -> str:
    return f"where metric.name == {_quoted(_source(metric))}"


def _parts(metrics: Iterable[MappedMetric]) -> Iterator[str]:
    for metric in metrics:
        if metric.part is not None:
            made = f"extract_{metric.part.lower()}_metric(true)"
            yield f"{made} where metric.name == {_quoted(metric.from_)}"


def _scales(metrics: Iterable[MappedMetric]) -> Iterator[str]:
    for metric in metrics:
        if metric.from_unit is not None and metric.part != "Count":
            yield f"scale_metric({_FACTORS[metric.from_unit]}) {_where(metric)}"


def _labels(metric: MappedMetric) -> Iterator[str]:
    for label in metric.labels:
        target = f"datapoint.attributes[{_quoted(label.name)}]"
        yield from _label(metric, label, target)


def _label(metric: MappedMetric, label: MappedLabel, target: str) -> Iterator[str]:
    if label.from_ is None:
        yield f"set({target}, {_quoted(label.value or '')}) {_where(metric)}"
        return
    source = f"datapoint.attributes[{_quoted(label.from_)}]"
    if label.from_ == label.name and label.values:
        # Its values are read from a copy, or the new value of one would be the old value of the next.
        copied = f"datapoint.attributes[{_quoted(_COPY)}]"
        yield f"set({copied}, {source}) {_where(metric)}"
        source = copied
    for old, new in sorted(label.values.items()):
        yield f"set({target}, {_quoted(new)}) {_where(metric)} and {source} == {_quoted(old)}"
    kept = "".join(f" and {source} != {_quoted(old)}" for old in sorted(label.values))
    if label.from_ != label.name:
        yield f"set({target}, {source}) {_where(metric)} and {source} != nil{kept}"


def _aggregate(metric: MappedMetric) -> str:
    how = "mean" if metric.to.endswith(_AVERAGED) and metric.part is None else "sum"
    kept = ", ".join(_quoted(name) for name in (*IDENTITY, *(label.name for label in metric.labels)))
    return f"aggregate_on_attributes({_quoted(how)}, [{kept}]) {_where(metric)}"


def _rename(metric: MappedMetric) -> str:
    return f"set(metric.name, {_quoted(metric.to)}) {_where(metric)}"


def _quoted(text: str) -> str:
    """JSON's strings are OTTL's. The collector reads a dollar as the beginning of a variable."""
    return json.dumps(text, ensure_ascii=False).replace("$", "$$")
