"""The gateway of a cluster that lets in only gateways of the fleet."""

from pathlib import Path

import pytest
import yaml

from modelplane.api.codec import decode, encode
from modelplane.api.meta import ClusterName
from modelplane.api.models import InferenceCluster
from modelplane.compose import inference_cluster
from modelplane.compose.contract import ComposeRequest, Observed, Remote, Requirement
from tests.compose.hop import observed, pem, played, requests

GOLDEN = Path(__file__).parent / "golden_hop.yaml"
CLASS = {
    "metadata": {"name": "h200"},
    "spec": {"devices": [{"name": "gpu", "driver": "gpu.nvidia.com", "deviceClassName": "gpu", "count": 8}]},
}
GUARDED = {"gateway": {"mutualTLS": {}}}
KNOWN = {"metadata": {"name": "default"}, "spec": {}, "status": {"clientCACertificate": pem("fleet")}}
UNKNOWN = {"metadata": {"name": "eu"}, "spec": {}}
NAME = "east.inference-gateway.modelplane.internal"


class Walk:
    """A cluster through the passes of its composer: what it desires is observed in the next, and its status kept."""

    def __init__(self, spec, gateways=(KNOWN,), endpoints=()):
        self.spec, self.gateways, self.endpoints = spec, gateways, endpoints
        self.seen, self.status, self.issues = {}, {}, True
        self.readable, self.generation = True, 1

    def step(self):
        item = {
            "metadata": {"name": "east", "uid": "u", "generation": self.generation},
            "spec": {
                "cluster": {"source": "Existing"},
                "nodePools": [{"name": "gpu", "className": "h200", "nodeCount": 1}],
                **self.spec,
            },
            "status": self.status,
        }
        given = {"class-h200": (CLASS,), "replicas": ()}
        if self.gateways is not None:
            given["fleet-gateways"] = tuple(self.gateways)
        if self.endpoints is not None:
            given["cluster-endpoints"] = tuple(self.endpoints)
        if self.readable:
            given["observed-certificaterequests"] = requests(self.seen)
        found = inference_cluster.compose(ComposeRequest(decode(InferenceCluster, item), self.seen, given))
        self.status = encode(found.status)
        self.seen = observed(found.desired, issues=self.issues)
        return found

    def listeners(self):
        gateway = self.seen.get("gateway")
        return [each["name"] for each in gateway.manifest["spec"]["listeners"]] if gateway else []

    def hostname(self):
        return self.status.get("gateway", {}).get("hostname")


def endpoint(scheme):
    return {"metadata": {"name": "a"}, "spec": {"url": f"{scheme}://192.0.2.1", "replica": {"name": "a"}}}


def test_a_new_cluster_never_listens_for_http():
    walk = Walk(GUARDED)
    steps = [(walk.step() and walk.listeners(), walk.hostname()) for _ in range(4)]
    assert steps == [([], None), (["https"], None), (["https"], NAME), (["https"], NAME)]
    assert walk.step().requeue_after_s is None
    name = walk.seen["hop-ca"].manifest["metadata"]["name"]
    assert walk.status["gateway"]["caCertificate"] == pem(f"{name} 1")


def test_it_reads_gateways_of_the_fleet_endpoints_of_the_cluster_and_what_cert_manager_issued():
    api, found = "modelplane.ai/v1alpha1", Walk(GUARDED).step().requirements
    assert {key: found[key] for key in found.keys() - Walk({}).step().requirements.keys()} == {
        "fleet-gateways": Requirement(api, "InferenceGateway"),
        "cluster-endpoints": Requirement(api, "ModelEndpoint", labels={"modelplane.ai/cluster": "east"}),
        "observed-certificaterequests": Requirement(
            "cert-manager.io/v1", "CertificateRequest", namespace="modelplane-system", cluster="east"
        ),
    }


def test_the_names_are_new_each_time_so_that_no_old_secret_is_found():
    """cert-manager leaves Secrets behind, and makes no CertificateRequest where it finds one."""
    walk, names = Walk(GUARDED), []
    for spec in (GUARDED, {}, GUARDED):
        walk.spec, walk.generation = spec, walk.generation + 1
        for _ in range(3):
            walk.step()
            walk.endpoints = [endpoint("https" if walk.hostname() else "http")]
        names += [item.manifest["metadata"]["name"] for key, item in walk.seen.items() if key == "hop-ca"]
    assert len(set(names)) == 2
    assert walk.hostname() == NAME


def test_a_cluster_that_serves_keeps_http_until_nobody_uses_it():
    walk = Walk({}, endpoints=[endpoint("http")])
    walk.step()
    walk.spec = GUARDED
    steps = [(walk.step() and walk.listeners(), walk.hostname()) for _ in range(4)]
    assert steps == [
        (["http"], None),
        (["http", "https"], None),
        (["http", "https"], NAME),
        (["http", "https"], NAME),
    ]
    moving = {**endpoint("https"), "status": {"origin": "http://192.0.2.1"}}
    for endpoints in ([endpoint("https"), endpoint("http")], [moving]):
        walk.endpoints = endpoints
        walk.step()
        assert (walk.listeners(), walk.hostname()) == (["http", "https"], NAME)
    walk.endpoints = [endpoint("https")]
    walk.step()
    assert (walk.listeners(), walk.hostname()) == (["https"], NAME)
    walk.endpoints = None
    walk.step()
    assert (walk.listeners(), walk.hostname()) == (["https"], NAME)


