import json

import pytest

from modelplane.api.codec import decode
from modelplane.api.models import InferenceCluster
from modelplane.compose.clouds import CLOUDS
from modelplane.crossplane.access import access_of, provider_configs
from modelplane.crossplane.calls import FunctionCall, answer
from modelplane.kube import config_of
from modelplane.views.agent_objects import hub_kubeconfig
from modelplane.views.cluster_review import proposed_cluster
from tests.compose.clouds import make_cloud
from tests.support import settled

KUBERNETES, HELM = "kubernetes.m.crossplane.io/v1alpha1", "helm.m.crossplane.io/v1beta1"


def cluster(item):
    return decode(InferenceCluster, item)


def reference(name, key="kubeconfig"):
    return {"namespace": "modelplane-system", "name": name, "key": key}


def test_a_cluster_that_exists_is_reached_with_the_secret_that_it_names():
    found = provider_configs(cluster(settled.make_cluster("east")), helm=False)
    assert found == {
        "access-kubernetes": {
            "apiVersion": KUBERNETES,
            "kind": "ClusterProviderConfig",
            "metadata": {"name": "east"},
            "spec": {"credentials": {"source": "Secret", "secretRef": reference("east")}},
        }
    }


def test_behind_an_agent_both_providers_have_the_kubeconfig_of_the_hub(problems):
    """One Secret for the providers and the function server, which has nothing of the cluster."""
    declared = proposed_cluster("east", "east-kubeconfig", (), agent=True)
    found = provider_configs(cluster(declared), helm=True)
    spec = {"credentials": {"source": "Secret", "secretRef": reference("east-kubeconfig")}}
    assert {key: item["spec"] for key, item in found.items()} == {"access-kubernetes": spec, "access-helm": spec}
    assert [problems(item) for item in found.values()] == [[], []]
    config = hub_kubeconfig("east", authority="Y2E=", proxy_token="of-the-hub")
    read = config_of(json.dumps(config), "east-kubeconfig")
    assert (read.cluster.server, read.user.token) == (
        "https://modelplane-hub.modelplane-system.svc:8444/clusters/east",
        "of-the-hub",
    )


@pytest.mark.parametrize("source", CLOUDS)
def test_a_cluster_on_a_cloud_is_reached_with_the_secret_that_the_cloud_writes(source, problems):
    found = provider_configs(cluster(make_cloud(source, "fixed")), helm=True)
    assert {key: item["apiVersion"] for key, item in found.items()} == {
        "access-kubernetes": KUBERNETES,
        "access-helm": HELM,
    }
    for key, item in found.items():
        # The definition of provider-kubernetes at hand is older than the version that Nebius needs.
        newer = bool(CLOUDS[source].kubernetes_provider) and key == "access-kubernetes"
        assert len(problems(item)) == int(newer)
        assert item["spec"]["credentials"]["secretRef"] == reference("east-kubeconfig")
        assert ("identity" in item["spec"]) == (source in {"GKE", "Nebius"})


def test_the_secrets_of_a_cloud_are_those_that_its_resources_write():
    for source in CLOUDS:
        state = settled.made_cluster(source)
        specs = [item["spec"] for item in state.resources.values() if "spec" in item]
        written = {spec["writeConnectionSecretToRef"]["name"] for spec in specs if "writeConnectionSecretToRef" in spec}
        access = access_of(cluster(state.composite))
        given = {"nebius-account"}
        assert written == {access.kubeconfig.name, *([access.identity.name] if access.identity else [])} - given


def test_an_object_without_a_block_has_no_access():
    item = settled.make_cluster("east")
    item["spec"]["cluster"] = {"source": "Existing"}
    assert (access_of(cluster(item)), provider_configs(cluster(item), helm=True)) == (None, {})


@pytest.mark.parametrize("source", [*CLOUDS, "Existing"])
def test_usages_keep_the_order_of_removal(source, problems):
    """bb3791bc, 41208234: one Usage for each user, for a selector protects its first match alone."""
    resources = settled.made_cluster(source).resources
    usages = {key: item for key, item in resources.items() if key.startswith("usage-") and "-by-" in key}
    assert not [found for item in usages.values() for found in problems(item)]
    assert all(item["kind"] == "Usage" and "resourceRef" in item["spec"]["by"] for item in usages.values())
    # 97fb939d: a namespaced Usage cannot protect an object of the whole cluster.
    kept = {
        key: item["metadata"].get("namespace") for key, item in resources.items() if f"usage-{key}-by-" in str(usages)
    }
    assert all(kept.values())
    keys = set(usages)
    assert "usage-stack-cert-manager-by-stack-leader-worker-set" in keys
    assert "usage-stack-envoy-gateway-by-gateway" in keys
    if source != "Existing":
        assert any(key.startswith("usage-cloud-cluster-by-cloud-pool-fixed") for key in keys)
        assert "usage-cloud-cluster-by-access-kubernetes" in keys
        # The provider configuration stands between: it waits for each object on the cluster by itself.
        assert "usage-cloud-cluster-by-gateway" not in keys


@pytest.mark.parametrize(
    ("source", "field"), [("GKE", "spec.cluster.source"), ("Existing", "spec.cluster.existing.components")]
)
def test_without_a_provider_for_charts_software_is_refused_at_once_and_kept_where_it_is(source, field):
    """c48c1833, and worse: one kind that is not served keeps Crossplane from applying all others."""
    state = settled.made_cluster(source)
    refused = answer(FunctionCall({**state.composite, "status": {}}, {}, state.required), settled.NOW)
    told = (
        f"{field}: this control plane has no provider-helm to install software with; modelplane install --helm adds it"
    )
    (accepted,) = [each for each in refused.conditions if each.type == "Accepted"]
    assert (accepted.reason, accepted.message) == ("NotSupported", told)
    assert not [key for key, item in refused.resources.items() if "helm." in item.manifest["apiVersion"]]
    later = answer(state.call(), settled.NOW)
    assert state.composed.keys() <= later.resources.keys()
