"""What holds on every pod, under every backend and every scheduler."""

import pytest
from msgspec.structs import replace

from modelplane.api.models import DeviceRequest, Env, Port
from tests.compose.conftest import change_pods

SHAPES = ("single-gpu", "tensor-8", "pipeline-2", "data-parallel", "kimi-k2-5p3d", "qwen3-coder-lora", "gpt-oss-20b")
BACKENDS = ("native", "kserve")
NAMES = ("engine", "exporter")
SCHEDULER_NAMES = {"none": None, "kai": "kai-scheduler", "kueue": None, "volcano": "volcano"}


def pods(result):
    """(labels, annotations, spec) of every pod that the objects would make."""
    for desired in result.desired.values():
        item = desired.target.manifest
        spec = item.get("spec", {})
        templates = {
            "Deployment": lambda spec: [spec["template"]],
            "LeaderWorkerSet": lambda spec: [
                spec["leaderWorkerTemplate"][f"{n}Template"] for n in ("leader", "worker")
            ],
        }
        if item["kind"] in templates:
            for template in templates[item["kind"]](spec):
                meta = template["metadata"]
                yield meta["labels"], meta.get("annotations", {}), template["spec"]
        if item["kind"] == "PodCliqueSet":
            for clique in spec["template"]["cliques"]:
                yield clique["labels"], clique.get("annotations", {}), clique["spec"]["podSpec"]
        if item["kind"] == "LLMInferenceService":
            for part in (spec, spec.get("prefill", {})):
                for name in ("template", "worker"):
                    if name in part:
                        yield part["labels"], part.get("annotations", {}), part[name]


def engines(spec):
    return [c for c in spec["containers"] if c["name"] in {"engine", "main"}]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("scheduler", SCHEDULER_NAMES)
def test_what_the_cluster_asks_for_is_on_every_pod(scene, shape, backend, scheduler):
    made = scene(shape, backend, scheduler, schedulerName="own", defaultPriority="fallback", priorities=[])
    found = list(pods(made.compose()))
    assert found
    for labels, annotations, spec in found:
        assert labels["cost-centre"] == made.replica.metadata.namespace
        assert labels["modelplane.ai/replica"] == made.replica.metadata.name
        assert labels.get("modelplane.ai/engine") != "not-yours"
        assert annotations["example.com/where"].startswith("east/")
        assert spec["schedulerName"] == "own"
        assert spec["priorityClassName"] == (made.replica.spec.priority or "fallback")


@pytest.mark.parametrize("scheduler", SCHEDULER_NAMES)
@pytest.mark.parametrize("backend", BACKENDS)
def test_every_pod_goes_to_the_clusters_scheduler(scene, backend, scheduler):
    for _, _, spec in pods(scene("kimi-k2-5p3d", backend, scheduler).compose()):
        assert spec.get("schedulerName") == SCHEDULER_NAMES[scheduler]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("backend", BACKENDS)
