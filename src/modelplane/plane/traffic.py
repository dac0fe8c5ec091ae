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
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from modelplane.api.errors import InputError
from modelplane.api.labels import FLEET_GATEWAY, SYSTEM_NAMESPACE
from modelplane.api.meta import ClusterName
from modelplane.api.objects import Manifest, items_at, name_of, text_at
from modelplane.api.timestamps import timestamp
from modelplane.compose.service_plan import ServicePlan
from modelplane.envoy import EnvoyConfig, EnvoyProcess, GatewayConfigs, GatewayProblem, GatewayView
from modelplane.envoy.view import RouterAddress
from modelplane.plane.front_identity import hostname_of, identity_of
from modelplane.plane.provider_credentials import credentials_of
from modelplane.plane.service_plans import ServicePlans
from modelplane.reconcile.clock import Clock
from modelplane.reconcile.loop import Loop
from modelplane.reconcile.outcomes import Done, Outcome
from modelplane.reconcile.store import ObjectRef, Store, StoreChange
from modelplane.sim.cluster.controller import changed

GATEWAY_API = "gateway.networking.k8s.io"
ENVOY_GATEWAY = "gateway.envoyproxy.io"
CONTROLLER = "modelplane.ai/embedded-gateway"
_FLEET = "fleet"
_KINDS = {
    (GATEWAY_API, "Gateway"),
    (GATEWAY_API, "HTTPRoute"),
    (ENVOY_GATEWAY, "Backend"),
    (ENVOY_GATEWAY, "HTTPRouteFilter"),
    ("", "Secret"),
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
        self._host, self._port = address
        self._view_of: GatewayViewOf = lambda _name: None
        self._plans = ServicePlans(store)
        self._plans.on_change = self.changed
        self._router: RouterAddress | None = None
        self._gateways = GatewayConfigs()
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

    def set_router(self, address: RouterAddress, update: Callable[[Iterable[ServicePlan]], None]) -> None:
        """Let the fleet router decide requests of the fleet gateway. `update` gets the plans, and each change."""

        def changed() -> None:
            update(self._plans.current)
            self.changed()

        self._router = address
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
            _log.warning("Envoy exited with code %d; restarting it", code)
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
        try:
            fleet = self._fleet_view()
        except InputError as error:
            await self._program({**cluster_views, _FLEET: None})
            self._report_gateway(problem=str(error), served=False)
            return
        config = await self._program({**cluster_views, _FLEET: fleet})
        self._report_gateway()
        self._report_routes(self._routes(), [problem for problem in config.problems if problem.gateway == _FLEET])

    async def _views(self, stale: Iterable[ClusterName]) -> dict[str, GatewayView | None]:
        views: dict[str, GatewayView | None] = {}
        for name in sorted(stale):
            view = self._view_of(name)
            views[f"cluster.{name}"] = replace(view, name=f"cluster.{name}") if view is not None else None
            await asyncio.sleep(0)  # a large fleet would block the event loop
        return views

    async def _program(self, views: Mapping[str, GatewayView | None]) -> EnvoyConfig:
        config = await asyncio.to_thread(self._rendered, views)
        if self._envoy.pid is not None:
            applied = await self._envoy.apply(config)
        else:
            await self._envoy.stop()
            applied = await self._envoy.start(config)
        _log.info("Envoy applied %d updates in %.0f ms", applied.updates, applied.took_ms)
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

    def _fleet_view(self) -> GatewayView:
        routes = self._routes()
        filters = self._store.list(ENVOY_GATEWAY, "HTTPRouteFilter")
        gateway = self._gateway()
        plans = self._plans.current
        planned = {(plan.namespace, plan.name) for plan in plans}
        routes = [route for route in routes if _names(route) not in planned]
        self._backend_names = frozenset(name for route in routes for name in _backends_of(route))
        return GatewayView(
            name=_FLEET,
            host=self._host,
            port=self._port,
            routes=tuple(routes),
            plans=plans,
            router=self._router,
            credentials=credentials_of(plans, self._store),
            backends=tuple(self._backends(sorted(self._backend_names))),
            filters=tuple(filters),
            secrets=tuple(self._credentials(filters)),
            identity=None if gateway is None else identity_of(gateway, self._store.get),
            hostname=None if gateway is None else hostname_of(gateway),
        )

    def _routes(self) -> list[Manifest]:
        return [route for route in self._store.list(GATEWAY_API, "HTTPRoute") if _is_ours(route)]

    def _backends(self, names: Sequence[tuple[str, str]]) -> Iterator[Manifest]:
        for namespace, name in names:
            found = self._store.get(ObjectRef(ENVOY_GATEWAY, "Backend", namespace, name))
            if found is not None:
                yield found

    def _gateway(self) -> Manifest | None:
        return self._store.get(ObjectRef(GATEWAY_API, "Gateway", SYSTEM_NAMESPACE, FLEET_GATEWAY))

    def _credentials(self, filters: Iterable[Manifest]) -> Iterator[Manifest]:
        """The Secrets that filters name, and no others."""
        for each in filters:
            name = text_at(each, "spec", "credentialInjection", "credential", "valueRef", "name")
            found = self._store.get(ObjectRef("", "Secret", text_at(each, "metadata", "namespace"), name))
            if found is not None:
                yield found

    def _broke(self, key: str, error: Exception, attempt: int) -> None:
        _log.error("Envoy could not be programmed for %s (attempt %d): %s", key, attempt, error)
        self._report_gateway(problem=str(error), served=self._envoy.pid is not None)

    def _report_gateway(self, problem: str = "", *, served: bool = True) -> None:
        """An Envoy that refused an update serves the previous configuration. Unserved, the Gateway has no address."""
        gateway = self._gateway()
        if gateway is None:
            return
        programmed = self._condition(gateway, "Programmed", "Invalid" if problem else "Programmed", problem)
        conditions = [self._condition(gateway, "Accepted", "Accepted", ""), programmed]
        address = {"type": "IPAddress", "value": f"{self._host}:{self._port}"}
        status = {
            "addresses": [address] if served else [],
            "conditions": _with_transition_times(gateway.get("status"), conditions),
        }
        self._store.replace_status({**gateway, "status": status})

    def _report_routes(self, routes: Iterable[Manifest], problems: list[GatewayProblem]) -> None:
        for route in routes:
            current = self._store.get(_route_ref(route))
            if current is None or current.get("spec") != route.get("spec"):
                continue  # changed meanwhile: the pass that this change enqueued reports
            ours = [problem for problem in problems if (problem.namespace, problem.name) == _names(route)]
            self._report_route(current, ours)

    def _report_route(self, route: Manifest, problems: list[GatewayProblem]) -> None:
        refused = next((p for p in problems if p.reason == "UnsupportedValue"), None)
        unresolved = next((p for p in problems if p.reason != "UnsupportedValue"), None)
        conditions = [
            self._problem_condition(route, "Accepted", refused),
            self._problem_condition(route, "ResolvedRefs", unresolved),
        ]
        parent = {"name": FLEET_GATEWAY, "namespace": SYSTEM_NAMESPACE}
        before = _parent_status(route)
        entry = {
            "parentRef": parent,
            "controllerName": CONTROLLER,
            "conditions": _with_transition_times(before, conditions),
        }
        self._store.replace_status({**route, "status": {"parents": [entry]}})

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


def _stated(item: Manifest) -> object:
    """What Envoy is programmed from. A status is written here, so it enqueues no pass."""
    return {name: value for name, value in item.items() if name not in {"metadata", "status"}}


def _parent_status(route: Manifest) -> object:
    status = route.get("status")
    parents = status.get("parents") if isinstance(status, Mapping) else None
    return parents[0] if isinstance(parents, list | tuple) and parents else {}


def _is_ours(route: Manifest) -> bool:
    spec = route.get("spec")
    parents = spec.get("parentRefs", []) if isinstance(spec, Mapping) else []
    return any((parent.get("namespace"), parent["name"]) == (SYSTEM_NAMESPACE, FLEET_GATEWAY) for parent in parents)


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
