"""Clusters that the embedded plane makes on simulated clouds, with the platform team's example."""

from pathlib import Path

import pytest
import yaml

from modelplane.api.meta import ClusterName
from modelplane.api.objects import GROUP, items_at, name_of
from modelplane.apiserver.store.database import Database
from modelplane.reconcile.store import ObjectRef
from modelplane.sim.cloud import CLOUD_FAULTS
from modelplane.sim.cluster.objects import condition_of
from modelplane.sim.cluster.settings import STOCK
from modelplane.testing.clock import run_virtual
from tests.support.local_fleet import running_fleet

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "platform"


def documents(*kinds):
    for path in sorted(EXAMPLES.glob("*.yaml")):
        yield from (each for each in yaml.safe_load_all(path.read_text()) if each["kind"] in kinds)


def apply(fleet, *kinds, **annotations):
    for manifest in documents(*kinds):
        if manifest["kind"] == "InferenceCluster":
            manifest["metadata"]["annotations"] = annotations.get(manifest["metadata"]["name"], {})
        fleet.plane.create(manifest)


def said(fleet, cluster, kind):
    found = condition_of(fleet.get("InferenceCluster", cluster), kind)
    return found.get("status"), found.get("reason")


def pools(fleet, cluster):
    return {
        pool["name"]: pool["nodes"] for pool in items_at(fleet.get("InferenceCluster", cluster), "status", "gpuPools")
    }


def where(fleet):
    return sorted(cluster for cluster, _ in fleet.replicas())


@pytest.mark.slow
def test_the_platform_example_makes_its_clusters_and_serves():
    async def main(clock):
        async with running_fleet(clock) as fleet:
            apply(fleet, "InferenceClass", "InferenceCluster", "InferenceGateway")
            await clock.sleep(2)
            assert (said(fleet, "google", "Ready"), pools(fleet, "google")) == (("False", "Provisioning"), {"h100": 0})
            assert said(fleet, "rented", "RequirementsMet") == ("True", "RequirementsMet")
            await clock.sleep(60)
            for cluster in ("google", "amazon"):
                assert said(fleet, cluster, "Provisioned") == ("True", "Provisioned")
                assert said(fleet, cluster, "RequirementsMet") == ("True", "RequirementsMet")
                assert said(fleet, cluster, "Ready") == ("True", "Available")
            assert (pools(fleet, "google"), pools(fleet, "amazon")) == ({"h100": 4}, {"h100": 2})
            apply(fleet, "ModelDeployment")
            await clock.sleep(90)
            assert set(fleet.replicas().values()) == {"True"}
            assert set(where(fleet)) == {"amazon", "google", "rented"}

    run_virtual(main)


def test_a_stock_out_names_zone_and_accelerator_and_replicas_go_elsewhere():
    async def main(clock):
        async with running_fleet(clock) as fleet:
            apply(fleet, "InferenceClass", "InferenceCluster", "InferenceGateway", google={STOCK: "h100=0"})
            await clock.sleep(60)
            assert said(fleet, "google", "Provisioned") == ("False", "InsufficientCapacity")
            told = condition_of(fleet.get("InferenceCluster", "google"), "Provisioned")["message"]
            assert told.startswith("pool h100: no nvidia-h100-80gb in us-central1-a, us-central1-c: the zones do not")
            assert pools(fleet, "google") == {"h100": 0}
            apply(fleet, "ModelDeployment")
            await clock.sleep(90)
            assert where(fleet) == ["amazon", "amazon", "rented", "rented"]
            fleet.clusters.annotate(ClusterName("google"), STOCK, None)
            await clock.sleep(30)
            assert (said(fleet, "google", "Provisioned")[0], pools(fleet, "google")) == ("True", {"h100": 4})

    run_virtual(main)


def test_a_failure_of_the_cloud_is_shown_and_mended():
    async def main(clock):
        async with running_fleet(clock) as fleet:
            apply(fleet, "InferenceClass", "InferenceCluster", google={CLOUD_FAULTS: "cluster=forbidden by policy"})
            await clock.sleep(60)
            assert said(fleet, "google", "Provisioned") == ("False", "ProvisioningFailed")
            assert said(fleet, "google", "Ready") == ("False", "ProvisioningFailed")
            assert fleet.clusters.get(ClusterName("google")) is None
            fleet.clusters.annotate(ClusterName("google"), CLOUD_FAULTS, None)
            await clock.sleep(60)
            assert said(fleet, "google", "Ready") == ("True", "Available")

    run_virtual(main)


def test_a_cluster_is_taken_down_in_order_and_nothing_is_left():
    async def main(clock):
        async with running_fleet(clock) as fleet:
            apply(fleet, "InferenceClass", "InferenceCluster")
            await clock.sleep(60)
            gone = []
            fleet.plane.subscribe(lambda change: gone.append(change.ref.kind) if change.type == "DELETED" else None)
            fleet.plane.delete(ObjectRef(GROUP, "InferenceCluster", "", "google"))
            await clock.sleep(60)
            assert fleet.plane.get(ObjectRef(GROUP, "InferenceCluster", "", "google")) is None
            order = [gone.index(kind) for kind in ("Release", "Cluster", "Subnetwork", "Network")]
            assert order == sorted(order)
            assert gone.index("NodePool") < gone.index("Cluster")
            left = [
                name_of(item)
                for group, kind in fleet.plane.kinds()
                if group.endswith((".m.upbound.io", "helm.m.crossplane.io"))
                for item in fleet.plane.list(group, kind)
                if name_of(item).startswith("google-")
            ]
            assert left == []

    run_virtual(main)


def test_a_cluster_on_a_cloud_survives_a_restart_of_the_plane():
    async def main(clock):
        database = Database(None, clock=clock)
        async with running_fleet(clock, database) as fleet:
            apply(fleet, "InferenceClass", "InferenceCluster")
            await clock.sleep(60)
            assert said(fleet, "google", "Ready") == ("True", "Available")
        async with running_fleet(clock, database) as fleet:
            await clock.sleep(10)
            assert said(fleet, "google", "Ready") == ("True", "Available")
            assert said(fleet, "google", "Provisioned") == ("True", "Provisioned")
            assert pools(fleet, "google") == {"h100": 4}

    run_virtual(main)
