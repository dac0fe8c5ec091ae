import asyncio

import pytest

from modelplane.api.meta import ClusterName
from modelplane.api.objects import GROUP, manifest
from modelplane.apiserver.store.database import Database
from modelplane.reconcile.store import ObjectRef
from modelplane.sim.cloud import CLOUD_FAULTS, ManagedKey, SimulatedProviders
from modelplane.sim.cloud.providers import faults_of, made_nodes, references
from modelplane.sim.cluster.objects import annotated, condition_of
from modelplane.testing.clock import run_virtual

API = "container.gcp.m.upbound.io/v1beta1"
EAST = ClusterName("east")


def managed(name, kind="NodePool", **body):
    return manifest(API, kind, name, namespace="modelplane-system", spec={"forProvider": body})


class Bench:
    """The providers over a real store, for resources whose names are their keys."""

    def __init__(self, clock, speed=60.0):
        self.changes = []
        self.store = Database(None, clock=clock).store("plane")
        self.store.create(manifest("modelplane.ai/v1alpha1", "InferenceCluster", "east", spec={}))
        self.providers = SimulatedProviders(
            self.store,
            clock,
            lambda item: ManagedKey(EAST, item["metadata"]["name"]),
            speed=speed,
            changed=self.changes.append,
        )

    def said(self, name, kind="NodePool"):
        item = self.store.get(ObjectRef("container.gcp.m.upbound.io", kind, "modelplane-system", name))
        return condition_of(item, "Ready").get("status"), condition_of(item, "LastAsyncOperation").get("message")

    def annotate(self, key, value):
        found = self.store.get(ObjectRef(GROUP, "InferenceCluster", "", "east"))
        self.store.replace(annotated(found, key, value))


def story(tell, **options):
    async def main(clock):
        bench = Bench(clock, **options)
        task = asyncio.create_task(bench.providers.loop.run())
        try:
            await tell(bench, clock)
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    run_virtual(main)


def test_a_resource_takes_its_time_after_what_it_refers_to():
    async def tell(bench, clock):
        bench.store.create(managed("cloud-pool-a", clusterRef={"name": "cloud-cluster"}))
        await clock.sleep(30)
        assert bench.said("cloud-pool-a")[0] is None
        bench.store.create(managed("cloud-cluster", "Cluster"))
        await clock.sleep(7)
        assert bench.providers.ready_keys(EAST) == frozenset()
        await clock.sleep(2)
        assert bench.providers.ready_keys(EAST) == {"cloud-cluster"}
        await clock.sleep(5)
        assert (bench.said("cloud-pool-a")[0], set(bench.changes)) == ("True", {"east"})

    story(tell)


def test_a_pool_without_stock_fails_as_its_cloud_does_until_it_is_restocked():
    async def tell(bench, clock):
        bench.annotate("sim.modelplane.ai/stock", "a=0,b=1")
        bench.store.create(managed("cloud-pool-a"))
        bench.store.create(managed("cloud-pool-b"))
        await clock.sleep(10)
        assert bench.said("cloud-pool-a")[0] == "False"
        assert "GCE_STOCKOUT" in bench.said("cloud-pool-a")[1]
        assert bench.said("cloud-pool-b")[0] == "True"
        bench.annotate("sim.modelplane.ai/stock", None)
        await clock.sleep(10)
        assert bench.said("cloud-pool-a") == ("True", None)

    story(tell)


def test_any_resource_can_fail():
    async def tell(bench, clock):
        bench.annotate(CLOUD_FAULTS, "pool-a=limit reached; other=x")
        bench.store.create(managed("cloud-pool-a"))
        await clock.sleep(10)
        assert bench.said("cloud-pool-a") == ("False", "limit reached")

    story(tell)


def test_what_is_deleted_is_forgotten():
    async def tell(bench, clock):
        bench.store.create(managed("cloud-cluster", "Cluster"))
        await clock.sleep(10)
        bench.store.delete(ObjectRef("container.gcp.m.upbound.io", "Cluster", "modelplane-system", "cloud-cluster"))
        assert bench.providers.ready_keys(EAST) == frozenset()

    story(tell)


@pytest.mark.parametrize(
    ("body", "names"),
    [
        ({"networkRef": {"name": "n"}, "region": "r"}, ["n"]),
        ({"vpcConfig": {"subnetIdRefs": [{"name": "a"}, {"name": "b"}]}}, ["a", "b"]),
        ({"xRef": 5, "yRefs": [7, {"name": "c"}]}, ["c"]),
        (None, []),
    ],
)
def test_references(body, names):
    assert list(references(body)) == names


@pytest.mark.parametrize(
    ("text", "faults"),
    [("", {}), ("a=b; c = d e ;", {"a": "b", "c": "d e"}), ("nonsense;=x;y=", {})],
)
def test_faults(text, faults):
    assert faults_of(text) == faults


@pytest.mark.parametrize(
    ("made", "nodes"),
    [
        (set(), 0),
        ({"cloud-pool-h100"}, 4),
        ({"cloud-pool-h100.node-a", "cloud-pool-h100.node-b"}, 2),
        ({"cloud-pool-h100-2", "cloud-pool-h100.template", "cloud-pool-h100-2.node-a"}, 0),
    ],
)
def test_the_nodes_of_a_pool_are_made_at_once_or_one_by_one(made, nodes):
    assert made_nodes("h100", 4, frozenset(made)) == nodes
