"""TLS of the lab's own Gateway controller: a listener's certificate, and whom a ClientTrafficPolicy lets in. Pure."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

from lab.client import Manifest, items, name_of, namespace_of, text, value

if TYPE_CHECKING:
    from collections.abc import Iterable

Json = dict[str, object]
_TLS = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext"


def transport_socket(
    gateway: Manifest,
    listener: Manifest,
    secrets: Iterable[Manifest],
    trust: tuple[Iterable[Manifest], Iterable[Manifest]],
) -> Json | None:
    """None for a listener that cannot serve: without a certificate, or with a policy that trusts nobody.

    `trust` has the ClientTrafficPolicies and the ConfigMaps.
    """
    names = [text(each, "name") for each in items(listener, "tls", "certificateRefs")]
    pairs = [each for each in secrets if name_of(each) in names and namespace_of(each) == namespace_of(gateway)]
    if not pairs:
        return None
    context: Json = {"tls_certificates": [_pair(each) for each in pairs], "alpn_protocols": ["h2", "http/1.1"]}
    policies, config_maps = trust
    policy = next((each for each in policies if _is_for(each, gateway, listener)), None)
    if policy is not None:
        trusted = _trusted(policy, config_maps)
        if not trusted:
            return None
        context["validation_context"] = {"trusted_ca": {"inline_string": trusted}}
    config = {"@type": _TLS, "common_tls_context": context, "require_client_certificate": policy is not None}
    return {"name": "envoy.transport_sockets.tls", "typed_config": config}


def _pair(secret: Manifest) -> Json:
    chain, key = (base64.b64decode(text(secret, "data", name)).decode() for name in ("tls.crt", "tls.key"))
    return {"certificate_chain": {"inline_string": chain}, "private_key": {"inline_string": key}}


def _is_for(policy: Manifest, gateway: Manifest, listener: Manifest) -> bool:
    wanted = ("Gateway", name_of(gateway), text(listener, "name"))
    targets = items(policy, "spec", "targetRefs")
    named = [(text(each, "kind"), text(each, "name"), text(each, "sectionName")) for each in targets]
    checks = value(policy, "spec", "tls", "clientValidation") is not None
    return checks and namespace_of(policy) == namespace_of(gateway) and wanted in named


def _trusted(policy: Manifest, config_maps: Iterable[Manifest]) -> str:
    names = [text(each, "name") for each in items(policy, "spec", "tls", "clientValidation", "caCertificateRefs")]
    found = [each for each in config_maps if name_of(each) in names and namespace_of(each) == namespace_of(policy)]
    return "\n".join(text(each, "data", "ca.crt") for each in found)
