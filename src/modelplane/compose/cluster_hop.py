"""The gateway of a cluster that lets in only gateways of the fleet (`spec.gateway.mutualTLS`).

A listener for HTTPS with a certificate of cert-manager's on the cluster, and a ClientTrafficPolicy that asks callers
for a certificate signed by the CA of a fleet gateway.

A fleet that serves does not go dark on the way. The listener for HTTPS comes when what guards it is there. Replicas
move to it when every fleet gateway has a certificate (`status.gateway.hostname`). The listener for HTTP goes when no
ModelEndpoint of the cluster uses it, and the way back is the same. A new cluster never listens for HTTP.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from modelplane.api.codec import decode
from modelplane.api.errors import InputError
from modelplane.api.labels import CLUSTER, CLUSTER_GATEWAY, SYSTEM_NAMESPACE
from modelplane.api.meta import ClusterName
from modelplane.api.models import InferenceCluster, InferenceGateway
from modelplane.api.objects import API_VERSION, Manifest, items_at, manifest, text_at
from modelplane.compose.contract import ComposeRequest, Desired, ReadyWhen, Remote, Requirement, keep
from modelplane.compose.fleet_gateways import is_serving
from modelplane.compose.hop_certificates import (
    API,
    AUTHORITY,
    authority_objects,
    calls_replica,
    hop_hostname,
    hop_name,
    issued_authority,
    server_certificate,
    server_name,
    trusted_authorities,
)

_GATEWAY, _SERVER, _CLIENTS, _VALIDATION = "gateway", "hop-server", "hop-clients", "hop-validation"
_KEYS = (*authority_objects(CLUSTER_GATEWAY), _SERVER, _CLIENTS, _VALIDATION)
_GUARDS = (_SERVER, _CLIENTS, _VALIDATION)
_GATEWAYS, _ENDPOINTS, _REQUESTS = "fleet-gateways", "cluster-endpoints", "observed-certificaterequests"
_HTTP, _HTTPS = "http", "https"
_TRUST = f"{CLUSTER_GATEWAY}-hop-clients"


@dataclass(frozen=True, slots=True)
class ClusterHop:
    """What mutual TLS makes of a cluster's gateway."""

    desired: dict[str, Desired]
    listeners: tuple[Manifest, ...]
    """Of the Gateway. None: it has to wait."""
    hostname: str | None = None
    """Once fleet gateways and this one know each other."""
    authority: str | None = None
    waits: str = ""
    """What keeps replicas from being called by HTTPS."""


def is_guarded(request: ComposeRequest[InferenceCluster]) -> bool:
    """Whether the gateway should let in fleet gateways only."""
    gateway = request.resource.spec.gateway
    return gateway is not None and gateway.mutual_tls is not None and not request.embedded


def hop_requirements(request: ComposeRequest[InferenceCluster]) -> dict[str, Requirement]:
    """What is read besides, with mutual TLS and on the way back from it."""
    if not is_guarded(request) and not _is_left(request):
        return {}
    name = ClusterName(request.resource.metadata.name)
    return {
        _GATEWAYS: Requirement(API_VERSION, "InferenceGateway"),
        _ENDPOINTS: Requirement(API_VERSION, "ModelEndpoint", labels={CLUSTER: name}),
        _REQUESTS: Requirement(API, "CertificateRequest", namespace=SYSTEM_NAMESPACE, cluster=name),
    }


def cluster_hop(request: ComposeRequest[InferenceCluster]) -> ClusterHop:
    if is_guarded(request):
        return _guarded(request)
    if _is_left(request) and _is_used(request, _HTTPS):
        kept = {key: keep(seen) for key, seen in request.observed.items() if key in _KEYS}
        names = (_HTTP, _HTTPS) if _listens(request, _HTTPS) else (_HTTP,)
        return ClusterHop(kept, _listeners(request, names))
    return ClusterHop({}, _listeners(request, (_HTTP,)))


def _guarded(request: ComposeRequest[InferenceCluster]) -> ClusterHop:
    authority = _authority(request)
    known, lacking = _fleet_authorities(request)
    desired = _objects(request, known)
    listening = _listens(request, _HTTPS)
    secure = listening or all(_is_ready(request, key) for key in _GUARDS)
    before = request.resource.status.gateway
    waits = "" if before is not None and before.hostname else _waits(authority, known, lacking, listening=listening)
    plain = _listens(request, _HTTP) and (bool(waits) or _is_used(request, _HTTP))
    names = [name for name, wanted in ((_HTTP, plain), (_HTTPS, secure)) if wanted]
    hostname = hop_hostname(request.resource.metadata.name)
    return ClusterHop(desired, _listeners(request, names), None if waits else hostname, authority, waits)


def _waits(authority: str | None, known: tuple[str, ...] | None, lacking: tuple[str, ...], *, listening: bool) -> str:
    if known is None:
        return "InferenceGateways are not read yet"
    if lacking:
        return f"InferenceGateway {', '.join(lacking)} has no certificate; spec.mutualTLS asks for one"
    if not known:
        return "no InferenceGateway has a certificate; spec.mutualTLS asks for one"
    if authority is None:
        return "cert-manager on the cluster has not issued a CA, or it cannot be read"
    return "" if listening else "the gateway does not listen for HTTPS yet"


