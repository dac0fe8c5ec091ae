import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelplane.catalog.stack import at_path, is_in_range, load_stack, merged

TABLE = load_stack()
NAMES = [component.name for component in TABLE.components]


def test_components_are_in_the_order_of_their_installation_and_say_what_they_are():
    assert len(set(NAMES)) == len(NAMES)
    for index, component in enumerate(TABLE.components):
        assert set(component.needs) <= set(NAMES[:index]), component.name
        assert (component.chart is None) == bool(component.manifests), component.name
        assert bool(component.namespace) == (component.chart is not None), component.name
        assert component.objects() or component.chart


def test_versions_of_the_table_meet_each_others_needs():
    versions = {component.name: component.chart.version for component in TABLE.components if component.chart}
    for component in TABLE.components:
        for needed, wanted in component.needs.items():
            assert not wanted or is_in_range(versions[needed], wanted), (component.name, needed)


@pytest.mark.parametrize(
    ("stack", "source", "features", "some", "none"),
    [
        ("Standard", "Existing", (), {"cert-manager", "envoy-gateway", "leader-worker-set"}, {"dra-driver-nvidia"}),
        ("Standard", "Existing", ("nvidia",), {"dra-driver-nvidia"}, {"dra-driver-quota", "gpu-operator-amd", "kueue"}),
        ("Standard", "GKE", ("nvidia",), {"dra-driver-quota", "driver-installer"}, {"cluster-autoscaler"}),
        ("Standard", "EKS", ("nvidia",), {"cluster-autoscaler"}, {"dra-driver-quota"}),
        ("Standard", "Existing", ("amd", "Kueue"), {"gpu-operator-amd", "kueue"}, {"dra-driver-nvidia", "kai"}),
        (
            "Standard",
            "Existing",
            ("KServe", "InferencePool"),
            {"kserve", "kserve-presets", "ai-gateway", "inference-extension"},
            {"grove"},
        ),
        ("Dynamo", "Existing", ("Dynamo",), {"grove", "kai", "cert-manager", "envoy-gateway"}, {"leader-worker-set"}),
        ("Dynamo", "Existing", ("KAI",), {"grove", "kai"}, {"leader-worker-set"}),
    ],
)
def test_what_a_cluster_needs(stack, source, features, some, none):
    found = {component.name for component in TABLE.find(stack, source, features)}
    assert some <= found
    assert not none & found


def test_daemons_tolerate_the_taint_of_gpus():
    """44b53c07: NFD did not run where the GPUs are."""
    found = {component.name: component.values for component in TABLE.components}
    keys = {each["key"] for each in found["node-feature-discovery"]["worker"]["tolerations"]}
    assert keys == {"nvidia.com/gpu", "amd.com/gpu"}
    assert found["dra-driver-nvidia"]["kubeletPlugin"]["tolerations"][0]["key"] == "nvidia.com/gpu"


def test_the_definitions_of_the_inference_extension_are_shipped():
    """0529e5f6, b300f3c7: its chart cannot be pulled anonymously and ships no definitions."""
    (found,) = [component for component in TABLE.components if component.name == "inference-extension"]
    (definition,) = found.objects()
    assert definition["metadata"]["name"] == "inferencepools.inference.networking.k8s.io"
    assert [version["name"] for version in definition["spec"]["versions"]] == ["v1"]


def test_the_load_balancer_takes_the_policy_that_every_cloud_takes():
    """7bd5657f: externalTrafficPolicy Local was refused."""
    (found,) = [component for component in TABLE.components if component.name == "gateway-class"]
    proxy, gateway_class = found.objects()
    assert proxy["spec"]["provider"]["kubernetes"]["envoyService"] == {"externalTrafficPolicy": "Cluster"}
    assert gateway_class["spec"]["parametersRef"]["name"] == proxy["metadata"]["name"]


@pytest.mark.parametrize(
    ("version", "wanted", "meets"),
    [
        ("v1.8.4", ">=1.8.1 <1.9.0", True),
        ("1.9.0", ">=1.8.1 <1.9.0", False),
        ("1.8.0", ">=1.8.1 <1.9.0", False),
        ("v0.1.0", "", True),
    ],
)
def test_ranges_of_versions(version, wanted, meets):
    assert is_in_range(version, wanted) is meets


def test_values_are_merged_as_helm_does_it():
    base = {"a": {"b": 1, "c": [1]}, "d": 1}
    assert merged(base, {"a": {"c": [2]}, "d": {"e": 1}}) == {"a": {"b": 1, "c": [2]}, "d": {"e": 1}}
    assert merged(base, at_path("a.b", 5)) == {"a": {"b": 5, "c": [1]}, "d": 1}
    assert base == {"a": {"b": 1, "c": [1]}, "d": 1}


VALUES = st.recursive(st.integers(0, 3), lambda inner: st.dictionaries(st.sampled_from("abc"), inner, max_size=3))
TREES = st.dictionaries(st.sampled_from("abc"), VALUES, max_size=3)


@given(TREES, TREES)
def test_what_is_laid_over_is_there_afterwards(values, more):
    assert merged(merged(values, more), more) == merged(values, more)
    assert merged({}, more) == more
    assert merged(values, {}) == values


def test_the_presets_of_kserve_are_installed_after_its_controller():
    """They are in a chart of their own, which installs none of them by default; its webhook admits them."""
    presets = next(component for component in TABLE.components if component.name == "kserve-presets")
    assert presets.values == {"kserve": {"llmisvcConfigs": {"enabled": True}}}
    assert "kserve" in presets.needs


def test_no_scheduler_is_installed_twice():
    found = [component.chart.name for component in TABLE.find("Dynamo", "Existing", ("KAI",)) if component.chart]
    assert found.count("kai-scheduler") == 1
