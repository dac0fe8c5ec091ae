"""How Envoy calls an endpoint picker: the ext_proc filter, enabled by routes to a pool that has one.

Every listener has the filter, disabled. A route to a pool with a picker enables it with the picker's cluster. The
picker returns the address of a pod in a header, by which the pool's cluster chooses. Envoy chooses itself when the
header names no member, and for retries.

Bodies are streamed to the picker. With FailOpen, Envoy buffers the body until the picker responded, because a request
whose body went to a picker that exits cannot continue.
"""

from modelplane.envoy.pools import PoolPicker
from modelplane.envoy.view import Resource

FILTER = "modelplane.epp.scheduling"
_DESTINATION = "x-gateway-destination-endpoint"
_EXTENSIONS = "type.googleapis.com/envoy.extensions"
_PROCESSING = f"{_EXTENSIONS}.filters.http.ext_proc.v3"
# Flow control may queue a request; a picker that does not respond for longer has failed.
_TIMEOUT = "60s"

OPTIONS = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions"
HTTP2: Resource = {
    OPTIONS: {"@type": f"type.googleapis.com/{OPTIONS}", "explicit_http_config": {"http2_protocol_options": {}}}
}
"""The protocol of a picker's cluster."""

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


def ext_proc_filter() -> Resource:
    """The ext_proc filter of a listener, disabled unless a route enables it."""
    return {
        "name": FILTER,
        "disabled": True,
        "typed_config": {
            "@type": f"{_PROCESSING}.ExternalProcessor",
            "grpc_service": {"envoy_grpc": {"cluster_name": "none"}},
            "status_on_error": {"code": "ServiceUnavailable"},
            "message_timeout": _TIMEOUT,
            "processing_mode": _mode(holds=False),
        },
    }


def ext_proc_override(picker: PoolPicker) -> Resource:
    """The per-route configuration that enables this picker."""
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
