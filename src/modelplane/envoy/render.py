"""The translation: gateways as Kubernetes describes them into the three tables that Envoy reads.

Pure, and total: a gateway's objects never make the others' configuration fail. A route that asks for what cannot be
done is left out whole and reported, as a Gateway API controller would not accept it; a reference that leads nowhere
takes no traffic and is reported.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial

from modelplane.api.errors import InputError
from modelplane.envoy import objects
from modelplane.envoy.clusters import cluster, picker_cluster
from modelplane.envoy.config import EnvoyConfig
from modelplane.envoy.files import config_source
from modelplane.envoy.listeners import listener
from modelplane.envoy.pools import Directory, EnvoyCluster, Unusable
from modelplane.envoy.retries import BODY_BYTES, USUAL
from modelplane.envoy.routes import NOT_FOUND, RankedRoute, entries, other_hosts
from modelplane.envoy.view import GatewayProblem, GatewayView, KubernetesObject, ProblemReason, Resource


def render(views: Iterable[GatewayView]) -> EnvoyConfig:
    """Envoy's configuration for these gateways. Names and addresses must be distinct."""
    return Renderer().render(views)


class Renderer:
    """The same, remembered: of a gateway that changed only the routes that the change concerns are made anew.

    What did not change is the very same object in the next configuration. Objects that are given again are known by
    identity, so nobody may change one after giving it.
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
            {name: gateway.listener for name, gateway in self._known.items()},
            dict(sorted(clusters.items())),
            {name: gateway.virtual_host for name, gateway in self._known.items()},
            tuple(problem for gateway in gateways for problem in gateway.problems),
        )

    def _gateway(self, view: GatewayView) -> "_Gateway":
        known = self._known.get(view.name)
        return known if known is not None and known.view == view else _Gateway(view, known)


@dataclass(frozen=True, slots=True)
class _Routed:
    """What was made of one HTTPRoute, and what its references led to while it was."""

    manifest: KubernetesObject
    meta: objects.GatewayObjectMeta | None
    found: tuple[tuple[objects.BackendRef, EnvoyCluster | Unusable], ...]
    entries: tuple[RankedRoute, ...]
    problems: tuple[GatewayProblem, ...]

    def holds(self, directory: Directory) -> bool:
        """Whether its references lead where they led."""
        meta = self.meta
        return meta is None or all(directory.resolve(ref, meta) == found for ref, found in self.found)


class _Gateway:
    """One gateway: its resources, by name, and the problems met while they were made."""

    def __init__(self, view: GatewayView, before: "_Gateway | None" = None) -> None:
        self.view = view
        self.directory: Directory = Directory(view, before.directory if before is not None else None)
        self._routed = [self._route(manifest, before) for manifest in view.routes]
        self.by_identity = {id(routed.manifest): routed for routed in self._routed}
        self._pools = {pool.name: pool for routed in self._routed for entry in routed.entries for pool in entry.pools}
        self.clusters = {name: _cluster(pool, before) for name, pool in self._pools.items()}
        asked = {pool.picker for pool in self._pools.values() if pool.picker is not None}
        self.clusters |= {picker.name: picker_cluster(picker) for picker in asked}
        self.listener = self._listener(before)
        self.virtual_host = self._virtual_host()
        reported = dict.fromkeys(problem for routed in self._routed for problem in routed.problems)
        self.problems = (*self.directory.problems, *reported)

    def cluster_of(self, pool: EnvoyCluster) -> Resource | None:
        """What stands for this very pool."""
        return self.clusters[pool.name] if self._pools.get(pool.name) == pool else None

    def _listener(self, before: "_Gateway | None") -> Resource:
        made = listener(self.view, config_source("rds"))
        return before.listener if before is not None and before.listener == made else made

    def _virtual_host(self) -> Resource:
        found = [entry for routed in self._routed for entry in routed.entries]
        routes = [entry.resource for entry in sorted(found, key=lambda entry: entry.rank)]
        strangers = [] if self.view.hostname is None else [other_hosts(self.view.hostname)]
        return {
            "name": self.view.name,
            "domains": [self.view.name],
            "routes": [*strangers, *routes, NOT_FOUND],
            "retry_policy": USUAL,
            "request_body_buffer_limit": BODY_BYTES,
        }

    def _route(self, manifest: KubernetesObject, before: "_Gateway | None") -> _Routed:
        known = before.by_identity.get(id(manifest)) if before is not None else None
        if known is not None and known.manifest is manifest and known.holds(self.directory):
            return known
        try:
            route = objects.read(manifest, objects.HttpRoute)
            found: dict[int, tuple[objects.BackendRef, EnvoyCluster | Unusable]] = {}
            made = tuple(entries(route, partial(self._resolve, found), self.view.name))
        except objects.UnsupportedError as error:
            problem = self._problem(objects.name_of(manifest), "UnsupportedValue", str(error))
            return _Routed(manifest, None, (), (), (problem,))
        where = (route.metadata.namespace, route.metadata.name)
        unusable = [each for _, each in found.values() if isinstance(each, Unusable)]
        problems = tuple(self._problem(where, each.reason, each.message) for each in unusable)
        return _Routed(manifest, route.metadata, tuple(found.values()), made, problems)

    def _resolve(
        self,
        found: dict[int, tuple[objects.BackendRef, EnvoyCluster | Unusable]],
        ref: objects.BackendRef,
        route: objects.GatewayObjectMeta,
    ) -> EnvoyCluster | Unusable:
        result = self.directory.resolve(ref, route)
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
