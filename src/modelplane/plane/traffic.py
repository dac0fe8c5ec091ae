"""Programs one Envoy for the whole plane: the fleet gateway and the gateway of every cluster.

A change enqueues one pass. A pass renders what changed, applies it to Envoy, and then writes the status of the fleet
gateway and of its routes, so a service's route is never in force before the cluster gateway that it leads to. Rendering
runs in a thread; objects of the stores are never changed in place. Gateways and objects that did not change are not
rendered again, nor are backends that no route of the fleet gateway names.

A Gateway whose certificate cannot be used is not served; its condition says so. When Envoy exits, it is restarted with
the whole configuration. Until that succeeds the Gateway has no address.
"""

import asyncio
import logging
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from modelplane.api.errors import InputError
from modelplane.api.labels import SYSTEM_NAMESPACE
from modelplane.api.meta import ClusterName
from modelplane.api.objects import GROUP, Manifest, items_at, labels_of, name_of, text_at, value_at
from modelplane.api.timestamps import timestamp
from modelplane.compose.endpoint_routes import ROUTER_LABEL
from modelplane.compose.service_plan import ServicePlan
from modelplane.envoy import EnvoyConfig, EnvoyProcess, GatewayConfigs, GatewayProblem, GatewayView
from modelplane.envoy.tracing import trace_export
from modelplane.envoy.view import RouterAddress
from modelplane.plane.fleet_gateways import FleetGateways, ServedGateway
from modelplane.plane.front_identity import hostname_of, identities_of
from modelplane.plane.gateway_routers import GatewayRouters
from modelplane.plane.hop_identity import HopIdentity
from modelplane.plane.provider_credentials import credentials_of
from modelplane.plane.service_plans import ServicePlans
from modelplane.reconcile.clock import Clock
from modelplane.reconcile.log_lines import because
from modelplane.reconcile.log_reasons import LogReason
from modelplane.reconcile.loop import Loop
from modelplane.reconcile.outcomes import Done, Outcome
from modelplane.reconcile.store import ObjectRef, Store, StoreChange
from modelplane.sim.cluster.controller import changed

GATEWAY_API = "gateway.networking.k8s.io"
ENVOY_GATEWAY = "gateway.envoyproxy.io"
CONTROLLER = "modelplane.ai/embedded-gateway"
_FLEET = "fleet"
"""The key of the one pass."""
_KINDS = {
    (GATEWAY_API, "Gateway"),
    (GATEWAY_API, "HTTPRoute"),
    (ENVOY_GATEWAY, "Backend"),
    (ENVOY_GATEWAY, "HTTPRouteFilter"),
    ("", "Secret"),
    (GROUP, "InferenceGateway"),
}
_POLL_S = 0.2
_ROTATE_S = 10.0
_log = logging.getLogger(__name__)

GatewayViewOf = Callable[[ClusterName], GatewayView | None]
"""The gateway view of a cluster; None while the cluster is unreachable."""


