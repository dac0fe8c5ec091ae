"""What holds of any replica, however it is written and wherever it runs."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from modelplane.api.codec import decode
from modelplane.api.models import ModelReplica
from modelplane.compose.placeholders import is_label_key, is_label_value

NAME = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?")
labels = st.from_regex(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", fullmatch=True)
words = st.sampled_from(
    [
        "--port",
        "8000",
        "9000",
        "x",
        "--model",
        "Qwen/Q",
        "-tp",
        "2",
        "--served-model-name",
        "--config",
        "{{ .X }}",
        "a b",
    ]
)
requests = st.lists(
    st.fixed_dictionaries({"name": labels, "deviceClassName": st.just("gpu"), "count": st.integers(1, 32)}),
    max_size=3,
    unique_by=lambda request: request["name"],
)


@st.composite
def members(draw, role: str):
    container = {
        "name": "engine",
        "image": "example.com/e:1",
        "command": draw(st.lists(words, max_size=2)),
        "args": draw(st.lists(words, max_size=4)),
        "env": [{"name": name, "value": "x"} for name in draw(st.sets(st.sampled_from(["A", "MODELPLANE_RANK"])))],
        "ports": draw(st.lists(st.fixed_dictionaries({"containerPort": st.integers(1, 65535)}), max_size=1)),
    }
    pod: dict[str, object] = {"spec": {"containers": [container]}}
    grace = draw(st.none() | st.integers(0, 3600))
    if grace is not None:
        pod["spec"]["terminationGracePeriodSeconds"] = grace
    return {
        "role": role,
        "nodes": draw(st.integers(1, 3)) if role == "Worker" else 1,
        "nodePoolName": draw(labels)[:40].rstrip("-"),
        "deviceRequests": draw(requests),
        "template": pod,
    }


@st.composite
def engines(draw, name: str, phase: str | None = None):
    gang = draw(st.booleans())
    roles = ("Leader", "Worker") if gang else ("Standalone",)
    topology = draw(
        st.none()
        | st.fixed_dictionaries({"tensor": st.integers(1, 8), "pipeline": st.integers(1, 4)})
        | st.sampled_from([{"data": 16, "dataLocal": 8}, {"data": 4}])
    )
    return {
        "name": name,
        "copies": draw(st.integers(1, 4)),
        "type": draw(st.sampled_from(["vLLM", "SGLang", "Custom"])),
        "coordination": draw(st.sampled_from(["Native", "Ray"])),
        "members": [draw(members(role)) for role in roles],
        **({"phase": phase} if phase else {}),
        **({"topology": topology} if topology else {}),
    }


@st.composite
def replicas(draw) -> ModelReplica:
    paired = draw(st.booleans())
    names = draw(st.lists(labels, min_size=2, max_size=2, unique=True))
    found = (
        [draw(engines(names[0], "Prefill")), draw(engines(names[1], "Decode"))]
        if paired
        else [draw(engines(name)) for name in names[: draw(st.integers(1, 2))]]
    )
    item = {
        "metadata": {"name": f"r{draw(labels)}"[:51].rstrip("-"), "namespace": draw(labels)},
        "spec": {
            "clusterName": "east",
            "deployment": {"name": draw(labels)},
            "priority": draw(st.sampled_from(["production", "batch"])),
            "serving": {"mode": "PrefillDecode" if paired else "Unified"},
            "engines": found,
        },
    }
    return decode(ModelReplica, item)


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(
    replica=replicas(),
    backend=st.sampled_from(["native", "kserve", "pool", "kserve016"]),
    scheduler=st.sampled_from(["none", "kai", "volcano"]),
)
def test_a_replica_is_refused_with_a_reason_or_rendered_well(scene, problems, replica, backend, scheduler):
    made = scene("single-gpu", backend, scheduler)
    made.replica = replica
    result = made.compose()
    assert made.compose() == result
    if result.conditions[0].status != "True":
        assert result.conditions[0].reason in {"Invalid", "NotSupported"}
        assert result.desired == {}
        return
    places = [place(desired.target.manifest) for desired in result.desired.values()]
    assert len(set(places)) == len(places)
    for desired in result.desired.values():
        item = desired.target.manifest
        assert problems(item) == []
        assert NAME.fullmatch(item["metadata"]["name"])
        assert item["metadata"].get("namespace") != "default"
        assert_labels(item)


def place(item: dict) -> tuple:
    return item["apiVersion"], item["kind"], item["metadata"].get("namespace"), item["metadata"]["name"]


def assert_labels(value: object) -> None:
    """Every label anywhere in an object is one, and a Deployment finds its own pods."""
    if isinstance(value, list | tuple):
        for entry in value:
            assert_labels(entry)
    if not isinstance(value, dict):
        return
    if value.get("kind") == "Deployment":
        wanted = value["spec"]["selector"]["matchLabels"]
        assert wanted.items() <= value["spec"]["template"]["metadata"]["labels"].items()
    for name, entry in value.items():
        if name in {"labels", "matchLabels"}:
            assert all(is_label_key(key) and is_label_value(text) for key, text in entry.items())
        assert_labels(entry)
