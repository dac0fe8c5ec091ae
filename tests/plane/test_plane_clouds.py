"""Clusters that the embedded plane makes on simulated clouds, with the platform team's example."""

from pathlib import Path

import pytest
import yaml

from modelplane.api.meta import ClusterName
from modelplane.api.objects import GROUP, items_at, name_of
from modelplane.apiserver.store.database import Database
from modelplane.compose.clouds import CLOUDS
from modelplane.reconcile.store import ObjectRef
from modelplane.sim.cloud import CLOUD_FAULTS
from modelplane.sim.cluster.objects import annotated, condition_of
from modelplane.sim.cluster.settings import STOCK
from modelplane.testing.clock import run_virtual
from tests.compose.clouds import POOLS, ZONES, machine_class, make_cloud
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


MAKERS = [source for source, cloud in CLOUDS.items() if cloud.makes_machines]
ELSEWHERE = {
    "apiVersion": "modelplane.ai/v1alpha1",
    "kind": "InferenceCluster",
    "metadata": {"name": "rented"},
    "spec": {
        "cluster": {"source": "Existing", "existing": {"secretRef": {"name": "rented-kubeconfig"}}},
        "nodePools": [{"name": "h100", "className": "h100", "nodeCount": 4}],
    },
}


def clusters_of(source, pool):
    """A class with its GPUs, a cluster on the cloud, and one that exists."""
    kind = {"apiVersion": "modelplane.ai/v1alpha1", "kind": "InferenceClass", **machine_class(source)}
    kind["spec"]["provisioning"] = kind["spec"]["provisioning"] or {}
    kind["spec"] = {key: value for key, value in kind["spec"].items() if value}
    kind["spec"]["devices"] = [
        {
            **kind["spec"]["devices"][0],
            "attributes": {"architecture": {"string": "Hopper"}},
            "capacity": {"memory": {"value": "80Gi"}},
        }
    ]
    return kind, make_cloud(source, pool), ELSEWHERE


@pytest.mark.parametrize("source", MAKERS)
def test_on_every_cloud_a_stock_out_is_named_and_replicas_go_elsewhere(source):
    async def main(clock):
        async with running_fleet(clock) as fleet:
            for item in clusters_of(source, "fixed"):
                named = item["metadata"]["name"] == "east"
                fleet.plane.create(annotated(item, STOCK, "fixed=0") if named else item)
            await clock.sleep(60)
            assert said(fleet, "east", "Provisioned") == ("False", "InsufficientCapacity")
            message = condition_of(fleet.get("InferenceCluster", "east"), "Provisioned")["message"]
            accelerator = "nvidia-h100-80gb" if source == "GKE" else "h100"
            zones = ", ".join(ZONES[source]) or "the region"
            assert message.startswith(f"pool fixed: no {accelerator} in {zones}: ")
            assert pools(fleet, "east") == {"fixed": 0}
            # Its other pools would serve: a pool that is sold out makes no cluster unready.
            assert said(fleet, "east", "Ready") == ("True", "Available")
            apply(fleet, "ModelDeployment")
            await clock.sleep(60)
            assert (set(where(fleet)), len(where(fleet))) == ({"rented"}, 4)
            fleet.clusters.annotate(ClusterName("east"), STOCK, None)
            await clock.sleep(30)
            assert (said(fleet, "east", "Provisioned")[0], pools(fleet, "east")) == ("True", {"fixed": 4})

    run_virtual(main)


@pytest.mark.parametrize(("source", "pool"), [("K3s", "fixed"), ("EKS", "efa"), ("EKS", "block"), ("Nebius", "fabric")])
def test_what_is_made_late_or_one_by_one_is_made_and_taken_down(source, pool):
    """Agents of K3s are nodes of their own; templates and fabrics of a pool come before its nodes."""

    async def main(clock):
        async with running_fleet(clock) as fleet:
            for item in clusters_of(source, pool)[:2]:
                fleet.plane.create(item)
            await clock.sleep(90)
            assert said(fleet, "east", "Provisioned") == ("True", "Provisioned")
            assert said(fleet, "east", "Ready") == ("True", "Available")
            assert pools(fleet, "east") == {pool: POOLS[pool]["nodeCount"]}
            fleet.plane.delete(ObjectRef(GROUP, "InferenceCluster", "", "east"))
            await clock.sleep(60)
            assert fleet.plane.get(ObjectRef(GROUP, "InferenceCluster", "", "east")) is None
            managed = (".m.upbound.io", "helm.m.crossplane.io", "k3s.m.crossplane.io")
            left = [pair for pair in fleet.plane.kinds() if pair[0].endswith(managed) and fleet.plane.list(*pair)]
            assert left == []

    run_virtual(main)


def test_a_chart_that_fails_is_shown_with_its_reason_and_mended():
    async def main(clock):
        async with running_fleet(clock) as fleet:
            apply(
                fleet, "InferenceClass", "InferenceCluster", google={CLOUD_FAULTS: "stack-cert-manager=no such chart"}
            )
            await clock.sleep(60)
            found = condition_of(fleet.get("InferenceCluster", "google"), "RequirementsMet")
            assert (found["status"], found["reason"]) == ("False", "InstallationFailed")
            assert found["message"].startswith("cert-manager: no such chart; ")
            fleet.clusters.annotate(ClusterName("google"), CLOUD_FAULTS, None)
            await clock.sleep(60)
            assert said(fleet, "google", "RequirementsMet") == ("True", "RequirementsMet")

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
