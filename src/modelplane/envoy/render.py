"""The translation: gateways as Kubernetes describes them into the three tables that Envoy reads.

Pure and total: the objects of one gateway never fail the configuration of another. A route with an unsupported value is
left out and reported, since a Gateway API controller would not accept it. A reference that cannot be resolved gets no
traffic and is reported.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial

from modelplane.api.errors import InputError
from modelplane.envoy import objects
from modelplane.envoy.callers import caller_keys
from modelplane.envoy.clusters import cluster, picker_cluster
from modelplane.envoy.config import EnvoyConfig
from modelplane.envoy.files import config_source
from modelplane.envoy.fleet_router import door_host, door_name, endpoint_entries, router_clusters, router_rule
from modelplane.envoy.fleet_services import FleetServices
from modelplane.envoy.listeners import listeners
from modelplane.envoy.pools import BackendResolver, EnvoyCluster, UnresolvedRef
from modelplane.envoy.retries import BODY_BYTES, USUAL
from modelplane.envoy.routes import NOT_FOUND, RankedRoute, entries, other_hosts
from modelplane.envoy.view import GatewayProblem, GatewayView, KubernetesObject, ProblemReason, Resource


def render(views: Iterable[GatewayView]) -> EnvoyConfig:
    """Envoy's configuration for these gateways. Names and addresses must be distinct."""
    return Renderer().render(views)


class Renderer:
    """An incremental `render`: for a gateway that changed, only the affected routes are rendered again.

    Unchanged resources are the same objects in the next configuration. Kubernetes objects are compared by identity, so
    callers must not mutate them.
    """

    def __init__(self) -> None:
        self._known: dict[str, _Gateway] = {}

    def render(self, views: Iterable[GatewayView]) -> EnvoyConfig:
        wanted = sorted(views, key=lambda view: view.name)
        _check_distinct(wanted)
        self._known = {view.name: self._gateway(view) for view in wanted}
        gateways = self._known.values()
        clusters = {name: resource for gateway in gateways for name, resource in gateway.clusters.items()}
        return EnvoyConfig(
            {name: each for gateway in gateways for name, each in gateway.listeners.items()},
            dict(sorted(clusters.items())),
            {name: each for gateway in gateways for name, each in gateway.virtual_hosts.items()},
            tuple(problem for gateway in gateways for problem in gateway.problems),
        )

    def _gateway(self, view: GatewayView) -> "_Gateway":
        known = self._known.get(view.name)
        return known if known is not None and known.view == view else _Gateway(view, known)


@dataclass(frozen=True, slots=True)
class _Routed:
    """One rendered HTTPRoute, and how its references were resolved."""

    manifest: KubernetesObject
    meta: objects.GatewayObjectMeta | None
    found: tuple[tuple[objects.BackendRef, EnvoyCluster | UnresolvedRef], ...]
    entries: tuple[RankedRoute, ...]
    problems: tuple[GatewayProblem, ...]

    def holds(self, resolver: BackendResolver) -> bool:
        """Whether its references still resolve the same."""
        meta = self.meta
        return meta is None or all(resolver.resolve(ref, meta) == found for ref, found in self.found)


