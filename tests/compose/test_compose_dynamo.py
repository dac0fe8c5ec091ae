import pytest
from msgspec.structs import replace

from modelplane.api.models import WarmUp
from modelplane.compose.ports import engine_container
from tests.compose.conftest import make_scene


def graph(made) -> dict:
    return made.compose().desired["workload-graph-dynamo"].target.manifest


def components(made) -> dict[str, dict]:
    return {each["name"]: each for each in graph(made)["spec"]["components"]}


def main(component) -> dict:
    (found,) = (each for each in component["podTemplate"]["spec"]["containers"] if each["name"] == "main")
    return found


def test_requests_go_to_the_frontend_that_dynamo_makes():
    made = make_scene("single-gpu", "dynamo").compose().desired
    name = made["workload-graph-dynamo"].target.manifest["metadata"]["name"]
    (rule,) = made["route"].target.manifest["spec"]["rules"]
    assert rule["backendRefs"] == [{"name": f"{name}-frontend", "port": 8000}]


def test_a_graph_has_a_name_of_32_characters_at_most():
    made = make_scene("single-gpu", "dynamo")
    made.replica = replace(made.replica, metadata=replace(made.replica.metadata, name="a" * 63))
    found = graph(made)["metadata"]["name"]
    assert (found[:22], len(found)) == ("a" * 21 + "-", 32)


def test_phases_are_components_and_need_neither_picker_nor_sidecar():
    made = make_scene("prefill-decode", "dynamo")
    found = components(made)
    assert {name: (each["type"], each["replicas"]) for name, each in found.items()} == {
        "frontend": ("frontend", 1),
        "decode": ("decode", 1),
        "prefill": ("prefill", 2),
    }
    assert not {"picker", "pool"} & made.compose().desired.keys()
    for phase in ("prefill", "decode"):
        assert main(found[phase])["args"][-2:] == ["--disaggregation-mode", phase]
        assert "routing-sidecar" not in str(found[phase])


def test_a_worker_is_told_its_model_by_flag_and_one_name():
    worker = main(components(make_scene("prefill-decode", "dynamo"))["decode"])
    assert worker["command"] == ["python3", "-m", "dynamo.vllm"]
    assert worker["args"][:4] == ["--model", "Qwen/Qwen3-32B", "--served-model-name", "qwen3-32b"]
    assert "--port" not in worker["args"]
    assert not {"ports", "readinessProbe", "startupProbe", "livenessProbe"} & worker.keys()


def test_pods_bring_their_own_shared_memory_and_may_register_themselves():
    worker = components(make_scene("single-gpu", "dynamo"))["main"]
    assert worker["sharedMemorySize"] == "0"
    assert "automountServiceAccountToken" not in worker["podTemplate"]["spec"]
    assert main(worker)["resources"]["claims"] == [{"name": "devices"}]


@pytest.mark.parametrize(
    ("given", "begins"),
    [
        pytest.param(
            ("org/m", "--served-model-name", "mine", "other"),
            ["--model", "org/m", "--served-model-name", "mine", "other"],
            id="the user's names",
        ),
        pytest.param(
            ("--config", "/etc/vllm.yaml"),
            ["--config", "/etc/vllm.yaml", "--served-model-name", "qwen3-32b"],
            id="a file says the model",
        ),
    ],
)
def test_what_users_say_of_the_model_is_kept(given, begins):
    made = make_scene("prefill-decode", "dynamo")
    made.replica = with_container(made.replica, args=given)
    words = main(components(made)["decode"])["args"]
    assert [word for word in words if word in begins] == begins
    assert words.count("--model") == begins.count("--model")


def test_a_container_of_dynamos_own_name_is_refused():
    made = make_scene("single-gpu", "dynamo")
    engine = engine_container(made.replica.spec.engines[0].members[0])
    made.replica = with_container(made.replica, also=replace(engine, name="main"))
    refused = made.compose().conditions[0]
    assert (refused.status, refused.reason) == ("False", "NotSupported")
    assert refused.message.startswith("engine main: Dynamo has a container named main")


def with_container(replica, also=None, **fields):
    """The engines' containers with these fields, and perhaps one beside each."""

    def member(each):
        spec = each.template.spec
        containers = [replace(container, **fields) for container in spec.containers]
        spec = replace(spec, containers=(*containers, *([also] if also else ())))
        return replace(each, template=replace(each.template, spec=spec))

    engines = tuple(replace(each, members=tuple(map(member, each.members))) for each in replica.spec.engines)
    return replace(replica, spec=replace(replica.spec, engines=engines))


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ("pipeline-2", "engine main: backend type Dynamo is for engines of one node; spec.stack: Dynamo has gangs"),
        ("sglang-2", "engine main: Dynamo is rendered for vLLM without a command of its own"),
        ("own-server", "engine main: Dynamo is rendered for vLLM without a command of its own"),
    ],
)
def test_what_is_not_rendered_for_dynamo_is_said(shape, message):
    refused = make_scene(shape, "dynamo").compose().conditions[0]
    told = f"cluster east: {message}; running pods stay"
    assert (refused.status, refused.reason, refused.message) == ("False", "NotSupported", told)


def test_a_warm_up_is_refused():
    made = make_scene("single-gpu", "dynamo")
    made.replica = replace(made.replica, spec=replace(made.replica.spec, warm_up=WarmUp()))
    assert "warmUp needs engines that answer requests themselves" in made.compose().conditions[0].message


def test_the_frontend_goes_by_the_clusters_scheduler():
    frontend = components(make_scene("single-gpu", "dynamo", "volcano", defaultAnnotations={}))["frontend"]
    marks = {"annotations": {"scheduling.volcano.sh/queue-name": "serving"}}
    metadata = frontend["podTemplate"]["metadata"]
    assert {key: value for key, value in metadata.items() if key != "labels"} == marks
    assert frontend["podTemplate"]["spec"]["schedulerName"] == "volcano"
    plain = components(make_scene("single-gpu", "dynamo", defaultAnnotations={}))["frontend"]
    assert plain["podTemplate"]["metadata"].keys() == {"labels"}
