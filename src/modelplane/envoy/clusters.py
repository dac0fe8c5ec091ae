"""Envoy's view of one pool of addresses.

The addresses are part of the cluster and not a file of their own: Envoy opens one inotify instance a watched file,
of which a user has 128 in all, so a file per pool would end at a hundred pools. Replacing a cluster loses nothing;
streams on the old one run to their end.
"""

from collections.abc import Iterable
from ssl import get_default_verify_paths

from modelplane.envoy.ext_proc import HTTP2, PICKED
from modelplane.envoy.pools import EnvoyCluster, PoolMember, PoolPicker, UpstreamTls
from modelplane.envoy.view import Resource

_METADATA = "modelplane"
_FILTERS = "type.googleapis.com/envoy.extensions.filters.http"
_OPTIONS = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions"
_CONNECT_TIMEOUT = "2s"
# Envoy's own defaults are 1,024 requests and 3 retries at a time, which a burst against one pool exceeds.
_LIMITS: Resource = {
    "max_connections": 65_536,
    "max_pending_requests": 65_536,
    "max_requests": 65_536,
    "max_retries": 1_024,
}

EJECTION: Resource = {
    "consecutive_5xx": 5,
    "enforcing_consecutive_5xx": 100,
    "consecutive_gateway_failure": 3,
    "enforcing_consecutive_gateway_failure": 100,
    "enforcing_success_rate": 0,
    "enforcing_failure_percentage": 0,
    "interval": "1s",
    "base_ejection_time": "5s",
    "max_ejection_time": "60s",
    "max_ejection_percent": 100,
}
"""Connection failures, silence and 502 to 504 eject after 3 in a row, other 5xx after 5: an engine's 500 may be the
fault of the request."""
_WHOLE_TIER = 100_000
"""In percent: one of a thousand members is a whole tier."""


def cluster(pool: EnvoyCluster) -> Resource:
    names = sorted({name for member in pool.members for name, _ in member.headers})
    return {
        "@type": "type.googleapis.com/envoy.config.cluster.v3.Cluster",
        "name": pool.name,
        "type": "STATIC",
        "connect_timeout": _CONNECT_TIMEOUT,
        **_balancing(pool),
        "circuit_breakers": {"thresholds": [_limits(pool)]},
        "load_assignment": {"cluster_name": pool.name, "endpoints": _tiers(pool), **_whole_tiers(pool)},
        **_ejection(pool),
        **({"typed_extension_protocol_options": _protocol(names)} if names else {}),
        **({"transport_socket": _tls(pool, pool.tls)} if pool.tls is not None else {}),
    }


def picker_cluster(picker: PoolPicker) -> Resource:
    return {**cluster(EnvoyCluster(picker.name, picker.members)), "typed_extension_protocol_options": HTTP2}


def _balancing(pool: EnvoyCluster) -> Resource:
    if pool.picker is not None:
        return {"load_balancing_policy": PICKED}
    return {"lb_policy": "ROUND_ROBIN" if _has_shares(pool) else "LEAST_REQUEST"}


def _limits(pool: EnvoyCluster) -> Resource:
    if pool.retries is None:
        return _LIMITS
    budget = {
        "budget_percent": {"value": pool.retries.budget_percent},
        "min_retry_concurrency": pool.retries.min_concurrency,
    }
    return {**{name: limit for name, limit in _LIMITS.items() if name != "max_retries"}, "retry_budget": budget}


def _tiers(pool: EnvoyCluster) -> list[Resource]:
    return [
        {
            **({"priority": number} if number else {}),
            "lb_endpoints": [_endpoint(member) for member in pool.members if member.tier == number],
        }
        for number in _numbers(pool)
    ] or [{"lb_endpoints": []}]


def _whole_tiers(pool: EnvoyCluster) -> Resource:
    """A tier gets all requests while any of its members can answer. By itself Envoy spills below 72 % of them."""
    return {"policy": {"overprovisioning_factor": _WHOLE_TIER}} if len(_numbers(pool)) > 1 else {}


def _ejection(pool: EnvoyCluster) -> Resource:
    """Members that fail get nothing for a while, longer each time. Requests never go to a tier that is known to fail.

    The only member of all is not ejected: nobody else could answer.
    """
    if pool.retries is None or len(pool.members) == 1:
        return {}
    return {"outlier_detection": EJECTION, "common_lb_config": {"healthy_panic_threshold": {"value": 0}}}


def _has_shares(pool: EnvoyCluster) -> bool:
    """Whether members of a tier have different weights. LEAST_REQUEST would not respect them."""
    return any(len({member.weight for member in pool.members if member.tier == tier}) > 1 for tier in _numbers(pool))


def _numbers(pool: EnvoyCluster) -> list[int]:
    return sorted({member.tier for member in pool.members})


def _tls(pool: EnvoyCluster, tls: UpstreamTls) -> Resource:
    """The server must prove its name, or its address, by the authorities that this machine trusts."""
    wanted = [tls.sni] if tls.sni is not None else [member.host for member in pool.members]
    names = [
        {"san_type": "DNS" if tls.sni is not None else "IP_ADDRESS", "matcher": {"exact": name}} for name in wanted
    ]
    validation: Resource = {"match_typed_subject_alt_names": names}
    authorities = get_default_verify_paths().cafile
    if authorities is not None:
        validation["trusted_ca"] = {"filename": authorities}
    return {
        "name": "envoy.transport_sockets.tls",
        "typed_config": {
            "@type": "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext",
            **({"sni": tls.sni} if tls.sni is not None else {}),
            "common_tls_context": {"validation_context": validation},
        },
    }


def _endpoint(member: PoolMember) -> Resource:
    endpoint: Resource = {"endpoint": {"address": _address(member)}}
    if member.weight != 1:
        endpoint["load_balancing_weight"] = member.weight
    if member.headers:
        endpoint["metadata"] = {"filter_metadata": {_METADATA: dict(member.headers)}}
    return endpoint


def _address(member: PoolMember) -> Resource:
    if not member.port:
        return {"pipe": {"path": member.host}}
    return {"socket_address": {"address": member.host, "port_value": member.port}}


def _protocol(names: Iterable[str]) -> Resource:
    """Sets the headers of the member that a try goes to. Headers set once per request would be wrong on a retry."""
    mutations = [
        {
            "append": {
                "header": {"key": name, "value": f"%UPSTREAM_METADATA({_METADATA}:{name})%"},
                "append_action": "OVERWRITE_IF_EXISTS_OR_ADD",
            }
        }
        for name in names
    ]
    headers = {"@type": f"{_FILTERS}.header_mutation.v3.HeaderMutation", "mutations": {"request_mutations": mutations}}
    options = {
        "@type": f"type.googleapis.com/{_OPTIONS}",
        "explicit_http_config": {"http_protocol_options": {}},
        "http_filters": [
            {"name": "member-headers", "typed_config": headers},
            {"name": "codec", "typed_config": {"@type": f"{_FILTERS}.upstream_codec.v3.UpstreamCodec"}},
        ],
    }
    return {_OPTIONS: options}
