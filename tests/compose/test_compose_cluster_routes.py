"""What a service has on the cluster of a gateway, and in which order it comes and goes."""

from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from modelplane.api.models import GatewayRoute
from modelplane.compose.backend_objects import credential_name
from modelplane.compose.contract import CopiedFrom, Local, Remote, Requirement
from tests.support.cluster_gateways import API, CA, cluster, compose_service, gateway, observed_of, settled

GOLDEN = Path(__file__).parent / "golden_cluster_routes.yaml"
SERVICE = {
    "metadata": {"name": "chat", "namespace": "team", "uid": "s"},
    "spec": {
        "endpoints": [
            {"name": "fleet", "priority": 0, "selector": {"matchLabels": {"app": "fleet"}}},
            {"name": "backup", "priority": 1, "selector": {"matchLabels": {"app": "saas"}}},
        ]
    },
}
READY = [{"type": "Ready", "status": "True", "reason": "X"}]


def endpoint(name, app, spec, ready="True", **status):
    conditions = [{**READY[0], "status": ready}]
    metadata = {"name": name, "namespace": "team", "labels": {"app": app}}
    return {
        "apiVersion": API,
        "kind": "ModelEndpoint",
        "metadata": metadata,
        "spec": spec,
        "status": {"conditions": conditions, **status},
    }


def replica(name, url="http://192.0.2.9", cluster_name="mun-b", **more):
    made = endpoint(name, "fleet", {"url": url, "replica": {"name": name, "clusterName": cluster_name}}, **more)
    return {**made, "metadata": {**made["metadata"], "annotations": {"modelplane.ai/listed": "true"}}}


SAAS = endpoint(
    "saas",
    "saas",
    {
        "origin": "https://api.example",
        "api": {"prefix": "/openai/v1"},
        "credential": {"method": "APIKey", "apiKey": {"secretRef": {"name": "key"}}},
    },
    origin="https://api.example",
    addresses=["203.0.113.5"],
)
KEY = {"metadata": {"name": credential_name("saas"), "resourceVersion": "5"}, "data": {"credential": "eA=="}}
EU = gateway(address="192.0.2.7")
ONE, TWO = replica("one"), replica("two", "https://192.0.2.9")
HOME = {"cluster-fra-a": (cluster(),), "cluster-mun-b": (cluster("mun-b", ca=CA),), "credential-saas": (KEY,)}
ACCEPTED = [{"type": kind, "status": "True"} for kind in ("Accepted", "ResolvedRefs")]


def accepted_by(*names):
    parents = [
        {"parentRef": {"name": name, "namespace": "modelplane-system"}, "conditions": ACCEPTED} for name in names
    ]
    return {"parents": parents}


FLEET_EU = "modelplane-oxvupuicmb"
"""The Gateway of InferenceGateway eu."""
STATUSES = {"eu/route": accepted_by(FLEET_EU)}


def composed(endpoints, seen=None, gateways=(EU,), **required):
    given = {"endpoints": tuple(endpoints), "gateways": tuple(gateways), **HOME, **required}
    return compose_service(SERVICE, {key: found for key, found in given.items() if found is not None}, seen)


def at_eu(found):
    return {key.partition("/")[2]: each for key, each in found.desired.items() if key.startswith("eu/")}


def names_of(found, kind):
    return sorted(key.removeprefix(kind) for key in at_eu(found) if key.startswith(kind))


def backends(found):
    """The endpoints that the route at the gateway leads to."""
    made = {each.target.manifest["metadata"]["name"]: key for key, each in at_eu(found).items() if "backend-" in key}
    rules = at_eu(found)["route"].target.manifest["spec"]["rules"]
    return sorted(made[ref["name"]].removeprefix("backend-") for rule in rules for ref in rule.get("backendRefs", ()))


def test_all_that_a_service_needs_is_on_the_cluster_of_the_gateway(problems, golden):
    found, _ = settled(lambda seen: composed([ONE, TWO, SAAS], seen), STATUSES)
    targets = [each.target for _, each in sorted(at_eu(found).items())]
    assert {(type(target), target.cluster) for target in targets} == {(Remote, "fra-a")}
    namespaces = {target.manifest["metadata"].get("namespace") for target in targets}
    assert namespaces == {at_eu(found)["namespace"].target.manifest["metadata"]["name"], None}
    assert [problem for target in targets for problem in problems(target.manifest)] == []
    golden.check(GOLDEN, yaml.safe_dump_all([target.manifest for target in targets], sort_keys=False, width=110))


