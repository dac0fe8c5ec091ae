"""What is asked of clouds, and what is said of their answers, beyond the clusters of the golden files."""

from dataclasses import replace

import pytest

from modelplane.compose.contract import Requirement
from tests.compose.clouds import GPU, compose, machine_class, make_cloud, seen, settled
from tests.compose.test_compose_clouds import condition


def asked(result, key):
    return result.desired[key].target.manifest["spec"]["forProvider"]


@pytest.mark.parametrize(
    ("source", "given", "expected"),
    [
        ("GKE", "1.36", {"minMasterVersion": "1.36"}),
        ("EKS", "1.33", {"version": "1.33"}),
        ("AKS", "1.33", {"kubernetesVersion": "1.33"}),
        ("K3s", "1.33", {"k3sChannel": "v1.33"}),
        ("Vultr", "v1.35.0+1", {"version": "v1.35.0+1"}),
        ("Civo", "1.33.0-k3s1", {"kubernetesVersion": "1.33.0-k3s1"}),
    ],
)
def test_a_cluster_has_the_version_of_kubernetes_that_it_names(source, given, expected):
    item = make_cloud(source, "fixed")
    item["spec"]["cluster"][source.lower()]["kubernetesVersion"] = given
    found = asked(settled(item)[0], "cloud-cluster")
    assert {key: value for key, value in found.items() if key in expected} == expected


def test_all_refusals_of_a_cloud_are_shown():
    item = make_cloud("Civo", "fixed")
    _, observed = settled(item)
    for key, message in (("cloud-network", "no such region"), ("cloud-firewall", "forbidden")):
        trouble = {"conditions": [{"type": "Synced", "status": "False", "message": message}]}
        observed[key] = seen(key, observed[key], ready=False, status=trouble)
    message = "network: no such region; firewall: forbidden"
    assert condition(compose(item, observed), "Provisioned") == ("False", "ProvisioningFailed", message)


def test_a_template_is_changed_also_while_the_cluster_does_not_report_its_group():
    item = make_cloud("EKS", "efa")
    result, observed = settled(item)
    key = "cloud-pool-efa.template"
    before = asked(result, key)
    observed["cloud-cluster"] = seen("cloud-cluster", observed["cloud-cluster"], status={"conditions": []})
    larger = machine_class("EKS")
    larger["spec"]["provisioning"]["eks"]["diskSizeGb"] = 900
    after = asked(compose(item, observed, **{"class-h100": (larger,)}), key)
    assert [each["blockDeviceMappings"][0]["ebs"]["volumeSize"] for each in (before, after)] == [500, 900]
    assert after["networkInterfaces"] == before["networkInterfaces"]


def test_all_pools_that_a_cloud_has_no_nodes_for_are_named():
    item = make_cloud("GKE", "fixed", "scaling")
    _, observed = settled(item)
    trouble = {"conditions": [{"type": "LastAsyncOperation", "status": "False", "message": "GCE_STOCKOUT"}]}
    for name in ("fixed", "scaling"):
        observed[f"cloud-pool-{name}"] = seen(name, observed[f"cloud-pool-{name}"], ready=False, status=trouble)
    lacks = "no nvidia-h100-80gb in us-central1-a, us-central1-c: GCE_STOCKOUT"
    message = f"pool fixed: {lacks}; pool scaling: {lacks}"
    assert condition(compose(item, observed), "Provisioned") == ("False", "InsufficientCapacity", message)


def test_all_classes_that_a_cloud_cannot_make_nodes_of_are_named():
    item = make_cloud("GKE", "fixed", "scaling")
    told = "InferenceClass h100 is provisioned by EKS, and the cluster is made by GKE"
    message = f"pool fixed: {told}; pool scaling: {told}"
    result = compose(item, **{"class-h100": (machine_class("EKS"),)})
    assert condition(result, "Provisioned") == ("False", "ProvisioningFailed", message)


def test_a_fact_of_a_class_needs_no_driver_of_the_cloud():
    fact = {"name": "fabric", "driver": "fabric.modelplane.ai", "claim": "Synthetic", "count": 1}
    found = machine_class("GKE", devices=[GPU, fact])
    result, _ = settled(make_cloud("GKE", "fixed"), **{"class-h100": (found,)})
    assert condition(result, "Provisioned") == ("True", "Provisioned", "")


def test_a_cluster_may_use_its_network_once_both_are_known():
    item = make_cloud("AKS", "fixed")
    _, observed = settled(item)
    for unknown in ("cloud-network", "cloud-cluster"):
        early = {key: found for key, found in observed.items() if key not in {unknown, "cloud-network-role"}}
        assert "cloud-network-role" not in compose(item, early).desired


def test_a_cluster_is_reached_when_all_that_it_is_reached_by_is_ready():
    item = make_cloud("EKS", "fixed")
    _, observed = settled(item)
    made = {key: found for key, found in observed.items() if key.startswith("cloud-")}
    assert any(not key.startswith("cloud-") for key in compose(item, made).desired)
    made["cloud-auth"] = seen("cloud-auth", made["cloud-auth"], ready=False)
    result = compose(item, made)
    assert [key for key in result.desired if not key.startswith("cloud-")] == []
    made["cloud-vpc"] = seen("cloud-vpc", made["cloud-vpc"], ready=False)
    message = f"2 of {len(result.desired)} are not ready: vpc, auth"
    assert condition(compose(item, made), "Provisioned") == ("False", "Provisioning", message)


def test_pools_with_efa_have_a_group_beside_pools_without():
    desired = settled(make_cloud("EKS", "fixed", "efa"))[0].desired
    assert {"cloud-efa-group", "cloud-efa-ingress", "cloud-efa-egress"} <= desired.keys()


