"""One command to a simulated cluster, and the cluster that it is for."""

import msgspec

from modelplane.api.errors import NotFoundError, UnavailableError
from modelplane.api.meta import ClusterName
from modelplane.plane.clusters import Clusters
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


def reachable(clusters: Clusters, command: SimCommand) -> SimulatedCluster:
    clusters.declared(command.cluster_name)
    found = clusters.get(command.cluster_name)
    if found is None:
        raise UnavailableError(f"cluster {command.cluster} is not simulated yet")
    if not found.reachable:
        raise UnavailableError(
            f"cluster {command.cluster} has failed; run `modelplane sim recover {command.cluster}` first"
        )
    return found


def require_pool(clusters: Clusters, command: SimCommand) -> None:
    pools = clusters.pools(command.cluster_name)
    if command.name not in pools:
        raise NotFoundError(
            f"cluster {command.cluster} has no pool {command.name}; it has {', '.join(pools) or 'none'}"
        )
