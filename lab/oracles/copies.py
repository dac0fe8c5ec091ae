"""Rendered copies of Secrets and ConfigMaps, with the data that a host would put in: composers return no values."""

from collections.abc import Iterator, Mapping, Sequence

from lab.client import Manifest
from modelplane.api.labels import COPIED_FROM
from modelplane.api.objects import annotations_of, name_of

_REFERENCES = ("secretKeyRef", "configMapKeyRef")
_PULL = {"kubernetes.io/dockerconfigjson": {".dockerconfigjson": "e30="}}


def with_data(objects: Sequence[Manifest]) -> list[Manifest]:
    """The objects; each copy has every key that a container refers to."""
    keys = {(name, key) for item in objects for name, key in _named_keys(item)}
    return [_filled(item, keys) if COPIED_FROM in annotations_of(item) else item for item in objects]


def _filled(item: Manifest, keys: set[tuple[str, str]]) -> Manifest:
    value = "eA==" if item["kind"] == "Secret" else "x"
    named = {key: value for name, key in sorted(keys) if name == name_of(item)}
    data = {**named, **_PULL.get(str(item.get("type")), {})}
    return {**item, "data": data} if data else item


def _named_keys(part: object) -> Iterator[tuple[str, str]]:
    if isinstance(part, Mapping):
        for name, inner in part.items():
            if name in _REFERENCES and isinstance(inner, Mapping):
                yield str(inner.get("name")), str(inner.get("key"))
            yield from _named_keys(inner)
    elif isinstance(part, list | tuple):
        for inner in part:
            yield from _named_keys(inner)
