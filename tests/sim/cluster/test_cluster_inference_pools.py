"""Routes lead through a pool to its ready pods."""

import pytest

from modelplane.api.labels import CLUSTER_GATEWAY
from modelplane.api.objects import manifest
from modelplane.envoy import render
from modelplane.reconcile.store import ref_of
from modelplane.sim.cluster.inference_pools import target_port
from modelplane.testing.cluster import (
    TENANT_NAMESPACE,
    claim_template,
    deployment,
    gateway,
    gpu_pool,
    route,
    run_cluster,
    service,
)

API = "inference.networking.k8s.io"


def pool(*, port=8000, picker="picker", failure="FailOpen"):
    reference = {"name": picker, "port": {"number": 9002}, "failureMode": failure}
    spec = {"selector": {"matchLabels": {"app": "model"}}, "targetPorts": [{"number": port}]}
    spec["endpointPickerRef"] = reference
    return manifest(f"{API}/v1", "InferencePool", "pool", namespace=TENANT_NAMESPACE, spec=spec)


def to_pool():
    item = route()
    item["spec"]["rules"][0]["backendRefs"] = [{"group": API, "kind": "InferencePool", "name": "pool"}]
    return item


def in_cluster(story):
    async def main(lab):
        lab.cluster.set_gateway_address("127.0.0.1:1")
        lab.apply(claim_template(), deployment(replicas=2), gateway(), to_pool())
        return await story(lab)

    return run_cluster(main, pools=[gpu_pool()])


def said(lab):
    parents = lab.get(pool()).get("status", {}).get("parents", ())
    return [(p["parentRef"]["name"], {c["type"]: c["status"] for c in p["conditions"]}) for p in parents]


def resolved(lab):
    (parent,) = lab.get(to_pool())["status"]["parents"]
    return {c["type"]: c["reason"] for c in parent["conditions"]}["ResolvedRefs"]


def test_requests_go_to_the_ready_pods_of_the_pool():
    async def story(lab):
        lab.apply(pool(), service("picker"))
        await lab.settle()
        view = lab.cluster.gateway_view()
        config = render([view])
        (cluster,) = config.clusters.values()
        (group,) = cluster["load_assignment"]["endpoints"]
        addresses = [e["endpoint"]["address"]["socket_address"]["port_value"] for e in group["lb_endpoints"]]
        return (
            config.problems,
            addresses,
            sorted(running.port for running in lab.engines.running),
            said(lab),
            resolved(lab),
        )

    problems, addresses, engines, parents, route_says = in_cluster(story)
    assert problems == ()
    assert addresses == engines
    assert parents == [(CLUSTER_GATEWAY, {"Accepted": "True", "ResolvedRefs": "True"})]
    assert route_says == "ResolvedRefs"


@pytest.mark.parametrize(("failure", "pools"), [("FailOpen", 1), ("FailClose", 0), (None, 0)])
def test_without_its_picker_a_pool_gets_requests_only_where_it_fails_open(failure, pools):
    async def story(lab):
        lab.apply(pool(failure=failure), service("picker"))
        await lab.settle()
        return len(render([lab.cluster.gateway_view()]).clusters)

    assert in_cluster(story) == pools


def test_a_route_to_a_pool_that_is_not_there_says_so_until_it_is():
    async def story(lab):
        await lab.settle()
        before = resolved(lab)
        lab.apply(pool())
        await lab.settle()
        return before, resolved(lab), said(lab)

    before, after, parents = in_cluster(story)
    assert (before, after) == ("BackendNotFound", "ResolvedRefs")
    assert parents == [(CLUSTER_GATEWAY, {"Accepted": "True", "ResolvedRefs": "False"})]


def test_a_pool_that_nobody_routes_to_has_no_parents():
    async def story(lab):
        lab.apply(pool(), service("picker"))
        await lab.settle()
        lab.store.delete(ref_of(to_pool()))
        await lab.settle()
        return lab.get(pool())["status"]

    assert in_cluster(story) == {"parents": []}


def test_ports_of_either_version():
    assert target_port({"spec": {"targetPorts": [{"number": 9000}]}}) == 9000
    assert target_port({"spec": {"targetPortNumber": 7000}}) == 7000
