"""Clusters that are made on clouds: golden files for each cloud and type of pool, and what holds of all of them."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from modelplane.compose.clouds import CLOUDS
from modelplane.compose.contract import Helm, Local
from tests.compose.clouds import AMD, ZONES, compose, machine_class, make_cloud, second, seen, settled

GOLDEN = Path(__file__).parent / "golden-clouds"
CASES = [
    *((source, pool) for source in CLOUDS for pool in ("fixed", second(source))),
    ("GKE", "reserved"),
    ("AKS", "reserved"),
    ("AKS", "amd"),
    ("Nebius", "fabric"),
    *(("EKS", pool) for pool in ("efa", "block", "targeted")),
]


class Plain(yaml.CSafeDumper):
    def ignore_aliases(self, _data):
        return True


def condition(result, kind):
    (found,) = [each for each in result.conditions if each.type == kind]
    return found.status.value, found.reason, found.message


def as_text(result):
    parts = []
    for key, desired in result.desired.items():
        target = desired.target
        if isinstance(target, Helm):
            body = {name: getattr(target, name) for name in ("repository", "chart", "version", "namespace", "values")}
        else:
            body = {name: part for name, part in target.manifest.items() if name != "status"}
        told = [type(target).__name__, *([f"outlives {', '.join(desired.outlives)}"] if desired.outlives else [])]
        if isinstance(target, Local | Helm) or body["kind"] == "StorageClass":
            parts.append(f"# {key}: {'; '.join(told)}\n{yaml.dump(body, Dumper=Plain, sort_keys=False, width=110)}")
    return "---\n".join(parts)


@pytest.mark.parametrize(("source", "pool"), CASES)
def test_what_a_cloud_is_asked_for_is_as_reviewed_and_well_formed(golden, problems, source, pool):
    result, _ = settled(make_cloud(source, pool))
    made = {key: item.target.manifest for key, item in result.desired.items() if isinstance(item.target, Local)}
    known = {key: item for key, item in made.items() if item["kind"] != "ManagedResourceActivationPolicy"}
    golden.check(GOLDEN / f"{source.lower()}.{pool}.yaml", as_text(result))
    assert not [f"{key}: {found}" for key, item in known.items() for found in problems(item)]
    assert condition(result, "Provisioned") == ("True", "Provisioned", "")
    assert result.ready.status.value == "True"


def test_no_golden_file_of_a_cloud_is_left_over(golden):
    golden.check_folder(GOLDEN, {f"{source.lower()}.{pool}.yaml" for source, pool in CASES})


@pytest.mark.parametrize("source", CLOUDS)
def test_nothing_is_put_on_a_cluster_before_it_can_be_reached(source):
    """83a0897e, a4f7d9ee: nothing is ready before it was observed."""
    result = compose(make_cloud(source, "fixed"))
    assert {key.partition("-")[0] for key in result.desired} == {"cloud"}
    assert not any(item.ready for item in result.desired.values())
    assert condition(result, "Provisioned")[:2] == ("False", "Provisioning")
    assert (result.ready.status.value, result.ready.reason) == ("False", "Provisioning")
    assert [pool.nodes for pool in result.status.gpu_pools] == [0]


@pytest.mark.parametrize("source", CLOUDS)
def test_kinds_are_activated_before_the_first_of_them_is_composed(source):
    """One kind that is not served keeps Crossplane from applying all others."""
    item = make_cloud(source, "fixed")
    first = compose(item)
    assert list(first.desired) == ["cloud-activation"]
    activated = {"cloud-activation": seen("cloud-activation", first.desired["cloud-activation"])}
    second = compose(item, activated)
    kinds = second.desired["cloud-activation"].target.manifest["spec"]["activate"]
    assert len(second.desired) > 2
    made = {
        item.target.manifest["kind"].lower()[:-1] for key, item in second.desired.items() if key != "cloud-activation"
    }
    assert not [kind for kind in made if not any(name.startswith(kind) for name in kinds)]


def plural(kind):
    return {"policy": "policies", "kubernetes": "kubernetes"}.get(kind, f"{kind}s")


@pytest.mark.parametrize(("source", "pool"), CASES)
def test_a_kind_that_is_needed_later_is_activated_a_pass_before_it_is_composed(source, pool):
    """What only the cloud knows comes late, and with it kinds that nothing else needs."""
    item, observed = make_cloud(source, pool), {}
    for _ in range(12):
        result = compose(item, observed)
        activated = set(observed["cloud-activation"].manifest["spec"]["activate"]) if observed else set()
        made = [found.target.manifest for key, found in result.desired.items() if key.startswith("cloud-")]
        kinds = {f"{plural(each['kind'].lower())}.{each['apiVersion'].partition('/')[0]}" for each in made[1:]}
        assert kinds <= activated
        observed = {key: seen(key, found) for key, found in result.desired.items()}
    assert condition(result, "Provisioned") == ("True", "Provisioned", "")


@pytest.mark.parametrize("source", CLOUDS)
def test_every_managed_resource_counts(source):
    """Seed 002: resources that nobody marked ready; here each one alone keeps the cluster from being provisioned."""
    item = make_cloud(source, "fixed")
    result, observed = settled(item)
    keys = [key for key in result.desired if key.startswith("cloud-") and key != "cloud-activation"]
    assert keys
    for key in keys:
        damaged = {**observed, key: replace(observed[key], ready=False)}
        status, reason, message = condition(compose(item, damaged), "Provisioned")
        assert (status, reason) == ("False", "Provisioning")
        assert message.endswith(key.removeprefix("cloud-"))


@pytest.mark.parametrize("source", CLOUDS)
def test_nothing_leaves_when_the_cluster_or_a_class_or_the_credentials_flap(source):
    """260a74d0, aaf14168: pools were dropped when the cluster flapped, and all when its credentials were deleted."""
    item = make_cloud(source, "fixed", second(source))
    _, observed = settled(item)
    unready = {key: replace(found, ready=False) for key, found in observed.items()}
    bare = {key: seen(key, found, ready=False, status={"conditions": []}) for key, found in unready.items()}
    for given in (observed, unready, bare):
        for required in ({}, {"class-h100": ()}, {"provider-config": ()}, {"class-h100": ({"metadata": {}},)}):
            assert observed.keys() <= compose(item, given, **required).desired.keys()


@pytest.mark.parametrize("source", CLOUDS)
def test_a_pool_leaves_when_it_leaves_the_spec(source):
    _, observed = settled(make_cloud(source, "fixed", second(source)))
    result = compose(make_cloud(source, "fixed"), observed)
    left = observed.keys() - result.desired.keys()
    assert left == {key for key in observed if key.startswith(f"cloud-pool-{second(source)}")}
    assert left


def _after(result):
    """What each object is deleted after, directly or not."""
    found = {key: set(item.outlives) & result.desired.keys() for key, item in result.desired.items()}
    for _ in found:
        found = {key: users.union(*(found[user] for user in users)) for key, users in found.items()}
    return found


@pytest.mark.parametrize("source", CLOUDS)
def test_what_a_cluster_is_reached_by_goes_last_and_no_order_is_a_circle(source):
    """0b7f3857: teardown hung for ever because the kubeconfig Secret went first."""
    result, _ = settled(make_cloud(source, "fixed"))
    after = _after(result)
    assert not [key for key, users in after.items() if key in users]
    remote = {key for key in result.desired if not key.startswith("cloud-")}
    for key in CLOUDS[source].access_keys:
        assert remote <= after[key]
        assert {"access-kubernetes", "access-helm"} <= set(result.desired[key].outlives)
    assert any(key.startswith("cloud-pool-fixed") for key in after["cloud-cluster"])


MAKERS = [source for source, cloud in CLOUDS.items() if cloud.makes_machines]


@pytest.mark.parametrize("source", MAKERS)
def test_a_class_that_names_a_cloud_and_no_machine_of_it_is_named(source):
    bare = machine_class(source)
    bare["spec"]["provisioning"] = {"provider": source}
    result = compose(make_cloud(source, "fixed"), **{"class-h100": (bare,)})
    block = f"spec.provisioning.{source.lower()}"
    assert condition(result, "Provisioned")[2].startswith(
        f"pool fixed: InferenceClass h100 has no {block}, which names its machines"
    )


def test_a_class_without_machines_of_the_cloud_is_named():
    """e89e9faf: a class that lacked provider settings was skipped silently and the pool never appeared."""
    bare = {"metadata": {"name": "h100"}, "spec": machine_class("GKE")["spec"] | {"provisioning": None}}
    told = "pool fixed: InferenceClass h100 has no spec.provisioning, and the cluster is made by GKE"
    result = compose(make_cloud("GKE", "fixed"), **{"class-h100": (bare,)})
    assert condition(result, "Provisioned") == ("False", "ProvisioningFailed", told)
    other = compose(make_cloud("GKE", "fixed"), **{"class-h100": (machine_class("EKS"),)})
    assert "is provisioned by EKS" in condition(other, "Provisioned")[2]


@pytest.mark.parametrize("source", ["GKE", "EKS", "AKS", "Vultr"])
def test_an_autoscaler_owns_the_size_of_a_pool_that_scales(source):
    """b3a6c159: Crossplane reset the autoscaler's size every minute."""
    name = second(source)
    spec = settled(make_cloud(source, name))[0].desired[f"cloud-pool-{name}"].target.manifest["spec"]
    stated = yaml.dump(spec["forProvider"])
    assert not re.search(r"\b(desiredSize|nodeCount|initialNodeCount|nodeQuantity):", stated)
    assert spec["initProvider"]
    assert "LateInitialize" not in spec["managementPolicies"]