def _objects(request: ComposeRequest[InferenceCluster], known: tuple[str, ...] | None) -> dict[str, Desired]:
    cluster, hostname = request.resource.metadata.name, hop_hostname(request.resource.metadata.name)
    issued = {**authority_objects(_name(request)), _SERVER: server_certificate(_name(request), hostname)}
    made = {key: _desired(request, key, cluster, item, ReadyWhen.READY) for key, item in issued.items()}
    trusted, seen = _trust(known), request.observed.get(_CLIENTS)
    if trusted is None and seen is not None:
        made[_CLIENTS] = keep(seen)
    elif trusted is not None and (known or seen is not None):
        made[_CLIENTS] = _desired(request, _CLIENTS, cluster, trusted)
    if _CLIENTS in made:
        made[_VALIDATION] = _desired(request, _VALIDATION, cluster, _validation())
    return made


def _desired(
    request: ComposeRequest[InferenceCluster],
    key: str,
    cluster: str,
    item: Manifest,
    ready_when: ReadyWhen = ReadyWhen.CREATED,
) -> Desired:
    return Desired(Remote(ClusterName(cluster), item, ready_when), ready=_is_ready(request, key))


def _trust(known: tuple[str, ...] | None) -> Manifest | None:
    """The CAs of all fleet gateways. Of none, the policy is invalid, and Envoy Gateway serves nobody."""
    if known is None:
        return None
    return manifest("v1", "ConfigMap", _TRUST, namespace=SYSTEM_NAMESPACE, data={"ca.crt": "\n".join(known)})


def _validation() -> Manifest:
    target = {
        "group": "gateway.networking.k8s.io",
        "kind": "Gateway",
        "name": CLUSTER_GATEWAY,
        "sectionName": _HTTPS,
    }
    trusted = {"group": "", "kind": "ConfigMap", "name": _TRUST}
    return manifest(
        "gateway.envoyproxy.io/v1alpha1",
        "ClientTrafficPolicy",
        f"{CLUSTER_GATEWAY}-hop",
        namespace=SYSTEM_NAMESPACE,
        spec={"targetRefs": [target], "tls": {"clientValidation": {"caCertificateRefs": [trusted]}}},
    )


def _name(request: ComposeRequest[InferenceCluster]) -> str:
    seen = request.observed.get(AUTHORITY)
    return hop_name(CLUSTER_GATEWAY, request.resource.metadata, seen.manifest if seen is not None else None)


def _listeners(request: ComposeRequest[InferenceCluster], names: Iterable[str]) -> tuple[Manifest, ...]:
    certificate = {"group": "", "kind": "Secret", "name": server_name(_name(request))}
    served: Mapping[str, Manifest] = {
        _HTTP: {"port": 80, "protocol": "HTTP"},
        _HTTPS: {"port": 443, "protocol": "HTTPS", "tls": {"certificateRefs": [certificate]}},
    }
    allowed = {"allowedRoutes": {"namespaces": {"from": "All"}}}
    return tuple({"name": name, **served[name], **allowed} for name in names)


def _authority(request: ComposeRequest[InferenceCluster]) -> str | None:
    """The CA of the cluster's gateway. What was known stays while it cannot be read."""
    seen, before = request.observed.get(AUTHORITY), request.resource.status.gateway
    issued = issued_authority(seen.manifest, request.fetched(_REQUESTS) or ()) if seen is not None else None
    return trusted_authorities(issued, before.ca_certificate if before is not None else None)


def _fleet_authorities(request: ComposeRequest[InferenceCluster]) -> tuple[tuple[str, ...] | None, tuple[str, ...]]:
    """The CAs of the fleet's gateways, None until they are read; and the names of those that have none."""
    found = request.fetched(_GATEWAYS)
    if found is None:
        return None, ()
    issued = {gateway.metadata.name: gateway.status.client_ca_certificate for gateway in _readable(found)}
    known = {authority for authority in issued.values() if authority is not None}
    lacking = (name for name, authority in issued.items() if authority is None)
    return tuple(sorted(known)), tuple(sorted(lacking))


def _readable(found: Iterable[Manifest]) -> Iterable[InferenceGateway]:
    """Those that serve."""
    for item in found:
        try:
            gateway = decode(InferenceGateway, item)
        except InputError:
            continue
        if is_serving(gateway):
            yield gateway


def _is_left(request: ComposeRequest[InferenceCluster]) -> bool:
    """Whether objects of mutual TLS are there."""
    return any(key in request.observed for key in _KEYS)


def _is_used(request: ComposeRequest[InferenceCluster], scheme: str) -> bool:
    """Whether a ModelEndpoint of the cluster is called by the scheme, or may be."""
    found = request.fetched(_ENDPOINTS)
    return found is None or any(calls_replica(item, scheme) for item in found)


def _listens(request: ComposeRequest[InferenceCluster], name: str) -> bool:
    """Whether the Gateway has the listener, as last observed."""
    seen = request.observed.get(_GATEWAY)
    listeners = items_at(seen.manifest, "spec", "listeners") if seen is not None else []
    return any(text_at(each, "name") == name for each in listeners)


def _is_ready(request: ComposeRequest[InferenceCluster], key: str) -> bool:
    seen = request.observed.get(key)
    return seen is not None and seen.ready
