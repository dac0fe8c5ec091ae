"""One listener for each gateway, all of them served from one table of routes.

Each listener sets its own name in a header before routing, and the table selects the gateway's virtual host by that
header. One table for all gateways is one file to watch and one update to wait for. The header replaces the client's and
never leaves Envoy.
"""

from modelplane.envoy.callers import caller_filters
from modelplane.envoy.ext_proc import ext_proc_filter
from modelplane.envoy.fleet_router import (
    ROUTER_ANSWERS,
    door_name,
    inner_address,
    inner_name,
    router_filter,
    unless_routed,
)
from modelplane.envoy.renaming import renaming_filter
from modelplane.envoy.retries import UNSERVED_HEADER
from modelplane.envoy.service_pools import provider_socket
from modelplane.envoy.service_routes import MODEL_METADATA, RETRY_AFTER_S, model_filter
from modelplane.envoy.view import GatewayView, Resource

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

_UNSERVED_FOR_NOW: Resource = {
    "headers_to_add": [
        {"header": {"key": UNSERVED_HEADER, "value": "true"}, "append_action": "OVERWRITE_IF_EXISTS_OR_ADD"},
        {"header": {"key": "retry-after", "value": str(RETRY_AFTER_S)}, "append_action": "OVERWRITE_IF_EXISTS_OR_ADD"},
    ]
}

_EXTENSIONS = "type.googleapis.com/envoy.extensions"
_AS_IT_IS: Resource = {
    "text_format_source": {"inline_string": "%LOCAL_REPLY_BODY%"},
    "content_type": "application/json",
}
_BY_MODEL: Resource = {"regex": "(/anthropic)?/v1/.*"}
_MESSAGES: Resource = {"header_filter": {"header": {"name": ":path", "string_match": {"contains": "/v1/messages"}}}}


def listeners(view: GatewayView, routes_source: Resource) -> dict[str, Resource]:
    """The listeners of a gateway by name: one, the one to providers where it has services, and a router's inner one."""
    found = {view.name: listener(view, routes_source)}
    if view.plans is not None:
        found[providers_name(view.name)] = _provider_listener(view, routes_source)
    if view.router is not None:
        found[inner_name(view.name)] = _inner_listener(view, routes_source)
    return found


def providers_name(gateway: str) -> str:
    """The listener that leads to providers, and its virtual host."""
    return f"{gateway}.providers"


def listener(view: GatewayView, routes_source: Resource) -> Resource:
    host = view.name if view.router is None else door_name(view.name)
    config = _connection_manager(view.name, host, routes_source)
    if view.plans is not None:
        reads = [] if view.router is not None else [model_filter(), renaming_filter()]
        config |= {"http_filters": [*caller_filters(view.callers), *reads, *_filters()]}
    plain: Resource = {"filters": [_manager(config)]}
    chains = _chains(plain, view) if view.identities else {"filter_chains": [plain]}
    return {
        "@type": "type.googleapis.com/envoy.config.listener.v3.Listener",
        "name": view.name,
        "address": {"socket_address": {"address": view.host, "port_value": view.port}},
        # Shared ports would let two planes answer on one address without either noticing.
        "enable_reuse_port": False,
        **chains,
    }


def _manager(config: Resource) -> Resource:
    return {"name": "envoy.filters.network.http_connection_manager", "typed_config": config}


def _inner_listener(view: GatewayView, routes_source: Resource) -> Resource:
    """What comes here passed the gateway's own listener: its headers are trusted, and it is not logged twice."""
    config = _connection_manager(view.name, view.name, routes_source)
    config |= {
        "use_remote_address": False,
        "skip_xff_append": True,
        "generate_request_id": False,
        "access_log": [],
        "local_reply_config": {**_local_replies(), "mappers": [ROUTER_ANSWERS, *_mappers()]},
        "http_filters": [
            router_filter(view.name),
            unless_routed(model_filter()),
            unless_routed(renaming_filter()),
            *_filters(suppress_envoy_headers=True),
        ],
    }
    return {
        "@type": "type.googleapis.com/envoy.config.listener.v3.Listener",
        "name": inner_name(view.name),
        "address": inner_address(view.name),
        "filter_chains": [{"filters": [_manager(config)]}],
    }


def _provider_listener(view: GatewayView, routes_source: Resource) -> Resource:
    """What comes here passed the gateway's own listener, and is not logged twice."""
    config = _connection_manager(view.name, providers_name(view.name), routes_source)
    config |= {
        "use_remote_address": False,
        "skip_xff_append": True,
        "generate_request_id": False,
        "access_log": [],
        "http_filters": [renaming_filter(), *_filters(suppress_envoy_headers=True)],
    }
    return {
        "@type": "type.googleapis.com/envoy.config.listener.v3.Listener",
        "name": providers_name(view.name),
        "address": {"pipe": {"path": provider_socket(view.name), "mode": 0o600}},
        "filter_chains": [{"filters": [_manager(config)]}],
    }