def test_the_way_back_is_the_same():
    walk = Walk(GUARDED, endpoints=[endpoint("https")])
    for _ in range(3):
        walk.step()
    walk.spec = {}
    found = walk.step()
    assert (walk.listeners(), walk.hostname(), "hop-server" in found.desired) == (["http", "https"], None, True)
    walk.endpoints = [endpoint("http")]
    found = walk.step()
    assert (walk.listeners(), [key for key in found.desired if key.startswith("hop")]) == (["http"], [])
    assert "fleet-gateways" not in walk.step().requirements
    (listener,) = walk.seen["gateway"].manifest["spec"]["listeners"]
    allowed = {"namespaces": {"from": "All"}}
    assert listener == {"name": "http", "port": 80, "protocol": "HTTP", "allowedRoutes": allowed}


def test_on_the_way_back_what_is_left_of_it_stays_and_nothing_else_does():
    walk = Walk({"gateway": {"mutualTLS": {}, "tracing": {}}}, endpoints=[endpoint("https")])
    for _ in range(3):
        walk.step()
    walk.spec = {}
    del walk.seen["hop-clients"]
    found = walk.step()
    assert ("hop-server" in found.desired, "tracing" in found.desired) == (True, False)
    assert walk.listeners() == ["http", "https"]


def waiting(walk):
    for _ in range(3):
        found = walk.step()
    return next(each.message for each in found.conditions if each.type == "GatewayReady")


@pytest.mark.parametrize(
    ("gateways", "expected"),
    [
        ((KNOWN, UNKNOWN), "InferenceGateway eu has no certificate; spec.mutualTLS asks for one"),
        ((), "no InferenceGateway has a certificate; spec.mutualTLS asks for one"),
        (None, "InferenceGateways are not read yet"),
        (
            ({"metadata": {"name": "default"}, "spec": 7},),
            "no InferenceGateway has a certificate; spec.mutualTLS asks for one",
        ),
    ],
)
def test_replicas_do_not_move_before_every_fleet_gateway_has_a_certificate(gateways, expected):
    walk = Walk({}, gateways, [endpoint("http")])
    walk.step()
    walk.spec = GUARDED
    assert waiting(walk) == f"192.0.2.1; spec.gateway.mutualTLS waits: {expected}"
    assert walk.step().requeue_after_s == 10.0
    assert (walk.hostname(), "http" in walk.listeners()) == (None, True)


def test_replicas_do_not_move_before_the_ca_of_the_cluster_is_read():
    walk = Walk({}, endpoints=[endpoint("http")])
    walk.step()
    walk.spec, walk.readable = GUARDED, False
    assert waiting(walk).endswith("cert-manager on the cluster has not issued a CA, or it cannot be read")
    assert walk.hostname() is None


def test_without_a_fleet_gateway_a_new_cluster_has_no_gateway():
    walk = Walk(GUARDED, gateways=())
    assert waiting(walk) == (
        "the cluster's gateway has no address; spec.gateway.mutualTLS waits: "
        "no InferenceGateway has a certificate; spec.mutualTLS asks for one"
    )
    assert walk.listeners() == []


def test_a_gateway_that_leaves_the_fleet_is_no_longer_let_in():
    walk = Walk(GUARDED, gateways=[KNOWN, {**UNKNOWN, "status": {"clientCACertificate": pem("eu")}}])
    for _ in range(3):
        walk.step()
    assert walk.seen["hop-clients"].manifest["data"] == {"ca.crt": f"{pem('eu')}\n{pem('fleet')}"}
    walk.gateways = None
    walk.step()
    assert walk.seen["hop-clients"].manifest["data"] == {"ca.crt": f"{pem('eu')}\n{pem('fleet')}"}
    walk.gateways = [{**KNOWN, "metadata": {"name": "default", "deletionTimestamp": "2026-01-01T00:00:00Z"}}]
    walk.step()
    assert (walk.seen["hop-clients"].manifest["data"], walk.hostname()) == ({"ca.crt": ""}, NAME)


def test_the_cluster_s_objects_are_as_reviewed_and_well_formed(problems, golden):
    walk = Walk(GUARDED)
    for _ in range(3):
        found = walk.step()
    objects = [each.target.manifest for each in found.desired.values()]
    assert [wrong for item in objects for wrong in problems(item)] == []
    # By these keys later releases find them.
    hop = {"hop-root", "hop-ca", "hop-issuer", "hop-server", "hop-clients", "hop-validation"}
    assert found.desired.keys() - Walk({}).step().desired.keys() == hop
    golden.check(GOLDEN, yaml.safe_dump_all(objects, sort_keys=False, width=110))


def test_a_host_that_issues_certificates_itself_asks_cert_manager_for_none():
    item = {"metadata": {"name": "east"}, "spec": {"cluster": {"source": "Existing"}, **GUARDED}}
    request = ComposeRequest(decode(InferenceCluster, item), required={"replicas": ()}, embedded=True)
    found = inference_cluster.compose(request)
    assert set(found.desired) == {"namespace", "gateway"}


def test_a_listener_that_was_taken_away_by_hand_does_not_take_the_gateway_along():
    walk = Walk(GUARDED)
    for _ in range(3):
        walk.step()
    bare = {"apiVersion": "v1", "kind": "Gateway", "metadata": {"name": "g"}, "spec": {"listeners": []}}
    walk.seen = {"gateway": played(Remote(ClusterName("east"), bare))}
    assert isinstance(walk.seen["gateway"], Observed)
    assert walk.step().desired["gateway"].target.manifest["spec"] == {"listeners": []}
