import msgspec
import pytest
from msgspec.structs import replace

from modelplane.api.codec import decode
from modelplane.api.models import Backend, Kserve, Probe, TemplateMetadata, Topology
from modelplane.compose.backends.kserve_pods import literal
from modelplane.compose.backends.kserve_releases import RELEASES, release_of
from modelplane.compose.backends.lws import leader_and_worker
from modelplane.compose.context import RenderError
from tests.compose.conftest import BACKENDS, change_pods


def service(made) -> dict:
    return made.compose().desired["workload-main-kserve"].target.manifest


@pytest.mark.parametrize("version", ["0.16", "v0.16.0", "0.17", "0.18.1", "0.19", "0.20", "v0.20.0"])
def test_every_release_has_a_row(version):
    release = release_of(Backend(type_="KServe", kserve=Kserve(version=version)))
    assert release.api_version.endswith("v1alpha1" if "0.16" in version else "v1alpha2")


@pytest.mark.parametrize("version", ["0.15", "0.21", "1.20", "latest", "0.", "0.16.0.0"])
def test_another_release_is_refused(version):
    with pytest.raises(RenderError, match="is not among the releases"):
        release_of(Backend(type_="KServe", kserve=Kserve(version=version)))


def test_without_a_version_the_newest_is_meant():
    assert release_of(Backend(type_="KServe")) == RELEASES[20]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("plain", "plain"),
        ("{{ .Model }}", "{{`{{`}} .Model }}"),
        ({"a": ["{{", {"b": 1}]}, {"a": ["{{`{{`}}", {"b": 1}]}),
        (None, None),
        (3, 3),
    ],
)
def test_braces_of_users_survive_kserves_templates(value, expected):
    assert literal(value) == expected


def test_weights_are_mounted_by_us_where_kserve_can_keep_out(scene):
    spec = service(scene("tensor-8", "kserve"))["spec"]
    assert spec["storageInitializer"] == {"enabled": False}
    assert spec["model"]["uri"].startswith("pvc://cache-94ab30b7c9c1f977-")
    (main, _) = spec["template"]["containers"]
    assert main["volumeMounts"][1]["mountPath"] == "/mnt/models"


@pytest.mark.parametrize(("shape", "named"), [("pipeline-2", True), ("data-parallel", False), ("single-gpu", False)])
def test_a_service_names_the_preset_that_it_waits_for(scene, shape, named):
    """KServe looks at a service again when a preset that it names appears, and not when one that it looks for does."""
    made = scene(shape, "kserve").compose().desired
    presets = [item.target.manifest["metadata"]["name"] for key, item in made.items() if key.startswith("preset-")]
    assert presets == (["kserve-config-llm-worker-pipeline-parallel"] if named else [])
    spec = made["workload-main-kserve"].target.manifest["spec"]
    assert spec.get("baseRefs", []) == [{"name": name} for name in presets]


def test_a_service_with_a_pool_names_our_route(scene):
    """KServe counts a pool as ready once the gateway of a route that it knows has accepted it."""
    made = scene("prefill-decode", "kserve").compose().desired
    route = made["route"].target.manifest
    router = made["workload-decode-kserve"].target.manifest["spec"]["router"]
    assert router["route"] == {"http": {"refs": [{"name": route["metadata"]["name"]}]}}
    assert "router" not in service(scene("single-gpu", "kserve"))["spec"]


@pytest.mark.parametrize(
    ("backend", "group", "labels"),
    [
        ("kserve", "inference.networking.k8s.io", {"cost-centre": "chat", "modelplane.ai/deployment": "gpt-oss-20b"}),
        ("kserve016", "inference.networking.x-k8s.io", {}),
    ],
)
def test_a_cluster_that_routes_by_pools_has_one_for_each_engine(scene, backend, group, labels):
    made = scene("gpt-oss-20b", backend)
    made.required["cluster"][0]["spec"]["backend"] = {**BACKENDS[backend], "routing": "InferencePool"}
    result = made.compose()
    (ref,) = result.desired["route"].target.manifest["spec"]["rules"][0]["backendRefs"]
    name = service(made)["metadata"]["name"]
    assert ref == {"group": group, "kind": "InferencePool", "name": f"{name}-inference-pool"}
    replica = {"modelplane.ai/replica": made.replica.metadata.name} if labels else {}
    assert service(made)["spec"]["router"]["scheduler"].get("labels", {}) == {**labels, **replica}


