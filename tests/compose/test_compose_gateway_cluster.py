"""A gateway on a cluster: the objects that it has there, and what it waits for."""

import base64
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from modelplane.compose.contract import Local, Remote, Requirement, Use
from modelplane.compose.gateway_cluster import PREFIX
from tests.support.cluster_gateways import API, CA, cluster, compose_gateway, gateway, observed_of, settled

GOLDEN = Path(__file__).parent / "golden_cluster_gateway.yaml"
AUTH = {"method": "APIKey", "apiKey": {"secretSelector": {"matchLabels": {"keys": "eu"}}}}
FULL = gateway(
    auth=AUTH,
    tls={"certificateRefs": [{"name": "front"}]},
    mutualTLS={},
    tracing={"host": "collector.example"},
    hostname="models.example",
)
CERTIFICATE = {"tls.crt": "Yw==", "tls.key": "aw=="}
REQUIRED = {
    "cluster": (cluster(),),
    "secrets": ({"metadata": {"name": "team-keys", "resourceVersion": "7"}, "data": {"ada": "MQ=="}},),
    "certificate-front": ({"metadata": {"name": "front", "resourceVersion": "8"}, "data": CERTIFICATE},),
    "services": (),
    "endpoints": (),
    "clusters": (cluster("mun-b", ca=CA),),
}
ADDRESSED = {"addresses": [{"type": "IPAddress", "value": "192.0.2.7"}]}
STATUSES = {
    "cluster/gateway": ADDRESSED,
    "cluster/hop-ca": {"revision": 1},
}


def issued(found):
    """The CertificateRequest of the CA, as cert-manager leaves it on the cluster."""
    return {"metadata": {"name": found.name}, "status": {"certificate": base64.b64encode(CA.encode()).decode()}}


def full():
    """Composed until the certificate is there, too."""
    required = dict(REQUIRED)
    found, _ = settled(lambda seen: compose_gateway(FULL, required, seen), STATUSES)
    required["hop-ca-request"] = (issued(found.requirements["hop-ca-request"]),)
    found, seen = settled(lambda seen: compose_gateway(FULL, required, seen), STATUSES)
    return found, seen, required


def test_all_that_a_gateway_needs_is_on_its_cluster(problems, golden):
    found, _, _ = full()
    targets = [each.target for key, each in sorted(found.desired.items()) if key != "caller-keys"]
    assert {type(target) for target in targets} == {Remote}
    assert {target.cluster for target in targets} == {"fra-a"}
    assert [problem for target in targets for problem in problems(target.manifest)] == []
    golden.check(GOLDEN, yaml.safe_dump_all([target.manifest for target in targets], sort_keys=False, width=110))


def test_its_address_its_ca_and_its_callers_are_in_its_status():
    found, seen, required = full()
    (condition,) = found.conditions
    assert (condition.status.value, condition.message) == ("True", "192.0.2.7 on fra-a")
    status = found.status
    assert (status.address, status.callers, status.client_ca_certificate) == ("192.0.2.7", 1, CA)
    assert status.endpoints.open_ai == "https://models.example/v1"
    assert found.uses == (Use(API, "InferenceCluster", "fra-a", reason="a gateway runs on the cluster"),)
    assert found.requeue_after_s is None
    assert compose_gateway(FULL, {**required, "hop-ca-request": ()}, seen).requeue_after_s == 10.0


def test_what_is_read_there_and_what_beside_the_control_plane():
    found, _, _ = full()
    system = {"namespace": "modelplane-system"}
    request = found.requirements.pop("hop-ca-request")
    assert (request.kind, request.cluster) == ("CertificateRequest", "fra-a")
    assert found.requirements == {
        "cluster": Requirement(API, "InferenceCluster", name="fra-a"),
        "secrets": Requirement("v1", "Secret", labels={"keys": "eu"}, **system),
        "certificate-front": Requirement("v1", "Secret", name="front", **system),
        "services": Requirement(API, "ModelService"),
        "endpoints": Requirement(API, "ModelEndpoint"),
        "clusters": Requirement(API, "InferenceCluster"),
    }


