"""What a gateway gets for the services that it serves: routes, clusters, and the virtual host of its providers.

Clusters of plans that did not change are the same objects as before.
"""

from collections.abc import Iterator

from modelplane.compose.service_plan import ServicePlan
from modelplane.envoy.callers import health_route
from modelplane.envoy.clusters import cluster
from modelplane.envoy.hop_tls import with_hop_tls
from modelplane.envoy.listeners import providers_name
from modelplane.envoy.pools import EnvoyCluster
from modelplane.envoy.retries import BODY_BYTES
from modelplane.envoy.routes import NOT_FOUND
from modelplane.envoy.service_pools import provider_pool, providers, service_cluster_name, service_pool
from modelplane.envoy.service_routes import front_routes, provider_routes
from modelplane.envoy.view import GatewayView, Resource


class FleetServices:
    """Of one gateway."""

    def __init__(self, view: GatewayView, before: "FleetServices | None" = None) -> None:
        plans = view.plans or ()
        self._pools = {pool.name: pool for plan in plans for pool in _pools(view.name, plan)}
        self._rendered = {name: _cluster(pool, before) for name, pool in self._pools.items()}
        services = {service_cluster_name(view.name, plan) for plan in plans}
        self.clusters = {
            name: with_hop_tls(each, view.hop) if name in services else each for name, each in self._rendered.items()
        }
        self.routes: list[Resource] = []
        self.virtual_hosts: dict[str, Resource] = {}
        if view.plans is None:
            return
        self.routes = [health_route(), *front_routes(view.name, plans, has_router=view.router is not None)]
        name = providers_name(view.name)
        self.virtual_hosts[name] = {
            "name": name,
            "domains": [name],
            "routes": [*provider_routes(view.name, plans, view.credentials), NOT_FOUND],
            "request_body_buffer_limit": BODY_BYTES,
        }

    def cluster_of(self, pool: EnvoyCluster) -> Resource | None:
        """The resource of an equal cluster, before its hops get TLS."""
        return self._rendered[pool.name] if self._pools.get(pool.name) == pool else None


def _pools(gateway: str, plan: ServicePlan) -> Iterator[EnvoyCluster]:
    pool = service_pool(gateway, plan)
    if pool is not None:
        yield pool
    for endpoint in providers(plan):
        yield provider_pool(gateway, endpoint)


def _cluster(pool: EnvoyCluster, before: FleetServices | None) -> Resource:
    known = before.cluster_of(pool) if before is not None else None
    return cluster(pool) if known is None else known
