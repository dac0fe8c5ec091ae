"""One Envoy for the whole plane: the fleet's front door and the edge of every cluster, kept up with their objects.

A change anywhere asks for one pass; a pass takes what changed as it stands, has Envoy take it, and only then reports on
the objects of the front door. So a service's route is never in force before the edge that it leads to. What Envoy is to
be told is worked out beside the event loop: objects that the stores gave out are replaced and never changed. Edges and
objects that did not change are not looked at, and neither are backends that no route of the front door names.

A gateway that names a certificate which cannot be used is not served at all, and says so. An Envoy that ended by itself
is started again with all of it. Until that succeeds the gateway has no address.
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
from modelplane.envoy import EnvoyConfig, EnvoyProcess, GatewayConfigs, GatewayProblem, GatewayView
from modelplane.plane.front_identity import hostname_of, identity_of
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
_LOOK_S = 0.2
_TIDY_S = 10.0
_log = logging.getLogger(__name__)

Edge = Callable[[ClusterName], GatewayView | None]
"""What the edge of a cluster should carry; None where nothing answers."""


class Traffic:
    def __init__(self, store: Store, envoy: EnvoyProcess, clock: Clock, *, address: tuple[str, int]) -> None:
        self._store = store
        self._envoy = envoy
        self._clock = clock
        self._host, self._port = address
        self._edge: Edge = lambda _name: None
        self._gateways = GatewayConfigs()
        self._stale: set[ClusterName] = set()
        self._door_is_stale = True
        self._named: frozenset[tuple[str, str]] = frozenset()
        """The backends that routes of the front door name."""
        self.loop: Loop[str] = Loop(self._reconcile, clock=clock, workers=1, on_failed=self._broke)
        store.subscribe(self._heard)

    def follow(self, edge: Edge, names: Iterable[ClusterName] = ()) -> None:
        """Where the views of the clusters' edges come from, and which there are already."""
        self._edge = edge
        self._stale.update(names)
        self.changed()

    def changed(self) -> None:
        """Something of the front door, or Envoy itself, may be different."""
        self._door_is_stale = True
        self.loop.add(_FLEET)

    def edge_changed(self, name: ClusterName) -> None:
        """The edge of a cluster may be different, or gone."""
        self._stale.add(name)
        self.loop.add(_FLEET)

    async def watch(self) -> None:
        """Have Envoy started again whenever it ends by itself, until cancelled."""
        while True:
            if self._envoy.pid is None:
                await self._clock.sleep(_LOOK_S)
                continue
            code = await self._envoy.wait()
            _log.warning("Envoy ended with code %d; it is started again", code)
            self.changed()

    async def keep_log_short(self) -> None:
        """Look after the length of Envoy's access log, until cancelled."""
        while True:
            await self._clock.sleep(_TIDY_S)
            await self._envoy.rotate_log()

    async def _reconcile(self, _key: str) -> Outcome:
        stale, self._stale = self._stale, set()
        door_is_stale, self._door_is_stale = self._door_is_stale, False
        try:
            await self._pass_over(stale, door_is_stale=door_is_stale)
        except BaseException:
            self._stale |= stale
            self._door_is_stale = True
            raise
        return Done()

    async def _pass_over(self, stale: Iterable[ClusterName], *, door_is_stale: bool) -> None:
        edges = await self._views(stale)
        if not door_is_stale:
            await self._tell(edges)
            return
        try:
            door = self._fleet_view()
        except InputError as error:
            await self._tell({**edges, _FLEET: None})
            self._report_gateway(problem=str(error), served=False)
            return
        config = await self._tell({**edges, _FLEET: door})
        self._report_gateway()
        self._report_routes(door.routes, [problem for problem in config.problems if problem.gateway == _FLEET])

    async def _views(self, stale: Iterable[ClusterName]) -> dict[str, GatewayView | None]:
        views: dict[str, GatewayView | None] = {}
        for name in sorted(stale):
            view = self._edge(name)
            views[f"cluster.{name}"] = replace(view, name=f"cluster.{name}") if view is not None else None
            await asyncio.sleep(0)  # all of a large fleet would hold up everybody else
        return views

    async def _tell(self, views: Mapping[str, GatewayView | None]) -> EnvoyConfig:
        config = await asyncio.to_thread(self._rendered, views)
        if self._envoy.pid is not None:
            applied = await self._envoy.apply(config)
        else:
            await self._envoy.stop()
            applied = await self._envoy.start(config)
        _log.info("envoy took %d updates in %.0f ms", applied.updates, applied.took_ms)
        return config

    def _rendered(self, views: Mapping[str, GatewayView | None]) -> EnvoyConfig:
        for name in [name for name, view in views.items() if view is None]:
            self._gateways.drop(name)
        for view in views.values():
            if view is not None:
                self._gateways.put(view)
        return self._gateways.config()

    def _heard(self, change: StoreChange) -> None:
        if (change.ref.group, change.ref.kind) not in _KINDS or not changed(change, _stated):
            return
        if change.ref.kind != "Backend" or (change.ref.namespace, change.ref.name) in self._named:
            self.changed()

    def _fleet_view(self) -> GatewayView:
        routes = [route for route in self._store.list(GATEWAY_API, "HTTPRoute") if _is_ours(route)]
        filters = self._store.list(ENVOY_GATEWAY, "HTTPRouteFilter")
        gateway = self._gateway()
        self._named = frozenset(name for route in routes for name in _backends_of(route))
        return GatewayView(
            name=_FLEET,
            host=self._host,
            port=self._port,
            routes=tuple(routes),
            backends=tuple(self._backends(sorted(self._named))),
            filters=tuple(filters),
            secrets=tuple(self._credentials(filters)),
            identity=None if gateway is None else identity_of(gateway, self._store.get),
            hostname=None if gateway is None else hostname_of(gateway),
        )

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
        _log.error("programming envoy for %s failed (attempt %d): %s", key, attempt, error)
        self._report_gateway(problem=str(error), served=self._envoy.pid is not None)

    def _report_gateway(self, problem: str = "", *, served: bool = True) -> None:
        """One that did not take the newest still answers by what it had; one that is not served has no address."""
        gateway = self._gateway()
        if gateway is None:
            return
        programmed = self._condition(gateway, "Programmed", "Invalid" if problem else "Programmed", problem)
        conditions = [self._condition(gateway, "Accepted", "Accepted", ""), programmed]
        address = {"type": "IPAddress", "value": f"{self._host}:{self._port}"}
        status = {"addresses": [address] if served else [], "conditions": _since(gateway.get("status"), conditions)}
        self._store.replace_status({**gateway, "status": status})

    def _report_routes(self, routes: Iterable[Manifest], problems: list[GatewayProblem]) -> None:
        for route in routes:
            current = self._store.get(_route_ref(route))
            if current is None or current.get("spec") != route.get("spec"):
                continue  # changed while Envoy worked: the pass that this change asked for will report
            ours = [problem for problem in problems if (problem.namespace, problem.name) == _names(route)]
            self._report_route(current, ours)

    def _report_route(self, route: Manifest, problems: list[GatewayProblem]) -> None:
        refused = next((p for p in problems if p.reason == "UnsupportedValue"), None)
        unresolved = next((p for p in problems if p.reason != "UnsupportedValue"), None)
        conditions = [
            self._verdict(route, "Accepted", refused),
            self._verdict(route, "ResolvedRefs", unresolved),
        ]
        parent = {"name": FLEET_GATEWAY, "namespace": SYSTEM_NAMESPACE}
        before = _parent_status(route)
        entry = {"parentRef": parent, "controllerName": CONTROLLER, "conditions": _since(before, conditions)}
        self._store.replace_status({**route, "status": {"parents": [entry]}})

    def _verdict(self, route: Manifest, kind: str, problem: GatewayProblem | None) -> dict[str, object]:
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


def _since(before: object, conditions: list[dict[str, object]]) -> list[dict[str, object]]:
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
    """What Envoy is told of it. Statuses are what is reported here: they ask for no other pass."""
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
    """Where the backends are that a route names."""
    for rule in items_at(route, "spec", "rules"):
        for ref in items_at(rule, "backendRefs"):
            if ref.get("kind") == "Backend":
                yield str(ref.get("namespace") or text_at(route, "metadata", "namespace")), str(ref.get("name"))


def _names(route: Manifest) -> tuple[str, str]:
    return text_at(route, "metadata", "namespace"), name_of(route)


def _route_ref(route: Manifest) -> ObjectRef:
    return ObjectRef(GATEWAY_API, "HTTPRoute", *_names(route))