def test_engines_claim_their_devices_on_their_pool(scene, shape, backend):
    made = scene(shape, backend)
    result = made.compose()
    templates = {
        desired.target.manifest["metadata"]["name"]
        for desired in result.desired.values()
        if desired.target.manifest["kind"] == "ResourceClaimTemplate"
    }
    named = set()
    for labels, _, spec in pods(result):
        if "modelplane.ai/picker" in labels:
            assert "resourceClaims" not in spec
            assert "tolerations" not in spec
            continue
        (claim,) = spec["resourceClaims"]
        named.add(claim["resourceClaimTemplateName"])
        assert engines(spec)[0]["resources"]["claims"] == [{"name": claim["name"]}]
        assert {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"} in spec["tolerations"]
        assert spec["nodeSelector"].keys() == {"modelplane.ai/pool"}
    assert named == templates


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("backend", BACKENDS)
def test_only_pods_that_answer_are_probed_and_all_of_them_drain(scene, shape, backend):
    for labels, _, spec in pods(scene(shape, backend).compose()):
        for engine in engines(spec):
            assert ("readinessProbe" in engine) == ("startupProbe" in engine) == ("ports" in engine)
            stop = engine["lifecycle"]["preStop"]
            (seconds,) = [stop["sleep"]["seconds"]] if "sleep" in stop else [int(stop["exec"]["command"][1])]
            assert 0 < seconds < spec["terminationGracePeriodSeconds"]
            if labels.get("modelplane.ai/role") == "worker":
                assert "readinessProbe" not in engine


def test_the_users_time_to_finish_is_kept_and_most_of_it_is_for_draining(scene):
    ((_, _, spec),) = list(pods(scene("tensor-8").compose()))
    assert spec["terminationGracePeriodSeconds"] == 600
    assert engines(spec)[0]["lifecycle"]["preStop"]["sleep"]["seconds"] == 450


def test_users_words_stay_and_sidecars_are_kept(scene):
    ((labels, annotations, spec),) = list(pods(scene("tensor-8").compose()))
    assert labels["team"] == "chat"
    assert annotations["example.com/owner"] == "chat-on-call"
    assert [c["name"] for c in spec["containers"]] == ["engine", "exporter"]
    assert spec["tolerations"][0] == {"key": "reserved", "value": "chat", "effect": "NoSchedule"}
    assert engines(spec)[0]["resources"]["requests"] == {"cpu": 32, "memory": "256Gi"}


def test_a_leader_that_claims_nothing_still_reaches_its_tainted_pool(scene):
    leader, worker = [spec for _, _, spec in pods(scene("v03-gang").compose())]
    assert "resourceClaims" not in leader
    assert "claims" not in engines(leader)[0].get("resources", {})
    assert leader["tolerations"] == worker["tolerations"]
    assert leader["tolerations"][-1]["key"] == "nvidia.com/gpu"


def test_members_of_a_gang_find_each_other_under_our_names(scene):
    for _, _, spec in pods(scene("v03-gang").compose()):
        assert [entry["name"] for entry in engines(spec)[0]["env"]] == [
            "MODELPLANE_LEADER_ADDRESS",
            "MODELPLANE_RANK",
            "MODELPLANE_GROUP_SIZE",
            "MODELPLANE_SERVED_MODEL_NAME",
            "HF_HUB_CACHE",
        ]


@pytest.mark.parametrize(
    ("classes", "keys"),
    [
        (("gpu.nvidia.com", "rdma.example.com"), ["nvidia.com/gpu"]),
        (("gpu.amd.com",), ["amd.com/gpu"]),
        (("gpu.nvidia.com", "gpu.amd.com"), ["nvidia.com/gpu", "amd.com/gpu"]),
        ((), []),
    ],
)
def test_pods_tolerate_the_taints_of_the_devices_that_they_claim(scene, classes, keys):
    made = scene("tensor-8")
    engine = made.replica.spec.engines[0]
    requests = tuple(DeviceRequest(name=f"d{at}", device_class_name=name) for at, name in enumerate(classes))
    members = tuple(replace(member, device_requests=requests) for member in engine.members)
    spec = replace(made.replica.spec, engines=(replace(engine, members=members),))
    made.replica = replace(made.replica, spec=spec)
    ((_, _, pod),) = pods(made.compose())
    found = [toleration["key"] for toleration in pod.get("tolerations", ())]
    assert [key for key in found if key.endswith("/gpu")] == keys


@pytest.mark.parametrize(
    ("size_gib", "hours"),
    [(20, 1), (300, 1), (352, 2), (701, 2), (1100, 4)],
    ids=["small", "within an hour", "more than an hour", "just within two", "a trillion parameters"],
)
@pytest.mark.parametrize("backend", BACKENDS)
def test_an_engine_may_take_as_long_to_start_as_a_slow_volume_needs(scene, backend, size_gib, hours):
    made = scene("qwen3-coder-lora", backend)
    (weights,) = made.required["cache-qwen3-coder"]
    weights["spec"]["storage"] = {"type": "PVC", "sizeGiB": size_gib}
    result = made.compose()
    budgets = {
        probe["periodSeconds"] * probe["failureThreshold"]
        for _, _, spec in pods(result)
        for container in engines(spec)
        if (probe := container.get("startupProbe"))
    }
    assert budgets == {hours * 3600}
    kinds = {"native": {"Deployment"}, "kserve": set()}[backend]
    deadlines = {
        item.target.manifest["spec"]["progressDeadlineSeconds"]
        for item in result.desired.values()
        if item.target.manifest["kind"] in kinds
    }
    assert deadlines == ({hours * 3600 + 600} if kinds else set())


@pytest.mark.parametrize("shape", ["tensor-8", "prefill-decode"])
def test_a_pod_that_may_take_no_time_to_stop_has_no_hook(scene, shape):
    at_once = change_pods(scene(shape), lambda pod: replace(pod, termination_grace_period_seconds=0))
    for made, expected in ((scene(shape), True), (at_once, False)):
        found = [spec for _, _, spec in pods(made.compose()) if engines(spec)]
        ours = [each for spec in found for each in spec["containers"] if each["name"] != "exporter"]
        assert {"lifecycle" in each for each in ours} == {expected}


def test_what_a_scheduler_counts_by_is_requested_for_the_engine_alone(scene):
    made = change_pods(
        scene("kimi-k2-5p3d", "native", "volcano"),
        lambda pod: replace(
            pod, containers=tuple(replace(each, resources=None, name=name) for each in pod.containers for name in NAMES)
        ),
    )
    found = [spec["containers"] for _, _, spec in pods(made.compose()) if engines(spec)]
    requested = {each["name"]: each.get("resources", {}).get("requests", {}).keys() for spec in found for each in spec}
    assert (requested["engine"] > set(), requested["exporter"]) == (True, set())


def test_a_decode_engine_that_moves_lists_each_of_its_ports_once(scene):
    """Its sidecar has 8000 and it moves to 8001, which the user lists too."""

    def with_ports(spec):
        ports = tuple(Port(container_port=port) for port in (8000, 8001, 9400))
        return replace(spec, containers=(replace(spec.containers[0], ports=ports), *spec.containers[1:]))

    made = change_pods(scene("prefill-decode"), with_ports)
    listed = {
        labels["modelplane.ai/engine"]: [port["containerPort"] for port in engines(spec)[0]["ports"]]
        for labels, _, spec in pods(made.compose())
        if "modelplane.ai/engine" in labels
    }
    assert listed == {"prefill": [8000, 8001, 9400], "decode": [8001, 9400]}


@pytest.mark.parametrize(
    "name", ["HF_HOME", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "TRANSFORMERS_CACHE", "VLLM_CACHE_ROOT", "HF_TOKEN"]
)
def test_a_user_who_says_where_downloads_go_gets_no_volume_for_them(scene, name):
    def with_variable(spec):
        containers = (replace(spec.containers[0], env=(Env(name=name, value="/own"),)), *spec.containers[1:])
        return replace(spec, containers=containers)

    made = scene("single-gpu")
    made.replica = replace(made.replica, spec=replace(made.replica.spec, caches=()))
    ((_, _, spec),) = pods(change_pods(made, with_variable).compose())
    ours = [entry["name"] for entry in spec["volumes"] if entry["name"] == "downloads"]
    assert ours == (["downloads"] if name == "HF_TOKEN" else [])


@pytest.mark.parametrize(
    ("shape", "backend"), [("single-gpu", "native"), ("single-gpu", "kserve"), ("sglang-2", "native")]
)
def test_what_an_engine_downloads_outlives_a_restart_of_its_container(scene, shape, backend):
    for _, _, spec in pods(scene(shape, backend).compose()):
        (engine,) = engines(spec)
        assert {"name": "downloads", "emptyDir": {}} in spec["volumes"]
        assert {"name": "downloads", "mountPath": "/mnt/downloads"} in engine["volumeMounts"]
        assert {"name": "HF_HOME", "value": "/mnt/downloads"} in engine["env"]


def test_a_variable_that_the_user_gives_takes_the_place_of_ours(scene):
    def with_name(spec):
        own = Env(name="MODELPLANE_SERVED_MODEL_NAME", value="mine")
        return replace(spec, containers=(replace(spec.containers[0], env=(own,)), *spec.containers[1:]))

    ((_, _, spec),) = pods(change_pods(scene("single-gpu"), with_name).compose())
    given = [each["value"] for each in engines(spec)[0]["env"] if each["name"] == "MODELPLANE_SERVED_MODEL_NAME"]
    assert given == ["mine"]


def test_a_place_for_downloads_that_the_user_names_is_the_users(scene):
    own = Env(name="HF_HOME", value="/data")
    made = change_pods(
        scene("single-gpu"),
        lambda pod: replace(pod, containers=tuple(replace(each, env=(own,)) for each in pod.containers)),
    )
    ((_, _, spec),) = list(pods(made.compose()))
    assert "downloads" not in [volume["name"] for volume in spec["volumes"]]
    assert [each["value"] for each in engines(spec)[0]["env"] if each["name"] == "HF_HOME"] == ["/data"]


@pytest.mark.parametrize(
    ("shape", "given"), [("prefill-decode", True), ("prefill-decode-sglang", False), ("tensor-8", False)]
)
def test_engines_that_move_caches_by_nixl_listen_on_their_own_address(scene, shape, given):
    side = {"name": "VLLM_NIXL_SIDE_CHANNEL_HOST", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}
    found = [engine for _, _, spec in pods(scene(shape).compose()) for engine in engines(spec)]
    assert found
    assert {side in engine["env"] for engine in found} == {given}


@pytest.mark.parametrize(("written", "expected"), [(None, 120), (0, 0), (7, 7)])
def test_an_engine_that_does_not_drain_has_the_time_that_is_written(scene, written, expected):
    made = change_pods(scene("single-gpu"), lambda pod: replace(pod, termination_grace_period_seconds=written))
    assert [spec["terminationGracePeriodSeconds"] for _, _, spec in pods(made.compose())] == [expected]


def test_an_adapter_that_is_listed_before_the_weights_is_not_served_as_the_model(scene):
    first, *adapters = (made := scene("qwen3-coder-lora")).replica.spec.caches
    ((_, _, expected),) = pods(made.compose())
    made.replica = replace(made.replica, spec=replace(made.replica.spec, caches=(*adapters, first)))
    ((_, _, spec),) = pods(made.compose())
    assert engines(spec)[0]["args"] == engines(expected)[0]["args"]


def test_an_engine_that_says_how_long_it_drains_has_the_time(scene):
    ((_, _, spec),) = list(pods(scene("own-server").compose()))
    (engine,) = engines(spec)
    assert engine["lifecycle"]["preStop"]["sleep"]["seconds"] == 240
    assert spec["terminationGracePeriodSeconds"] == 270
    assert engine["readinessProbe"]["httpGet"] == {"path": "/ready", "port": 9000}


def test_pods_of_a_clique_are_the_pods_of_a_group(scene):
    """But for how they find each other, a gang is the same on both stacks."""
    group, cliques = (list(pods(scene("pipeline-2", backend, "kai").compose())) for backend in ("native", "grove"))
    assert len(group) == len(cliques) == 2
    for (labels, annotations, spec), (other_labels, other_annotations, other_spec) in zip(group, cliques, strict=True):
        assert (labels, annotations) == (other_labels, other_annotations)
        ours, theirs = (_without_group(each) for each in (spec, other_spec))
        assert ours == theirs


def _without_group(spec):
    names = {"MODELPLANE_LEADER_ADDRESS", "MODELPLANE_RANK", "MODELPLANE_GROUP_SIZE", "MODELPLANE_COPY"}
    containers = [
        {**each, "env": [entry for entry in each.get("env", []) if entry["name"] not in names]}
        for each in spec["containers"]
    ]
    return {**spec, "containers": containers}