def _template(pool, **given):
    item = make_cloud("EKS", pool)
    result, observed = settled(item, **given)
    return item, observed, result.desired[f"cloud-pool-{pool}.template"].target.manifest["spec"]["forProvider"]


EFA_CARDS = [
    ("p4d.24xlarge", [(0, 1), (1, 0), (2, 0), (3, 0)]),
    ("p5.4xlarge", [(0, 1)]),
    ("p5.48xlarge", [(0, 1), *((card, 0) for card in range(1, 32))]),
    ("p6-b300.48xlarge", [(card, 0) for card in range(1, 17)]),
]


@pytest.mark.parametrize(("machine", "cards"), EFA_CARDS)
def test_a_node_has_an_efa_interface_on_each_network_card_that_its_type_has_one_on(machine, cards):
    given = machine_class("EKS")
    given["spec"]["provisioning"]["eks"]["instanceType"] = machine
    _, _, template = _template("efa", **{"class-h100": (given,)})
    primary, *others = template["networkInterfaces"]
    assert primary["securityGroups"] == ["sg-c1"]
    assert {(primary["networkCardIndex"], primary["deviceIndex"])} == {(0, 0)}
    assert [(each["networkCardIndex"], each["deviceIndex"]) for each in others] == cards
    assert {each["interfaceType"] for each in others} == {"efa-only"}


