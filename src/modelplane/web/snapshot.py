"""The objects of a control plane at one time, with what the views say of them: every page is made from one."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from modelplane.api.objects import GROUP, Manifest, name_of, namespace_of, text_at
from modelplane.views.fleet_load import DeploymentLoad, FleetLoad, PoolLoad, fleet_load
from modelplane.views.health import READY
from modelplane.views.inputs import gather
from modelplane.views.overview import ClusterRow, Overview, overview

ObjectPlace = tuple[str, str]
"""Namespace and name."""
KINDS: Final[Mapping[str, str]] = {
    "InferenceClass": GROUP,
    "InferenceCluster": GROUP,
    "ModelDeployment": GROUP,
    "ModelReplica": GROUP,
    "ModelEndpoint": GROUP,
    "ModelService": GROUP,
    "ModelCache": GROUP,
    "Event": "",
}
"""The kinds that the dashboard reads, each with its API group."""


@dataclass(frozen=True)
class DashboardSnapshot:
    """Made once, and never changed. `revision` is that of the store."""

    revision: int
    now: float
    gateway: str
    objects: Mapping[str, Mapping[ObjectPlace, Manifest]]
    overview: Overview
    load: FleetLoad

    @classmethod
    def of(
        cls, manifests: Mapping[str, Iterable[Manifest]], *, now: float, revision: int = 0, gateway: str = ""
    ) -> "DashboardSnapshot":
        """From objects by their kind."""
        objects = {
            kind: {(namespace_of(item), name_of(item)): item for item in manifests.get(kind, ())} for kind in KINDS
        }
        placed = (item for kind in KINDS if kind not in {"Event", "ModelEndpoint"} for item in objects[kind].values())
        return cls(
            revision=revision,
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
            load=fleet_load(gather(placed, now=now), tuple(objects["ModelEndpoint"].values())),
        )

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
    def endpoints_of(self) -> Mapping[ObjectPlace, list[ObjectPlace]]:
        """The endpoints of each replica."""
        return _grouped(
            ((place[0], text_at(item, "spec", "replica", "name")), place)
            for place, item in self.objects["ModelEndpoint"].items()
        )


def _grouped(pairs: Iterable[tuple[ObjectPlace, ObjectPlace]]) -> Mapping[ObjectPlace, list[ObjectPlace]]:
    found: dict[ObjectPlace, list[ObjectPlace]] = {}
    for owner, place in pairs:
        found.setdefault(owner, []).append(place)
    return found
