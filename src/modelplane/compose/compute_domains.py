"""ComputeDomains: engines that span nodes of an NVLink domain get the memory of the other nodes' GPUs.

NVIDIA's DRA driver runs an IMEX daemon on each node of a ComputeDomain, and makes a ResourceClaimTemplate for its
channel. A pod that claims the channel is in the domain. There is one for each engine: nodes of different racks in one
ComputeDomain are partitions of their own, so the groups of a LeaderWorkerSet do not share memory across racks.

The number of nodes is left open, as the driver recommends: engines count their ranks themselves. A ComputeDomain cannot
be changed, and has the name of its template, by which a workload is seen to need it.

A pool says that its cluster's driver has them (`fabric.domain.computeDomains`). It is not read from the class: the same
nodes are in clusters whose driver runs without, and running engines would be replaced.
"""

from modelplane.api.models import ReplicaEngine
from modelplane.compose.context import Context, head_member, is_gang
from modelplane.compose.contract import Remote
from modelplane.compose.fabric_domains import has_compute_domains

CHANNEL = "compute-domain"
"""Name of the claim inside a pod."""
DOMAIN_PREFIX = "compute-domain-"


def channel_template(context: Context, engine: ReplicaEngine) -> str | None:
    """The template that the pods of an engine claim their channel by; None for an engine that needs none."""
    if not is_gang(engine) or not has_compute_domains(context.cluster, head_member(engine).node_pool_name):
        return None
    return context.child_name(engine.name, "channel")


def compute_domains(context: Context) -> dict[str, Remote]:
    found = ((engine, channel_template(context, engine)) for engine in context.replica.spec.engines)
    return {f"{DOMAIN_PREFIX}{engine.name}": context.remote(_domain(context, name)) for engine, name in found if name}


def _domain(context: Context, name: str) -> dict[str, object]:
    channel = {"resourceClaimTemplate": {"name": name}, "allocationMode": "Single"}
    spec = {"numNodes": 0, "channel": channel}
    return context.object("resource.nvidia.com/v1beta1", "ComputeDomain", name, spec=spec)