def test_a_pool_of_amd_gpus_has_the_taint_that_its_pods_tolerate_and_no_driver_of_nvidia():
    desired = settled(make_cloud("AKS", "amd"))[0].desired
    pool = desired["cloud-pool-amd"].target.manifest["spec"]["forProvider"]
    assert (pool["gpuDriver"], pool["nodeTaints"]) == ("None", ["amd.com/gpu=present:NoSchedule"])
    assert "nvidia.com/gpu.present" not in pool["nodeLabels"]
    operator = desired["stack-gpu-operator-amd"].target.values["deviceConfig"]["spec"]
    assert operator["draDriver"]["tolerations"] == [{"key": "amd.com/gpu", "operator": "Exists"}]
    assert "stack-dra-driver-nvidia" not in desired


@pytest.mark.parametrize("source", ["GKE", "EKS"])
def test_a_cloud_without_amd_gpus_says_so(source):
    result = compose(make_cloud(source, "fixed"), **{"class-h100": (machine_class(source, devices=[AMD]),)})
    message = f"pool fixed: InferenceClass h100 has devices of gpu.amd.com; {source} has nodes with gpu.nvidia.com"
    assert condition(result, "Provisioned") == ("False", "ProvisioningFailed", message)


def test_a_type_whose_efa_interfaces_nobody_knows_is_named():
    given = machine_class("EKS")
    given["spec"]["provisioning"]["eks"]["instanceType"] = "p9.48xlarge"
    result = compose(make_cloud("EKS", "efa"), **{"class-h100": (given,)})
    message = "pool efa: InferenceClass h100: the catalogue knows no EFA interfaces of p9.48xlarge"
    assert condition(result, "Provisioned") == ("False", "ProvisioningFailed", message)


