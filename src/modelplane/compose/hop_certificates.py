"""The certificates of the hop between gateways, as objects of cert-manager.

Every gateway has an authority of its own, which signs one certificate. The authority's key stays in a Secret beside its
gateway. What travels is the authority's certificate: it is read from the CertificateRequest, which never has a key.

cert-manager leaves Secrets behind, and a Certificate that finds its Secret there makes no CertificateRequest. So the
names are new each time (`hop_name`) that mutual TLS is asked for, and stay while it is.
"""

import base64
from collections.abc import Iterable
from typing import Final

from modelplane.api.labels import CLUSTER_GATEWAY, SYSTEM_NAMESPACE
from modelplane.api.meta import ObjectMeta
from modelplane.api.names import MAX_LABEL, make_name
from modelplane.api.objects import Manifest, int_at, manifest, name_of, text_at
from modelplane.compose.contract import Requirement

API: Final = "cert-manager.io/v1"
_AUTHORITY_SUFFIX: Final = "-hop-ca"
AUTHORITY: Final = "hop-ca"
"""The key of the authority's Certificate."""
_DOMAIN: Final = "modelplane.internal"
_AUTHORITY_DURATION: Final = "87600h"
_LEAF: Final = {"duration": "2160h", "renewBefore": "720h"}
_KEY: Final = {"algorithm": "ECDSA", "size": 256}
_BEGIN: Final = "-----BEGIN CERTIFICATE-----"
_MOST_AUTHORITIES: Final = 2
_MOST_BYTES: Final = 16_384


def hop_name(gateway: str, owner: ObjectMeta, certificate: Manifest | None) -> str:
    """How the names of a gateway's certificates begin; `certificate` is that of its authority, once observed."""
    known = name_of(certificate or {}).removesuffix(_AUTHORITY_SUFFIX)
    return known or make_name(gateway, gateway, owner.uid or "", str(owner.generation or 0))


def authority_objects(name: str) -> dict[str, Manifest]:
    """The authority of a gateway whose names begin so, by key."""
    root, authority, issuer = f"{name}-hop-root", f"{name}{_AUTHORITY_SUFFIX}", _issuer_name(name)
    # The same key signs after a renewal, so what it signed before stays valid.
    certificate = {
        "isCA": True,
        "commonName": authority[:MAX_LABEL],
        "secretName": authority,
        "duration": _AUTHORITY_DURATION,
        "privateKey": {**_KEY, "rotationPolicy": "Never"},
        "issuerRef": _issuer_ref(root),
    }
    return {
        "hop-root": _object("Issuer", root, {"selfSigned": {}}),
        AUTHORITY: _object("Certificate", authority, certificate),
        "hop-issuer": _object("Issuer", issuer, {"ca": {"secretName": authority}}),
    }


def client_certificate(name: str) -> Manifest:
    """What a fleet gateway shows. Its Secret has the same name."""
    return _leaf(name, client_name(name), "client auth", f"{name}.{_DOMAIN}")


def server_certificate(name: str, hostname: str) -> Manifest:
    """What a cluster's gateway shows. Its Secret has the same name."""
    return _leaf(name, server_name(name), "server auth", hostname)


def client_name(name: str) -> str:
    return f"{name}-hop-client"


def server_name(name: str) -> str:
    return f"{name}-hop-server"


def hop_hostname(cluster: str) -> str:
    """The name in the certificate of a cluster's gateway. Nobody looks it up."""
    return f"{cluster}.{CLUSTER_GATEWAY}.{_DOMAIN}"


def _leaf(name: str, leaf: str, usage: str, hostname: str) -> Manifest:
    spec = {
        "secretName": leaf,
        "dnsNames": [hostname],
        **_LEAF,
        "privateKey": {**_KEY, "rotationPolicy": "Always"},
        "usages": ["digital signature", usage],
        "issuerRef": _issuer_ref(_issuer_name(name)),
    }
    return _object("Certificate", leaf, spec)


def _issuer_name(name: str) -> str:
    return f"{name}-hop"


def _issuer_ref(name: str) -> Manifest:
    return {"group": "cert-manager.io", "kind": "Issuer", "name": name}


def _object(kind: str, name: str, spec: Manifest) -> Manifest:
    return manifest(API, kind, name, namespace=SYSTEM_NAMESPACE, spec=spec)


def calls_replica(endpoint: Manifest, scheme: str) -> bool:
    """Whether a ModelEndpoint is a replica's, and is called by the scheme or was a moment ago."""
    addresses = (text_at(endpoint, *path) for path in (("spec", "url"), ("status", "origin")))
    return bool(text_at(endpoint, "spec", "replica", "name")) and any(
        address.startswith(f"{scheme}://") for address in addresses
    )


def authority_request(certificate: Manifest) -> Requirement | None:
    """The CertificateRequest of an observed Certificate; None until it is issued."""
    revision = int_at(certificate, "status", "revision")
    if not revision:
        return None
    name = f"{name_of(certificate)}-{revision}"
    return Requirement(API, "CertificateRequest", name=name, namespace=SYSTEM_NAMESPACE)


def issued_authority(certificate: Manifest, requests: Iterable[Manifest]) -> str | None:
    """The certificate of the authority, in PEM; None where none of the requests is its newest."""
    wanted = authority_request(certificate)
    for item in requests:
        if wanted is not None and name_of(item) == wanted.name:
            return _pem(text_at(item, "status", "certificate"))
    return None


def _pem(encoded: str) -> str | None:
    try:
        text = base64.b64decode(encoded, validate=True).decode("ascii").strip()
    except ValueError:
        return None
    # A field that may hold anything must never carry a key into a status.
    return text if text.startswith(_BEGIN) and "PRIVATE KEY" not in text and len(text) <= _MOST_BYTES else None


def trusted_authorities(issued: str | None, known: str | None) -> str | None:
    """The newest authority and the one before it: what that one signed is shown until it is renewed."""
    found = [*([issued] if issued else []), *_split(known or "")]
    kept = list(dict.fromkeys(found))[:_MOST_AUTHORITIES]
    return "\n".join(kept) if kept else None


def _split(bundle: str) -> list[str]:
    return [f"{_BEGIN}{part}".strip() for part in bundle.split(_BEGIN)[1:]]
