"""From the plan of a service to the clusters that serve it.

One cluster has all endpoints of a service, in tiers, so that a retry can reach any of them: Envoy chooses among
weighted clusters once a request, and within a cluster once a try. What differs between its members is one header, set
for each try, by which the next gateway routes.

The next gateway of a replica is that of its cluster. That of any other endpoint is a listener of this Envoy which only
Envoy can open (`provider_socket`): there a route for each endpoint rewrites host and path, adds the credential and
speaks TLS. So a provider takes its share of the weights beside replicas, whatever its requests must look like.
"""

from collections.abc import Iterator

from modelplane.api.labels import REPLICA_HEADER
from modelplane.compose.service_plan import PlanEndpoint, ServicePlan
from modelplane.envoy.pools import EnvoyCluster, PoolMember, UpstreamTls


def provider_socket(gateway: str) -> str:
    """In Envoy's own folder, where nobody else can open it."""
    return f"{gateway}.providers.sock"


def service_cluster_name(gateway: str, plan: ServicePlan) -> str:
    return f"{gateway}/ModelService/{plan.key}"


def provider_cluster_name(gateway: str, endpoint: PlanEndpoint) -> str:
    return f"{gateway}/ModelEndpoint/{endpoint.key}"


def service_pool(gateway: str, plan: ServicePlan) -> EnvoyCluster | None:
    """The cluster of all endpoints that serve; None without any. Tiers are numbered without gaps, as Envoy wants."""
    members = [
        _member(gateway, endpoint, number) for number, tier in enumerate(plan.serving) for endpoint in tier.serving
    ]
    name = service_cluster_name(gateway, plan)
    return EnvoyCluster(name, tuple(members), retries=plan.retries) if members else None


def providers(plan: ServicePlan) -> Iterator[PlanEndpoint]:
    """The endpoints that are reached through the listener for providers."""
    return (endpoint for tier in plan.serving for endpoint in tier.serving if not is_gateway(endpoint))


def provider_pool(gateway: str, endpoint: PlanEndpoint) -> EnvoyCluster:
    """Its addresses as they were checked. Envoy resolves no name of a user."""
    tls = UpstreamTls(endpoint.address if endpoint.is_named else None) if endpoint.secure else None
    members = tuple(PoolMember(address, endpoint.port) for address in endpoint.targets)
    return EnvoyCluster(provider_cluster_name(gateway, endpoint), members, tls=tls)


def is_gateway(endpoint: PlanEndpoint) -> bool:
    """Whether requests go to it as they are: the gateway of a replica's cluster, by its address."""
    return endpoint.replica is not None and not endpoint.secure and not endpoint.is_named


def routing_key(endpoint: PlanEndpoint) -> str:
    """The value of the header by which the next gateway routes."""
    return endpoint.replica or endpoint.key


def _member(gateway: str, endpoint: PlanEndpoint, tier: int) -> PoolMember:
    headers = ((REPLICA_HEADER, routing_key(endpoint)),)
    if is_gateway(endpoint):
        return PoolMember(endpoint.address, endpoint.port, endpoint.weight, headers, tier)
    return PoolMember(provider_socket(gateway), 0, endpoint.weight, headers, tier)