def test_a_pool_with_efa_waits_for_the_group_of_the_cluster_and_keeps_it():
    """Listed interfaces get no security group from EKS: without that of the cluster no node would join."""
    item, observed, template = _template("efa")
    early = {key: found for key, found in observed.items() if not key.startswith("cloud-pool-")}
    early["cloud-cluster"] = seen("cloud-cluster", observed["cloud-cluster"], ready=False, status={"conditions": []})
    assert not [key for key in compose(item, early).desired if key.startswith("cloud-pool-")]
    late = {**observed, "cloud-cluster": early["cloud-cluster"]}
    kept = compose(item, late).desired["cloud-pool-efa.template"].target.manifest["spec"]["forProvider"]
    assert kept == template


def test_a_pool_of_k3s_has_the_agents_that_name_it_each_with_its_label_and_taint():
    desired = settled(make_cloud("K3s", "fixed", "spare"))[0].desired
    nodes = {key: item.target.manifest["spec"]["forProvider"] for key, item in desired.items() if ".node-" in key}
    assert [key.removeprefix("cloud-pool-") for key in nodes] == [
        *(f"fixed.node-gpu-{at}" for at in range(4)),
        "spare.node-spare-0",
    ]
    spare = nodes["cloud-pool-spare.node-spare-0"]
    assert (spare["host"], spare["port"]) == ("spare.example.org", 2222)
    assert spare["extraArgs"] == (
        "--node-label=modelplane.ai/pool=spare --node-label=nvidia.com/gpu.present=true "
        "--node-taint=nvidia.com/gpu=present:NoSchedule"
    )


def test_an_agent_leaves_with_its_entry_and_stays_while_the_class_is_not_read():
    item = make_cloud("K3s", "fixed")
    _, observed = settled(item)
    item["spec"]["cluster"]["k3s"]["agents"].pop()
    item["spec"]["nodePools"][0]["nodeCount"] = 3
    assert observed.keys() - compose(item, observed).desired.keys() == {"cloud-pool-fixed.node-gpu-3"}
    assert observed.keys() <= compose(item, observed, **{"class-h100": ()}).desired.keys()


def test_an_agent_of_a_pool_that_is_not_there_is_named():
    item = make_cloud("K3s", "fixed")
    item["spec"]["cluster"]["k3s"]["agents"].append({"name": "x", "host": "192.0.2.9", "pool": "fixd"})
    message = "spec.cluster.k3s.agents[4].pool: spec.nodePools has no such pool"
    assert condition(compose(item), "Accepted") == ("False", "NotSupported", message)


def test_a_node_group_follows_the_version_of_its_template_and_keeps_it():
    item, observed, _ = _template("efa")
    template, group = "cloud-pool-efa.template", "cloud-pool-efa"
    versions = []
    for at_provider in ({}, {"latestVersion": 3}, {}):
        status = {"conditions": [], "atProvider": at_provider}
        made = compose(item, {**observed, template: seen(template, observed[template], status=status)}).desired[group]
        observed = {**observed, group: seen(group, made)}
        versions.append(made.target.manifest["spec"]["forProvider"]["launchTemplate"]["version"])
    assert versions == ["1", "3", "3"]


