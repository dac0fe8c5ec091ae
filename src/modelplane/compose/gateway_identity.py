"""The certificate that a fleet gateway shows to the gateways of clusters, where it has `spec.mutualTLS`.

cert-manager on the gateway's cluster issues and renews it. Its CA is in `status.clientCACertificate`, from which
every cluster with mutual TLS takes whom it lets in. It is there once the certificate is, and stays while it cannot be
read. When it is no longer asked for, the certificate stays until no replica is called by HTTPS.
"""

from dataclasses import replace

from modelplane.api.models import InferenceGateway
from modelplane.api.objects import API_VERSION, Manifest
from modelplane.compose.contract import ComposeRequest, Desired, Local, ReadyWhen, Requirement
from modelplane.compose.fleet_gateways import gateway_object_name, runs_on
from modelplane.compose.hop_certificates import (
    AUTHORITY,
    authority_objects,
    authority_request,
    calls_replica,
    client_certificate,
    client_name,
    hop_name,
    issued_authority,
    trusted_authorities,
)

_CLIENT = "hop-client"
_REQUEST = "hop-ca-request"
_ENDPOINTS = "hop-endpoints"


def has_identity(request: ComposeRequest[InferenceGateway]) -> bool:
    if request.embedded:
        return False
    return request.resource.spec.mutual_tls is not None or (_CLIENT in request.observed and _is_used(request))


def _is_used(request: ComposeRequest[InferenceGateway]) -> bool:
    """Whether a replica is called by HTTPS, or may be."""
    found = request.fetched(_ENDPOINTS)
    return found is None or any(calls_replica(item, "https") for item in found)


def identity_desired(request: ComposeRequest[InferenceGateway]) -> dict[str, Desired]:
    """The objects of cert-manager."""
    if not has_identity(request):
        return {}
    name = _name(request)
    made = {**authority_objects(name), _CLIENT: client_certificate(name)}
    return {key: Desired(Local(item, ReadyWhen.READY), ready=_is_ready(request, key)) for key, item in made.items()}


def identity_requirements(request: ComposeRequest[InferenceGateway]) -> dict[str, Requirement]:
    """The CertificateRequest of the CA, once it has one."""
    seen = request.observed.get(AUTHORITY)
    wanted = authority_request(seen.manifest) if seen is not None and has_identity(request) else None
    cluster = runs_on(request.resource, embedded=request.embedded)
    required = {} if wanted is None else {_REQUEST: replace(wanted, cluster=cluster)}
    if request.resource.spec.mutual_tls is None and _CLIENT in request.observed:
        required[_ENDPOINTS] = Requirement(API_VERSION, "ModelEndpoint")
    return required


def backend_tls(request: ComposeRequest[InferenceGateway]) -> Manifest:
    """The part of the Gateway that names the certificate, once there is one: without it a reference is unresolved."""
    name = hop_secret(request)
    if not name:
        return {}
    return {"tls": {"backend": {"clientCertificateRef": {"group": "", "kind": "Secret", "name": name}}}}


def hop_secret(request: ComposeRequest[InferenceGateway]) -> str:
    """The Secret with the certificate; empty until there is one."""
    return client_name(_name(request)) if client_authorities(request) is not None else ""


def client_authorities(request: ComposeRequest[InferenceGateway]) -> str | None:
    """The CA of the certificate. What was known stays while it cannot be read."""
    if not has_identity(request):
        return None
    known, seen = request.resource.status.client_ca_certificate, request.observed.get(AUTHORITY)
    issued = issued_authority(seen.manifest, request.fetched(_REQUEST) or ()) if seen is not None else None
    return trusted_authorities(issued, known) if known or _is_ready(request, _CLIENT) else None


def awaits_identity(request: ComposeRequest[InferenceGateway]) -> bool:
    """Whether cert-manager on another cluster has yet to issue it."""
    on_cluster = runs_on(request.resource, embedded=request.embedded) is not None
    return on_cluster and has_identity(request) and client_authorities(request) is None


def identity_note(request: ComposeRequest[InferenceGateway]) -> str:
    """What is to be said of it beside the gateway's address."""
    if request.resource.spec.mutual_tls is None:
        return ""
    if request.embedded:
        return "; spec.mutualTLS: this control plane issues certificates itself, with modelplane up --mutual-tls"
    return "" if client_authorities(request) else "; spec.mutualTLS: cert-manager has not issued the certificate yet"


def _name(request: ComposeRequest[InferenceGateway]) -> str:
    seen = request.observed.get(AUTHORITY)
    gateway = gateway_object_name(request.resource)
    return hop_name(gateway, request.resource.metadata, seen.manifest if seen is not None else None)


def _is_ready(request: ComposeRequest[InferenceGateway], key: str) -> bool:
    seen = request.observed.get(key)
    return seen is not None and seen.ready
