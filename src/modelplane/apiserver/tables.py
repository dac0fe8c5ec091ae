"""Lists as tables (`kubectl get`): the columns of a kind, evaluated here as the real API server does.

A column shows the first value of its path. Dates are shown as ages.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from functools import cache
from typing import Final

import msgspec

from modelplane.api.definitions import Column
from modelplane.api.objects import Json, Manifest, as_mapping, metadata_of, name_of, text_at
from modelplane.apiserver.resources import Resource
from modelplane.k8s.jsonpath import find

_MINUTE: Final = 60
_HOUR: Final = 3600
_DAY: Final = 24
_YEAR: Final = 365
_FEW: Final = 8
"""Up to so many hours, days or years the next smaller unit is shown as well."""
_MINUTES_WITH_SECONDS: Final = 10
UNKNOWN_AGE: Final = "<unknown>"


class Include(StrEnum):
    """The part of the object in a row (`includeObject`)."""

    METADATA = "Metadata"
    OBJECT = "Object"
    NONE = "None"


Cell = Callable[[Manifest, float], object]


@dataclass(frozen=True, slots=True)
class _Shown:
    """A column and how its cells come about."""

    name: str
    kind: str
    description: str
    cell: Cell
    priority: int = 0
    format: str = ""

    def definition(self) -> Json:
        return {
            "name": self.name,
            "type": self.kind,
            "format": self.format,
            "description": self.description,
            "priority": self.priority,
        }


def column_definitions(resource: Resource) -> list[Json]:
    return [column.definition() for column in _columns(resource)]


def rows(resource: Resource, manifests: Iterable[Manifest], now: float, include: Include) -> list[Json]:
    columns = _columns(resource)
    return [
        {"cells": [column.cell(manifest, now) for column in columns], "object": _carried(manifest, include)}
        for manifest in manifests
    ]


def table(rows_: list[Json], definitions: list[Json], metadata: Json) -> Json:
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": metadata,
        "columnDefinitions": definitions,
        "rows": rows_,
    }


def partial(manifest: Manifest) -> Json:
    """The metadata alone, as an object of its own."""
    return {
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": dict(metadata_of(manifest)),
    }


def _carried(manifest: Manifest, include: Include) -> object:
    match include:
        case Include.METADATA:
            return partial(manifest)
        case Include.OBJECT:
            return manifest
        case Include.NONE:
            return None


_NAME: Final = _Shown(
    "Name",
    "string",
    "The name, unique among objects of the kind in the namespace.",
    lambda manifest, _: name_of(manifest),
    format="name",
)
_AGE: Final = _Shown(
    "Age",
    "string",
    "When the object was created.",
    lambda manifest, now: age(text_at(manifest, "metadata", "creationTimestamp"), now),
)
_CREATED: Final = _Shown(
    "Created At",
    "date",
    "When the object was created.",
    lambda manifest, _: text_at(manifest, "metadata", "creationTimestamp"),
)


@cache
def _columns(resource: Resource) -> tuple[_Shown, ...]:
    own = _CORE.get(resource.kind) if resource.home[0] == "" else None
    if own is not None:
        return own
    if resource.kind == "CustomResourceDefinition":
        return (_NAME, _CREATED)
    if not resource.custom:
        return (_NAME, _AGE)
    return (_NAME, *(_custom(column) for column in resource.definition.columns))


def _custom(column: Column) -> _Shown:
    described = column.description or f"Custom resource definition column (in JSONPath format): {column.json_path}"

    def cell(manifest: Manifest, now: float) -> object:
        found = find(column.json_path, manifest)
        return _cell(column.type, found[0], now) if found else None

    return _Shown(column.name, column.type, described, cell, column.priority)


def _cell(kind: str, value: object, now: float) -> object:
    match kind, value:
        case "string", str():
            return value
        case "string", _:
            return msgspec.json.encode(value).decode()
        case "date", str():
            return age(value, now)
        case ("integer", bool()) | ("number", bool()):
            return None
        case "integer", int() | float():
            return int(value)
        case ("number", int() | float()) | ("boolean", bool()):
            return value
        case _:
            return None


def age(timestamp: str, now: float) -> str:
    """How long ago that was, in the few characters that kubectl shows."""
    if not timestamp:
        return UNKNOWN_AGE
    try:
        then = datetime.fromisoformat(timestamp)
    except ValueError:
        return "<invalid>"
    return duration(now - then.timestamp())


def duration(seconds: float) -> str:
    """Fewer units the longer it is: 90s, 5m10s, 3h4m, 2d, 1y30d."""
    whole = int(seconds)
    if whole < 0:
        return "0s" if whole == -1 else "<invalid>"
    if whole < 2 * _MINUTE:
        return f"{whole}s"
    minutes, hours = whole // _MINUTE, whole // _HOUR
    if minutes < _MINUTES_WITH_SECONDS:
        return _two(minutes, "m", whole % _MINUTE, "s")
    if minutes < 3 * _MINUTE:
        return f"{minutes}m"
    if hours < _FEW:
        return _two(hours, "h", minutes % _MINUTE, "m")
    return _days(hours)


def _days(hours: int) -> str:
    days = hours // _DAY
    if hours < 2 * _DAY:
        return f"{hours}h"
    if days < _FEW:
        return _two(days, "d", hours % _DAY, "h")
    if days < 2 * _YEAR:
        return f"{days}d"
    years = days // _YEAR
    return _two(years, "y", days % _YEAR, "d") if years < _FEW else f"{years}y"


def _two(large: int, unit: str, small: int, smaller: str) -> str:
    return f"{large}{unit}{small}{smaller}" if small else f"{large}{unit}"


def _count(*fields: str) -> Cell:
    return lambda manifest, _: sum(len(as_mapping(manifest.get(field))) for field in fields)


def _text(field: str) -> Cell:
    return lambda manifest, _: str(manifest.get(field, ""))


def _involved(manifest: Manifest, _: float) -> str:
    involved = as_mapping(manifest.get("involvedObject"))
    kind, name = str(involved.get("kind", "")).lower(), str(involved.get("name", ""))
    return f"{kind}/{name}" if name else kind


def _source(manifest: Manifest, _: float) -> str:
    source = as_mapping(manifest.get("source"))
    parts = (source.get("component") or manifest.get("reportingComponent"), source.get("host"))
    return ", ".join(str(part) for part in parts if part)


def _since(field: str) -> Cell:
    def cell(manifest: Manifest, now: float) -> str:
        found = manifest.get(field) or manifest.get("eventTime")
        return age(found if isinstance(found, str) else "", now)

    return cell


_CORE: Final[Mapping[str, tuple[_Shown, ...]]] = {
    "ConfigMap": (
        _NAME,
        _Shown("Data", "string", "How many entries it has.", _count("data", "binaryData")),
        _AGE,
    ),
    "Secret": (
        _NAME,
        _Shown("Type", "string", "What the data is for.", _text("type")),
        _Shown("Data", "string", "How many entries it has.", _count("data")),
        _AGE,
    ),
    "Namespace": (
        _NAME,
        _Shown(
            "Status",
            "string",
            "The status of the namespace.",
            lambda manifest, _: str(as_mapping(manifest.get("status")).get("phase", "")),
        ),
        _AGE,
    ),
    "Event": (
        _Shown("Last Seen", "string", "When it happened last.", _since("lastTimestamp")),
        _Shown("Type", "string", "Normal or Warning.", _text("type")),
        _Shown("Reason", "string", "Why, in one word.", _text("reason")),
        _Shown("Object", "string", "The object that it happened to.", _involved),
        _Shown(
            "Subobject",
            "string",
            "The part of the object.",
            lambda manifest, _: str(as_mapping(manifest.get("involvedObject")).get("fieldPath", "")),
            priority=1,
        ),
        _Shown("Source", "string", "Component that reported the event.", _source, priority=1),
        _Shown("Message", "string", "What happened.", _text("message")),
        _Shown("First Seen", "string", "When it happened first.", _since("firstTimestamp"), priority=1),
        _Shown("Count", "string", "How often it happened.", lambda manifest, _: manifest.get("count", 1), priority=1),
        _Shown("Name", "string", _NAME.description, _NAME.cell, priority=1, format="name"),
    ),
}