def test_what_a_cloud_no_longer_reports_is_asked_for_as_it_was_beside_what_is_edited():
    gke, aks = make_cloud("GKE", "fixed"), make_cloud("AKS", "fixed")
    _, observed = settled(gke)
    observed["cloud-account"] = seen("cloud-account", observed["cloud-account"], status={"conditions": []})
    gke["spec"]["cluster"]["gke"]["project"] = "other"
    member = asked(compose(gke, observed), "cloud-member")
    assert (member["project"], member["member"]) == ("other", "serviceAccount:east@team-models.iam.example")
    _, observed = settled(aks)
    observed["cloud-cluster"] = seen("cloud-cluster", observed["cloud-cluster"], status={"conditions": []})
    network = {"conditions": [], "atProvider": {"id": "/networks/new"}}
    observed["cloud-network"] = seen("cloud-network", observed["cloud-network"], status=network)
    role = asked(compose(aks, observed), "cloud-network-role")
    assert (role["scope"], role["principalId"]) == ("/networks/new", "p-1")
    _, observed = settled(aks)
    observed["cloud-network"] = seen("cloud-network", observed["cloud-network"], status={"conditions": []})
    made_anew = {"conditions": [], "atProvider": {"identity": {"principalId": "p-2"}}}
    observed["cloud-cluster"] = seen("cloud-cluster", observed["cloud-cluster"], status=made_anew)
    role = asked(compose(aks, observed), "cloud-network-role")
    assert (role["scope"], role["principalId"]) == ("/subscriptions/s/networks/n", "p-2")


@pytest.mark.parametrize(("given", "name"), [({}, "default"), ({"credentials": {"name": "team"}}, "team")])
def test_the_project_of_a_gke_cluster_is_read_where_it_is_not_said(given, name):
    item = make_cloud("GKE", "fixed")
    item["spec"]["cluster"]["gke"] = {"region": "us-central1", **given}
    wanted = Requirement("gcp.m.upbound.io/v1beta1", "ClusterProviderConfig", name=name)
    assert compose(item).requirements["provider-config"] == wanted


def test_volumes_of_an_eks_cluster_wait_for_the_name_of_its_file_system():
    item = make_cloud("EKS", "fixed")
    _, observed = settled(item)
    made = compose(item, observed).desired.keys()
    files = observed["cloud-files"]
    named = {**files.manifest["metadata"], "annotations": {"crossplane.io/external-name": "east-files"}}
    observed["cloud-files"] = replace(
        files, target=replace(files.target, manifest={**files.manifest, "metadata": named})
    )
    classes = {key for key in observed if observed[key].manifest.get("kind") == "StorageClass"}
    late = compose(item, {key: found for key, found in observed.items() if key not in classes}).desired.keys()
    assert (len(classes), made - late) == (1, classes)


def test_a_type_without_efa_interfaces_is_named():
    given = machine_class("EKS")
    given["spec"]["provisioning"]["eks"]["instanceType"] = "g6.xlarge"
    message = "pool efa: InferenceClass h100: the catalogue knows no EFA interfaces of g6.xlarge"
    result = compose(make_cloud("EKS", "efa"), **{"class-h100": (given,)})
    assert condition(result, "Provisioned") == ("False", "ProvisioningFailed", message)


@pytest.mark.parametrize(
    ("source", "pool", "expected"),
    [
        ("GKE", {"zones": ["us-central1-a"]}, {"nodeCount": 4}),
        ("GKE", {}, {"nodeCount": 2}),
        ("GKE", {"nodeCount": 3}, {"nodeCount": 2}),
        ("EKS", {"nodeCount": 0}, {"scalingConfig": {"minSize": 0, "maxSize": 1, "desiredSize": 0}}),
        ("EKS", {"nodeCount": 1}, {"scalingConfig": {"minSize": 1, "maxSize": 1, "desiredSize": 1}}),
    ],
)
def test_the_size_of_a_pool_is_given_as_its_cloud_counts(source, pool, expected):
    item = make_cloud(source, "fixed")
    item["spec"]["nodePools"][0] |= pool
    found = asked(settled(item)[0], "cloud-pool-fixed")
    assert {key: value for key, value in found.items() if key in expected} == expected


@pytest.mark.parametrize(("counted", "nodes"), [(0, 0), (3, 4)])
def test_a_pool_that_never_had_nodes_has_none_and_one_that_had_keeps_its_size(counted, nodes):
    item = make_cloud("GKE", "fixed")
    _, observed = settled(item)
    observed["cloud-pool-fixed"] = seen("cloud-pool-fixed", observed["cloud-pool-fixed"], ready=False)
    item["status"] = {"gpuPools": [{"name": "fixed", "className": "h100", "nodes": counted}]}
    (pool,) = compose(item, observed).status.gpu_pools
    assert pool.nodes == nodes


@pytest.mark.parametrize(("late", "more"), [(5, ""), (6, " and 1 more")])
def test_five_that_are_not_ready_are_named_and_the_others_counted(late, more):
    item = make_cloud("EKS", "fixed")
    _, observed = settled(item)
    keys = [key for key in compose(item, observed).desired if key.startswith("cloud-")][1 : late + 1]
    for key in keys:
        observed[key] = seen(key, observed[key], ready=False)
    names = ", ".join(key.removeprefix("cloud-") for key in keys[:5])
    message = condition(compose(item, observed), "Provisioned")[2]
    assert message.partition(" are not ready: ")[2] == f"{names}{more}"
