"""What broke in the prior art's readiness, deletion, clouds and stack (sections 5.3, 5.4, 5.7, and 0.5): a test each.

A lesson is the bug; its test holds that we do not have it. Tests that belong to a module are beside the others of it.
"""

import ast
import re
from functools import cache
from pathlib import Path

import pytest
import yaml

from modelplane.api.definitions import definitions
from modelplane.compose.clouds import CLOUDS
from tests.compose.clouds import make_cloud
from tests.compose.clouds import settled as settled_cloud
from tests.support import settled

TESTS = Path(__file__).resolve().parent
GOLDEN = TESTS / "compose" / "golden"
CLOUD, STACK, HERE = "compose/test_compose_clouds.py", "compose/test_compose_stack.py", "test_lessons.py"
ACCESS, OBJECTS = "crossplane/test_crossplane_access.py", "crossplane/test_crossplane_provider_objects.py"

LESSONS = {
    "37 accepted before the remote object existed": (OBJECTS, "test_readiness_is_what_the_cluster_shows"),
    "38 awaited a Ready condition that is never published": (
        "compose/test_compose_readiness.py",
        "test_when_an_object_is_ready",
    ),
    "40 ready before it was observed": (CLOUD, "test_nothing_is_put_on_a_cluster_before_it_can_be_reached"),
    "41 a phantom of a key that was never composed": (HERE, "test_whatever_is_composed_has_a_kind_and_a_body"),
    "43 resources that nobody marked ready": (CLOUD, "test_every_managed_resource_counts"),
    "44 releases that nobody marked ready": (STACK, "test_every_component_counts"),
    "46 traffic to pods that load weights": (
        "compose/test_compose_readiness.py",
        "test_a_replica_serves_while_its_workload_and_its_route_do",
    ),
    "47 a gateway that is ready without its address": (
        "compose/test_compose_inference_gateway.py",
        "test_it_says_what_its_gateway_says",
    ),
    "49 probes that give up after a second": (HERE, "test_no_probe_gives_up_after_a_second"),
    "50 a class without machines is skipped silently": (CLOUD, "test_a_class_without_machines_of_the_cloud_is_named"),
    "52 a fresh cluster has no status": (
        "compose/test_compose_observed.py",
        "test_nothing_of_a_cluster_that_was_made_or_equipped_leaves",
    ),
    "53 columns of paths that do not exist": (HERE, "test_columns_show_fields_that_are_there"),
    "55 a Usage protects the first match alone": (ACCESS, "test_usages_keep_the_order_of_removal"),
    "56 a Usage of a namespace protects nothing of the cluster": (ACCESS, "test_usages_keep_the_order_of_removal"),
    "58 webhooks block the removal of what they validate": (STACK, "test_what_is_used_is_removed_after_its_users"),
    "59 definitions go before their objects": (STACK, "test_what_is_used_is_removed_after_its_users"),
    "61 the kubeconfig goes first and teardown hangs": (
        CLOUD,
        "test_what_a_cluster_is_reached_by_goes_last_and_no_order_is_a_circle",
    ),
    "62 a cluster is deleted under its replicas": (
        "crossplane/test_crossplane_observed.py",
        "test_no_namespace_usage_or_access_of_a_cluster_leaves",
    ),
    "64 credentials that are deleted empty the desired state": (
        CLOUD,
        "test_nothing_leaves_when_the_cluster_or_a_class_or_the_credentials_flap",
    ),
    "65 pools leave when the cluster flaps": (
        CLOUD,
        "test_nothing_leaves_when_the_cluster_or_a_class_or_the_credentials_flap",
    ),
    "67 a route changes its kind of backend with the number of pods": (
        HERE,
        "test_a_route_has_one_kind_of_backend_however_many_pods_there_are",
    ),
    "68 a picker keeps its old configuration": (HERE, "test_a_picker_is_replaced_with_its_configuration"),
    "101 client certificates of GKE carry no rights": (
        CLOUD,
        "test_the_gke_identity_and_the_pool_that_starts_from_zero",
    ),
    "103 charts without a provider that may install them": (
        ACCESS,
        "test_without_a_provider_for_charts_software_is_refused_at_once_and_kept_where_it_is",
    ),
    "104 versions of one provider family conflict": (CLOUD, "test_the_packages_of_a_cloud_bring_its_kinds"),
    "106 nothing scales a node group": (CLOUD, "test_an_eks_pool_has_an_autoscaler"),
    "107 the size of a pool is reset every minute": (
        CLOUD,
        "test_an_autoscaler_owns_the_size_of_a_pool_that_scales",
    ),
    "109 GKE refuses a priority class, and has its driver elsewhere": (
        CLOUD,
        "test_gke_takes_the_driver_and_its_priority_class",
    ),
    "110 a pool does not start from zero": (CLOUD, "test_the_gke_identity_and_the_pool_that_starts_from_zero"),
    "112 a load balancer's policy is refused": (
        "catalog/test_catalog_stack.py",
        "test_the_load_balancer_takes_the_policy_that_every_cloud_takes",
    ),
    "113 definitions of the Gateway API are not there": (STACK, "test_the_gateway_waits_for_what_runs_it"),
    "115 a chart that cannot be pulled and has no definitions": (
        "catalog/test_catalog_stack.py",
        "test_the_definitions_of_the_inference_extension_are_shipped",
    ),
    "116 daemons do not tolerate the taint of GPUs": (
        "catalog/test_catalog_stack.py",
        "test_daemons_tolerate_the_taint_of_gpus",
    ),
    "118 a page shows a field that was renamed": ("web/test_web_fleet_map.py", "test_devices_of_nodes"),
    "0.5 kinds of unused clouds run pods": (
        CLOUD,
        "test_kinds_are_activated_before_the_first_of_them_is_composed",
    ),
    "0.5 names of AKS pools are refused late": (
        CLOUD,
        "test_what_a_cloud_cannot_do_is_refused_at_once_and_changes_nothing_that_exists",
    ),
    "0.5 a class whose vendor the cloud has not": (CLOUD, "test_a_cloud_without_amd_gpus_says_so"),
    "0.5 the largest size counts although the cloud has none": (
        "plane/test_plane_clouds.py",
        "test_on_every_cloud_a_stock_out_is_named_and_replicas_go_elsewhere",
    ),
    "0.5 an autoscaler keeps groups that are gone": (HERE, "test_an_autoscaler_finds_its_groups_by_itself"),
    "0.5 remote objects go by their place in a list": (
        CLOUD,
        "test_an_agent_leaves_with_its_entry_and_stays_while_the_class_is_not_read",
    ),
    "0.5 scaled to zero reads as no capacity": (
        "compose/test_compose_model_deployment.py",
        "test_whole_results",
    ),
}


