import copy

import pytest

from modelplane.api.objects import manifest
from modelplane.reconcile.store import ref_of
from modelplane.testing.cluster import TENANT_NAMESPACE, gateway, route, run_cluster, service

NOW = "2025-06-15T15:06:40Z"
CONTROLLER = "gateway.envoyproxy.io/gatewayclass-controller"


def condition(kind, reason, message="", *, status="True"):
    told = {"type": kind, "status": status, "reason": reason, "message": message}
    return {**told, "observedGeneration": 1, "lastTransitionTime": NOW}


def settled(*items, address="127.0.0.1:10080"):
    async def main(lab):
        lab.cluster.set_gateway_address(address)
        lab.apply(*items)
        await lab.settle()
        return {item["kind"]: item.get("status") for item in (lab.get(given) for given in items)}

    return run_cluster(main)


def test_a_gateway_gets_the_address_of_the_edge():
    assert settled(gateway(), route(), service())["Gateway"] == {
        "addresses": [{"type": "Hostname", "value": "127.0.0.1:10080"}],
        "conditions": [condition("Accepted", "Accepted"), condition("Programmed", "Programmed")],
        "listeners": [
            {
                "name": "http",
                "attachedRoutes": 1,
                "supportedKinds": [{"group": "gateway.networking.k8s.io", "kind": "HTTPRoute"}],
                "conditions": [
                    condition("Accepted", "Accepted"),
                    condition("Programmed", "Programmed"),
                    condition("ResolvedRefs", "ResolvedRefs"),
                ],
            }
        ],
    }


def test_a_gateway_without_an_edge_says_so_until_there_is_one():
    async def main(lab):
        lab.apply(gateway())
        await lab.settle()
        before = lab.get(gateway())["status"]
        lab.cluster.set_gateway_address("127.0.0.1:1")
        await lab.settle()
        return before, lab.get(gateway())["status"]

    before, after = run_cluster(main)
    assert "addresses" not in before
    assert before["conditions"][1] == condition(
        "Programmed", "AddressNotAssigned", "the Gateway has no address yet", status="False"
    )
    assert after["addresses"] == [{"type": "Hostname", "value": "127.0.0.1:1"}]


def test_gateways_of_another_class_are_not_ours():
    theirs = gateway()
    theirs["spec"]["gatewayClassName"] = "istio"
    assert settled(theirs, route(), service()) == {"Gateway": None, "HTTPRoute": None, "Service": None}


def test_a_route_that_is_in_force():
    assert settled(gateway(), route(), service())["HTTPRoute"] == {
        "parents": [
            {
                "parentRef": {"name": "inference-gateway", "namespace": "modelplane-system"},
                "controllerName": CONTROLLER,
                "conditions": [condition("Accepted", "Accepted"), condition("ResolvedRefs", "ResolvedRefs")],
            }
        ]
    }


def test_a_route_without_a_gateway_has_no_status():
    assert settled(route(), service())["HTTPRoute"] is None


def changed(made, **fields):
    found = copy.deepcopy(made)
    for path, value in fields.items():
        *parents, last = path.split("__")
        at = found["spec"]
        for part in parents:
            at = at[int(part)] if part.isdigit() else at[part]
        at[last] = value
    return found


BACKEND = "rules__0__backendRefs"


@pytest.mark.parametrize(
    ("case", "items", "kind", "reason", "message"),
    [
        (
            "no such service",
            [gateway(), route(backend="other"), service()],
            "ResolvedRefs",
            "BackendNotFound",
            "Service team/other not found",
        ),
        (
            "no such port",
            [gateway(), route(port=81), service()],
            "ResolvedRefs",
            "PortNotFound",
            "Service team/model has no port 81",
        ),
        (
            "not a service",
            [gateway(), changed(route(), **{BACKEND: [{"group": "x", "kind": "Y", "name": "z"}]}), service()],
            "ResolvedRefs",
            "InvalidKind",
            "backend Y team/z is neither a Service nor an InferencePool",
        ),
        (
            "another namespace",
            [gateway(), changed(route(), **{BACKEND: [{"name": "m", "namespace": "default", "port": 80}]}), service()],
            "ResolvedRefs",
            "RefNotPermitted",
            "no ReferenceGrant allows Service default/m",
        ),
        (
            "namespace not allowed",
            [changed(gateway(), listeners__0__allowedRoutes={}), route(), service()],
            "Accepted",
            "NotAllowedByListeners",
            "no listener allows routes of namespace team",
        ),
        (
            "no such listener",
            [
                gateway(),
                changed(route(), parentRefs__0__sectionName="https"),
                service(),
            ],
            "Accepted",
            "NoMatchingParent",
            "the Gateway has no listener named https",
        ),
    ],
)
def test_why_a_route_is_not_in_force(case, items, kind, reason, message):
    (parent,) = settled(*items)["HTTPRoute"]["parents"]
    found = next(entry for entry in parent["conditions"] if entry["type"] == kind)
    assert found == condition(kind, reason, message, status="False"), case


def test_a_grant_opens_another_namespace():
    grant = manifest(
        "gateway.networking.k8s.io/v1beta1",
        "ReferenceGrant",
        "open",
        namespace="default",
        spec={
            "from": [{"group": "gateway.networking.k8s.io", "kind": "HTTPRoute", "namespace": TENANT_NAMESPACE}],
            "to": [{"group": "", "kind": "Service"}],
        },
    )
    backend = manifest("v1", "Service", "m", namespace="default", spec={"ports": [{"port": 80}]})
    foreign = changed(route(), **{BACKEND: [{"name": "m", "namespace": "default", "port": 80}]})

    async def main(lab):
        lab.apply(gateway(), foreign, backend)
        await lab.settle()
        before = lab.get(foreign)["status"]["parents"][0]["conditions"][1]["status"]
        lab.apply(grant)
        await lab.settle()
        return before, lab.get(foreign)["status"]["parents"][0]["conditions"][1]["status"]

    assert run_cluster(main) == ("False", "True")


def test_a_route_follows_its_service_and_its_gateway():
    async def main(lab):
        lab.apply(gateway(), route())
        await lab.settle()
        states = [lab.get(route())["status"]["parents"][0]["conditions"][1]["status"]]
        lab.apply(service())
        await lab.settle()
        states.append(lab.get(route())["status"]["parents"][0]["conditions"][1]["status"])
        lab.store.delete(ref_of(gateway()))
        await lab.settle()
        return states, lab.get(route())["status"]

    assert run_cluster(main) == (["False", "True"], {"parents": []})


def test_namespaces_can_be_allowed_by_label():
    chosen = {"namespaces": {"from": "Selector", "selector": {"matchLabels": {"tenant": "yes"}}}}
    listed = changed(gateway(), listeners__0__allowedRoutes=chosen)

    async def main(lab):
        lab.apply(listed, route(), service())
        await lab.settle()
        before = lab.get(route())["status"]["parents"][0]["conditions"][0]["status"]
        lab.apply(manifest("v1", "Namespace", TENANT_NAMESPACE, labels={"tenant": "yes"}))
        lab.apply(changed(listed, listeners__0__port=81))
        await lab.settle()
        return before, lab.get(route())["status"]["parents"][0]["conditions"][0]["status"]

    assert run_cluster(main) == ("False", "True")
