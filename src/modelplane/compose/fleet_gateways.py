"""What composers know of InferenceGateways: the Gateway of each, and whether it accepted a route."""

from collections.abc import Mapping

from modelplane.api.labels import DEFAULT_GATEWAY, FLEET_GATEWAY, SYSTEM_NAMESPACE
from modelplane.api.meta import ClusterName
from modelplane.api.models import InferenceGateway, NameReference, Tls
from modelplane.api.names import make_name
from modelplane.api.objects import Manifest, items_at, text_at


def gateway_object_name(gateway: InferenceGateway | None) -> str:
    """The name of the Gateway; None: of the default one."""
    return object_name_of(DEFAULT_GATEWAY if gateway is None else gateway.metadata.name)


def object_name_of(gateway: str) -> str:
    """The name of the Gateway of an InferenceGateway by its name."""
    return FLEET_GATEWAY if gateway == DEFAULT_GATEWAY else make_name(FLEET_GATEWAY, FLEET_GATEWAY, gateway)


def runs_on(gateway: InferenceGateway, *, embedded: bool) -> ClusterName | None:
    """The cluster that its objects are written to; None: the control plane's own, as all are on the embedded plane."""
    name = gateway.spec.cluster_name
    return None if embedded or name is None else ClusterName(name)


def has_router(gateway: InferenceGateway, *, embedded: bool) -> bool:
    """Whether it has a fleet router: by default where routers are made of objects, else by wish.

    What callers may do is kept by a router alone, so a gateway that says it has one on the embedded plane, too.
    """
    if gateway.spec.router is not None:
        return gateway.spec.router.replicas > 0
    return not embedded or (gateway.spec.auth is not None and bool(gateway.spec.auth.callers))


def composes_router(gateway: InferenceGateway, *, embedded: bool) -> bool:
    """Whether its fleet router is made of objects."""
    return not embedded and has_router(gateway, embedded=False)


def is_serving(gateway: InferenceGateway) -> bool:
    """Whether routes may name it: not while it is deleted."""
    return gateway.metadata.deletion_timestamp is None


def route_accepted(route: Manifest, gateway: str) -> bool:
    """Whether the Gateway of that name accepted the route and resolved its references."""
    for parent in items_at(route, "status", "parents"):
        reference = parent.get("parentRef")
        if isinstance(reference, Mapping) and (text_at(parent, "parentRef", "name"), _namespace(reference)) == (
            gateway,
            SYSTEM_NAMESPACE,
        ):
            return {"Accepted", "ResolvedRefs"} <= _true(parent)
    return False


def _namespace(reference: Mapping[str, object]) -> str:
    return str(reference.get("namespace") or SYSTEM_NAMESPACE)


def _true(parent: Manifest) -> set[str]:
    return {str(each.get("type")) for each in items_at(parent, "conditions") if each.get("status") == "True"}


def certificate_refs(tls: Tls) -> tuple[NameReference, ...]:
    """The Secrets with certificates, in either form."""
    return tls.certificate_refs or ((tls.secret_ref,) if tls.secret_ref is not None else ())
