"""What the cluster's gateway serves: accepted routes, and the loopback addresses of their backends.

The view is computed from the cluster's objects: accepted HTTPRoutes, their Services with the ready endpoints of
EndpointSlices, and InferencePools with their ready pods. Addresses of the simulated network become loopback addresses.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b

import msgspec

from modelplane.api.objects import (
    Json,
    Manifest,
    int_at,
    items_at,
    labels_of,
    mapping_at,
    name_of,
    namespace_of,
    text_at,
)
from modelplane.envoy.view import GatewayView
from modelplane.reconcile.outcomes import Done, Outcome
from modelplane.reconcile.store import ObjectRef, StoreChange
from modelplane.sim.cluster.controller import ControllerContext, changed, is_about
from modelplane.sim.cluster.gateways import CONTROLLER, GATEWAY_GROUP, GatewayController
from modelplane.sim.cluster.inference_pools import (
    KIND,
    POOL_GROUPS,
    entrances,
    is_pool,
    picker_ref,
    ready_pods,
    service_name,
    target_port,
)
from modelplane.sim.cluster.objects import annotation
from modelplane.sim.cluster.services import DISCOVERY, SERVICE_NAME, is_serving, ports_of
from modelplane.sim.cluster.settings import LISTENS_ON

_KEPT_METADATA = ("name", "namespace", "labels", "creationTimestamp")
_KINDS = {
    ("", "Service"),
    (GATEWAY_GROUP, "HTTPRoute"),
    (GATEWAY_GROUP, "Gateway"),
    (GATEWAY_GROUP, "ReferenceGrant"),
    (DISCOVERY, "EndpointSlice"),
    *((group, KIND) for group in POOL_GROUPS),
}
_POOL_PORT = 80
_PICKER_PORT = 9002
_DIGEST_BYTES = 16


class GatewayViewController:
    """Recomputes the view when one of its objects changed, and notifies listeners when it differs.

    Only a digest of the last view is kept; `view` computes it again.
    """

    name = "gateway-view"
    kinds = frozenset(_KINDS | {("", "Pod")})

    def __init__(self, context: ControllerContext, gateways: GatewayController) -> None:
        self._store = context.store
        self._cluster = context.cluster
        self._gateways = gateways
        self._digest: bytes | None = None
        self._listeners: list[Callable[[], None]] = []
        self.key = ObjectRef(GATEWAY_GROUP, "Gateway", "", "")

    def subscribe(self, listener: Callable[[], None]) -> None:
        self._listeners.append(listener)

    def enqueue_for(self, change: StoreChange) -> Iterable[ObjectRef]:
        if (change.ref.group, change.ref.kind) in _KINDS:
            return (self.key,)
        moved = is_about(change, "", "Pod") and changed(change, _serving_facts)
        return (self.key,) if moved else ()

    def reconcile(self, _ref: ObjectRef) -> Outcome:
        self._notify(self._view())
        return Done()

    def close(self) -> None:
        """Serve nothing until the next pass."""
        self._notify(None)

    def view(self) -> GatewayView | None:
        """The current view; None before the first pass and after `close`."""
        return self._view() if self._digest is not None else None

    def _notify(self, view: GatewayView | None) -> None:
        digest = None if view is None else blake2b(msgspec.json.encode(view), digest_size=_DIGEST_BYTES).digest()
        if digest == self._digest:
            return
        self._digest = digest
        for listener in self._listeners:
            listener()

    def _view(self) -> GatewayView | None:
        """None while the gateway has no address."""
        host, _, port = (self._gateways.address or "").rpartition(":")
        if not host or not port.isdigit():
            return None
        return GatewayView(
            name=self._cluster,
            host=host.strip("[]"),
            port=int(port),
            routes=tuple(_served(item) for item in self._store.list(GATEWAY_GROUP, "HTTPRoute") if _is_accepted(item)),
            services=(
                *(_routing_fields(item) for item in self._store.list("", "Service")),
                *map(_pool_service, self._pools()),
            ),
            slices=(*self._slices(), *self._pool_slices()),
            grants=tuple(_routing_fields(item) for item in self._store.list(GATEWAY_GROUP, "ReferenceGrant")),
        )

    def _slices(self) -> Iterator[Json]:
        """One slice for each endpoint: every pod listens on its own loopback port."""
        for item in self._store.list(DISCOVERY, "EndpointSlice"):
            for endpoint in items_at(item, "endpoints"):
                if mapping_at(endpoint, "conditions").get("ready") is True:
                    yield from self._loopback_slices(item, endpoint)

    def _loopback_slices(self, item: Manifest, endpoint: Mapping[str, object]) -> Iterator[Json]:
        name = text_at(endpoint, "targetRef", "name")
        pod = self._store.get(ObjectRef("", "Pod", namespace_of(item), name)) or {}
        address = _address(pod)
        ports = [port for port in items_at(item, "ports") if _serves_port(pod, int_at(port, "port"))]
        if ports and address is not None:
            service = labels_of(item).get(SERVICE_NAME, "")
            yield _one_endpoint(f"{name_of(item)}.{name}", service, namespace_of(item), ports, address)

    def _pools(self) -> Iterator[Manifest]:
        for group in POOL_GROUPS:
            yield from self._store.list(group, KIND)

    def _pool_slices(self) -> Iterator[Json]:
        for pool in self._pools():
            port = target_port(pool)
            pods = self._store.list("", "Pod", namespace=namespace_of(pool))
            for pod in entrances(ready_pods(pool, pods)):
                address = _address(pod)
                if address is not None and _serves_port(pod, port):
                    service, name = service_name(name_of(pool)), name_of(pod)
                    yield _one_endpoint(f"{service}.{name}", service, namespace_of(pool), [{"name": "http"}], address)


def _serving_facts(pod: Manifest) -> object:
    return annotation(pod, LISTENS_ON), is_serving(pod)


def _address(pod: Manifest) -> tuple[str, int] | None:
    """The loopback address of a pod's engine."""
    host, _, number = annotation(pod, LISTENS_ON).partition("=")[2].rpartition(":")
    return (host, int(number)) if number.isdigit() else None


