from collections.abc import Mapping
from types import MappingProxyType

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from modelplane.api.codec import decode, encode
from modelplane.api.models import InferenceCluster, Topology, Workers
from modelplane.compose.lowering import EngineSpec, lower
from modelplane.compose.render_check import RenderCheck, describe_rendering
from modelplane.compose.shapes import devices_of_pod, node_count, shape_fault, spans_ranks
from tests.compose.conftest import load_deployment, make_cluster


@pytest.mark.parametrize(
    ("topology", "requested", "wrong"),
    [
        (Topology(), 1, None),
        (Topology(tensor=8), 8, None),
        (Topology(tensor=8), 12, None),
        (Topology(tensor=16), 8, "tensor 16 needs 16 devices in a pod; nodeSelector requests 8"),
        (Topology(tensor=4), 2, "tensor 4 needs 4 devices in a pod; nodeSelector requests 2"),
        (Topology(tensor=16, tensor_local=8), 8, None),
        (Topology(tensor=16, tensor_local=8), 4, "tensorLocal 8 needs 8 devices in a pod; nodeSelector requests 4"),
        (Topology(tensor=8, tensor_local=8), 4, "tensor 8 needs 8 devices in a pod; nodeSelector requests 4"),
        (Topology(tensor=8, pipeline=2), 8, None),
        (Topology(data=16, data_local=8), 8, None),
        (
            Topology(tensor=8, data=4, data_local=2),
            8,
            "tensor 8 for each of 2 ranks needs 16 devices in a pod; nodeSelector requests 8",
        ),
        (
            Topology(tensor=8, data=16, data_local=8),
            8,
            "tensor 8 for each of 8 ranks needs 64 devices in a pod; nodeSelector requests 8",
        ),
    ],
)
def test_a_shape_needs_its_devices_in_each_pod(topology, requested, wrong):
    assert shape_fault(topology, requested) == wrong


@given(*(st.integers(1, 8) for _ in range(5)), st.booleans())
def test_pods_times_devices_is_the_product_of_the_sizes(tensor, pipeline, data, inner, outer, over_ranks):
    if over_ranks:
        topology = Topology(tensor=tensor, data=inner * outer, data_local=inner)
    else:
        topology = Topology(tensor=inner * outer, tensor_local=inner, pipeline=pipeline, data=data)
    world = topology.tensor * topology.pipeline * topology.data
    assert node_count(topology) * devices_of_pod(topology) == world


def engine_of(
    topology: Topology, container: Mapping[str, object] = MappingProxyType({}), **workers: object
) -> EngineSpec:
    """The engine of the deployment tensor-16, otherwise shaped."""
    spec = load_deployment("tensor-16").spec
    beside = [container["beside"]] if "beside" in container else []
    own = {name: value for name, value in container.items() if name != "beside"}
    containers = [{"name": "engine", "image": "i", **own}, *beside]
    shaped = {"topology": encode(topology), "template": {"spec": {"containers": containers}}, **workers}
    return lower(replace(spec, workers=decode(Workers, shaped))).engines[0]


def test_tensor_over_nodes_is_a_gang():
    engine = engine_of(Topology(tensor=16, tensor_local=8))
    assert [(member.role, member.nodes) for member in engine.members] == [("Leader", 1), ("Worker", 1)]
    assert engine.fault() is None


@pytest.mark.parametrize(
    ("container", "engine", "wrong"),
    [
        ({}, "vLLM", "engine main: tensor 16 needs 16 devices in a pod; nodeSelector requests 8"),
        ({}, "Custom", None),
        ({}, "llama.cpp", None),
        ({}, "TGI", "engine main: tensor 16 needs 16 devices in a pod; nodeSelector requests 8"),
        ({"command": ["serve"]}, "SGLang", None),
        ({"command": ["serve"], "beside": {"name": "exporter", "image": "i"}}, "SGLang", None),
        (
            {"beside": {"name": "exporter", "image": "i", "command": ["serve"]}},
            "SGLang",
            "engine main: tensor 16 needs 16 devices in a pod; nodeSelector requests 8",
        ),
    ],
)
def test_an_engine_that_is_told_its_shape_must_fit(container, engine, wrong):
    assert engine_of(Topology(tensor=16), container, engine=engine).fault() == wrong


def test_placement_is_told_of_a_shape_that_fits_nowhere():
    deployment = load_deployment("tensor-16")
    workers = replace(deployment.spec.workers, topology=Topology(tensor=16))
    shaped = replace(deployment, spec=replace(deployment.spec, workers=workers))
    rendering = describe_rendering(decode(InferenceCluster, make_cluster()))
    assert RenderCheck(shaped, lower(shaped.spec)).refuse(rendering, ("Weights",)) == (
        "engine main: tensor 16 needs 16 devices in a pod; nodeSelector requests 8"
    )


@pytest.mark.parametrize(
    ("topology", "expected"),
    [
        (Topology(data=4), False),
        (Topology(data=4, data_local=4), False),
        (Topology(data=4, data_local=2), True),
    ],
)
def test_ranks_that_are_all_in_one_pod_are_not_spread(topology, expected):
    assert spans_ranks(topology) is expected
