"""Status of Gateways and HTTPRoutes, as a Gateway controller writes it.

Checked: the parent is a Gateway of our class, one of its listeners allows routes of that namespace, every backend is an
InferencePool or a Service that exists and has the port, and a ReferenceGrant allows backends in other namespaces. A
route of other Gateways gets no status. Hostnames, TLS and weights are not checked.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from modelplane.api.objects import Json, Manifest, int_at, items_at, labels_of, mapping_at, namespace_of, text_at
from modelplane.reconcile.outcomes import Done, Outcome
from modelplane.reconcile.store import ObjectRef, StoreChange, ref_of
from modelplane.sim.cluster.controller import ControllerContext, is_about, versions
from modelplane.sim.cluster.objects import merged_conditions, selector_matches

GATEWAY_GROUP = "gateway.networking.k8s.io"
_POOL_GROUPS = ("inference.networking.k8s.io", "inference.networking.x-k8s.io")
_BACKEND_KINDS = {("", "Service"), *((group, "InferencePool") for group in _POOL_GROUPS)}
CONTROLLER = "gateway.envoyproxy.io/gatewayclass-controller"


class GatewayController:
    """Reconciles Gateways and HTTPRoutes. The address is set once the gateway listens."""

    name = "gateways"
    kinds = frozenset(
        {*_BACKEND_KINDS, *((GATEWAY_GROUP, kind) for kind in ("Gateway", "HTTPRoute", "ReferenceGrant"))}
    )

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._store = context.store
        self.address = context.settings.gateway_address

    def enqueue_for(self, change: StoreChange) -> Iterable[ObjectRef]:
        if is_about(change, GATEWAY_GROUP, "HTTPRoute"):
            return dict.fromkeys([change.ref, *(ref for route in versions(change) for ref in _parents(route))])
        if is_about(change, GATEWAY_GROUP, "Gateway"):
            routes = self._store.list(GATEWAY_GROUP, "HTTPRoute")
            return (change.ref, *(ref_of(route) for route in routes if change.ref in _parents(route)))
        if (change.ref.group, change.ref.kind) in _BACKEND_KINDS or is_about(change, GATEWAY_GROUP, "ReferenceGrant"):
            return [ref_of(route) for route in self._routes_to(change.ref)]
        return ()

    def _routes_to(self, ref: ObjectRef) -> Iterator[Manifest]:
        for route in self._store.list(GATEWAY_GROUP, "HTTPRoute"):
            if ref.kind == "ReferenceGrant" or any(_backend(route, entry) == ref for entry in backends_of(route)):
                yield route

    def reconcile(self, ref: ObjectRef) -> Outcome:
        item = self._store.get(ref)
        if item is not None and ref.kind == "Gateway":
            self._report_gateway(item)
        elif item is not None:
            self._report_route(item)
        return Done()

    def all(self) -> list[ObjectRef]:
        """Every Gateway: their status has the address."""
        return [ref_of(item) for item in self._store.list(GATEWAY_GROUP, "Gateway")]

    def _report_gateway(self, gateway: Manifest) -> None:
        if text_at(gateway, "spec", "gatewayClassName") != self._context.settings.gateway_class:
            return
        status: Json = {
            "conditions": self._conditions(gateway, _gateway_conditions(addressed=bool(self.address))),
            "listeners": [self._listener(gateway, entry) for entry in items_at(gateway, "spec", "listeners")],
        }
        if self.address:
            status["addresses"] = [{"type": "Hostname", "value": self.address}]
        self._store.replace_status({**gateway, "status": status})

    def _listener(self, gateway: Manifest, listener: Mapping[str, object]) -> Json:
        ref = ref_of(gateway)
        routes = [route for route in self._store.list(GATEWAY_GROUP, "HTTPRoute") if ref in _parents(route)]
        attached = sum(self._admits(gateway, listener, route) for route in routes)
        known = next((e for e in items_at(gateway, "status", "listeners") if e.get("name") == listener.get("name")), {})
        wanted = [_condition(kind, kind) for kind in ("Accepted", "Programmed", "ResolvedRefs")]
        return {
            "name": listener.get("name"),
            "attachedRoutes": attached,
            "supportedKinds": [{"group": GATEWAY_GROUP, "kind": "HTTPRoute"}],
            "conditions": self._stamped(gateway, items_at(known, "conditions"), wanted),
        }

    def _report_route(self, route: Manifest) -> None:
        known = list(items_at(route, "status", "parents"))
        foreign = [entry for entry in known if entry.get("controllerName") != CONTROLLER]
        ours = [self._parent(route, parent, known) for parent in items_at(route, "spec", "parentRefs")]
        parents = [*foreign, *(entry for entry in ours if entry is not None)]
        if parents or known:
            self._store.replace_status({**route, "status": {"parents": parents}})

    def _parent(
        self, route: Manifest, parent: Mapping[str, object], known: Sequence[Mapping[str, object]]
    ) -> Json | None:
        gateway = self._store.get(_parent_ref(route, parent))
        if gateway is None or text_at(gateway, "spec", "gatewayClassName") != self._context.settings.gateway_class:
            return None
        before = next((entry for entry in known if entry.get("parentRef") == parent), {})
        wanted = [self._accepted(route, parent, gateway), self._resolved(route)]
        conditions = self._stamped(route, items_at(before, "conditions"), wanted)
        return {"parentRef": parent, "controllerName": CONTROLLER, "conditions": conditions}

    def _accepted(self, route: Manifest, parent: Mapping[str, object], gateway: Manifest) -> Json:
        section = parent.get("sectionName")
        named = [e for e in items_at(gateway, "spec", "listeners") if section is None or e.get("name") == section]
        if not named:
            return _condition("Accepted", "NoMatchingParent", f"the Gateway has no listener named {section}")
        if not any(self._admits(gateway, listener, route) for listener in named):
            message = f"no listener allows routes of namespace {namespace_of(route)}"
            return _condition("Accepted", "NotAllowedByListeners", message)
        return _condition("Accepted", "Accepted")

    def _admits(self, gateway: Manifest, listener: Mapping[str, object], route: Manifest) -> bool:
        allowed = mapping_at(listener, "allowedRoutes", "namespaces")
        match allowed.get("from", "Same"):
            case "All":
                return True
            case "Selector":
                namespace = self._store.get(ObjectRef("", "Namespace", "", namespace_of(route)))
                return namespace is not None and selector_matches(mapping_at(allowed, "selector"), labels_of(namespace))
        return namespace_of(gateway) == namespace_of(route)

    def _resolved(self, route: Manifest) -> Json:
        for entry in backends_of(route):
            problem = self._problem(route, entry)
            if problem is not None:
                return problem
        return _condition("ResolvedRefs", "ResolvedRefs")

    def _problem(self, route: Manifest, entry: Mapping[str, object]) -> Json | None:
        ref = _backend(route, entry)
        pool = ref.group in _POOL_GROUPS and ref.kind == "InferencePool"
        if (ref.group, ref.kind) != ("", "Service") and not pool:
            return _condition("ResolvedRefs", "InvalidKind", f"backend {ref} is neither a Service nor an InferencePool")
        if ref.namespace != namespace_of(route) and not self._is_granted(route, ref):
            return _condition("ResolvedRefs", "RefNotPermitted", f"no ReferenceGrant allows {ref}")
        service = self._store.get(ref)
        if service is None:
            return _condition("ResolvedRefs", "BackendNotFound", f"{ref} not found")
        if not pool and not any(port.get("port") == entry.get("port") for port in items_at(service, "spec", "ports")):
            return _condition("ResolvedRefs", "PortNotFound", f"{ref} has no port {entry.get('port')}")
        return None

    def _is_granted(self, route: Manifest, ref: ObjectRef) -> bool:
        return any(
            any(_is_from(entry, route) for entry in items_at(grant, "spec", "from"))
            and any(_is_to(entry, ref) for entry in items_at(grant, "spec", "to"))
            for grant in self._store.list(GATEWAY_GROUP, "ReferenceGrant", namespace=ref.namespace)
        )

    def _conditions(self, item: Manifest, wanted: Sequence[Json]) -> list[Mapping[str, object]]:
        return self._stamped(item, items_at(item, "status", "conditions"), wanted)

    def _stamped(
        self, item: Manifest, known: Iterator[Mapping[str, object]], wanted: Sequence[Json]
    ) -> list[Mapping[str, object]]:
        generation = int_at(item, "metadata", "generation")
        observed = [{**entry, "observedGeneration": generation} for entry in wanted]
        return merged_conditions(known, observed, self._context.clock.now())


def backends_of(route: Manifest) -> Iterator[Mapping[str, object]]:
    for rule in items_at(route, "spec", "rules"):
        yield from items_at(rule, "backendRefs")


def _backend(route: Manifest, entry: Mapping[str, object]) -> ObjectRef:
    namespace = str(entry.get("namespace") or namespace_of(route))
    return ObjectRef(str(entry.get("group", "")), str(entry.get("kind", "Service")), namespace, str(entry.get("name")))


def _parents(route: Manifest) -> list[ObjectRef]:
    return [_parent_ref(route, entry) for entry in items_at(route, "spec", "parentRefs")]


def _parent_ref(route: Manifest, parent: Mapping[str, object]) -> ObjectRef:
    group, kind = str(parent.get("group", GATEWAY_GROUP)), str(parent.get("kind", "Gateway"))
    return ObjectRef(group, kind, str(parent.get("namespace") or namespace_of(route)), str(parent.get("name")))


def _is_from(entry: Mapping[str, object], route: Manifest) -> bool:
    wanted = (GATEWAY_GROUP, "HTTPRoute", namespace_of(route))
    return (entry.get("group"), entry.get("kind"), entry.get("namespace")) == wanted


def _is_to(entry: Mapping[str, object], ref: ObjectRef) -> bool:
    return (entry.get("group", ""), entry.get("kind")) == (ref.group, ref.kind) and entry.get(
        "name", ref.name
    ) == ref.name


def _gateway_conditions(*, addressed: bool) -> list[Json]:
    if addressed:
        return [_condition("Accepted", "Accepted"), _condition("Programmed", "Programmed")]
    waiting = _condition("Programmed", "AddressNotAssigned", "the Gateway has no address yet")
    return [_condition("Accepted", "Accepted"), waiting]


def _condition(kind: str, reason: str, message: str = "") -> Json:
    """True when the reason is the condition's own name: so the Gateway API names success."""
    return {"type": kind, "status": "True" if reason == kind else "False", "reason": reason, "message": message}
