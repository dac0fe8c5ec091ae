"""What a controller of the cluster is: it says which objects a change concerns, and looks at one of them at a time.

A pass runs between two turns of the event loop and in one transaction: no other pass sees half of it, and a pass that
raises wrote nothing. Passes are level-based and idempotent; they are repeated after restarts and at any other time.
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
    """A store that can also say what is in it, and make several writes one."""

    def kinds(self) -> tuple[tuple[str, str], ...]:
        """The groups and kinds that have objects."""

    def batch(self) -> AbstractContextManager[None]:
        """All writes inside are one transaction."""


@dataclass(frozen=True, slots=True)
class ControllerContext:
    """What every controller is given."""

    cluster: str
    store: ClusterStore
    clock: Clock
    settings: ClusterSettings


class Work(msgspec.Struct, frozen=True, gc=False, cache_hash=True):
    """One thing to look at, and who looks."""

    controller: str
    ref: ObjectRef


Kinds = frozenset[tuple[str, str]]
Wake = Callable[[ObjectRef], None]
"""Puts an object on the queue of the controller that holds this."""


class ClusterController(Protocol):
    """One of the cluster's control loops. `name` is its place in the queue's keys."""

    @property
    def name(self) -> str:
        """Unique in the cluster."""

    @property
    def kinds(self) -> Kinds | None:
        """Groups and kinds whose changes may concern it; None for all."""

    def concerns(self, change: StoreChange) -> Iterable[ObjectRef]:
        """What to look at after this change."""

    def reconcile(self, ref: ObjectRef) -> Outcome:
        """Look at one object and act."""


def versions(change: StoreChange) -> tuple[Manifest, ...]:
    """The object after the change and before it."""
    return (change.manifest,) if change.before is None else (change.manifest, change.before)


def owned(change: StoreChange, kind: str) -> tuple[ObjectRef, ...]:
    """The owner of what changed, where something of that kind controls it. Owners do not change."""
    if controller_of(change.manifest).get("kind") != kind:
        return ()
    ref = controller_ref(change.manifest)
    return () if ref is None else (ref,)


def is_about(change: StoreChange, group: str, kind: str) -> bool:
    return change.ref.group == group and change.ref.kind == kind


def changed(change: StoreChange, facts: Callable[[Manifest], object]) -> bool:
    """Whether what `facts` reads differs between the two versions; an added or deleted object always differs."""
    return change.before is None or change.type == "DELETED" or facts(change.manifest) != facts(change.before)
