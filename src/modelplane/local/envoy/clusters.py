"""Envoy's view of one pool of addresses.

The addresses are part of the cluster and not a file of their own: Envoy opens one inotify instance a watched file,
of which a user has 128 in all, so a file per pool would end at a hundred pools. Replacing a cluster loses nothing;
streams on the old one run to their end.
"""

from modelplane.local.envoy.pools import Pool
from modelplane.local.envoy.routes import Resource

_CONNECT_TIMEOUT = "2s"
# Envoy's own defaults are 1,024 requests and 3 retries at a time, which a burst against one pool exceeds.
_LIMITS = {"max_connections": 65_536, "max_pending_requests": 65_536, "max_requests": 65_536, "max_retries": 1_024}


def cluster(pool: Pool) -> Resource:
    members = [
        {"endpoint": {"address": {"socket_address": {"address": member.host, "port_value": member.port}}}}
        for member in pool.members
    ]
    return {
        "@type": "type.googleapis.com/envoy.config.cluster.v3.Cluster",
        "name": pool.name,
        "type": "STRICT_DNS" if pool.by_name else "STATIC",
        "connect_timeout": _CONNECT_TIMEOUT,
        "lb_policy": "LEAST_REQUEST",
        "circuit_breakers": {"thresholds": [_LIMITS]},
        "load_assignment": {"cluster_name": pool.name, "endpoints": [{"lb_endpoints": members}]},
    }