class _Gateway:
    """One gateway: its resources, by name, and the problems met while they were made."""

    def __init__(self, view: GatewayView, before: "_Gateway | None" = None) -> None:
        self.view = view
        self.resolver: BackendResolver = BackendResolver(view, before.resolver if before is not None else None)
        self._routed = [self._route(manifest, before) for manifest in view.routes]
        self.by_identity = {id(routed.manifest): routed for routed in self._routed}
        self._pools = {pool.name: pool for routed in self._routed for entry in routed.entries for pool in entry.pools}
        self.clusters = {name: _cluster(pool, before) for name, pool in self._pools.items()}
        pickers = {pool.picker for pool in self._pools.values() if pool.picker is not None}
        self.clusters |= {picker.name: picker_cluster(picker) for picker in pickers}
        self.services: FleetServices = FleetServices(view, before.services if before is not None else None)
        self.clusters |= self.services.clusters
        self.clusters |= router_clusters(view)
        self.listeners = self._listeners(before)
        self.virtual_hosts = {view.name: self._virtual_host(), **self.services.virtual_hosts}
        if view.router is not None:
            self.virtual_hosts[door_name(view.name)] = door_host(view)
        reported = dict.fromkeys(problem for routed in self._routed for problem in routed.problems)
        self.problems = (*self.resolver.problems, *reported)

    def cluster_of(self, pool: EnvoyCluster) -> Resource | None:
        """The resource of an equal cluster."""
        return self.clusters[pool.name] if self._pools.get(pool.name) == pool else None

    def _listeners(self, before: "_Gateway | None") -> dict[str, Resource]:
        made = listeners(self.view, config_source("rds"))
        return before.listeners if before is not None and before.listeners == made else made

    def _virtual_host(self) -> Resource:
        found = [entry for routed in self._routed for entry in routed.entries]
        routes = [entry.resource for entry in sorted(found, key=lambda entry: entry.rank)]
        strangers = [] if self.view.hostname is None else [other_hosts(self.view.hostname)]
        return {
            "name": self.view.name,
            "domains": [self.view.name],
            "routes": [*strangers, *endpoint_entries(self.view), *self.services.routes, *routes, NOT_FOUND],
            "retry_policy": USUAL,
            "request_body_buffer_limit": BODY_BYTES,
            **(caller_keys(self.view.callers) if self.view.router is None else router_rule(self.view)),
        }

    def _route(self, manifest: KubernetesObject, before: "_Gateway | None") -> _Routed:
        known = before.by_identity.get(id(manifest)) if before is not None else None
        if known is not None and known.manifest is manifest and known.holds(self.resolver):
            return known
        try:
            route = objects.read(manifest, objects.HttpRoute)
            found: dict[int, tuple[objects.BackendRef, EnvoyCluster | UnresolvedRef]] = {}
            made = tuple(entries(route, partial(self._resolve, found), self.view.name))
        except objects.UnsupportedError as error:
            problem = self._problem(objects.name_of(manifest), "UnsupportedValue", str(error))
            return _Routed(manifest, None, (), (), (problem,))
        where = (route.metadata.namespace, route.metadata.name)
        unresolved = [each for _, each in found.values() if isinstance(each, UnresolvedRef)]
        problems = tuple(self._problem(where, each.reason, each.message) for each in unresolved)
        return _Routed(manifest, route.metadata, tuple(found.values()), made, problems)

    def _resolve(
        self,
        found: dict[int, tuple[objects.BackendRef, EnvoyCluster | UnresolvedRef]],
        ref: objects.BackendRef,
        route: objects.GatewayObjectMeta,
    ) -> EnvoyCluster | UnresolvedRef:
        result = self.resolver.resolve(ref, route)
        found[id(ref)] = (ref, result)
        return result

    def _problem(self, route: tuple[str, str], reason: ProblemReason, message: str) -> GatewayProblem:
        return GatewayProblem(self.view.name, "HTTPRoute", *route, reason, message)


def _cluster(pool: EnvoyCluster, before: _Gateway | None) -> Resource:
    known = before.cluster_of(pool) if before is not None else None
    return cluster(pool) if known is None else known


def _check_distinct(gateways: list[GatewayView]) -> None:
    names: set[str] = set()
    owners: dict[tuple[str, int], str] = {}
    for view in gateways:
        if view.name in names:
            raise InputError(f"gateway {view.name}: name: given twice")
        names.add(view.name)
        owner = owners.setdefault((view.host, view.port), view.name)
        if owner != view.name:
            raise InputError(f"gateway {view.name}: port: {view.host}:{view.port} belongs to gateway {owner}")