def test_what_a_pool_needs_leaves_with_it_and_after_it():
    _, observed, _ = _template("efa")
    result = compose(make_cloud("EKS", "fixed"), observed)
    assert {key for key in observed if key.startswith("cloud-pool-")} == observed.keys() - result.desired.keys()
    after = _after(settled(make_cloud("EKS", "efa"))[0])
    for key in ("cloud-pool-efa.template", "cloud-pool-efa.placement", "cloud-efa-group", "cloud-cluster"):
        assert "cloud-pool-efa" in after[key]


def test_an_eks_pool_has_an_autoscaler():
    """200c42e1: the maximum never came, for nothing scaled the groups."""
    release = settled(make_cloud("EKS", "scaling"))[0].desired["stack-cluster-autoscaler"].target
    assert release.values["autoDiscovery"]["clusterName"].startswith("east-cluster-")
    assert release.values["awsRegion"] == "us-east-1"


def test_the_gke_identity_and_the_pool_that_starts_from_zero():
    """f8d546cc: GKE's client certificates carry no rights. 190f7151: no cold start from zero without a label."""
    result, _ = settled(make_cloud("GKE", "scaling"))
    member = result.desired["cloud-member"].target.manifest["spec"]["forProvider"]
    assert member["member"] == "serviceAccount:east@team-models.iam.example"
    node = result.desired["cloud-pool-scaling"].target.manifest["spec"]["forProvider"]["nodeConfig"]
    assert node["labels"]["cloud.google.com/gke-nvidia-gpu-dra-driver"] == "true"


MEMBER_AND_CLUSTER = ("cloud-member", "cloud-cluster")


def test_the_project_comes_from_the_provider_configuration_and_stays():
    item = make_cloud("GKE", "fixed")
    del item["spec"]["cluster"]["gke"]["project"]
    config = ({"spec": {"projectID": "of-the-config"}},)
    result, observed = settled(item, **{"provider-config": config})
    later = compose(item, observed, **{"provider-config": ()})
    for found in (result, later):
        member, made = (found.desired[key].target.manifest["spec"]["forProvider"] for key in MEMBER_AND_CLUSTER)
        assert member["project"] == "of-the-config"
        assert made["workloadIdentityConfig"] == {"workloadPool": "of-the-config.svc.id.goog"}
    assert result.requirements["provider-config"].name == "default"


def test_without_a_project_pods_of_a_gke_cluster_have_no_identity_there():
    item = make_cloud("GKE", "fixed")
    of_project = settled(item)[0].desired["cloud-cluster"].target.manifest["spec"]["forProvider"]
    del item["spec"]["cluster"]["gke"]["project"]
    found = settled(item)[0].desired
    without = found["cloud-cluster"].target.manifest["spec"]["forProvider"]
    assert "cloud-member" not in found
    pool = {"workloadIdentityConfig": {"workloadPool": "team-models.svc.id.goog"}}
    assert of_project == {**without, **pool}
    assert "workloadIdentityConfig" not in without


def test_an_aks_pool_without_zones_is_made_in_any():
    item = make_cloud("AKS", "fixed")
    zoned = settled(item)[0].desired["cloud-pool-fixed"].target.manifest["spec"]["forProvider"]
    item["spec"]["nodePools"][0]["zones"] = []
    anywhere = settled(item)[0].desired["cloud-pool-fixed"].target.manifest["spec"]["forProvider"]
    assert zoned == {**anywhere, "zones": ["1"]}
    assert "zones" not in anywhere


def test_a_zone_that_is_added_moves_no_subnet():
    item = make_cloud("EKS", "fixed")
    _, observed = settled(item)
    item["spec"]["nodePools"][0]["zones"] = ["us-east-1a", "us-east-1b"]
    result = compose(item, observed)
    before = {key: found.manifest["spec"] for key, found in observed.items() if key.startswith("cloud-private")}
    after = {key: result.desired[key].target.manifest["spec"] for key in before}
    assert (before, "cloud-private-us-east-1a" in result.desired) == (after, True)


