"""One listener for each gateway, all of them served from one table of routes.

Each listener sets its own name in a header before routing, and the table selects the gateway's virtual host by that
header. One table for all gateways is one file to watch and one update to wait for. The header replaces the client's and
never leaves Envoy.
"""

from modelplane.envoy.ext_proc import ext_proc_filter
from modelplane.envoy.retries import UNSERVED_HEADER
from modelplane.envoy.view import GatewayView, Resource, TlsCertificate

GATEWAY_HEADER = "x-modelplane-gateway"
ROUTES_NAME = "routes"
STAT_PREFIX = "gateway"
ACCESS_LOG = "access.log"

# A stream may pause this long between two chunks before Envoy gives it up.
_STREAM_IDLE = "300s"

# Envoy's flags for what went wrong after the request had been sent on.
_SENT = ["UC", "UR", "LR", "UT", "UPE", "SI", "DPE", "DT", "UMSDR"]
_UNSERVED: Resource = {
    "headers_to_add": [
        {"header": {"key": UNSERVED_HEADER, "value": "true"}, "append_action": "OVERWRITE_IF_EXISTS_OR_ADD"}
    ]
}

_EXTENSIONS = "type.googleapis.com/envoy.extensions"


def listener(view: GatewayView, routes_source: Resource) -> Resource:
    manager = {
        "name": "envoy.filters.network.http_connection_manager",
        "typed_config": _connection_manager(view, routes_source),
    }
    plain: Resource = {"filters": [manager]}
    chains = {"filter_chains": [plain]} if view.identity is None else _chains(plain, view.identity)
    return {
        "@type": "type.googleapis.com/envoy.config.listener.v3.Listener",
        "name": view.name,
        "address": {"socket_address": {"address": view.host, "port_value": view.port}},
        # Shared ports would let two planes answer on one address without either noticing.
        "enable_reuse_port": False,
        **chains,
    }


def _chains(plain: Resource, identity: TlsCertificate) -> Resource:
    """One chain for clients that begin with TLS, and one for those that do not."""
    pair = {
        "certificate_chain": {"inline_string": identity.certificate},
        "private_key": {"inline_string": identity.key},
    }
    tls = {
        "name": "envoy.transport_sockets.tls",
        "typed_config": {
            "@type": f"{_EXTENSIONS}.transport_sockets.tls.v3.DownstreamTlsContext",
            "common_tls_context": {"tls_certificates": [pair], "alpn_protocols": ["h2", "http/1.1"]},
        },
    }
    inspector = {
        "name": "envoy.filters.listener.tls_inspector",
        "typed_config": {"@type": f"{_EXTENSIONS}.filters.listener.tls_inspector.v3.TlsInspector"},
    }
    encrypted = {"filter_chain_match": {"transport_protocol": "tls"}, **plain, "transport_socket": tls}
    return {"listener_filters": [inspector], "filter_chains": [encrypted, plain]}


def _connection_manager(view: GatewayView, routes_source: Resource) -> Resource:
    return {
        "@type": f"{_EXTENSIONS}.filters.network.http_connection_manager.v3.HttpConnectionManager",
        "stat_prefix": STAT_PREFIX,
        "rds": {"route_config_name": ROUTES_NAME, "config_source": routes_source},
        "use_remote_address": True,
        "preserve_external_request_id": True,
        "normalize_path": True,
        "stream_idle_timeout": _STREAM_IDLE,
        "early_header_mutation_extensions": [_stamp(view.name)],
        "local_reply_config": _local_replies(),
        "access_log": [_access_log(view.name)],
        "http_filters": [
            ext_proc_filter(),
            {
                "name": "envoy.filters.http.router",
                "typed_config": {"@type": f"{_EXTENSIONS}.filters.http.router.v3.Router"},
            },
        ],
    }


def _stamp(gateway: str) -> Resource:
    header = {"header": {"key": GATEWAY_HEADER, "value": gateway}, "append_action": "OVERWRITE_IF_EXISTS_OR_ADD"}
    return {
        "name": "gateway-name",
        "typed_config": {
            "@type": f"{_EXTENSIONS}.http.early_header_mutation.header_mutation.v3.HeaderMutation",
            "mutations": [{"append": header}],
        },
    }


def _local_replies() -> Resource:
    """Envoy's own responses, in OpenAI's error format, with UNSERVED_HEADER if no engine received the request."""
    missing = "No model service at %REQ(:METHOD)% %PATH(NQ:ORIG_OR_PATH)%."
    failed = _error("%LOCAL_REPLY_BODY%", "server_error", "service_unavailable")
    sent: Resource = {"filter": {"response_flag_filter": {"flags": _SENT}}, "body_format_override": failed}
    return {
        "mappers": [
            _reply("EQ", 404, _error(missing, "invalid_request_error", "unknown_url")) | _UNSERVED,
            _reply("EQ", 504, _error("%LOCAL_REPLY_BODY%", "server_error", "timeout")),
            sent,
            _reply("GE", 500, failed) | _UNSERVED,
        ],
        "body_format": _error("%LOCAL_REPLY_BODY%", "invalid_request_error", "bad_request"),
    }


def _reply(comparison: str, status: int, body: Resource) -> Resource:
    value = {"default_value": status, "runtime_key": "modelplane.unset"}
    return {
        "filter": {"status_code_filter": {"comparison": {"op": comparison, "value": value}}},
        "body_format_override": body,
    }


def _error(message: str, kind: str, code: str) -> Resource:
    return {"json_format": {"error": {"message": message, "type": kind, "param": None, "code": code}}}


def _access_log(gateway: str) -> Resource:
    """The path, the upstream, the status and the duration. No header or body of the client, and no query string."""
    return {
        "name": "envoy.access_loggers.file",
        "typed_config": {
            "@type": f"{_EXTENSIONS}.access_loggers.file.v3.FileAccessLog",
            "path": ACCESS_LOG,
            "log_format": {
                "json_format": {
                    "time": "%START_TIME%",
                    "gateway": gateway,
                    "method": "%REQ(:METHOD)%",
                    "path": "%PATH(NQ:ORIG_OR_PATH)%",
                    "status": "%RESPONSE_CODE%",
                    "flags": "%RESPONSE_FLAGS%",
                    "pool": "%UPSTREAM_CLUSTER%",
                    "upstream": "%UPSTREAM_HOST%",
                    "duration_ms": "%DURATION%",
                    "request_id": "%REQ(X-REQUEST-ID)%",
                }
            },
        },
    }