def test_a_credential_travels_as_a_copy_without_its_value():
    found, _ = settled(lambda seen: composed([SAAS], seen))
    target, wanted = at_eu(found)["credential-saas"].target, found.requirements["credential-saas"]
    assert target.copied_from == CopiedFrom("v1", "Secret", wanted.name, "team", version="5")
    assert (wanted.name, "data" in target.manifest) == (KEY["metadata"]["name"], False)


def test_what_it_reads():
    silent = [
        {**SAAS, "metadata": {**SAAS["metadata"], "name": "away"}, "status": {"conditions": []}},
        replica("three", "https://192.0.2.9", "ber-c", ready="False"),
    ]
    found = composed([ONE, TWO, SAAS, *silent])
    wanted = {key: each for key, each in found.requirements.items() if key not in {"gateways", "endpoints"}}
    assert wanted == {
        "credential-saas": Requirement("v1", "Secret", name=credential_name("saas"), namespace="team"),
        "cluster-fra-a": Requirement(API, "InferenceCluster", name="fra-a"),
        "cluster-mun-b": Requirement(API, "InferenceCluster", name="mun-b"),
    }


def test_a_route_leads_to_what_is_there_and_the_policy_is_there_before_its_routes():
    first = composed([ONE, TWO])
    assert set(at_eu(first)) == {"namespace"}
    waiting = {key: replace(each, ready=False) for key, each in observed_of(first).items()}
    assert set(at_eu(composed([ONE, TWO], waiting))) == {"namespace"}
    second = composed([ONE, TWO], observed_of(first))
    assert (names_of(second, "backend-"), names_of(second, "authority-")) == (["one", "two"], ["two"])
    assert (backends(second), names_of(second, "endpoints-")) == ([], [])
    assert "endpoint-policy" in at_eu(second)
    third = composed([ONE, TWO], observed_of(second))
    assert (backends(third), names_of(third, "endpoints-")) == (["one", "two"], ["one", "two"])


def test_what_is_there_stays_while_its_namespace_is_not_shown_as_ready():
    _, seen = settled(lambda seen: composed([ONE], seen))
    kept = {key: replace(seen[key], ready=False) for key in ("eu/namespace", "eu/backend-one")}
    assert names_of(composed([ONE], kept), "backend-") == ["one"]


def test_a_backend_stays_until_no_observed_route_leads_to_it():
    _, seen = settled(lambda seen: composed([ONE, TWO], seen))
    gone = {"endpoint-two": ()}
    leaving = composed([ONE], seen, **gone)
    assert (backends(leaving), names_of(leaving, "endpoints-")) == (["one"], ["one"])
    assert (names_of(leaving, "backend-"), names_of(leaving, "authority-")) == (["one", "two"], ["two"])
    left = composed([ONE], observed_of(leaving), **gone)
    assert (names_of(left, "backend-"), names_of(left, "authority-")) == (["one"], ["two"])
    left = composed([ONE], observed_of(left), **gone)
    assert (names_of(left, "backend-"), names_of(left, "authority-")) == (["one"], [])


def test_a_replica_moves_to_https_when_the_ca_of_its_cluster_is_there_and_back():
    _, seen = settled(lambda seen: composed([ONE], seen))
    moving = composed([replica("one", "https://192.0.2.9")], seen)
    assert at_eu(moving)["backend-one"].target is seen["eu/backend-one"].target
    assert (names_of(moving, "authority-"), backends(moving)) == (["one"], ["one"])
    moved = composed([replica("one", "https://192.0.2.9")], observed_of(moving))
    assert "tls" in at_eu(moved)["backend-one"].target.manifest["spec"]
    back = composed([ONE], observed_of(moved))
    assert "tls" not in at_eu(back)["backend-one"].target.manifest["spec"]
    assert names_of(back, "authority-") == ["one"]
    assert names_of(composed([ONE], observed_of(back)), "authority-") == []


def test_an_endpoint_that_gets_a_credential_is_called_again_when_the_credential_is_there():
    open_spec = {key: value for key, value in SAAS["spec"].items() if key != "credential"}
    _, seen = settled(lambda seen: composed([{**SAAS, "spec": open_spec}], seen))
    closing = composed([SAAS], seen)
    assert (names_of(closing, "filter-"), names_of(closing, "credential-"), backends(closing)) == (
        ["saas"],
        ["saas"],
        [],
    )
    assert backends(composed([SAAS], observed_of(closing))) == ["saas"]


