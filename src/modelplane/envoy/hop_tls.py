"""The hop from a fleet gateway to the gateways of clusters, by mutual TLS.

A service's cluster has members of two kinds: gateways of clusters, by their addresses, and the socket to the listener
for providers, which is this Envoy's own. Only the first speak TLS, so each member says by its metadata which it is.
"""

from collections.abc import Mapping

from modelplane.envoy.view import HopTls, Resource

_MATCH = "envoy.transport_socket_match"
_KIND = {"hop": "cluster-gateway"}


def with_hop_tls(resource: Resource, hop: HopTls | None) -> Resource:
    """The cluster with TLS to its members that have an address."""
    if hop is None:
        return resource
    assignment = resource["load_assignment"]
    assert isinstance(assignment, dict)  # noqa: S101  our own rendering
    tiers = [
        {**tier, "lb_endpoints": [_member(each) for each in tier["lb_endpoints"]]} for tier in assignment["endpoints"]
    ]
    match = {"name": "cluster-gateway", "match": _KIND, "transport_socket": _socket(hop)}
    return {**resource, "load_assignment": {**assignment, "endpoints": tiers}, "transport_socket_matches": [match]}


def _member(member: Mapping[str, object]) -> Resource:
    endpoint = member["endpoint"]
    assert isinstance(endpoint, dict)  # noqa: S101  as above
    if "socket_address" not in endpoint["address"]:
        return dict(member)
    metadata = member.get("metadata")
    found = metadata.get("filter_metadata", {}) if isinstance(metadata, dict) else {}
    return {**member, "metadata": {"filter_metadata": {**found, _MATCH: _KIND}}}


def _socket(hop: HopTls) -> Resource:
    name = {"san_type": "DNS", "matcher": {"exact": hop.server_name}}
    pair = {
        "certificate_chain": {"inline_string": hop.client.certificate},
        "private_key": {"inline_string": hop.client.key},
    }
    validation = {"trusted_ca": {"inline_string": hop.authority}, "match_typed_subject_alt_names": [name]}
    return {
        "name": "envoy.transport_sockets.tls",
        "typed_config": {
            "@type": "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext",
            "sni": hop.server_name,
            "common_tls_context": {"tls_certificates": [pair], "validation_context": validation},
        },
    }