class Traffic:
    def __init__(self, store: Store, envoy: EnvoyProcess, clock: Clock, *, address: tuple[str, int]) -> None:
        self._store = store
        self._envoy = envoy
        self._clock = clock
        self._host = address[0]
        self._doors = FleetGateways(store, *address)
        self._listeners: set[str] = set()
        """Of the fleet's gateways, as they are programmed."""
        self._view_of: GatewayViewOf = lambda _name: None
        self._plans = ServicePlans(store)
        self._plans.on_change = self.changed
        self._routers: GatewayRouters | None = None
        self._hop: HopIdentity | None = None
        self._gateways = GatewayConfigs(trace_export(os.environ))
        self._stale: set[ClusterName] = set()
        self._fleet_is_stale = True
        self._backend_names: frozenset[tuple[str, str]] = frozenset()
        """The Backends that routes of the fleet gateway name."""
        self.loop: Loop[str] = Loop(self._reconcile, clock=clock, workers=1, on_failed=self._broke)
        store.subscribe(self._on_change)

    def set_view_source(self, view_of: GatewayViewOf, names: Iterable[ClusterName] = ()) -> None:
        """Set where gateway views of clusters come from, and the clusters that exist already."""
        self._view_of = view_of
        self._stale.update(names)
        self.changed()

    def set_hop(self, hop: HopIdentity) -> None:
        """Let gateways of clusters accept fleet gateways only. Before the first pass."""
        self._hop = hop

    def set_routers(self, routers: GatewayRouters) -> None:
        """Let fleet routers decide requests of gateways. They hear of plans before Envoy does."""

        def changed() -> None:
            routers.update(self._plans.current)
            self.changed()

        self._routers = routers
        self._plans.on_change = changed
        changed()

    def changed(self) -> None:
        """The fleet gateway or Envoy itself may have changed."""
        self._fleet_is_stale = True
        self.loop.add(_FLEET)

    def gateway_view_changed(self, name: ClusterName) -> None:
        """The gateway view of a cluster may have changed."""
        self._stale.add(name)
        self.loop.add(_FLEET)

    async def watch(self) -> None:
        """Restart Envoy whenever it exits, until cancelled."""
        while True:
            if self._envoy.pid is None:
                await self._clock.sleep(_POLL_S)
                continue
            code = await self._envoy.wait()
            _log.warning("Envoy exited with code %d; restarting it", code, extra=because(LogReason.PROXY_EXITED))
            self.changed()

    async def rotate_logs(self) -> None:
        """Rotate Envoy's access log, until cancelled."""
        while True:
            await self._clock.sleep(_ROTATE_S)
            await self._envoy.rotate_log()

    async def _reconcile(self, _key: str) -> Outcome:
        stale, self._stale = self._stale, set()
        fleet_is_stale, self._fleet_is_stale = self._fleet_is_stale, False
        try:
            await self._sync(stale, fleet_is_stale=fleet_is_stale)
        except BaseException:
            self._stale |= stale
            self._fleet_is_stale = True
            raise
        return Done()

    async def _sync(self, stale: Iterable[ClusterName], *, fleet_is_stale: bool) -> None:
        cluster_views = await self._views(stale)
        if not fleet_is_stale:
            await self._program(cluster_views)
            return
        served = self._doors.served()
        routers = await self._routers.sync(served, self._plans.current) if self._routers is not None else {}
        # Read with the plans: a route that comes while Envoy is programmed is not in force yet.
        routes = self._routes()
        views, problems = self._fleet_views(served, routers)
        config = await self._program({**cluster_views, **dict.fromkeys(self._listeners - views.keys()), **views})
        if self._routers is not None:
            await self._routers.retire()
        self._listeners = {name for name, view in views.items() if view is not None}
        for door in served:
            self._report_gateway(door, problems.get(door.listener, ""), served=door.listener not in problems)
        found = [problem for problem in config.problems if problem.gateway in views]
        self._report_routes(routes, found, served)

    async def _views(self, stale: Iterable[ClusterName]) -> dict[str, GatewayView | None]:
        views: dict[str, GatewayView | None] = {}
        for name in sorted(stale):
            view = self._view_of(name)
            views[f"cluster.{name}"] = self._cluster_view(name, view) if view is not None else None
            await asyncio.sleep(0)  # a large fleet would block the event loop
        return views

    def _cluster_view(self, name: ClusterName, view: GatewayView) -> GatewayView:
        named = replace(view, name=f"cluster.{name}")
        if self._hop is None:
            return named
        return replace(named, identities=(self._hop.server,), client_authority=self._hop.authority)

    async def _program(self, views: Mapping[str, GatewayView | None]) -> EnvoyConfig:
        config = await asyncio.to_thread(self._rendered, views)
        if self._envoy.pid is not None:
            applied = await self._envoy.apply(config)
        else:
            await self._envoy.stop()
            applied = await self._envoy.start(config)
        extra = because(LogReason.PROGRAMMED)
        _log.info("Envoy applied %d updates in %.0f ms", applied.updates, applied.took_ms, extra=extra)
        return config

    def _rendered(self, views: Mapping[str, GatewayView | None]) -> EnvoyConfig:
        for name in [name for name, view in views.items() if view is None]:
            self._gateways.drop(name)
        for view in views.values():
            if view is not None:
                self._gateways.put(view)
        return self._gateways.config()

    def _on_change(self, change: StoreChange) -> None:
        if (change.ref.group, change.ref.kind) not in _KINDS or not changed(change, _stated):
            return
        if change.ref.kind != "Backend" or (change.ref.namespace, change.ref.name) in self._backend_names:
            self.changed()

    def _fleet_views(
        self, served: Sequence[ServedGateway], routers: Mapping[str, RouterAddress]
    ) -> tuple[dict[str, GatewayView | None], dict[str, str]]:
        """The view of each gateway by its listener, and why one cannot be served."""
        plans, routes = self._plans.current, self._routes()
        planned = {(plan.namespace, plan.name) for plan in plans}
        others = [route for route in routes if _names(route) not in planned]
        self._backend_names = frozenset(name for route in others for name in _backends_of(route))
        views: dict[str, GatewayView | None] = {}
        problems: dict[str, str] = {}
        for door in served:
            try:
                view = self._fleet_view(door, others, plans)
                views[door.listener] = replace(view, router=routers.get(door.listener))
            except InputError as error:
                views[door.listener], problems[door.listener] = None, str(error)
        return views, problems

    def _fleet_view(self, door: ServedGateway, routes: Sequence[Manifest], plans: Sequence[ServicePlan]) -> GatewayView:
        gateway = self._gateway(door)
        filters = [each for each in self._store.list(ENVOY_GATEWAY, "HTTPRouteFilter") if _adds_credential(each)]
        own = door.plans(plans)
        return GatewayView(
            name=door.listener,
            host=self._host,
            port=door.port,
            routes=tuple(route for route in routes if door.object_name in _parents_of(route)),
            plans=own,
            callers=door.callers,
            credentials=credentials_of(own, self._store),
            backends=tuple(self._backends(sorted(self._backend_names))),
            filters=tuple(filters),
            secrets=tuple(self._credentials(filters)),
            identities=() if gateway is None else identities_of(gateway, self._store.get),
            hostname=None if gateway is None else hostname_of(gateway),
            hop=None if self._hop is None else self._hop.fleet,
        )

    def _routes(self) -> list[Manifest]:
        """The routes of any gateway of the fleet. Envoy is programmed for its routers by the plans alone."""
        found = self._store.list(GATEWAY_API, "HTTPRoute")
        return [route for route in found if _parents_of(route) and ROUTER_LABEL not in labels_of(route)]

    def _backends(self, names: Sequence[tuple[str, str]]) -> Iterator[Manifest]:
        for namespace, name in names:
            found = self._store.get(ObjectRef(ENVOY_GATEWAY, "Backend", namespace, name))
            if found is not None:
                yield found

    def _gateway(self, door: ServedGateway) -> Manifest | None:
        return self._store.get(ObjectRef(GATEWAY_API, "Gateway", SYSTEM_NAMESPACE, door.object_name))

    def _credentials(self, filters: Iterable[Manifest]) -> Iterator[Manifest]:
        """The Secrets that filters name, and no others."""
        for each in filters:
            name = text_at(each, "spec", "credentialInjection", "credential", "valueRef", "name")
            found = self._store.get(ObjectRef("", "Secret", text_at(each, "metadata", "namespace"), name))
            if found is not None:
                yield found

    def _broke(self, _key: str, error: Exception, attempt: int) -> None:
        extra = because(LogReason.NOT_PROGRAMMED)
        _log.error("Envoy could not be programmed (attempt %d): %s", attempt, error, extra=extra)
        for door in self._doors.served():
            self._report_gateway(door, str(error), served=self._envoy.pid is not None)

    def _report_gateway(self, door: ServedGateway, problem: str = "", *, served: bool = True) -> None:
        """An Envoy that refused an update serves the previous configuration. Unserved, the Gateway has no address."""
        gateway = self._gateway(door)
        if gateway is None:
            return
        programmed = self._condition(gateway, "Programmed", "Invalid" if problem else "Programmed", problem)
        conditions = [self._condition(gateway, "Accepted", "Accepted", ""), programmed]
        address = {"type": "IPAddress", "value": f"{self._host}:{door.port}"}
        status = {
            "addresses": [address] if served else [],
            "conditions": _with_transition_times(gateway.get("status"), conditions),
        }
        self._store.replace_status({**gateway, "status": status})

    def _report_routes(
        self, routes: Iterable[Manifest], problems: list[GatewayProblem], served: Sequence[ServedGateway]
    ) -> None:
        names = {door.object_name: door.listener for door in served if door.listener in self._listeners}
        for route in routes:
            current = self._store.get(_route_ref(route))
            if current is None or current.get("spec") != route.get("spec"):
                continue  # changed meanwhile: the pass that this change enqueued reports
            ours = [problem for problem in problems if (problem.namespace, problem.name) == _names(route)]
            parents = [self._parent(current, name, names[name], ours) for name in _parents_of(current) if name in names]
            self._store.replace_status({**current, "status": {"parents": parents}})

    def _parent(
        self, route: Manifest, gateway: str, listener: str, found: Sequence[GatewayProblem]
    ) -> dict[str, object]:
        problems = [problem for problem in found if problem.gateway == listener]
        refused = next((p for p in problems if p.reason == "UnsupportedValue"), None)
        unresolved = next((p for p in problems if p.reason != "UnsupportedValue"), None)
        conditions = [
            self._problem_condition(route, "Accepted", refused),
            self._problem_condition(route, "ResolvedRefs", unresolved),
        ]
        return {
            "parentRef": {"name": gateway, "namespace": SYSTEM_NAMESPACE},
            "controllerName": CONTROLLER,
            "conditions": _with_transition_times(_parent_status(route, gateway), conditions),
        }

    def _problem_condition(self, route: Manifest, kind: str, problem: GatewayProblem | None) -> dict[str, object]:
        if problem is None:
            return self._condition(route, kind, kind, "")
        return self._condition(route, kind, problem.reason, problem.message)

    def _condition(self, item: Manifest, kind: str, reason: str, message: str) -> dict[str, object]:
        metadata = item["metadata"]
        return {
            "type": kind,
            "status": "True" if reason == kind else "False",
            "reason": reason,
            "message": message,
            "observedGeneration": metadata.get("generation") if isinstance(metadata, Mapping) else None,
            "lastTransitionTime": timestamp(self._clock.now()),
        }