FAULTS = [
    ("GKE", {"zones": []}, "zones: GPUs are not in every zone of a region"),
    ("EKS", {"zones": []}, "zones: GPUs are not in every zone of a region"),
    ("EKS", {"zones": ["eu-west-1a"]}, "zones: eu-west-1a is none of us-east-1a to h"),
    ("EKS", {"zones": ["us-east-1x"]}, "zones: us-east-1x is none of us-east-1a to h"),
    ("EKS", {"zones": ["a"]}, "zones: a is none of us-east-1a to h"),
    ("EKS", {"capacityBlock": {"capacityReservationId": "cr-1"}}, "zones: a reservation is in one zone; name that"),
    ("EKS", {"capacityReservation": {"name": "h100-block"}}, "capacityReservation.name: on EKS it is the identifier"),
    (
        "EKS",
        {"capacityBlock": {"capacityReservationId": "cr-1"}, "capacityReservation": {"name": "cr-2"}},
        "capacityReservation: the pool has a capacityBlock already",
    ),
    ("EKS", {"fabric": {"type": "EFA"}}, "zones: EFA joins the nodes of one zone; name that"),
    ("EKS", {"fabric": {"type": "InfiniBand"}}, "fabric.type: EKS has no InfiniBand"),
    ("GKE", {"fabric": {"type": "EFA"}}, "fabric.type: GKE has no EFA"),
    ("AKS", {"capacityBlock": {"capacityReservationId": "cr-1"}}, "capacityBlock: is for EKS; on AKS write"),
    ("GKE", {"capacityBlock": {"capacityReservationId": "cr-1"}}, "capacityBlock: is for EKS"),
    ("AKS", {"name": "too-long-for-azure"}, "name: AKS takes a letter and up to 11 more"),
    ("AKS", {"name": "system"}, "name: AKS takes a letter and up to 11 more letters and digits, and has a pool system"),
    ("Civo", {"maxNodeCount": 8}, "maxNodeCount: pools of Civo have a fixed size"),
    ("Civo", {"capacityReservation": {"name": "r"}}, "capacityReservation: Civo reserves no capacity"),
    ("Nebius", {"fabric": {"type": "InfiniBand"}}, "fabric.name: Nebius has several InfiniBand fabrics"),
    ("Nebius", {"capacityBlock": {"capacityReservationId": "cr-1"}}, "capacityBlock: is for EKS; on Nebius write"),
    ("Vultr", {"nodeCount": 0}, "nodeCount: a pool of Vultr has a node at least"),
    ("Vultr", {"minNodeCount": 0, "maxNodeCount": 8}, "nodeCount: a pool of Vultr has a node at least"),
    ("Vultr", {"capacityReservation": {"name": "r"}}, "capacityReservation: Vultr reserves no capacity"),
    ("K3s", {"maxNodeCount": 8}, "maxNodeCount: the machines of K3s are there"),
    ("K3s", {"capacityReservation": {"name": "r"}}, "capacityReservation: the machines of K3s are there"),
    ("K3s", {"nodeCount": 5}, "nodeCount: 4 of spec.cluster.k3s.agents name the pool, not 5"),
]


@pytest.mark.parametrize(("source", "pool", "why"), FAULTS)
def test_what_a_cloud_cannot_do_is_refused_at_once_and_changes_nothing_that_exists(source, pool, why):
    item = make_cloud(source, "fixed")
    _, observed = settled(item)
    item["spec"]["nodePools"][0] |= pool
    refused = compose(item)
    assert refused.desired == {}
    assert condition(refused, "Accepted")[:2] == ("False", "NotSupported")
    assert condition(refused, "Accepted")[2].startswith(f"spec.nodePools[0].{why}")
    later = compose(item, observed)
    kept = {key: found.target for key, found in observed.items() if key.startswith("cloud-")}
    assert {key: later.desired[key].target for key in kept} == kept
    software = {key: found.target for key, found in observed.items() if isinstance(found.target, Helm)}
    assert {key: later.desired[key].target for key in software} == software
    assert condition(later, "Accepted")[:2] == ("False", "NotSupported")


