"""Why containers of a bound pod cannot be created: images that cannot be pulled, configuration that is missing.

As a kubelet finds it, in its words: first what the pod mounts, then the image of each container, then the variables
that come from Secrets and ConfigMaps. References that are optional are passed over. What a container finds only once
it runs is in `engine_exits`.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from modelplane.api.labels import COPIED_FROM
from modelplane.api.objects import Manifest, annotations_of, items_at, mapping_at, namespace_of, text_at
from modelplane.reconcile.store import ObjectRef
from modelplane.sim.cluster.controller import ClusterStore
from modelplane.sim.cluster.images import PULL_FAILED, ImageRule, pull_fault

CONFIG_ERROR = "CreateContainerConfigError"
CREATING = "ContainerCreating"
_KINDS = {"secret": "Secret", "configMap": "ConfigMap"}
_PULL_SECRET_TYPES = ("kubernetes.io/dockerconfigjson", "kubernetes.io/dockercfg")


@dataclass(frozen=True, slots=True)
class ContainerFault:
    """Why one container waits, or all of them where none is named."""

    container: str
    reason: str
    message: str
    image: str = ""
    init: str = ""
    """The init container that cannot be created: all others wait for it."""

    @property
    def is_pull(self) -> bool:
        return self.reason == PULL_FAILED

    def covers(self, container: object) -> bool:
        return self.container in {"", container}


def mount_faults(pod: Manifest, store: ClusterStore) -> tuple[ContainerFault, ...]:
    """Volumes whose Secret or ConfigMap is missing: no container of the pod is created."""
    return tuple(_mount_faults(pod, store))


def image_faults(pod: Manifest, store: ClusterStore, rules: Sequence[ImageRule]) -> tuple[ContainerFault, ...]:
    secrets = list(_pull_secrets(pod, store))
    return tuple(
        _fault(pod, container, fault.reason, fault.message, text_at(container, "image"))
        for container in containers_of(pod)
        if container.get("image") and (fault := pull_fault(text_at(container, "image"), rules, secrets)) is not None
    )


def config_faults(pod: Manifest, store: ClusterStore) -> tuple[ContainerFault, ...]:
    """The first missing reference of each container."""
    return tuple(
        _fault(pod, container, CONFIG_ERROR, message)
        for container in containers_of(pod)
        if (message := next(_missing(container, namespace_of(pod), store), None)) is not None
    )


def containers_of(pod: Manifest) -> tuple[Manifest, ...]:
    """The init containers, then the others."""
    return (*items_at(pod, "spec", "initContainers"), *items_at(pod, "spec", "containers"))


def _fault(pod: Manifest, container: Manifest, reason: str, message: str, image: str = "") -> ContainerFault:
    """All containers wait for one that runs before them."""
    name = text_at(container, "name")
    if container in items_at(pod, "spec", "initContainers"):
        return ContainerFault("", reason, message, image, name)
    return ContainerFault(name, reason, message, image)


def missing_pull_secrets(pod: Manifest, store: ClusterStore) -> tuple[str, ...]:
    """Pull Secrets that the pod names and that do not exist: the kubelet tries without them."""
    return tuple(name for name in _named_secrets(pod) if _get("Secret", name, namespace_of(pod), store) is None)


def referenced(pod: Manifest) -> frozenset[tuple[str, str]]:
    """Kind and name of every Secret and ConfigMap that the pod depends on."""
    found = {("Secret", name) for name in _named_secrets(pod)}
    for volume in items_at(pod, "spec", "volumes"):
        found |= {(kind, _volume_name(volume, field)) for field, kind in _KINDS.items() if field in volume}
    for container in containers_of(pod):
        found |= {(kind, text_at(entry, "name")) for kind, entry, _ in _references(container)}
    return frozenset(found)


def _named_secrets(pod: Manifest) -> Iterable[str]:
    return (text_at(entry, "name") for entry in items_at(pod, "spec", "imagePullSecrets"))


def _pull_secrets(pod: Manifest, store: ClusterStore) -> Iterator[str]:
    """The pull Secrets that exist and have credentials, by their own name and by that of their original."""
    for name in _named_secrets(pod):
        found = _get("Secret", name, namespace_of(pod), store)
        if found is not None and text_at(found, "type") in _PULL_SECRET_TYPES:
            yield name
            yield annotations_of(found).get(COPIED_FROM, "").rpartition("/")[2]


def _mount_faults(pod: Manifest, store: ClusterStore) -> Iterator[ContainerFault]:
    for volume in items_at(pod, "spec", "volumes"):
        for field, kind in _KINDS.items():
            name = _volume_name(volume, field)
            optional = mapping_at(volume, field).get("optional") is True
            if name and not optional and _get(kind, name, namespace_of(pod), store) is None:
                message = (
                    f'MountVolume.SetUp failed for volume "{volume.get("name")}" : {kind.lower()} "{name}" not found'
                )
                yield ContainerFault("", CREATING, message)


def _volume_name(volume: Mapping[str, object], field: str) -> str:
    return text_at(volume, field, "secretName" if field == "secret" else "name")


def _references(container: Mapping[str, object]) -> Iterator[tuple[str, Mapping[str, object], str]]:
    """Kind, reference and key of each variable that comes from an object; all keys where the key is empty."""
    for entry in items_at(container, "envFrom"):
        for field, kind in (("configMapRef", "ConfigMap"), ("secretRef", "Secret")):
            if field in entry:
                yield kind, mapping_at(entry, field), ""
    for entry in items_at(container, "env"):
        for field, kind in (("configMapKeyRef", "ConfigMap"), ("secretKeyRef", "Secret")):
            reference = mapping_at(entry, "valueFrom", field)
            if reference:
                yield kind, reference, text_at(reference, "key")


def _missing(container: Mapping[str, object], namespace: str, store: ClusterStore) -> Iterator[str]:
    for kind, reference, key in _references(container):
        if reference.get("optional") is True:
            continue
        name = text_at(reference, "name")
        found = _get(kind, name, namespace, store)
        if found is None:
            yield f'{kind.lower()} "{name}" not found'
        elif key and not _has_key(found, key):
            yield f"couldn't find key {key} in {kind} {namespace}/{name}"


def _has_key(item: Manifest, key: str) -> bool:
    return any(key in mapping_at(item, field) for field in ("data", "stringData", "binaryData"))


def _get(kind: str, name: str, namespace: str, store: ClusterStore) -> Manifest | None:
    return store.get(ObjectRef("", kind, namespace, name))