def test_the_first_release_mounts_weights_itself(scene):
    spec = service(scene("gpt-oss-20b", "kserve016"))["spec"]
    assert spec.keys() == {"model", "replicas", "parallelism", "template"}
    assert [mount["name"] for mount in spec["template"]["containers"][0]["volumeMounts"]] == ["shared-memory"]
    assert [volume["name"] for volume in spec["template"]["volumes"]] == ["shared-memory", "cache-0"]
    assert [mount["name"] for mount in spec["template"]["initContainers"][0]["volumeMounts"]] == ["cache-0"]


def test_the_first_release_mounts_weights_of_a_claim_that_exists_itself_too(scene):
    """Nothing looks at such a claim before the engine starts, so the pod names it nowhere."""
    made = scene("gpt-oss-20b", "kserve016")
    (cache,) = made.required["cache-gpt-oss-20b"]
    cache["spec"]["storage"] = {"type": "ExistingPVC", "existingPVC": {"claimName": "weights"}}
    spec = service(made)["spec"]
    assert spec["model"]["uri"] == "pvc://weights"
    assert [volume["name"] for volume in spec["template"]["volumes"]] == ["shared-memory"]


@pytest.mark.parametrize(
    ("shape", "scheduling", "message"),
    [
        ("pipeline-4", {}, "KServe 0.16 mounts weights at /mnt/models only"),
        ("tensor-8", {}, "engine main: KServe 0.16 cannot put labels or annotations on pods"),
        ("gpt-oss-20b", {"defaultLabels": {"a": "b"}}, "KServe 0.16 cannot label pods for the cluster's scheduler"),
    ],
)
def test_what_the_first_release_cannot_do_is_refused(scene, shape, scheduling, message):
    condition = scene(shape, "kserve016", **scheduling).compose().conditions[0]
    assert condition.reason == "NotSupported"
    assert condition.message.startswith(message)


@pytest.mark.parametrize(
    ("shape", "backend", "presets"),
    [
        ("single-gpu", "kserve", []),
        ("pipeline-2", "kserve", ["kserve-config-llm-worker-pipeline-parallel"]),
        ("data-parallel", "kserve", []),
        ("kimi-k2-5p3d", "kserve", []),
    ],
)
def test_the_presets_that_no_release_ships_are_made(scene, shape, backend, presets):
    found = (desired.target for desired in scene(shape, backend).compose().desired.values())
    made = [item for item in found if item.manifest["kind"] == "LLMInferenceServiceConfig"]
    assert [item.manifest["metadata"]["name"] for item in made] == presets
    assert all(item.shared for item in made)


def test_a_decode_engine_whose_layers_are_split_has_a_preset_of_its_own(scene):
    made = scene("kimi-k2-5p3d", "kserve")
    spec = made.replica.spec
    split = [replace(each, topology=Topology(tensor=8, pipeline=2)) for each in spec.engines if each.phase == "Decode"]
    whole = [each for each in spec.engines if each.phase != "Decode"]
    made.replica = replace(made.replica, spec=replace(spec, engines=(*whole, *split)))
    desired = made.compose().desired
    (preset,) = (desired[key].target.manifest["metadata"]["name"] for key in desired if key.startswith("preset-"))
    assert preset == "kserve-config-llm-decode-worker-pipeline-parallel"
    assert desired["workload-decode-kserve"].target.manifest["spec"]["baseRefs"] == [{"name": preset}]


@pytest.mark.parametrize("shape", ["pipeline-2", "pipeline-4", "data-parallel", "sglang-2"])
def test_the_group_has_as_many_nodes_as_the_topology(scene, shape):
    parallelism = service(scene(shape, "kserve"))["spec"]["parallelism"]
    nodes = {"pipeline-2": 2, "pipeline-4": 4}.get(shape, 2)
    data = parallelism.get("data", 1) // parallelism.get("dataLocal", 1)
    assert parallelism.get("pipeline", data) == nodes


