"""The translation: gateways as Kubernetes describes them into the three tables that Envoy reads.

Pure, and total: a gateway's objects never make the others' configuration fail. A route that asks for what cannot be
done is left out whole and reported, as a Gateway API controller would not accept it; a reference that leads nowhere
takes no traffic and is reported.
"""

from collections.abc import Iterable

from modelplane.api.errors import InputError
from modelplane.local.envoy import objects
from modelplane.local.envoy.clusters import cluster
from modelplane.local.envoy.config import EnvoyConfig
from modelplane.local.envoy.files import config_source
from modelplane.local.envoy.listeners import listener
from modelplane.local.envoy.pools import Directory, Pool, Unusable
from modelplane.local.envoy.routes import NOT_FOUND, Entry, Resource, entries
from modelplane.local.envoy.view import GatewayView, KubernetesObject, Problem, ProblemReason


def render(views: Iterable[GatewayView]) -> EnvoyConfig:
    """Envoy's configuration for these gateways. Names and addresses must be distinct."""
    gateways = sorted(views, key=lambda view: view.name)
    _check_distinct(gateways)
    listeners: dict[str, Resource] = {}
    clusters: dict[str, Resource] = {}
    virtual_hosts: dict[str, Resource] = {}
    problems: list[Problem] = []
    for view in gateways:
        gateway = _Gateway(view)
        listeners[view.name] = listener(view, config_source("rds"))
        virtual_hosts[view.name] = gateway.virtual_host()
        clusters |= {name: cluster(pool) for name, pool in gateway.pools.items()}
        problems += gateway.problems
    return EnvoyConfig(listeners, dict(sorted(clusters.items())), virtual_hosts, tuple(problems))


class _Gateway:
    """One gateway while its routes are gone through; collects the pools in use and the problems met."""

    def __init__(self, view: GatewayView) -> None:
        self._view = view
        self._directory = Directory(view)
        self.pools: dict[str, Pool] = {}
        self.problems: list[Problem] = self._directory.problems

    def virtual_host(self) -> Resource:
        found = [entry for route in self._view.routes for entry in self._entries(route)]
        self.pools = {pool.name: pool for entry in found for pool in entry.pools}
        routes = [entry.resource for entry in sorted(found, key=lambda entry: entry.rank)]
        return {"name": self._view.name, "domains": [self._view.name], "routes": [*routes, NOT_FOUND]}

    def _entries(self, manifest: KubernetesObject) -> list[Entry]:
        try:
            return list(entries(objects.read(manifest, objects.HttpRoute), self._resolve, self._view.name))
        except objects.UnsupportedError as error:
            self._report(objects.name_of(manifest), "UnsupportedValue", str(error))
            return []

    def _resolve(self, ref: objects.BackendRef, route: objects.ObjectMeta) -> Pool | Unusable:
        found = self._directory.resolve(ref, route)
        if isinstance(found, Unusable):
            self._report((route.namespace, route.name), found.reason, found.message)
        return found

    def _report(self, route: tuple[str, str], reason: ProblemReason, message: str) -> None:
        problem = Problem(self._view.name, "HTTPRoute", *route, reason, message)
        if problem not in self.problems:
            self.problems.append(problem)


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
