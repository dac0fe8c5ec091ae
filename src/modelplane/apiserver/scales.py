"""The scale of an object (autoscaling/v1 Scale), read from and written to the paths that its definition names."""

from modelplane.api.objects import Json, Manifest, as_mapping, metadata_of
from modelplane.apiserver.failures import bad_request
from modelplane.apiserver.resources import Resource

_SHOWN = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")


def scale_of(resource: Resource, manifest: Manifest) -> Json:
    paths = resource.scale
    assert paths is not None  # noqa: S101  only called for kinds that have a scale
    metadata = metadata_of(manifest)
    selector = _at(manifest, paths.label_selector_path)
    status: Json = {"replicas": _number(_at(manifest, paths.status_replicas_path))}
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {name: metadata[name] for name in _SHOWN if name in metadata},
        "spec": {"replicas": _number(_at(manifest, paths.spec_replicas_path))},
        "status": status | ({"selector": selector} if isinstance(selector, str) and selector else {}),
    }


def read_scale(value: object) -> Json:
    """A Scale as a writer gave it. ApiError where it is none."""
    if not isinstance(value, dict):
        raise bad_request("the body is no Scale")
    kind = (value.get("apiVersion"), value.get("kind"))
    if kind != ("autoscaling/v1", "Scale"):
        raise bad_request(f"the body is {kind[0]} {kind[1]} and not autoscaling/v1 Scale")
    if type(_replicas(value)) is not int:
        raise bad_request(f"spec.replicas: {_replicas(value)!r} is no integer")
    return value


def with_replicas(resource: Resource, manifest: Manifest, scale: Json) -> Json:
    """The object with the scale's number of replicas."""
    paths = resource.scale
    assert paths is not None  # noqa: S101  only called for kinds that have a scale
    return _put(manifest, paths.spec_replicas_path.strip(".").split("."), _replicas(scale))


def _replicas(scale: Json) -> object:
    return as_mapping(scale.get("spec")).get("replicas", 0)


def _at(manifest: Manifest, path: str) -> object:
    found: object = manifest
    for step in path.strip(".").split("."):
        found = as_mapping(found).get(step)
    return found


def _put(value: Manifest, path: list[str], item: object) -> Json:
    name, *rest = path
    return {**value, name: _put(as_mapping(value.get(name)), rest, item) if rest else item}


def _number(value: object) -> int:
    return value if isinstance(value, int) else 0
