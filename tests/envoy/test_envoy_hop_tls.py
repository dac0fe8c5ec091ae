"""TLS to the gateways of clusters, and to nobody else."""

from modelplane.envoy.clusters import cluster
from modelplane.envoy.hop_tls import with_hop_tls
from modelplane.envoy.pools import EnvoyCluster, PoolMember
from modelplane.envoy.view import HopTls, TlsCertificate

HOP = HopTls("AUTHORITY", "gateway.internal", TlsCertificate("CERTIFICATE", "KEY"))
MEMBERS = (
    PoolMember("192.0.2.1", 80, 2, (("modelplane-replica", "team/a"),)),
    PoolMember("fleet.providers.sock", 0, 1, (("modelplane-replica", "team/b"),)),
)


def members(resource):
    return [each for tier in resource["load_assignment"]["endpoints"] for each in tier["lb_endpoints"]]


def test_members_with_an_address_are_called_by_tls_and_sockets_are_not():
    made = with_hop_tls(cluster(EnvoyCluster("pool", MEMBERS)), HOP)
    (match,) = made["transport_socket_matches"]
    kinds = [each["metadata"]["filter_metadata"].get("envoy.transport_socket_match") for each in members(made)]
    assert kinds == [match["match"], None]
    assert [each["metadata"]["filter_metadata"]["modelplane"]["modelplane-replica"] for each in members(made)] == [
        "team/a",
        "team/b",
    ]
    context = match["transport_socket"]["typed_config"]
    assert context["sni"] == "gateway.internal"
    assert context["common_tls_context"]["validation_context"]["trusted_ca"] == {"inline_string": "AUTHORITY"}


def test_without_a_hop_nothing_changes():
    made = cluster(EnvoyCluster("pool", MEMBERS))
    assert with_hop_tls(made, None) is made
