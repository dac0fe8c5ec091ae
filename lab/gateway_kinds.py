"""The definitions of Envoy Gateway that gateways of the fleet are made of, as its chart has them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lab.components import ENVOY_GATEWAY

if TYPE_CHECKING:
    from lab.client import Api
    from lab.manifests import Sources

_FOLDER = "charts/gateway-helm/charts/crds/crds/generated"
# The core lab's own gateway reads backends and policies of clients; the API server judges the rest.
_PLURALS = (
    *("backends", "backendtrafficpolicies", "securitypolicies"),
    *("clienttrafficpolicies", "envoyextensionpolicies", "envoyproxies", "httproutefilters"),
)


async def envoy_gateway_kinds(api: Api, sources: Sources) -> None:
    for plural in _PLURALS:
        await api.apply_all(sources.read(ENVOY_GATEWAY, f"{_FOLDER}/gateway.envoyproxy.io_{plural}.yaml"))
