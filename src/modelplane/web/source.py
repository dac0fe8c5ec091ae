"""What a dashboard is made from: the store of an embedded plane, or the API of a control cluster."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

from modelplane.api.objects import Manifest
from modelplane.reconcile.store import ObjectRef, StoreChange
from modelplane.web.traffic import ReplicaTraffic


class ObjectSource(Protocol):
    """Objects that are read and never written."""

    def get(self, ref: ObjectRef) -> Manifest | None:
        """The object, or None when there is none."""

    def scan(self, group: str, kind: str) -> Iterator[Manifest]:
        """Iterates over the objects of a kind as they are when they are reached."""

    def subscribe(self, listener: Callable[[StoreChange], None]) -> Callable[[], None]:
        """Call `listener` with every later change, in order. Returns the unsubscriber."""


CountedTokens = tuple[Mapping[str, int], float]
"""Tokens by namespace/name of services, and for how many seconds they were counted."""


@dataclass(frozen=True, slots=True)
class DashboardSource:
    objects: ObjectSource
    gateway: str = ""
    traffic: ReplicaTraffic | None = None
    """None: nobody measures the requests of replicas."""
    problem: Callable[[], str] = lambda: ""
    """Why objects may be older than they look; empty: they are not."""
    tokens: Callable[[float], CountedTokens] | None = None
    """What was counted until now. None: nobody counts."""