INSTALLING = {"type": "RequirementsMet", "status": "False", "reason": "Installing", "message": "3 of 9 are not ready"}
CREATING = {"type": "Provisioned", "status": "Unknown", "reason": "Creating", "message": ""}
WAITS = {
    "not read": (None, ("Unknown", "Unresolved", "is not read yet")),
    "absent": ((), ("False", "ClusterMissing", "does not exist")),
    "unreadable": (({**cluster(), "spec": 7},), ("False", "WaitingForCluster", "cannot be read")),
    "without a name": (({**cluster(), "metadata": {}},), ("False", "WaitingForCluster", "cannot be read")),
    "without its software": (
        (cluster(conditions=[INSTALLING]),),
        ("False", "WaitingForCluster", "is not ready for a gateway: 3 of 9 are not ready"),
    ),
    "not made yet": (
        (cluster(conditions=[CREATING]),),
        ("False", "WaitingForCluster", "is not ready for a gateway: Creating"),
    ),
}


@pytest.mark.parametrize(("found", "expected"), WAITS.values(), ids=WAITS.keys())
def test_nothing_is_made_on_a_cluster_that_is_not_there(found, expected):
    made = compose_gateway(gateway(), {} if found is None else {"cluster": found})
    (condition,) = made.conditions
    status, reason, words = expected
    assert (condition.status.value, condition.reason.value) == (status, reason)
    assert condition.message == f"spec.clusterName: InferenceCluster fra-a {words}"
    assert (made.desired, made.status) == ({}, None)
    assert made.requirements == {"cluster": Requirement(API, "InferenceCluster", name="fra-a")}
    assert bool(made.uses) is (found != ())


@pytest.mark.parametrize("name", WAITS)
def test_what_was_made_stays_whatever_becomes_of_the_cluster(name):
    before, seen, required = full()
    required.pop("cluster")
    items, _ = WAITS[name]
    found = compose_gateway(FULL, {**required, **({} if items is None else {"cluster": items})}, seen)
    assert stated(found) == stated(before)


def test_a_gateway_whose_cluster_is_gone_says_that_it_stays():
    _, seen, required = full()
    found = compose_gateway(FULL, {**required, "cluster": ()}, seen)
    message = "spec.clusterName: InferenceCluster fra-a does not exist; what runs there stays"
    assert [(each.reason.value, each.message) for each in found.conditions] == [("ClusterMissing", message)]


def stated(found):
    return {key: {**each.target.manifest, "status": None} for key, each in found.desired.items()}


NEVER = gateway(address="192.0.2.7", router={"replicas": 0})
GATEWAY_KEY = f"{PREFIX}gateway"


def seen_gateway(**changes):
    found, seen = settled(lambda seen: compose_gateway(NEVER, REQUIRED, seen), STATUSES)
    assert set(found.desired) == {GATEWAY_KEY}
    return {GATEWAY_KEY: replace(seen[GATEWAY_KEY], **changes)}


LOST = "InferenceCluster fra-a does not answer, or does not show the Gateway, which was at 192.0.2.7"
SEEN = {
    "as it should be": (dict, ("True", "192.0.2.7 on fra-a")),
    "the cluster does not answer": ({"ready": False}, ("Unknown", LOST)),
    "it is not shown": (None, ("Unknown", LOST)),
    "it is refused": (
        {"ready": False, "refused": "no matches for kind Gateway"},
        ("False", "InferenceCluster fra-a refuses the Gateway: no matches for kind Gateway"),
    ),
}


@pytest.mark.parametrize(("changes", "expected"), SEEN.values(), ids=SEEN.keys())
def test_its_address_stays_while_its_gateway_is_not_seen(changes, expected):
    observed = {} if changes is None else seen_gateway(**changes) if changes is not dict else seen_gateway()
    found = compose_gateway(NEVER, REQUIRED, observed)
    (condition,) = found.conditions
    assert (condition.status.value, condition.message) == expected
    assert (found.status.address, GATEWAY_KEY in found.desired) == ("192.0.2.7", True)


def test_one_that_has_no_address_yet_says_so():
    found = compose_gateway(gateway(), REQUIRED)
    (condition,) = found.conditions
    assert (condition.reason.value, condition.message) == ("WaitingForGateway", "the gateway has no address")


