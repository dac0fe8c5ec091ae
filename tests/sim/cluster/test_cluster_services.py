import pytest

from modelplane.api.objects import name_of
from modelplane.reconcile.store import ref_of
from modelplane.sim.cluster.services import _slices, resolved_port
from modelplane.testing.cluster import claim_template, deployment, gpu_pool, run_cluster, service

POOLS = [gpu_pool("h200", 1)]


def slices(lab):
    return lab.store.list("discovery.k8s.io", "EndpointSlice")


def test_the_slice_of_a_service():
    async def main(lab):
        lab.apply(claim_template(), deployment(), service())
        await lab.settle()
        (found,) = slices(lab)
        (pod,) = lab.pods()
        return lab.get(service()), pod, found

    made, pod, found = run_cluster(main, pools=POOLS)
    assert found["metadata"]["labels"] == {
        "kubernetes.io/service-name": "model",
        "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
    }
    owner = {"apiVersion": "v1", "kind": "Service", "name": "model", "uid": made["metadata"]["uid"]}
    assert found["metadata"]["ownerReferences"] == [{**owner, "controller": True, "blockOwnerDeletion": True}]
    assert {k: v for k, v in found.items() if k != "metadata"} == {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "addressType": "IPv4",
        "ports": [{"name": "http", "port": 8000, "protocol": "TCP"}],
        "endpoints": [
            {
                "addresses": ["10.128.0.2"],
                "conditions": {"ready": True, "serving": True, "terminating": False},
                "nodeName": "h200-0",
                "targetRef": {"kind": "Pod", "namespace": "team", "name": name_of(pod), "uid": pod["metadata"]["uid"]},
            }
        ],
    }


def test_endpoints_follow_readiness():
    async def main(lab):
        lab.engines.answers = False
        lab.apply(claim_template(), deployment(replicas=2), service())
        await lab.clock.sleep(5)
        before = [e["conditions"]["ready"] for item in slices(lab) for e in item["endpoints"]]
        lab.engines.answers = True
        await lab.settle()
        after = [e["conditions"]["ready"] for item in slices(lab) for e in item["endpoints"]]
        lab.apply(deployment(replicas=0))
        await lab.settle()
        return before, after, slices(lab)

    assert run_cluster(main, pools=POOLS) == ([False, False], [True, True], ())


def test_a_service_that_goes_takes_its_slices_with_it():
    async def main(lab):
        lab.apply(claim_template(), deployment(), service())
        await lab.settle()
        lab.store.delete(ref_of(service()))
        await lab.settle()
        return slices(lab)

    assert run_cluster(main, pools=POOLS) == ()


def test_a_slice_that_somebody_changed_is_mended():
    async def main(lab):
        lab.apply(claim_template(), deployment(), service())
        await lab.settle()
        (found,) = slices(lab)
        lab.store.replace({**found, "endpoints": []})
        await lab.settle()
        return slices(lab)[0]["endpoints"] == found["endpoints"]

    assert run_cluster(main, pools=POOLS)


def pod(name, *, port=8000, ready=True):
    ports = [{"name": "http", "containerPort": port}]
    return {
        "metadata": {"name": name, "namespace": "team", "uid": name},
        "spec": {"nodeName": "n", "containers": [{"name": "engine", "ports": ports}]},
        "status": {"podIP": "10.128.0.2", "conditions": [{"type": "Ready", "status": str(ready)}]},
    }


def test_pods_whose_port_resolves_differently_are_in_other_slices():
    found = list(_slices(service(), [pod("a"), pod("b", port=9000), pod("c")]))
    listed = [(item["ports"][0]["port"], [e["targetRef"]["name"] for e in item["endpoints"]]) for item in found]
    assert listed == [(8000, ["a", "c"]), (9000, ["b"])]


def test_a_slice_holds_a_hundred_endpoints():
    found = list(_slices(service(), [pod(f"p{n:03d}") for n in range(250)]))
    assert [len(item["endpoints"]) for item in found] == [100, 100, 50]
    assert len({name_of(item) for item in found}) == 3


@pytest.mark.parametrize(
    ("port", "expected"),
    [
        ({"port": 80, "targetPort": "http"}, 8000),
        ({"port": 80, "targetPort": 1234}, 1234),
        ({"port": 80}, 80),
        ({"port": 80, "targetPort": "other"}, None),
    ],
)
def test_ports_resolve_by_name_or_number(port, expected):
    assert resolved_port(port, pod("a")) == expected
