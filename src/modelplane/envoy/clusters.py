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
_LIMITS = {"max_connections": 65_536, "max_pending_requests": 65_536, "max_requests": 65_536, "max_retries": 1_024}


def cluster(pool: EnvoyCluster) -> Resource:
    names = sorted({name for member in pool.members for name, _ in member.headers})
    return {
        "@type": "type.googleapis.com/envoy.config.cluster.v3.Cluster",
        "name": pool.name,
        **({"type": "STRICT_DNS", "dns_lookup_family": "V4_PREFERRED"} if pool.by_name else {"type": "STATIC"}),
        "connect_timeout": _CONNECT_TIMEOUT,
        **_balancing(pool),
        "circuit_breakers": {"thresholds": [_LIMITS]},
        "load_assignment": {
            "cluster_name": pool.name,
            "endpoints": [{"lb_endpoints": [_endpoint(member) for member in pool.members]}],
        },
        **({"typed_extension_protocol_options": _protocol(names)} if names else {}),
        **({"transport_socket": _tls(pool, pool.tls)} if pool.tls is not None else {}),
    }


def picker_cluster(picker: PoolPicker) -> Resource:
    return {**cluster(EnvoyCluster(picker.name, picker.members)), "typed_extension_protocol_options": HTTP2}


def _balancing(pool: EnvoyCluster) -> Resource:
    if pool.picker is not None:
        return {"load_balancing_policy": PICKED}
    return {"lb_policy": "ROUND_ROBIN" if _has_shares(pool) else "LEAST_REQUEST"}


def _has_shares(pool: EnvoyCluster) -> bool:
    """Whether members have different weights. LEAST_REQUEST would not respect them."""
    return len({member.weight for member in pool.members}) > 1


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
    address = {"socket_address": {"address": member.host, "port_value": member.port}}
    endpoint: Resource = {"endpoint": {"address": address}}
    if member.weight != 1:
        endpoint["load_balancing_weight"] = member.weight
    if member.headers:
        endpoint["metadata"] = {"filter_metadata": {_METADATA: dict(member.headers)}}
    return endpoint


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