def test_phases_are_one_service_behind_its_own_pool(scene):
    result = scene("kimi-k2-5p3d", "kserve").compose()
    (found,) = [d.target.manifest for key, d in result.desired.items() if key.startswith("workload-")]
    spec = found["spec"]
    assert (spec["replicas"], spec["prefill"]["replicas"]) == (3, 5)
    assert spec["router"]["scheduler"]["labels"]["cost-centre"] == "assistants"
    (ref,) = result.desired["route"].target.manifest["spec"]["rules"][0]["backendRefs"]
    assert ref["name"] == f"{found['metadata']['name']}-inference-pool"


def test_an_engine_without_a_command_of_a_kind_that_we_do_not_know_is_refused(scene):
    condition = scene("v03-prefill-decode", "kserve").compose().conditions[0]
    assert condition.reason == "NotSupported"
    assert "KServe would put its own command before the args; give the engine a command" in condition.message


def test_another_port_than_kserves_is_refused(scene):
    made = scene("single-gpu", "kserve")
    engine = made.replica.spec.engines[0]
    container = engine.members[0].template.spec.containers[0]
    args = (*container.args, "--port", "9000")
    replaced = msgspec.json.decode(
        msgspec.json.encode(made.replica).replace(msgspec.json.encode(container.args), msgspec.json.encode(args)),
        type=type(made.replica),
    )
    made.replica = replaced
    assert made.compose().conditions[0].message.startswith("KServe routes to port 8000")


def test_braces_in_annotations_survive_kserves_templates(scene):
    made = scene("single-gpu", "kserve")
    engine = made.replica.spec.engines[0]
    template = engine.members[0].template
    annotated = msgspec.structs.replace(template, metadata=TemplateMetadata(annotations={"a": "{{ .Data }}"}))
    member = msgspec.structs.replace(engine.members[0], template=annotated)
    spec = msgspec.structs.replace(made.replica.spec, engines=(msgspec.structs.replace(engine, members=(member,)),))
    made.replica = msgspec.structs.replace(made.replica, spec=spec)
    assert service(made)["spec"]["annotations"]["a"] == "{{`{{`}} .Data }}"


def of_engine(pod, **fields):
    """The pod with fields of its engine replaced."""
    containers = tuple(replace(each, **fields) if each.name == "engine" else each for each in pod.containers)
    return replace(pod, containers=containers)


def test_weights_in_an_image_are_named_by_it(scene):
    made = scene("tensor-8", "kserve")
    (key,) = [name for name in made.required if name.startswith("cache-")]
    (cache,) = made.required[key]
    oci = {"source": "OCI", "oci": {"reference": "models.example/llama:1"}, "storage": {"type": "Image"}}
    made.required[key] = ({**cache, "spec": {"artifact": cache["spec"]["artifact"], **oci}},)
    named = {"uri": "oci+native://models.example/llama:1", "name": made.replica.spec.deployment.name}
    assert service(made)["spec"]["model"] == named


def test_a_model_that_is_a_path_is_not_a_name_on_the_hub(scene):
    made = change_pods(scene("single-gpu", "kserve"), lambda pod: of_engine(pod, args=("--model", "/models/own")))
    deployment = made.replica.spec.deployment.name
    assert service(made)["spec"]["model"] == {"uri": f"hf://{deployment}", "name": deployment}


@pytest.mark.parametrize(
    ("shape", "change", "message"),
    [
        (
            "prefill-decode",
            lambda pod: of_engine(pod, args=(*pod.containers[0].args, "--port", "9000")),
            "KServe routes to port 8000",
        ),
        (
            "tensor-8",
            lambda pod: replace(pod, containers=(*pod.containers, replace(pod.containers[-1], name="main"))),
            "engine main: KServe has a container named main",
        ),
    ],
)
def test_what_kserve_keeps_for_itself_is_refused(scene, shape, change, message):
    condition = change_pods(scene(shape, "kserve"), change).compose().conditions[0]
    assert (condition.reason, condition.message.startswith(message)) == ("NotSupported", True)


