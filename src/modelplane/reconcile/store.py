"""The store interface that reconcilers use.

A store keeps whole Kubernetes objects as plain mappings. It assigns uid, creationTimestamp, resourceVersion and
generation, and it notices concurrent writers; it knows nothing of any kind. Manifests it hands out are shared: readers
never change them, writers build new ones.

Writing what is already there changes nothing: no new resourceVersion, no notification. That is what lets a level-based
loop write freely and still come to rest.
"""

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Protocol

import msgspec

from modelplane.api.objects import Manifest, group_of, name_of, namespace_of, text_at


class ObjectRef(msgspec.Struct, frozen=True, order=True, gc=False, cache_hash=True):
    """Where an object is. Cluster-scoped objects have an empty namespace; the core group is empty."""

    group: str
    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        place = f"{self.namespace}/{self.name}" if self.namespace else self.name
        return f"{self.kind} {place}"


def ref_of(item: Manifest) -> ObjectRef:
    return ObjectRef(group_of(item.get("apiVersion")), text_at(item, "kind"), namespace_of(item), name_of(item))


class ChangeType(StrEnum):
    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"


class StoreChange(msgspec.Struct, frozen=True):
    """One write that took effect, in the order of revisions. `before` is None when the object was added."""

    type: ChangeType
    ref: ObjectRef
    manifest: Manifest
    before: Manifest | None
    revision: int


class Store(Protocol):
    """Objects of one API: the plane's own, or those of one cluster."""

    @property
    def revision(self) -> int:
        """The revision of the newest write."""

    def get(self, ref: ObjectRef) -> Manifest | None:
        """The object, or None when there is none."""

    def list(
        self, group: str, kind: str, *, namespace: str | None = None, labels: Mapping[str, str] | None = None
    ) -> tuple[Manifest, ...]:
        """Objects of a kind, by namespace and name; those that carry all the labels, where labels are given."""

    def create(self, manifest: Manifest) -> Manifest:
        """Add an object, its status as given. ConflictError when it exists; generateName makes a free name."""

    def replace(self, manifest: Manifest) -> Manifest:
        """Replace all but the status. NotFoundError when absent; ConflictError on another resourceVersion or uid.

        An object that is being deleted and loses its last finalizer is gone.
        """

    def replace_status(self, manifest: Manifest) -> Manifest:
        """Replace the status alone, under the same conditions."""

    def delete(self, ref: ObjectRef, *, uid: str | None = None) -> None:
        """Remove an object, or mark it deleted while it has finalizers. NotFoundError, ConflictError on another uid."""

    def subscribe(self, listener: Callable[[StoreChange], None]) -> Callable[[], None]:
        """Call `listener` with every later change, in order, before the write returns. Returns the unsubscriber."""