def _chains(plain: Resource, view: GatewayView) -> Resource:
    """One chain for clients that begin with TLS, and one for those that do not. Envoy chooses a certificate by name.

    Where clients must show a certificate there is no other chain: who begins otherwise is not let in.
    """
    pairs = [
        {
            "certificate_chain": {"inline_string": identity.certificate},
            "private_key": {"inline_string": identity.key},
        }
        for identity in view.identities
    ]
    common: Resource = {"tls_certificates": pairs, "alpn_protocols": ["h2", "http/1.1"]}
    checked: Resource = {}
    if view.client_authority:
        common["validation_context"] = {"trusted_ca": {"inline_string": view.client_authority}}
        checked = {"require_client_certificate": True}
    tls = {
        "name": "envoy.transport_sockets.tls",
        "typed_config": {
            "@type": f"{_EXTENSIONS}.transport_sockets.tls.v3.DownstreamTlsContext",
            "common_tls_context": common,
            **checked,
        },
    }
    inspector = {
        "name": "envoy.filters.listener.tls_inspector",
        "typed_config": {"@type": f"{_EXTENSIONS}.filters.listener.tls_inspector.v3.TlsInspector"},
    }
    encrypted = {"filter_chain_match": {"transport_protocol": "tls"}, **plain, "transport_socket": tls}
    chains = [encrypted] if view.client_authority else [encrypted, plain]
    return {"listener_filters": [inspector], "filter_chains": chains}


def _connection_manager(gateway: str, virtual_host: str, routes_source: Resource) -> Resource:
    return {
        "@type": f"{_EXTENSIONS}.filters.network.http_connection_manager.v3.HttpConnectionManager",
        "stat_prefix": STAT_PREFIX,
        "rds": {"route_config_name": ROUTES_NAME, "config_source": routes_source},
        "use_remote_address": True,
        "preserve_external_request_id": True,
        "normalize_path": True,
        "stream_idle_timeout": _STREAM_IDLE,
        "early_header_mutation_extensions": [_stamp(virtual_host)],
        "local_reply_config": _local_replies(),
        "access_log": [_access_log(gateway)],
        "http_filters": _filters(),
    }


def _filters(**options: object) -> list[Resource]:
    router = {"@type": f"{_EXTENSIONS}.filters.http.router.v3.Router", **options}
    return [ext_proc_filter(), {"name": "envoy.filters.http.router", "typed_config": router}]


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
    """Envoy's own responses in the error format of the client's API, with UNSERVED_HEADER if no engine received it."""
    return {
        "mappers": _mappers(),
        "body_format": _error("%LOCAL_REPLY_BODY%", "invalid_request_error", "bad_request"),
    }


def _mappers() -> list[Resource]:
    missing = "No model service at %REQ(:METHOD)% %PATH(NQ:ORIG_OR_PATH)%."
    unknown = f"The model %DYNAMIC_METADATA({MODEL_METADATA}:model)% does not exist."
    body = "%LOCAL_REPLY_BODY%"
    sent: Resource = {"response_flag_filter": {"flags": _SENT}}
    by_model: Resource = {"header_filter": {"header": {"name": ":path", "string_match": {"safe_regex": _BY_MODEL}}}}
    return [
        {"filter": _status("LE", 299), "body_format_override": _AS_IT_IS},
        *_replies([_status("EQ", 401)], body, ("invalid_request_error", "invalid_api_key"), "authentication_error"),
        *_replies([_status("EQ", 403)], body, ("invalid_request_error", "forbidden"), "permission_error"),
        *_replies(
            [_status("EQ", 404), by_model],
            unknown,
            ("invalid_request_error", "model_not_found"),
            "not_found_error",
            _UNSERVED,
        ),
        *_replies(
            [_status("EQ", 404)], missing, ("invalid_request_error", "unknown_url"), "not_found_error", _UNSERVED
        ),
        *_replies([_status("EQ", 504)], body, ("server_error", "timeout"), "timeout_error"),
        *_replies([sent], body, ("server_error", "service_unavailable"), "api_error"),
        *_replies(
            [_status("EQ", 503)], body, ("server_error", "service_unavailable"), "overloaded_error", _UNSERVED_FOR_NOW
        ),
        *_replies([_status("GE", 500)], body, ("server_error", "service_unavailable"), "api_error", _UNSERVED),
    ]


def _replies(
    filters: list[Resource], message: str, openai: tuple[str, str], anthropic: str, more: Resource | None = None
) -> list[Resource]:
    """One reply in the formats of both APIs: requests to /v1/messages are Anthropic's."""
    other = {"json_format": {"type": "error", "error": {"type": anthropic, "message": message}}}
    return [
        {"filter": _all([*filters, _MESSAGES]), "body_format_override": other, **(more or {})},
        {"filter": _all(filters), "body_format_override": _error(message, *openai), **(more or {})},
    ]


def _all(filters: list[Resource]) -> Resource:
    return filters[0] if len(filters) == 1 else {"and_filter": {"filters": filters}}


def _status(comparison: str, status: int) -> Resource:
    value = {"default_value": status, "runtime_key": "modelplane.unset"}
    return {"status_code_filter": {"comparison": {"op": comparison, "value": value}}}


def _error(message: str, kind: str, code: str) -> Resource:
    return {"json_format": {"error": {"message": message, "type": kind, "param": None, "code": code}}}


def _access_log(gateway: str) -> Resource:
    """The path, the upstream, the status and the times. No header or body of the client, and no query string."""
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
                    "first_byte_ms": "%RESPONSE_DURATION%",
                    "duration_ms": "%DURATION%",
                    # Set by the fleet gateway, whatever the client sent.
                    "replica": "%REQ(MODELPLANE-REPLICA)%",
                    "request_id": "%REQ(X-REQUEST-ID)%",
                }
            },
        },
    }
