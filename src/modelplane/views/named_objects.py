"""Secrets and ConfigMaps that deployments name, made up: a simulation is about the fleet, and reads no credentials."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from modelplane.api.objects import Json, Manifest, as_list, as_mapping, manifest, name_of, namespace_of

_VALUE: Final = {"Secret": "eA==", "ConfigMap": "x"}
_PULLS: Final = ".dockerconfigjson"
_KINDS: Final = {
    "secretKeyRef": "Secret",
    "secretRef": "Secret",
    "secret": "Secret",
    "configMapKeyRef": "ConfigMap",
    "configMapRef": "ConfigMap",
    "configMap": "ConfigMap",
}
_Name = tuple[str, str, str]
"""Kind, namespace and name."""


def named_objects(manifests: Iterable[Manifest]) -> tuple[Json, ...]:
    """Those that pods of the deployments name and that are not among the manifests, with the keys that are read."""
    given = list(manifests)
    there = {(str(item.get("kind")), namespace_of(item), name_of(item)) for item in given}
    keys: dict[_Name, set[str]] = {}
    for item in given:
        if item.get("kind") == "ModelDeployment":
            for kind, name, key in _mentions(item.get("spec")):
                keys.setdefault((kind, namespace_of(item), name), set()).add(key)
    return tuple(_made(*found, keys[found] - {""}) for found in sorted(keys) if found not in there)


def _mentions(value: object) -> Iterator[tuple[str, str, str]]:
    """Kind, name and key of each, wherever pod templates are."""
    if isinstance(value, list):
        for each in value:
            yield from _mentions(each)
    for field, part in as_mapping(value).items() if isinstance(value, Mapping) else ():
        kind, found = _KINDS.get(field, ""), as_mapping(part)
        name = str(found.get("name") or found.get("secretName") or "")
        if kind and name:
            yield kind, name, str(found.get("key") or "")
        if field == "imagePullSecrets":
            yield from (("Secret", str(as_mapping(each).get("name")), _PULLS) for each in as_list(part))
        yield from _mentions(part)


def _made(kind: str, namespace: str, name: str, keys: set[str]) -> Json:
    data = dict.fromkeys(sorted(keys) or ["key"], _VALUE[kind])
    made = {**manifest("v1", kind, name, namespace=namespace), "data": data}
    return {**made, "type": "kubernetes.io/dockerconfigjson"} if _PULLS in keys else made