def _serves_port(pod: Manifest, port: int) -> bool:
    """Whether the pod serves the port. All its ports lead to its engine; sidecars are not modelled."""
    served = annotation(pod, LISTENS_ON).partition("=")[0]
    return str(port) == served or any(int_at(entry, "containerPort") == port for entry in ports_of(pod))


def _one_endpoint(
    name: str, service: str, namespace: str, ports: Sequence[Mapping[str, object]], address: tuple[str, int]
) -> Json:
    host, number = address
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {"name": name, "namespace": namespace, "labels": {SERVICE_NAME: service}},
        "addressType": "IPv4",
        "ports": [{**port, "port": number} for port in ports],
        "endpoints": [{"addresses": [host], "conditions": {"ready": True}}],
    }


def _served(route: Manifest) -> Json:
    """The route, with Services in the place of InferencePools."""
    bare = _routing_fields(route)
    rules = [
        {**rule, "backendRefs": [_as_service(entry) for entry in items_at(rule, "backendRefs")]}
        for rule in items_at(route, "spec", "rules")
    ]
    return {**bare, "spec": {**mapping_at(route, "spec"), "rules": rules}}


def _as_service(entry: Mapping[str, object]) -> Mapping[str, object]:
    if not is_pool(entry):
        return entry
    kept = {key: value for key, value in entry.items() if key not in {"group", "kind", "name", "port"}}
    return {**kept, "name": service_name(str(entry.get("name"))), "port": _POOL_PORT}


def _pool_service(pool: Manifest) -> Json:
    metadata = {"name": service_name(name_of(pool)), "namespace": namespace_of(pool)}
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata,
        "spec": {"ports": [{"name": "http", "port": _POOL_PORT}], **_picker(pool)},
    }


def _picker(pool: Manifest) -> Json:
    """The endpoint picker of the pool."""
    reference = picker_ref(pool)
    name = text_at(reference, "name")
    if not name:
        return {}
    port = int_at(reference, "port", "number") or int_at(reference, "portNumber", default=_PICKER_PORT)
    fails_open = text_at(reference, "failureMode") == "FailOpen"
    return {"picker": {"name": name, "port": port, "failsOpen": fails_open}}


def _routing_fields(item: Manifest) -> Json:
    """The fields that routing depends on."""
    metadata = mapping_at(item, "metadata")
    kept = {field: metadata[field] for field in _KEPT_METADATA if field in metadata}
    return {"apiVersion": item["apiVersion"], "kind": item["kind"], "metadata": kept, "spec": item.get("spec", {})}


def _is_accepted(route: Manifest) -> bool:
    return any(
        condition.get("type") == "Accepted" and condition.get("status") == "True"
        for parent in items_at(route, "status", "parents")
        if parent.get("controllerName") == CONTROLLER
        for condition in items_at(parent, "conditions")
    )
