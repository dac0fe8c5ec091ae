import pytest

from modelplane.api.codec import decode
from modelplane.api.models import InferenceCluster, ModelReplica
from modelplane.compose.context import Context, RenderError
from modelplane.compose.ports import engine_container, engine_port, serving_port

CLUSTER = {"metadata": {"name": "east"}, "spec": {"cluster": {"source": "Existing"}}}


def context(*engines: dict, mode: str = "Unified") -> Context:
    replica = {
        "metadata": {"name": "r", "namespace": "n"},
        "spec": {"clusterName": "east", "serving": {"mode": mode}, "engines": list(engines)},
    }
    return Context(decode(ModelReplica, replica), decode(InferenceCluster, CLUSTER))


def engine(name: str, phase: str | None = None, **container) -> dict:
    pod = {"spec": {"containers": [{"name": "engine", "image": "i", **container}]}}
    found = {"name": name, "members": [{"role": "Standalone", "nodePoolName": "p", "template": pod}]}
    return {**found, "phase": phase} if phase else found


@pytest.mark.parametrize(
    ("container", "port"),
    [({}, 8000), ({"ports": [{"containerPort": 9000}]}, 9000), ({"args": ["--port", "9001"]}, 9001),
     ({"args": ["--port", "65535"]}, 65535), ({"args": ["--port", "1"]}, 1),
     ({"command": ["x", "--port=9002"], "ports": [{"containerPort": 1}]}, 9002)],
)  # fmt: skip
def test_an_engine_listens_where_it_says(container, port):
    found = context(engine("main", **container))
    assert (serving_port(found), engine_port(found, found.replica.spec.engines[0])) == (port, port)


@pytest.mark.parametrize(
    ("fields", "container", "port"),
    [
        ({"type": "Triton"}, {"args": ["--openai-port", "9000", "--port", "1"]}, 9000),
        ({"type": "TGI"}, {"args": ["-p", "9000"]}, 9000),
        ({"type": "TGI"}, {"args": ["--port", "9000"]}, 9000),
        ({"type": "TEI"}, {"args": ["-p", "9000"]}, 9000),
        ({"type": "TEI"}, {"args": ["--port", "9000"]}, 9000),
        ({"server": {"port": 9000}}, {"ports": [{"containerPort": 1}]}, 9000),
        ({"server": {"port": 9000}}, {"args": ["--port=9001"]}, 9001),
        ({"server": {"healthPath": "/up"}}, {}, 8000),
    ],
)
def test_the_port_of_an_engine_that_says_it_otherwise(fields, container, port):
    found = context({**engine("main", **container), **fields})
    assert (serving_port(found), engine_port(found, found.replica.spec.engines[0])) == (port, port)


@pytest.mark.parametrize(
    ("prefill", "decode_", "ports"),
    [({}, {}, (8000, 8001)), ({}, {"args": ["--port=9000"]}, (8000, 9000)),
     ({"args": ["--port=9000"]}, {}, (9000, 8001)), ({}, {"ports": [{"containerPort": 8000}]}, (8000, 8001))],
)  # fmt: skip
def test_a_decode_engine_makes_room_for_the_sidecar(prefill, decode_, ports):
    found = context(engine("p", "Prefill", **prefill), engine("d", "Decode", **decode_), mode="PrefillDecode")
    assert (serving_port(found), engine_port(found, found.replica.spec.engines[1])) == ports


@pytest.mark.parametrize("text", ["abc", "", "0", "65536", "-1", "٨"])
def test_a_port_that_is_none_is_refused_with_its_engine(text):
    with pytest.raises(RenderError, match="engine main: --port"):
        serving_port(context(engine("main", args=["--port", text])))


def test_a_command_that_takes_the_sidecars_port_is_refused():
    found = context(engine("p", "Prefill"), engine("d", "Decode", command=["x", "--port=8000"]), mode="PrefillDecode")
    with pytest.raises(RenderError, match="engine d: port 8000 is the routing sidecar's"):
        engine_port(found, found.replica.spec.engines[1])


def test_engines_of_one_replica_share_a_port():
    with pytest.raises(RenderError, match="not on 8000, 9000"):
        serving_port(context(engine("a"), engine("b", args=["--port=9000"])))


def test_an_engine_is_found_among_other_containers():
    found = engine("main")
    found["members"][0]["template"]["spec"]["containers"].insert(0, {"name": "proxy", "image": "p"})
    member = context(found).replica.spec.engines[0].members[0]
    assert engine_container(member).name == "engine"


def test_a_pod_without_an_engine_is_refused():
    found = engine("main")
    found["members"][0]["template"]["spec"]["containers"][0]["name"] = "proxy"
    with pytest.raises(RenderError, match="no container is named engine"):
        engine_container(context(found).replica.spec.engines[0].members[0])
