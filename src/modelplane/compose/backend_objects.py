"""The objects of Envoy Gateway by which a gateway reaches one endpoint: a Backend, and what it names.

A ModelEndpoint composes them beside the control plane, from its spec; a ModelService composes them on the clusters of
gateways, from its plan.
"""

from modelplane.api.names import make_name
from modelplane.api.objects import Json, Manifest, manifest
from modelplane.compose.endpoint_target import CredentialRef
from modelplane.compose.external import ExternalAddress
from modelplane.compose.hop_certificates import hop_hostname

_API = "gateway.envoyproxy.io/v1alpha1"
CREDENTIAL_KEY = "credential"
"""The key under which Envoy Gateway wants the whole value of the header."""


def backend(name: str, namespace: str, endpoints: list[Manifest], tls: Manifest | None = None) -> Json:
    spec: dict[str, object] = {"type": "Endpoints", "endpoints": endpoints, **({"tls": tls} if tls else {})}
    return manifest(_API, "Backend", name, namespace=namespace, spec=spec)


def called_at(target: ExternalAddress, addresses: tuple[str, ...], *, by_name: bool) -> list[Manifest]:
    """Addresses where there are any, unless it is called `by_name`. A host without a resolver has none."""
    numbers: list[Manifest] = [{"ip": {"address": each, "port": target.port}} for each in addresses]
    return [target.address()] if by_name or not numbers else numbers


def provider_tls(target: ExternalAddress) -> Manifest | None:
    """Checked against the system's certificates, where it is https."""
    if not target.secure:
        return None
    return {"wellKnownCACertificates": "System", **({"sni": target.host} if target.by_name else {})}


def hop_tls(backend_name: str, cluster: str) -> Manifest:
    """Checked against the CA of its cluster's gateway, in the ConfigMap beside the Backend."""
    trusted = {"group": "", "kind": "ConfigMap", "name": authority_name(backend_name)}
    return {"caCertificateRefs": [trusted], "sni": hop_hostname(cluster)}


def authority_name(backend_name: str) -> str:
    return make_name(backend_name, backend_name, "authority")


def authority_map(backend_name: str, namespace: str, authority: str) -> Json:
    return manifest("v1", "ConfigMap", authority_name(backend_name), namespace=namespace, data={"ca.crt": authority})


def credential_name(backend_name: str) -> str:
    return make_name(backend_name, backend_name, "credential")


def credential_filter(backend_name: str, namespace: str, wanted: CredentialRef) -> Json:
    """Adds the credential to requests. Routes of services name it."""
    secret = {"valueRef": {"name": credential_name(backend_name)}}
    injection = {"header": wanted.header, "overwrite": True, "credential": secret}
    return manifest(_API, "HTTPRouteFilter", backend_name, namespace=namespace, spec={"credentialInjection": injection})