def test_a_decode_engine_on_another_port_than_its_sidecar_expects_is_refused(scene):
    made = scene("prefill-decode", "kserve")
    spec = made.replica.spec
    engines = []
    for engine in spec.engines:
        member = engine.members[0]
        pod = member.template.spec
        if engine.phase == "Decode":
            pod = of_engine(pod, args=(*pod.containers[0].args, "--port", "9000"))
        member = replace(member, template=replace(member.template, spec=pod))
        engines.append(replace(engine, members=(member,)))
    made.replica = replace(made.replica, spec=replace(spec, engines=tuple(engines)))
    condition = made.compose().conditions[0]
    assert (condition.reason, condition.message) == (
        "NotSupported",
        "engine decode: KServe's routing sidecar expects decode engines on port 8001; running pods stay",
    )


def test_pods_without_annotations_have_no_field_for_them(scene):
    assert "annotations" in service(scene("single-gpu", "kserve"))["spec"]
    assert "annotations" not in service(scene("single-gpu", "kserve", defaultAnnotations={}))["spec"]


@pytest.mark.parametrize("index", [0, 1], ids=["of the leader", "of the workers"])
def test_the_first_release_cannot_label_any_pod_of_a_gang(scene, index):
    made = scene("pipeline-2", "kserve016")
    (engine,) = made.replica.spec.engines
    members = list(leader_and_worker(engine))
    template = replace(members[index].template, metadata=TemplateMetadata(labels={"team": "chat"}))
    members[index] = replace(members[index], template=template)
    spec = replace(made.replica.spec, engines=(replace(engine, members=tuple(members)),))
    made.replica = replace(made.replica, spec=spec)
    message = "engine main: KServe 0.16 cannot put labels or annotations on pods; use 0.17 or later; running pods stay"
    assert made.compose().conditions[0].message == message


def test_the_first_release_fetches_a_model_that_the_args_name_and_no_other(scene):
    made = scene("single-gpu", "kserve016")
    assert service(made)["spec"]["model"] == {"uri": "hf://Qwen/Qwen3-8B", "name": "qwen3-8b"}
    change_pods(made, lambda pod: of_engine(pod, args=("--model", "/models/own")))
    message = "engine main: KServe 0.16 needs a cache of weights, or the model's name in the args; running pods stay"
    assert made.compose().conditions[0].message == message


@pytest.mark.parametrize(
    "asks",
    [
        {"httpGet": {"path": "/up", "port": 8000, "scheme": "HTTP"}},
        {"tcpSocket": {"port": 8000}},
        {"grpc": {"port": 8000}},
        {"exec": {"command": ["up"]}},
    ],
    ids=lambda asks: next(iter(asks)),
)
def test_an_engine_is_alive_by_what_says_that_it_is_ready(scene, asks):
    probe = decode(Probe, {**asks, "initialDelaySeconds": 5})
    made = change_pods(scene("single-gpu", "kserve"), lambda pod: of_engine(pod, readiness_probe=probe))
    (main,) = service(made)["spec"]["template"]["containers"]
    assert main["readinessProbe"] == {**asks, "initialDelaySeconds": 5}
    assert main["livenessProbe"] == {**asks, "periodSeconds": 10, "timeoutSeconds": 10, "failureThreshold": 30}


@pytest.mark.parametrize(("given", "scheme"), [({}, "HTTP"), ({"scheme": "HTTPS"}, "HTTPS")])
def test_probes_ask_as_the_user_says_whatever_the_presets_have(scene, given, scheme):
    probe = Probe(http_get={"path": "/live", "port": 8000, **given})
    made = change_pods(scene("single-gpu", "kserve"), lambda pod: of_engine(pod, liveness_probe=probe))
    (main,) = service(made)["spec"]["template"]["containers"]
    assert main["livenessProbe"]["httpGet"] == {"path": "/live", "port": 8000, "scheme": scheme}
