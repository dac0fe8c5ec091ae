"""What every Kubernetes object carries, and the key by which we know one."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NewType

import msgspec

ClusterName = NewType("ClusterName", str)
PoolName = NewType("PoolName", str)
Uid = NewType("Uid", str)
Timestamp = NewType("Timestamp", str)
"""A moment as Kubernetes writes it: RFC 3339, UTC, whole seconds."""


@dataclass(frozen=True, slots=True, order=True)
class Key:
    """The identity of an object. Two teams may use the same name, and a name may be used again after a deletion."""

    namespace: str
    name: str
    uid: Uid

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


class OwnerReference(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    api_version: str
    kind: str
    name: str
    uid: Uid
    controller: bool = False
    block_owner_deletion: bool = False


class ObjectMeta(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    name: str = ""
    generate_name: str = ""
    namespace: str = ""
    uid: Uid = Uid("")
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: Timestamp | None = None
    deletion_timestamp: Timestamp | None = None
    labels: Mapping[str, str] = msgspec.field(default_factory=dict)
    annotations: Mapping[str, str] = msgspec.field(default_factory=dict)
    finalizers: tuple[str, ...] = ()
    owner_references: tuple[OwnerReference, ...] = ()

    @property
    def key(self) -> Key:
        return Key(self.namespace, self.name, self.uid)