@pytest.mark.parametrize("source", CLOUDS)
def test_a_pool_whose_class_is_not_read_keeps_its_place_in_the_order(source):
    item = make_cloud(source, "fixed")
    _, observed = settled(item)
    result = compose(item, observed, **{"class-h100": ()})
    assert any(key.startswith("cloud-pool-fixed") for key in result.desired["cloud-cluster"].outlives)


def test_an_aks_cluster_may_use_its_network():
    """Without it, load balancers and private endpoints on a network of one's own are refused."""
    item = make_cloud("AKS", "fixed")
    result, observed = settled(item)
    body = {"scope": "/subscriptions/s/networks/n", "roleDefinitionName": "Network Contributor", "principalId": "p-1"}
    lost = {key: seen(key, found, ready=False, status={"conditions": []}) for key, found in observed.items()}
    for found in (result, compose(item, lost)):
        assert found.desired["cloud-network-role"].target.manifest["spec"]["forProvider"] == body


def test_gke_takes_the_driver_and_its_priority_class():
    """44b53c07: GKE refused the priority class of the DRA driver, and has the GPU driver elsewhere."""
    desired = settled(make_cloud("GKE", "fixed"))[0].desired
    assert desired["stack-dra-driver-nvidia"].target.values["nvidiaDriverRoot"] == "/home/kubernetes/bin/nvidia"
    quota = desired["stack-dra-driver-quota-resourcequota"].target.manifest
    assert quota["metadata"]["namespace"] == desired["stack-dra-driver-nvidia"].target.namespace
    assert (
        settled(make_cloud("EKS", "fixed"))[0].desired["stack-dra-driver-nvidia"].target.values["nvidiaDriverRoot"]
        == "/"
    )


@pytest.mark.parametrize("source", CLOUDS)
def test_the_packages_of_a_cloud_bring_its_kinds(source):
    """30c21a4a: versions of one family conflicted; here a cloud has one."""
    groups = {
        item.target.manifest["apiVersion"].partition("/")[0]
        for key, item in settled(make_cloud(source, "fixed"))[0].desired.items()
        if key.startswith("cloud-") and key != "cloud-activation"
    }
    names = {name.rpartition("-")[2] for name in CLOUDS[source].providers}
    # The group of a family, such as azure's resource groups, comes with each package of it.
    parts = {group: set(group.partition(".m.")[0].split(".")) for group in groups}
    assert not [group for group, found in parts.items() if found.isdisjoint(names | {"azure"})]
    assert not [name for name in names if not any(name in found for found in parts.values())]


def test_the_packages_of_a_cloud_are_of_one_release():
    released = {source for source, cloud in CLOUDS.items() if re.fullmatch(r"v\d+\.\d+\.\d+", cloud.provider_version)}
    assert released == CLOUDS.keys()
    newer = {source: cloud.kubernetes_provider for source, cloud in CLOUDS.items() if cloud.kubernetes_provider}
    assert newer == {"Nebius": "v1.3.0"}


@pytest.mark.parametrize(("source", "fabric"), [("AKS", "InfiniBand"), ("Nebius", "InfiniBand"), ("EKS", "EFA")])
def test_the_fast_network_of_a_cloud_joins_nodes_of_its_pools(source, fabric):
    item = make_cloud(source, "fixed")
    item["spec"]["nodePools"][0] |= {"fabric": {"type": fabric, "name": "fabric-4"}, "zones": ZONES[source][:1]}
    result, _ = settled(item)
    assert condition(result, "Provisioned") == ("True", "Provisioned", "")
    assert [each.type for each in result.conditions if each.status.value != "True"] == []
