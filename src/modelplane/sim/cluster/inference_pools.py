"""InferencePools: the ready pods of a pool, and its status for each Gateway that uses it.

Requests go to ready pods that are not prefill pods. The endpoint picker that a pool refers to chooses among them (see
`pickers`). A pool is Accepted even when its picker is unavailable; the failure mode decides what happens to requests.
"""

from collections.abc import Iterable, Iterator, Mapping

from modelplane.api.objects import (
    Json,
    Manifest,
    int_at,
    items_at,
    labels_of,
    mapping_at,
    name_of,
    namespace_of,
    value_at,
)
from modelplane.reconcile.outcomes import Done, Outcome
from modelplane.reconcile.store import ObjectRef, StoreChange, ref_of
from modelplane.sim.cluster.controller import ControllerContext, changed, is_about, versions
from modelplane.sim.cluster.gateways import CONTROLLER, GATEWAY_GROUP, backends_of
from modelplane.sim.cluster.objects import merged_conditions
from modelplane.sim.cluster.phases import PREFILL, phase_of
from modelplane.sim.cluster.services import is_serving

POOL_GROUP = "inference.networking.k8s.io"
POOL_GROUPS = (POOL_GROUP, "inference.networking.x-k8s.io")
KIND = "InferencePool"
_DEFAULT_PORT = 8000


class InferencePools:
    """Keeps the status of one pool."""

    name = "inferencepools"
    kinds = frozenset({*((group, KIND) for group in POOL_GROUPS), (GATEWAY_GROUP, "HTTPRoute"), ("", "Service")})

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._store = context.store

    def enqueue_for(self, change: StoreChange) -> Iterable[ObjectRef]:
        if change.ref.kind == KIND and change.ref.group in POOL_GROUPS:
            return (change.ref,)
        if is_about(change, GATEWAY_GROUP, "HTTPRoute") and changed(change, _stated):
            return dict.fromkeys(ref for route in versions(change) for ref in _pools_of(route))
        if is_about(change, "", "Service") and change.type != "MODIFIED":
            return [ref_of(pool) for group in POOL_GROUPS for pool in self._store.list(group, KIND)]
        return ()

    def reconcile(self, ref: ObjectRef) -> Outcome:
        pool = self._store.get(ref)
        if pool is None:
            return Done()
        routes = self._store.list(GATEWAY_GROUP, "HTTPRoute", namespace=ref.namespace)
        parents = {_key(parent): parent for route in routes if ref in _pools_of(route) for parent in _gateways(route)}
        known = {_key(mapping_at(entry, "parentRef")): entry for entry in items_at(pool, "status", "parents")}
        shown = [self._parent(pool, parent, known.get(key, {})) for key, parent in sorted(parents.items())]
        if shown or known:
            self._store.replace_status({**pool, "status": {"parents": shown}})
        return Done()

    def _parent(self, pool: Manifest, parent: Mapping[str, object], before: Mapping[str, object]) -> Json:
        generation = int_at(pool, "metadata", "generation")
        wanted = [
            {**entry, "observedGeneration": generation} for entry in (_condition("Accepted"), self._resolved(pool))
        ]
        conditions = merged_conditions(items_at(before, "conditions"), wanted, self._context.clock.now())
        return {"parentRef": dict(parent), "controllerName": CONTROLLER, "conditions": conditions}

    def _resolved(self, pool: Manifest) -> Json:
        name = picker_ref(pool).get("name")
        if name is None or self._store.get(ObjectRef("", "Service", namespace_of(pool), str(name))) is not None:
            return _condition("ResolvedRefs")
        message = f"Service {name} of the endpoint picker not found"
        return {"type": "ResolvedRefs", "status": "False", "reason": "InvalidExtensionRef", "message": message}


def is_pool(entry: Mapping[str, object]) -> bool:
    """Whether a backendRef references a pool."""
    return entry.get("group") in POOL_GROUPS and entry.get("kind") == KIND


def service_name(pool: str) -> str:
    """The name of the Service that stands for a pool. A real Service has no dot in its name."""
    return f"{pool}.inferencepool"


def ready_pods(pool: Manifest, pods: Iterable[Manifest]) -> Iterator[Manifest]:
    selector = value_at(pool, "spec", "selector", "matchLabels") or value_at(pool, "spec", "selector")
    wanted = selector if isinstance(selector, Mapping) else {}
    return (pod for pod in pods if wanted and wanted.items() <= labels_of(pod).items() and is_serving(pod))


def entrances(pods: Iterable[Manifest]) -> Iterator[Manifest]:
    """The pods that get requests: with disaggregated serving the decode pods, which call prefill pods."""
    return (pod for pod in pods if phase_of(pod) != PREFILL)


def picker_ref(pool: Manifest) -> Mapping[str, object]:
    """The reference to the endpoint picker's Service, under its name of today or of the first pools."""
    return mapping_at(pool, "spec", "endpointPickerRef") or mapping_at(pool, "spec", "extensionRef")


def target_port(pool: Manifest) -> int:
    ports = (int_at(entry, "number") for entry in items_at(pool, "spec", "targetPorts"))
    return next(ports, 0) or int_at(pool, "spec", "targetPortNumber", default=_DEFAULT_PORT)


def _pools_of(route: Manifest) -> list[ObjectRef]:
    return [
        ObjectRef(str(entry["group"]), KIND, str(entry.get("namespace") or namespace_of(route)), str(entry["name"]))
        for entry in backends_of(route)
        if is_pool(entry)
    ]


def _gateways(route: Manifest) -> Iterator[Mapping[str, object]]:
    """The parents that accepted the route."""
    for parent in items_at(route, "status", "parents"):
        accepted = (entry for entry in items_at(parent, "conditions") if entry.get("type") == "Accepted")
        if parent.get("controllerName") == CONTROLLER and any(entry.get("status") == "True" for entry in accepted):
            named = mapping_at(parent, "parentRef")
            namespace = str(named.get("namespace") or namespace_of(route))
            yield {"group": GATEWAY_GROUP, "kind": "Gateway", "namespace": namespace, "name": named.get("name")}


def _key(parent: Mapping[str, object]) -> tuple[str, str]:
    return str(parent.get("namespace", "")), str(parent.get("name", ""))


def _condition(kind: str) -> Json:
    return {"type": kind, "status": "True", "reason": kind, "message": ""}


def _stated(route: Manifest) -> object:
    return route.get("spec"), route.get("status"), name_of(route)