def _with_transition_times(before: object, conditions: list[dict[str, object]]) -> list[dict[str, object]]:
    """The conditions, with the time of their last transition where their status did not change."""
    found = before.get("conditions", []) if isinstance(before, Mapping) else []
    known = {entry["type"]: entry for entry in found}
    return [
        {**entry, "lastTransitionTime": known[entry["type"]]["lastTransitionTime"]}
        if entry["type"] in known and known[entry["type"]]["status"] == entry["status"]
        else entry
        for entry in conditions
    ]


def _adds_credential(item: Manifest) -> bool:
    """Those that answer themselves are for gateways that are programmed by routes, and not by plans."""
    return bool(value_at(item, "spec", "credentialInjection"))


def _stated(item: Manifest) -> object:
    """What Envoy is programmed from. A status is written here, so it enqueues no pass. Labels select Secrets."""
    return value_at(item, "metadata", "labels"), {
        name: value for name, value in item.items() if name not in {"metadata", "status"}
    }


def _parent_status(route: Manifest, gateway: str) -> object:
    found = (parent for parent in items_at(route, "status", "parents"))
    return next((parent for parent in found if text_at(parent, "parentRef", "name") == gateway), {})


def _parents_of(route: Manifest) -> list[str]:
    """The names of its parents that may be gateways of the fleet."""
    parents = items_at(route, "spec", "parentRefs")
    return [text_at(parent, "name") for parent in parents if parent.get("namespace") == SYSTEM_NAMESPACE]


def _backends_of(route: Manifest) -> Iterator[tuple[str, str]]:
    """Namespace and name of the Backends of a route."""
    for rule in items_at(route, "spec", "rules"):
        for ref in items_at(rule, "backendRefs"):
            if ref.get("kind") == "Backend":
                yield str(ref.get("namespace") or text_at(route, "metadata", "namespace")), str(ref.get("name"))


def _names(route: Manifest) -> tuple[str, str]:
    return text_at(route, "metadata", "namespace"), name_of(route)


def _route_ref(route: Manifest) -> ObjectRef:
    return ObjectRef(GATEWAY_API, "HTTPRoute", *_names(route))