@pytest.mark.parametrize(
    ("given", "expected"),
    [({}, "envoy"), ({"envoyGateway": {}}, "envoy"), ({"envoyGateway": {"gatewayClassName": "front"}}, "front")],
)
def test_its_gateway_class_is_that_of_clusters(given, expected):
    found = compose_gateway(gateway(**given), REQUIRED)
    assert found.desired[GATEWAY_KEY].target.manifest["spec"]["gatewayClassName"] == expected
    beside = compose_gateway(gateway(cluster_name=None, **given), {})
    assert beside.desired["gateway"].target.manifest["spec"]["gatewayClassName"] == (
        "modelplane" if expected == "envoy" else expected
    )


def test_its_router_comes_from_the_mirror_of_its_cluster():
    mirrored = cluster(software={"registryMirrors": [{"source": "registry.example", "mirror": "mirror.fra.example"}]})
    for given, expected in ((mirrored, "mirror.fra.example/modelplane"), (cluster(), "registry.example/modelplane")):
        found = compose_gateway(gateway(), {**REQUIRED, "cluster": (given,)})
        (container,) = found.desired["cluster/router"].target.manifest["spec"]["template"]["spec"]["containers"]
        assert container["image"] == f"{expected}/modelplane-router:v1"


def test_objects_of_a_release_that_ran_it_beside_the_control_plane_leave_when_it_is_on_its_cluster():
    beside = observed_of(compose_gateway(gateway(cluster_name=None), REQUIRED))
    assert {type(each.target) for each in beside.values()} == {Local}
    waiting = compose_gateway(gateway(), {}, beside)
    assert {key: each.target for key, each in waiting.desired.items()} == {
        key: each.target for key, each in beside.items()
    }
    moved = compose_gateway(gateway(), REQUIRED, beside)
    assert {key.startswith(PREFIX) for key in moved.desired} == {True}
    assert moved.desired == compose_gateway(gateway(), REQUIRED).desired


def test_it_is_made_once_its_cluster_is_there_with_its_software():
    ready = [{**CREATING, "status": "True"}, {**INSTALLING, "status": "True"}, {"type": "Ready", "status": "False"}]
    found = compose_gateway(gateway(), {**REQUIRED, "cluster": (cluster(conditions=ready),)})
    assert found.desired == compose_gateway(gateway(), REQUIRED).desired


def test_plans_for_a_cluster_are_in_smaller_maps_than_those_beside_the_control_plane():
    spec = {"endpoints": [{"name": "main", "selector": {"matchLabels": {"app": "qwen"}}}]}
    endpoints = [
        {
            "metadata": {"name": f"e{at}", "namespace": "chat", "labels": {"app": "qwen"}},
            "spec": {"origin": "https://api.example"},
            "status": {"conditions": [{"type": "Ready", "status": "True"}]},
        }
        for at in range(50)
    ]
    services = [{"metadata": {"name": f"s{at}", "namespace": "chat"}, "spec": spec} for at in range(30)]
    listed = {**REQUIRED, "services": tuple(services), "endpoints": tuple(endpoints)}
    there = compose_gateway(gateway(), listed).desired
    beside = compose_gateway(gateway(cluster_name=None), listed).desired
    assert [key for key in there if "router-plans-" in key] == [f"{PREFIX}router-plans-0", f"{PREFIX}router-plans-1"]
    assert [key for key in beside if "router-plans-" in key] == ["router-plans-0"]


def test_a_status_of_its_cluster_that_cannot_be_read_does_not_matter():
    found = compose_gateway(gateway(), {**REQUIRED, "cluster": ({**cluster(), "status": 7},)})
    assert found.desired == compose_gateway(gateway(), REQUIRED).desired


def test_the_embedded_plane_runs_it_itself_and_says_so():
    found = compose_gateway(gateway(), {}, embedded=True)
    seen = {"gateway": observed_of(found)["gateway"]}
    shown = replace(seen["gateway"], target=Local({**seen["gateway"].manifest, "status": ADDRESSED}))
    found = compose_gateway(gateway(), {}, {"gateway": shown}, embedded=True)
    assert found.conditions[0].message == "192.0.2.7; the embedded plane runs it itself, and not on fra-a"
    assert {type(each.target) for each in found.desired.values()} == {Local}
    assert found.uses == ()
