"""One command to a simulated cluster, and the cluster that it is for."""

from typing import Protocol

import msgspec

from modelplane.api.errors import NotFoundError, UnavailableError
from modelplane.api.labels import TENANT
from modelplane.api.meta import ClusterName
from modelplane.api.objects import Manifest, labels_of, name_of
from modelplane.sim.cluster.api import ClusterApi
from modelplane.sim.cluster.cluster import SimulatedCluster


class SimCommand(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One command. The verb defines what `name` and `value` mean."""

    verb: str
    cluster: str
    name: str = ""
    value: str = ""

    @property
    def cluster_name(self) -> ClusterName:
        return ClusterName(self.cluster)


class SimulatedFleet(Protocol):
    """The clusters that commands act on. A setting of a whole cluster is an annotation of its InferenceCluster."""

    def declared(self, name: ClusterName, /) -> Manifest:
        """Its InferenceCluster; raises NotFoundError."""

    def pools(self, name: ClusterName, /) -> tuple[str, ...]: ...
    def get(self, name: ClusterName, /) -> SimulatedCluster | None: ...
    def annotate(self, name: ClusterName, key: str, value: str | None, /) -> None: ...
    def fail(self, name: ClusterName, /) -> None: ...
    def recover(self, name: ClusterName, /) -> None: ...


def reachable(fleet: SimulatedFleet, command: SimCommand) -> SimulatedCluster:
    fleet.declared(command.cluster_name)
    found = fleet.get(command.cluster_name)
    if found is None:
        raise UnavailableError(f"cluster {command.cluster} is not simulated yet")
    if not found.reachable:
        raise UnavailableError(
            f"cluster {command.cluster} has failed; run `modelplane sim recover {command.cluster}` first"
        )
    return found


def require_pool(fleet: SimulatedFleet, command: SimCommand) -> None:
    pools = fleet.pools(command.cluster_name)
    if command.name not in pools:
        raise NotFoundError(
            f"cluster {command.cluster} has no pool {command.name}; it has {', '.join(pools) or 'none'}"
        )


def tenant_namespace(api: ClusterApi, command: SimCommand, name: str) -> str:
    """The namespace of a team of that name, or else the cluster's own namespace of that name."""
    spaces = api.list("", "Namespace")
    of_team = (space for space in spaces if labels_of(space).get(TENANT) == name)
    found = next(of_team, None) or next((space for space in spaces if name_of(space) == name), None)
    if found is None:
        raise NotFoundError(f"cluster {command.cluster} has no namespace {name}, nor one of a team of that name")
    return name_of(found)