MISSING = {
    "the endpoints": {"endpoints": None},
    "the gateways": {"gateways": None},
    "a list of gateways without it": {"gateways": ()},
    "a gateway that cannot be read": {"gateways": ({**EU, "status": 7},)},
    "the gateway's cluster": {"cluster-fra-a": None},
    "a cluster that is gone": {"cluster-fra-a": ()},
    "a cluster that cannot be read": {"cluster-fra-a": ({**cluster(), "spec": 7},)},
    "the CA of a replica's cluster": {"cluster-mun-b": None},
    "a cluster without its status": {"cluster-mun-b": ({**cluster("mun-b"), "status": {}},)},
    "the credential": {"credential-saas": None},
    "a credential that is gone": {"credential-saas": ()},
    "an endpoint that cannot be read": {"endpoints": (ONE, {**TWO, "spec": 7}, SAAS)},
    "an endpoint that is not listed": {"endpoints": (ONE, SAAS)},
    "an endpoint without a status": {"endpoints": (ONE, {**TWO, "status": {}}, SAAS)},
}


@pytest.mark.parametrize("missing", MISSING.values(), ids=MISSING.keys())
def test_nothing_leaves_because_an_input_is_missing(missing):
    before, seen = settled(lambda seen: composed([ONE, TWO, SAAS], seen), STATUSES)
    given = {"endpoints": (ONE, TWO, SAAS), "gateways": (EU,), **HOME, **missing}
    found = compose_service(SERVICE, {key: each for key, each in given.items() if each is not None}, seen)
    assert {key: each.target.manifest["metadata"]["name"] for key, each in at_eu(found).items()} == {
        key: each.target.manifest["metadata"]["name"] for key, each in at_eu(before).items()
    }
    assert backends(found) == backends(before) == ["one", "two"]


def test_the_status_of_the_gateways_cluster_does_not_matter():
    garbled = {"cluster-fra-a": ({**cluster(), "status": 7},)}
    found, _ = settled(lambda seen: composed([ONE], seen, **garbled), STATUSES)
    assert (names_of(found, "backend-"), backends(found)) == (["one"], ["one"])


def test_a_cluster_that_does_not_answer_changes_no_route():
    before, seen = settled(lambda seen: composed([ONE, TWO, SAAS], seen), STATUSES)
    found = composed([ONE, TWO, SAAS], {key: replace(each, ready=False) for key, each in seen.items()})
    assert backends(found) == backends(before)
    assert found.conditions[1].message == "InferenceGateway eu on fra-a has not accepted the route yet"
    assert (found.status.routes.total, found.status.routes.ready) == (1, 0)
    assert found.status.gateways == (
        GatewayRoute(
            name="eu", cluster_name="fra-a", address="http://192.0.2.7/team/chat", accepted=False, endpoints=0
        ),
    )


def test_an_endpoint_whose_credential_is_not_filled_does_not_count_at_the_gateway():
    found, seen = settled(lambda seen: composed([ONE, SAAS], seen), STATUSES)
    unfilled = {**seen, "eu/credential-saas": replace(seen["eu/credential-saas"], ready=False)}
    counts = [each.status.gateways[0].endpoints for each in (found, composed([ONE, SAAS], unfilled))]
    assert counts == [2, 1]


def test_a_gateway_that_no_longer_serves_it_takes_its_objects_along():
    _, seen = settled(lambda seen: composed([ONE], seen), STATUSES)
    for gateways, more in (
        ((gateway(labels={"region": "us"}),), {}),
        (({**EU, "metadata": {"name": "eu", "deletionTimestamp": "2026-01-01T00:00:00Z"}},), {}),
        ((), {"gateway-eu": ()}),
    ):
        assert at_eu(composed([ONE], seen, gateways, **more)) == {}


def test_a_gateway_that_is_not_listed_is_required_by_name_and_serves_when_it_is_found():
    before, seen = settled(lambda seen: composed([ONE], seen), STATUSES)
    found = composed([ONE], seen, ())
    assert found.requirements["gateway-eu"] == Requirement(API, "InferenceGateway", name="eu")
    again = composed([ONE], seen, (), **{"gateway-eu": (EU,)})
    assert at_eu(again) == at_eu(before)
    assert again.conditions[1].status.value == "True"


BESIDE = gateway("default", None, address="192.0.2.1")
US = gateway("us", "fra-a", address="192.0.2.8", router={"replicas": 0})


