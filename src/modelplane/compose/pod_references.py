"""The Secrets and ConfigMaps that pods name, and the names of their copies on the cluster.

A copy belongs to one replica and is named after it: it is created, updated and deleted with the replica, and no two
replicas share one. Pods refer to the copy. What users wrote stays in the spec of the replica.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from modelplane.api.models import Container, InitContainer, KeyReference, ModelReplica, ObjectReference, PodSpec
from modelplane.api.names import make_name
from modelplane.api.objects import Json, Manifest, as_mapping, items_at, text_at

ReferencedKind = Literal["Secret", "ConfigMap"]
_FIELDS: Mapping[str, ReferencedKind] = {
    "secretKeyRef": "Secret",
    "secretRef": "Secret",
    "configMapKeyRef": "ConfigMap",
    "configMapRef": "ConfigMap",
}
_VOLUMES: tuple[tuple[str, str, ReferencedKind], ...] = (
    ("secret", "secretName", "Secret"),
    ("configMap", "name", "ConfigMap"),
)
"""By the field of a volume: where the name is, and of what."""


@dataclass(frozen=True, slots=True)
class PodReference:
    """One mention of a Secret or a ConfigMap in a pod template."""

    kind: ReferencedKind
    name: str
    key: str | None = None
    """The key that is read; None: all of them."""
    optional: bool = False
    """Whether pods start without it."""
    pulls_images: bool = False


def references_of(replica: ModelReplica) -> tuple[PodReference, ...]:
    """Each mention once, in the order of the templates."""
    templates = (member.template.spec for engine in replica.spec.engines for member in engine.members)
    return tuple(dict.fromkeys(found for template in templates for found in _of_pod(template)))


def _of_pod(template: PodSpec) -> Iterator[PodReference]:
    for secret in template.image_pull_secrets:
        yield PodReference("Secret", secret.name, pulls_images=True)
    for volume in template.volumes:
        if volume.secret is not None:
            yield PodReference("Secret", volume.secret.secret_name, optional=bool(volume.secret.optional))
        if volume.config_map is not None:
            yield PodReference("ConfigMap", volume.config_map.name, optional=bool(volume.config_map.optional))
    for each in template.init_containers:
        yield from _of_container(each)
    for container in template.containers:
        yield from _of_container(container)


def _of_container(container: Container | InitContainer) -> Iterator[PodReference]:
    for variable in container.env:
        source = variable.value_from
        if source is not None and source.secret_key_ref is not None:
            yield _of_key("Secret", source.secret_key_ref)
        if source is not None and source.config_map_key_ref is not None:
            yield _of_key("ConfigMap", source.config_map_key_ref)
    for entry in container.env_from:
        if entry.secret_ref is not None:
            yield _of_object("Secret", entry.secret_ref)
        if entry.config_map_ref is not None:
            yield _of_object("ConfigMap", entry.config_map_ref)


def _of_key(kind: ReferencedKind, found: KeyReference) -> PodReference:
    return PodReference(kind, found.name, found.key, optional=bool(found.optional))


def _of_object(kind: ReferencedKind, found: ObjectReference) -> PodReference:
    return PodReference(kind, found.name, optional=bool(found.optional))


def copy_name(replica: str, kind: ReferencedKind, name: str) -> str:
    """The name of the copy in the tenant's namespace. It begins with the name that the user knows."""
    return make_name(f"{name}-{replica}", replica, kind, name)


def with_copies(replica: str, container: Manifest) -> Json:
    """A container whose variables come from the copies."""
    made = dict(container)
    if "env" in made:
        made["env"] = [_variable(replica, entry) for entry in items_at(container, "env")]
    if "envFrom" in made:
        made["envFrom"] = [_renamed(replica, entry) for entry in items_at(container, "envFrom")]
    return made


def volume_with_copy(replica: str, volume: Manifest) -> Json:
    """A volume whose files come from the copy."""
    made = dict(volume)
    for field, key, kind in _VOLUMES:
        source = made.get(field)
        if source is not None:
            found = as_mapping(source)
            made[field] = {**found, key: copy_name(replica, kind, text_at(found, key))}
    return made


def _variable(replica: str, entry: Manifest) -> Manifest:
    source = entry.get("valueFrom")
    return entry if source is None else {**entry, "valueFrom": _renamed(replica, as_mapping(source))}


def _renamed(replica: str, source: Manifest) -> Manifest:
    return {
        field: _to_copy(replica, _FIELDS[field], as_mapping(value)) if field in _FIELDS else value
        for field, value in source.items()
    }


def _to_copy(replica: str, kind: ReferencedKind, reference: Manifest) -> Manifest:
    return {**reference, "name": copy_name(replica, kind, text_at(reference, "name"))}
