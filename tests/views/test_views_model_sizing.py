"""How much memory a model needs, by its name and by numbers, and which devices have it."""

import pytest

from modelplane.api.errors import InputError
from modelplane.views.model_sizing import (
    GIB,
    ModelFit,
    ModelSize,
    NodeDevices,
    dtype_in,
    estimated_kv_per_token,
    largest_node,
    nodes_of,
    parameters_in,
    parse_parameters,
    smallest_fit,
)

L4 = NodeDevices("l4-4x", "gpu.nvidia.com", "NVIDIA L4", 4, 24 * GIB)
H100 = NodeDevices("h100-8x", "gpu.nvidia.com", "NVIDIA H100", 8, 80 * GIB)
H200 = NodeDevices("h200-6x", "gpu.nvidia.com", "NVIDIA H200", 6, 140 * GIB)


@pytest.mark.parametrize(
    ("model", "parameters", "dtype"),
    [
        ("Qwen/Qwen3-8B", 8_000_000_000, None),
        ("Qwen/Qwen3-0.6B-FP8", 600_000_000, "fp8"),
        ("Qwen/Qwen3-30B-A3B", 30_000_000_000, None),
        ("mistralai/Mixtral-8x7B-Instruct-v0.1", 56_000_000_000, None),
        ("openai/gpt-oss-120b", 120_000_000_000, None),
        ("acme/Llama-3.1-70B-Instruct-AWQ", 70_000_000_000, "int4"),
        ("acme/smol-135M-w8a8", 135_000_000, "int8"),
        ("70B/chat", None, None),
        ("acme/t5-v8bit", None, None),
    ],
)
def test_what_a_name_tells(model, parameters, dtype):
    assert (parameters_in(model), dtype_in(model)) == (parameters, dtype)


@pytest.mark.parametrize(("text", "expected"), [("8B", 8e9), ("1.5b", 1.5e9), ("500M", 5e8), ("1T", 1e12)])
def test_numbers_of_parameters(text, expected):
    assert parse_parameters(text) == expected


@pytest.mark.parametrize("text", ["", "8", "B", "-8B", "0B", "8B ", "8GB", "1e9B", "999999B"])
def test_other_numbers_are_refused(text):
    with pytest.raises(InputError, match="is not a number of parameters such as 8B"):
        parse_parameters(text)


def test_the_memory_is_weights_a_fifth_and_the_kv_cache():
    size = ModelSize(8_000_000_000, "bf16", 1000, 1024)
    assert (size.weights, size.overhead, size.kv_cache) == (16_000_000_000, 3_200_000_000, 1_024_000)
    assert size.total == 19_201_024_000
    assert size._replace(dtype="fp8").weights == 8_000_000_000
    assert size._replace(dtype="int4").weights == 4_500_000_000


def test_a_larger_model_is_taken_to_have_a_larger_kv_cache():
    sizes = [estimated_kv_per_token(round(billions * 1e9)) for billions in (0.6, 8, 32, 70, 405)]
    assert sizes == [128 << 10, 160 << 10, 256 << 10, 320 << 10, 512 << 10]


@pytest.mark.parametrize(
    ("gib", "nodes", "expected"),
    [
        (10, (H200, H100, L4), ModelFit(L4, 1)),
        (30, (H200, H100, L4), ModelFit(H100, 1)),
        (72, (H200, H100), ModelFit(H100, 1)),
        (73, (H200, H100), ModelFit(H200, 1)),
        (73, (L4, H100), ModelFit(H100, 2)),
        (400, (H200, H100, L4), ModelFit(H200, 4)),
        (510, (H200, H100, L4), ModelFit(H100, 8)),
        (577, (H200, H100, L4), None),
        (1, (), None),
    ],
)
def test_the_fewest_devices_then_the_smallest(gib, nodes, expected):
    """One byte for a token of the KV cache, so that the sizes are round."""
    assert smallest_fit(ModelSize(0, "bf16", gib * GIB, 1), nodes) == expected


def test_the_largest_node():
    assert largest_node((L4, H200, H100)) == ModelFit(H100, 8)
    assert largest_node(()) is None


def device(**more):
    capacity = {"memory": {"value": "80Gi"}}
    return {"name": "gpu", "driver": "gpu.nvidia.com", "deviceClassName": "x", "capacity": capacity, **more}


def node_class(name, *devices):
    return {"apiVersion": "modelplane.ai/v1alpha1", "kind": "InferenceClass", "metadata": {"name": name},
            "spec": {"devices": list(devices)}}  # fmt: skip


def cluster(*classes):
    pools = [{"name": f"p{number}", "className": name, "nodeCount": 1} for number, name in enumerate(classes)]
    source = {"source": "Existing", "existing": {"secretRef": {"name": "x"}}}
    return {"apiVersion": "modelplane.ai/v1alpha1", "kind": "InferenceCluster", "metadata": {"name": "east"},
            "spec": {"cluster": source, "nodePools": pools}}  # fmt: skip


def test_devices_are_whole_and_have_memory():
    fabric = {"name": "fabric", "driver": "fabric.modelplane.ai", "claim": "Synthetic"}
    drawn = [{"counterSet": "gpu", "counters": {"memory": {"value": "10Gi"}}}]
    found = node_class(
        "h100",
        device(count=8, attributes={"productName": {"string": "NVIDIA H100"}}),
        device(name="slice", consumesCounters=drawn),
        device(name="shared", allowMultipleAllocations=True),
        device(name="mig", attributes={"type": {"string": "mig"}}),
        device(name="unknown", capacity={}),
        fabric,
    )
    assert nodes_of([found]) == (NodeDevices("h100", "gpu.nvidia.com", "NVIDIA H100", 8, 80 * GIB),)


def test_classes_are_those_that_pools_use():
    classes = [node_class("a", device()), node_class("b", device())]
    assert [node.class_name for node in nodes_of(classes)] == ["a", "b"]
    assert [node.class_name for node in nodes_of([*classes, cluster("b", "c")])] == ["b"]
