"""How Envoy asks a picker: external processing, switched on by the routes that lead to a pool with one.

Every listener has the filter, switched off. A route to a pool with a picker switches it on and says where the picker
is. The picker answers with the address of a pod in a header, by which the pool's cluster chooses; a header that names
nobody of the pool, and a request that is sent again, is for Envoy to choose. As gateways do it for an InferencePool.

Bodies are shown to the picker as they come. A request whose body is on its way to a picker that ends cannot go on
without it, so where any pod will do (`fails_open`) Envoy holds the body until the picker has answered.
"""

from modelplane.envoy.pools import PoolPicker
from modelplane.envoy.view import Resource

FILTER = "modelplane.epp.scheduling"
_DESTINATION = "x-gateway-destination-endpoint"
_EXTENSIONS = "type.googleapis.com/envoy.extensions"
_PROCESSING = f"{_EXTENSIONS}.filters.http.ext_proc.v3"
# Flow control may hold a request back; a picker that says nothing for so long is broken.
_PATIENCE = "60s"

OPTIONS = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions"
HTTP2: Resource = {
    OPTIONS: {"@type": f"type.googleapis.com/{OPTIONS}", "explicit_http_config": {"http2_protocol_options": {}}}
}
"""What a picker's cluster speaks."""

PICKED: Resource = {
    "policies": [
        {
            "typed_extension_config": {
                "name": "envoy.load_balancing_policies.override_host",
                "typed_config": {
                    "@type": f"{_EXTENSIONS}.load_balancing_policies.override_host.v3.OverrideHost",
                    "override_host_sources": [{"header": _DESTINATION}],
                    "fallback_policy": {
                        "policies": [
                            {
                                "typed_extension_config": {
                                    "name": "envoy.load_balancing_policies.least_request",
                                    "typed_config": {
                                        "@type": f"{_EXTENSIONS}.load_balancing_policies.least_request.v3.LeastRequest"
                                    },
                                }
                            }
                        ]
                    },
                },
            }
        }
    ]
}
"""Balancing among the members of a pool with a picker."""


def asking() -> Resource:
    """The filter of a listener, off unless a route switches it on."""
    return {
        "name": FILTER,
        "disabled": True,
        "typed_config": {
            "@type": f"{_PROCESSING}.ExternalProcessor",
            "grpc_service": {"envoy_grpc": {"cluster_name": "none"}},
            "status_on_error": {"code": "ServiceUnavailable"},
            "message_timeout": _PATIENCE,
            "processing_mode": _mode(holds=False),
        },
    }


def asked(picker: PoolPicker) -> Resource:
    """What of a route, or of one of its clusters, has this picker asked."""
    overrides = {
        "grpc_service": {"envoy_grpc": {"cluster_name": picker.name}},
        "failure_mode_allow": picker.fails_open,
        "processing_mode": _mode(holds=picker.fails_open),
    }
    return {FILTER: {"@type": f"{_PROCESSING}.ExtProcPerRoute", "overrides": overrides}}


def _mode(*, holds: bool) -> Resource:
    return {
        "request_header_mode": "SEND",
        "request_body_mode": "BUFFERED" if holds else "FULL_DUPLEX_STREAMED",
        "request_trailer_mode": "SKIP" if holds else "SEND",
        "response_header_mode": "SEND",
        "response_body_mode": "NONE",
        "response_trailer_mode": "SEND",
    }