@cache
def defined(path):
    return {node.name for node in ast.walk(ast.parse((TESTS / path).read_text())) if isinstance(node, ast.FunctionDef)}


@pytest.mark.parametrize("lesson", LESSONS)
def test_a_lesson_has_its_test(lesson):
    path, name = LESSONS[lesson]
    assert name in defined(path)


@pytest.mark.parametrize("source", CLOUDS)
def test_whatever_is_composed_has_a_kind_and_a_body(source):
    resources = settled.made_cluster(source).resources
    assert len(resources) > 10
    assert [
        key for key, item in resources.items() if not (item.get("kind") and item["metadata"] and len(item) > 3)
    ] == []


def test_no_probe_gives_up_after_a_second():
    """Kubernetes' default is one second, and an engine that prefills a long prompt is slow and well.

    The probes of `whole-pod` are the user's own.
    """
    probes = [
        probe
        for path in GOLDEN.glob("*.yaml")
        if not path.name.startswith("whole-pod")
        for probe in found(list(yaml.safe_load_all(path.read_text())), re.compile(r"(readiness|liveness|startup)Probe"))
    ]
    assert len(probes) > 100
    assert min(probe.get("timeoutSeconds", 1) for probe in probes) > 1


def found(item, wanted):
    if isinstance(item, dict):
        for name, value in item.items():
            if wanted.fullmatch(name):
                yield value
            yield from found(value, wanted)
    elif isinstance(item, list):
        for value in item:
            yield from found(value, wanted)


def test_columns_show_fields_that_are_there():
    shown = [(kind, column.json_path, one.schema) for (_, kind), one in definitions().items() for column in one.columns]
    assert len(shown) > 60
    assert [(kind, path) for kind, path, schema in shown if not exists(schema, path)] == []


def exists(schema, path):
    """Whether a path such as .status.conditions[?(@.type=='Ready')].reason is in a schema."""
    if path.startswith(".metadata."):
        return True
    for name, field in re.findall(r"\.([A-Za-z0-9]+)|\[\?\(@\.([A-Za-z]+)==", path):
        schema = schema.get("items", schema)
        if (name or field) not in schema.get("properties", {}):
            return False
        schema = schema["properties"][name] if name else schema
    return True


def test_a_route_has_one_kind_of_backend_however_many_pods_there_are():
    """A change of the kind would cut requests in flight when a second pod appears."""
    kinds = {
        reference.get("kind", "Service")
        for name in ("single-gpu", "kimi-k2-5p3d")
        for references in found(
            list(yaml.safe_load_all((GOLDEN / f"{name}.pool.none.yaml").read_text())), re.compile("backendRefs")
        )
        for reference in references
    }
    assert kinds == {"InferencePool"}


def test_a_picker_is_replaced_with_its_configuration():
    """The configuration is named by what it says, so another one is another volume of the pod."""
    items = list(yaml.safe_load_all((GOLDEN / "prefill-decode.native.none.yaml").read_text()))
    (name,) = [
        item["metadata"]["name"]
        for item in items
        if item["kind"] == "ConfigMap" and "-picker-" in item["metadata"]["name"]
    ]
    volumes = [volume["name"] for volume in found(items, re.compile("configMap")) if volume.get("name")]
    assert name in volumes
    assert re.search(r"-picker-[0-9a-f]{8}-", name)


def test_an_autoscaler_finds_its_groups_by_itself():
    """A list of groups would be old when the last pool that scales gets a fixed size."""
    of_both = [
        settled_cloud(make_cloud("EKS", pool))[0].desired["stack-cluster-autoscaler"].target
        for pool in ("scaling", "fixed")
    ]
    assert of_both[0].values == of_both[1].values
    assert "autoscalingGroups" not in of_both[0].values
