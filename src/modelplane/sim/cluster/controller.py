"""The interface of a controller: which objects a change enqueues, and how one object is reconciled.

A pass does not await and is one transaction: a pass that raises writes nothing. Passes are level-based and idempotent;
they are repeated after restarts and at any other time.
"""

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

import msgspec

from modelplane.api.objects import Manifest
from modelplane.reconcile.clock import Clock
from modelplane.reconcile.outcomes import Outcome
from modelplane.reconcile.store import ObjectRef, Store, StoreChange
from modelplane.sim.cluster.objects import controller_of, controller_ref
from modelplane.sim.cluster.settings import ClusterSettings


class ClusterStore(Store, Protocol):
    """A store that can list its kinds and batch writes."""

    def kinds(self) -> tuple[tuple[str, str], ...]:
        """The groups and kinds that have objects."""

    def batch(self) -> AbstractContextManager[None]:
        """All writes inside are one transaction."""


@dataclass(frozen=True, slots=True)
class ControllerContext:
    """What every controller needs."""

    cluster: str
    store: ClusterStore
    clock: Clock
    settings: ClusterSettings


class WorkItem(msgspec.Struct, frozen=True, gc=False, cache_hash=True):
    """A key of the workqueue: an object and the controller that reconciles it."""

    controller: str
    ref: ObjectRef


Kinds = frozenset[tuple[str, str]]
Enqueue = Callable[[ObjectRef], None]
"""Adds an object to the workqueue for one controller."""


class ClusterController(Protocol):
    """One of the cluster's controllers. `name` is its part of the workqueue's keys."""

    @property
    def name(self) -> str:
        """Unique in the cluster."""

    @property
    def kinds(self) -> Kinds | None:
        """Groups and kinds that it watches; None for all."""

    def enqueue_for(self, change: StoreChange) -> Iterable[ObjectRef]:
        """The objects to reconcile after this change."""

    def reconcile(self, ref: ObjectRef) -> Outcome:
        """Reconcile one object."""


def versions(change: StoreChange) -> tuple[Manifest, ...]:
    """The object after the change and before it."""
    return (change.manifest,) if change.before is None else (change.manifest, change.before)


def owned(change: StoreChange, kind: str) -> tuple[ObjectRef, ...]:
    """The controlling owner of the changed object, where it is of that kind."""
    if controller_of(change.manifest).get("kind") != kind:
        return ()
    ref = controller_ref(change.manifest)
    return () if ref is None else (ref,)


def is_about(change: StoreChange, group: str, kind: str) -> bool:
    return change.ref.group == group and change.ref.kind == kind


def changed(change: StoreChange, facts: Callable[[Manifest], object]) -> bool:
    """Whether what `facts` reads differs between the two versions; an added or deleted object always differs."""
    return change.before is None or change.type == "DELETED" or facts(change.manifest) != facts(change.before)
