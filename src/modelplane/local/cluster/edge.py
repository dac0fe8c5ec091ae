"""The cluster's traffic as its gateway should carry it: the routes in force, and where their backends really answer.

The view is made from the cluster's own objects: HTTPRoutes that a Gateway accepted, their Services, and the endpoints
that EndpointSlices call ready. Only the addresses are translated, from those of the simulated network to loopback.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping

from modelplane.compose.manifests import name_of, text_at
from modelplane.local.cluster.controller import Site, changed, is_about
from modelplane.local.cluster.gateways import CONTROLLER, GATEWAY_GROUP, Gateways
from modelplane.local.cluster.objects import Json, annotation, int_at, items_at, labels_of, mapping_at, namespace_of
from modelplane.local.cluster.services import DISCOVERY, SERVICE_NAME
from modelplane.local.cluster.settings import LISTENS_ON
from modelplane.local.envoy.view import GatewayView
from modelplane.reconcile.outcomes import Outcome, Settled
from modelplane.reconcile.store import Change, Manifest, ObjectRef

_KEPT_METADATA = ("name", "namespace", "labels", "creationTimestamp")
_KINDS = {
    ("", "Service"),
    (GATEWAY_GROUP, "HTTPRoute"),
    (GATEWAY_GROUP, "Gateway"),
    (GATEWAY_GROUP, "ReferenceGrant"),
    (DISCOVERY, "EndpointSlice"),
}


class Edge:
    """Recomputes the view when something behind it changed, and tells whoever listens when it differs."""

    name = "edge"

    def __init__(self, site: Site, gateways: Gateways) -> None:
        self._store = site.store
        self._cluster = site.cluster
        self._gateways = gateways
        self._told: GatewayView | None = None
        self._listeners: list[Callable[[], None]] = []
        self.key = ObjectRef(GATEWAY_GROUP, "Gateway", "", "")

    def subscribe(self, listener: Callable[[], None]) -> None:
        self._listeners.append(listener)

    def concerns(self, change: Change) -> Iterable[ObjectRef]:
        if (change.ref.group, change.ref.kind) in _KINDS:
            return (self.key,)
        moved = is_about(change, "", "Pod") and changed(change, lambda pod: annotation(pod, LISTENS_ON))
        return (self.key,) if moved else ()

    def reconcile(self, _ref: ObjectRef) -> Outcome:
        self.tell(self.view())
        return Settled()

    def tell(self, view: GatewayView | None) -> None:
        if view == self._told:
            return
        self._told = view
        for listener in self._listeners:
            listener()

    def view(self) -> GatewayView | None:
        """None while the edge has no address."""
        host, _, port = (self._gateways.address or "").rpartition(":")
        if not host or not port.isdigit():
            return None
        return GatewayView(
            name=self._cluster,
            host=host.strip("[]"),
            port=int(port),
            routes=tuple(_bare(item) for item in self._store.list(GATEWAY_GROUP, "HTTPRoute") if _is_accepted(item)),
            services=tuple(_bare(item) for item in self._store.list("", "Service")),
            slices=tuple(self._slices()),
            grants=tuple(_bare(item) for item in self._store.list(GATEWAY_GROUP, "ReferenceGrant")),
        )

    def _slices(self) -> Iterator[Json]:
        """One for each endpoint: every pod really answers on a port of its own."""
        for item in self._store.list(DISCOVERY, "EndpointSlice"):
            for endpoint in items_at(item, "endpoints"):
                if mapping_at(endpoint, "conditions").get("ready") is True:
                    yield from self._translated(item, endpoint)

    def _translated(self, item: Manifest, endpoint: Mapping[str, object]) -> Iterator[Json]:
        name = text_at(endpoint, "targetRef", "name")
        pod = self._store.get(ObjectRef("", "Pod", namespace_of(item), name))
        served, _, address = annotation(pod or {}, LISTENS_ON).partition("=")
        host, _, number = address.rpartition(":")
        ports = [port for port in items_at(item, "ports") if str(int_at(port, "port")) == served]
        if not ports or not number.isdigit():
            return
        yield {
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {
                "name": f"{name_of(item)}.{name}",
                "namespace": namespace_of(item),
                "labels": {SERVICE_NAME: labels_of(item).get(SERVICE_NAME, "")},
            },
            "addressType": "IPv4",
            "ports": [{**port, "port": int(number)} for port in ports],
            "endpoints": [{"addresses": [host], "conditions": {"ready": True}}],
        }


def _bare(item: Manifest) -> Json:
    """What routing reads, without what changes for other reasons."""
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