def test_a_gateway_beside_the_control_plane_and_one_on_a_cluster_serve_one_service():
    statuses = {**STATUSES, "route": accepted_by("modelplane")}
    found, _ = settled(lambda seen: composed([ONE, SAAS], seen, (BESIDE, EU)), statuses)
    assert {type(each.target) for key, each in found.desired.items() if "/" not in key} == {Local}
    local = found.desired["route"].target.manifest
    (refs,) = [rule["backendRefs"] for rule in local["spec"]["rules"] if "backendRefs" in rule]
    assert (local["metadata"]["namespace"], [ref["name"] for ref in refs]) == ("team", ["one"])
    assert [parent["name"] for parent in local["spec"]["parentRefs"]] == ["modelplane"]
    remote = at_eu(found)["route"].target.manifest
    assert [parent["name"] for parent in remote["spec"]["parentRefs"]] == [FLEET_EU]
    assert remote["spec"]["rules"][0]["matches"] == local["spec"]["rules"][0]["matches"]
    assert backends(found) == ["one"]
    assert (found.status.routes.total, found.status.routes.ready) == (2, 2)
    assert found.status.address == "http://192.0.2.1/team/chat"
    assert found.status.gateways == (
        GatewayRoute(name="default", address="http://192.0.2.1/team/chat", accepted=True, endpoints=2),
        GatewayRoute(name="eu", cluster_name="fra-a", address="http://192.0.2.7/team/chat", accepted=True, endpoints=2),
    )
    assert [condition.status.value for condition in found.conditions] == ["True", "True"]


@pytest.mark.parametrize(
    ("late", "gateways", "expected"),
    [
        ("eu/route", (BESIDE, EU), ("False", "InferenceGateway eu on fra-a has not accepted the route yet")),
        ("route", (BESIDE, EU), ("False", "the gateway has not accepted the route yet")),
        ("eu/route", (BESIDE, gateway()), ("True", "http://192.0.2.1/team/chat")),
    ],
    ids=["the one on a cluster", "the one beside the control plane", "one that has no address is not waited for"],
)
def test_the_gateway_that_has_not_taken_the_route_is_named(late, gateways, expected):
    statuses = {**STATUSES, "route": accepted_by("modelplane")}
    _, seen = settled(lambda seen: composed([ONE], seen, gateways), statuses)
    found = composed([ONE], {**seen, late: replace(seen[late], ready=False)}, gateways).conditions[1]
    assert (found.status.value, found.message) == expected


def test_what_is_in_doubt_at_a_gateway_on_a_cluster_stays_there_and_joins_no_other_route():
    """The gateway beside the control plane came when the endpoint could not be read any more."""
    before, seen = settled(lambda seen: composed([ONE, TWO], seen), STATUSES)
    beside = {**seen, "route": observed_of(composed([ONE], None, (BESIDE,)))["route"]}
    found = composed([ONE], beside, (BESIDE, EU))
    refs = found.desired["route"].target.manifest["spec"]["rules"][0]["backendRefs"]
    assert ([ref["name"] for ref in refs], backends(found)) == (["one"], backends(before))


def test_two_gateways_on_one_cluster_have_objects_of_their_own():
    found, _ = settled(lambda seen: composed([ONE], seen, (EU, US)))
    identities = [
        (each.target.manifest["kind"], each.target.manifest["metadata"]["name"])
        for key, each in found.desired.items()
        if "/" in key and not key.endswith("/namespace")
    ]
    assert len(set(identities)) == len(identities)
    assert [key for key in found.desired if key.startswith("us/endpoints-")] == []
    assert [key for key in found.desired if key.startswith("eu/endpoints-")] == ["eu/endpoints-one"]


def test_two_services_with_one_endpoint_have_backends_of_their_own():
    other = {**SERVICE, "metadata": {"name": "code", "namespace": "team", "uid": "t"}}
    required = {"endpoints": (ONE,), "gateways": (EU,), **HOME}
    names = {
        settled(lambda seen, item=item: compose_service(item, required, seen))[0]
        .desired["eu/backend-one"]
        .target.manifest["metadata"]["name"]
        for item in (SERVICE, other)
    }
    assert len(names) == 2


def test_a_service_with_nothing_ready_answers_503_at_the_gateway():
    found, _ = settled(lambda seen: composed([replica("one", ready="False")], seen))
    (rule, _) = at_eu(found)["route"].target.manifest["spec"]["rules"]
    (added,) = rule["filters"]
    assert added["extensionRef"]["name"] == at_eu(found)["unserved"].target.manifest["metadata"]["name"]
    assert names_of(found, "backend-") == []
