from pathlib import Path

import msgspec
import pytest
import yaml

from modelplane.api.codec import decode
from modelplane.api.models import MatchAttribute, ModelDeployment
from modelplane.compose.lowering import LoweredCache, lower
from modelplane.placement.request import AttributeMatch
from tests.compose.conftest import load_deployment

POD = {"spec": {"containers": [{"name": "engine", "image": "i"}]}}
DEPLOYMENTS = sorted((Path(__file__).parent / "deployments").glob("*.yaml"))


def lowered(name: str):
    path = Path(__file__).parent / "deployments" / f"{name}.yaml"
    return lower(decode(ModelDeployment, yaml.safe_load(path.read_text())).spec)


def shape(found) -> list[tuple]:
    return [
        (engine.name, engine.phase, engine.type, engine.copies, [(m.role, m.nodes) for m in engine.members])
        for engine in found.engines
    ]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("single-gpu", [("main", None, "vLLM", 2, [("Standalone", 1)])]),
        ("tensor-8", [("main", None, "vLLM", 1, [("Standalone", 1)])]),
        ("pipeline-4", [("main", None, "vLLM", 2, [("Leader", 1), ("Worker", 3)])]),
        ("data-parallel", [("main", None, "vLLM", 1, [("Leader", 1), ("Worker", 1)])]),
        (
            "kimi-k2-5p3d",
            [
                ("decode", "Decode", "vLLM", 3, [("Leader", 1), ("Worker", 1)]),
                ("prefill", "Prefill", "vLLM", 5, [("Standalone", 1)]),
            ],
        ),
        ("v03-gang", [("serve", None, "Custom", 2, [("Leader", 1), ("Worker", 2)])]),
        (
            "v03-prefill-decode",
            [
                ("reader", "Prefill", "Custom", 1, [("Standalone", 1)]),
                ("writer", "Decode", "Custom", 2, [("Standalone", 1)]),
            ],
        ),
    ],
)
def test_every_way_of_writing_becomes_engines_with_members(name, expected):
    assert shape(lowered(name)) == expected


def test_the_v03_shape_keeps_what_stands_around_its_engines():
    found = lowered("v03-gang")
    assert found.labels == {"app": "mixtral"}
    assert found.caches == (LoweredCache("mixtral", "/mnt/models", preferred=False),)
    assert found.cluster_selector.match_labels == {"region": "east"}
    assert [toleration.key for toleration in found.tolerations] == ["maintenance"]
    assert [len(member.requests) for member in found.engines[0].members] == [0, 1]


def test_what_placement_is_asked_matches_what_is_rendered(scene):
    for path in DEPLOYMENTS:
        replica = scene(path.stem).replica
        asked = [engine.request() for engine in lowered(path.stem).engines]
        pods = [(ask.copies, [member.nodes for member in ask.members]) for ask in asked]
        assert pods == [(e.copies, [m.nodes for m in e.members]) for e in replica.spec.engines]


@pytest.mark.parametrize(
    ("requests", "expected"),
    [
        (("gpu",), None),
        ((), None),
        (("gpu", "nic"), "engine main: nodeSelector.matchAttributes: no request is named nic"),
    ],
)
def test_attributes_are_matched_among_requests_that_exist(requests, expected):
    spec = load_deployment("single-gpu").spec
    match = MatchAttribute(attribute="resource.kubernetes.io/pcieRoot", requests=requests)
    selector = msgspec.structs.replace(spec.node_selector, match_attributes=(match,))
    (engine,) = lower(msgspec.structs.replace(spec, node_selector=selector)).engines
    assert engine.fault() == expected
    assert engine.request().members[0].matches == (AttributeMatch(match.attribute, requests),)


TWO_ENGINES = [{"name": name, "members": [{"role": "Standalone", "template": POD}]} for name in ("a", "b")]


@pytest.mark.parametrize(
    ("spec", "mode", "caches"),
    [
        ({"engines": TWO_ENGINES}, "Unified", ()),
        ({"engines": TWO_ENGINES, "serving": {"mode": "PrefillDecode"}}, "PrefillDecode", ()),
        (
            {
                "engines": TWO_ENGINES,
                "caches": [{"name": "w", "policy": "Preferred"}, {"name": "v", "mountPath": "/v"}],
            },
            "Unified",
            (LoweredCache("w", None, preferred=True), LoweredCache("v", "/v", preferred=False)),
        ),
        ({"template": {"spec": {"engines": TWO_ENGINES}}}, "Unified", ()),
        (
            {"template": {"spec": {"engines": TWO_ENGINES, "modelCacheRef": {"name": "w"}}}},
            "Unified",
            (LoweredCache("w", "/mnt/models", preferred=False),),
        ),
    ],
    ids=["spelled out", "with a mode", "with caches", "the earlier form", "the earlier form with a cache"],
)
def test_engines_that_are_spelled_out_are_as_they_are(spec, mode, caches):
    found = lower(decode(ModelDeployment, {"metadata": {"name": "m", "namespace": "n"}, "spec": spec}).spec)
    assert ([engine.name for engine in found.engines], found.mode, found.caches) == (["a", "b"], mode, caches)
    assert {(engine.type, engine.coordination) for engine in found.engines} == {("Custom", "Native")}


def test_a_phase_alone_is_no_engine():
    """The API takes both or none."""
    spec = load_deployment("prefill-decode").spec
    assert lower(msgspec.structs.replace(spec, prefill=None)).engines == ()


@pytest.mark.parametrize(
    ("capacity", "expected"),
    [(None, ()), ({"requests": {"memory": "10Gi", "cores": "5"}}, (("cores", "5"), ("memory", "10Gi")))],
)
def test_what_is_requested_of_the_capacity_of_a_device(capacity, expected):
    spec = {"workers": {"template": POD}, "nodeSelector": {"devices": [{"name": "gpu", "capacity": capacity}]}}
    (engine,) = lower(decode(ModelDeployment, {"metadata": {"name": "m", "namespace": "n"}, "spec": spec}).spec).engines
    assert [found.capacity for found in engine.members[0].requests] == [expected]
