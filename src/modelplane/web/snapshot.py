"""The objects of a control plane at one time, with what the views say of them: every page is made from one."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, wraps
from typing import Final, TypeVar
from weakref import WeakKeyDictionary

from modelplane.api.objects import Manifest, items_at, namespace_of, text_at
from modelplane.views.dashboard_kinds import KINDS
from modelplane.views.events import event_subject, last_seen
from modelplane.views.fleet_load import DeploymentLoad, FleetLoad, PoolLoad, fleet_load
from modelplane.views.inputs import FleetManifests, gather
from modelplane.views.overview import ClusterRow, Overview, overview
from modelplane.views.service_load import ServiceLoad, service_loads
from modelplane.views.states import READY

_Made = TypeVar("_Made")
ObjectPlace = tuple[str, str]
"""Namespace and name."""
_APART: Final = frozenset({"Event", "ModelEndpoint", "TelemetryDestination"})
"""Those that placement does not depend on."""


@dataclass(frozen=True, eq=False)
class DashboardSnapshot:
    """Made once, and never changed. What several views look up is worked out once."""

    now: float
    gateway: str
    objects: Mapping[str, Mapping[ObjectPlace, Manifest]]
    overview: Overview
    load: FleetLoad
    inputs: FleetManifests
    counted: tuple[Mapping[str, int], float]
    """Tokens by service, and for how many seconds they were counted."""

    @classmethod
    def of(
        cls,
        found: Mapping[str, Mapping[ObjectPlace, Manifest]],
        *,
        now: float,
        gateway: str = "",
        counted: tuple[Mapping[str, int], float] = ({}, 0.0),
    ) -> "DashboardSnapshot":
        """From objects by their kind and place."""
        objects = {kind: dict(sorted(found.get(kind, {}).items())) for kind in KINDS}
        placed = (item for kind in KINDS if kind not in _APART for item in objects[kind].values())
        inputs = gather(placed, now=now)
        return cls(
            inputs=inputs,
            counted=counted,
            now=now,
            gateway=gateway,
            objects=objects,
            overview=overview(
                clusters=objects["InferenceCluster"].values(),
                deployments=objects["ModelDeployment"].values(),
                replicas=objects["ModelReplica"].values(),
                services=objects["ModelService"].values(),
                caches=objects["ModelCache"].values(),
            ),
            load=fleet_load(inputs, tuple(objects["ModelEndpoint"].values())),
        )

    @cached_property
    def services(self) -> Mapping[ObjectPlace, ServiceLoad]:
        """Of those whose tokens were counted: nobody else is shown a price for them."""
        if not self.counted[0]:
            return {}
        endpoints = tuple(self.objects["ModelEndpoint"].values())
        counted = [
            item
            for (namespace, name), item in self.objects["ModelService"].items()
            if f"{namespace}/{name}" in self.counted[0]
        ]
        found = service_loads(self.inputs, counted, endpoints, {})
        return {(row.namespace, row.name): row for row in found}

    @cached_property
    def clusters(self) -> Mapping[str, ClusterRow]:
        return {row.name: row for row in self.overview.clusters}

    @cached_property
    def pools(self) -> Mapping[str, list[PoolLoad]]:
        """The pools of each cluster."""
        found: dict[str, list[PoolLoad]] = {}
        for pool in self.load.pools:
            found.setdefault(pool.cluster, []).append(pool)
        return found

    @cached_property
    def loads(self) -> Mapping[ObjectPlace, DeploymentLoad]:
        return {(load.namespace, load.name): load for load in self.load.deployments}

    @cached_property
    def ready_replicas(self) -> frozenset[ObjectPlace]:
        return frozenset((row.namespace, row.name) for row in self.overview.replicas if row.health.state == READY)

    @cached_property
    def replicas_of(self) -> Mapping[ObjectPlace, list[ObjectPlace]]:
        """The replicas of each deployment."""
        return _grouped(
            ((place[0], text_at(item, "spec", "deployment", "name")), place)
            for place, item in self.objects["ModelReplica"].items()
        )

    @cached_property
    def replicas_on(self) -> Mapping[ObjectPlace, list[ObjectPlace]]:
        """The replicas of each cluster; a cluster has no namespace."""
        return _grouped(
            (("", text_at(item, "spec", "clusterName")), place) for place, item in self.objects["ModelReplica"].items()
        )

    @cached_property
    def services_of(self) -> Mapping[ObjectPlace, list[ObjectPlace]]:
        """The services whose status names an endpoint. A service whose status names none yet is under its namespace."""
        return _grouped(
            (endpoint, place)
            for place, item in self.objects["ModelService"].items()
            for endpoint in _endpoints_of(place, item)
        )

    @cached_property
    def events(self) -> tuple[Manifest, ...]:
        """The newest first."""
        return tuple(sorted(self.objects["Event"].values(), key=last_seen, reverse=True))

    @cached_property
    def events_of(self) -> Mapping[tuple[str, str, str], list[Manifest]]:
        """By namespace of the event, and kind and name of what it is about; the newest first."""
        found: dict[tuple[str, str, str], list[Manifest]] = {}
        for event in self.events:
            found.setdefault((namespace_of(event), *event_subject(event)), []).append(event)
        return found

    @cached_property
    def endpoints_of(self) -> Mapping[ObjectPlace, list[ObjectPlace]]:
        """The endpoints of each replica."""
        return _grouped(
            ((place[0], text_at(item, "spec", "replica", "name")), place)
            for place, item in self.objects["ModelEndpoint"].items()
        )


def once_per_snapshot(make: Callable[[DashboardSnapshot], _Made]) -> Callable[[DashboardSnapshot], _Made]:
    """The function, called once for a snapshot. What it made goes with the snapshot."""
    known: WeakKeyDictionary[DashboardSnapshot, _Made] = WeakKeyDictionary()

    @wraps(make)
    def found(snapshot: DashboardSnapshot) -> _Made:
        if snapshot not in known:
            known[snapshot] = make(snapshot)
        return known[snapshot]

    return found


def _endpoints_of(place: ObjectPlace, service: Manifest) -> Iterator[ObjectPlace]:
    entries = [entry for tier in items_at(service, "status", "tiers") for entry in items_at(tier, "endpoints")]
    return ((place[0], text_at(entry, "name")) for entry in entries or ({},))


def _grouped(pairs: Iterable[tuple[ObjectPlace, ObjectPlace]]) -> Mapping[ObjectPlace, list[ObjectPlace]]:
    found: dict[ObjectPlace, list[ObjectPlace]] = {}
    for owner, place in pairs:
        found.setdefault(owner, []).append(place)
    return found
