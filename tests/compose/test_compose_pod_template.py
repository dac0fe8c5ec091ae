"""What users write in a pod template, beside what we render."""

import pytest
from msgspec.structs import replace

from modelplane.api.codec import decode
from modelplane.api.models import Container, InferenceCluster, ReplicaMember
from modelplane.compose.context import Context, RenderError
from modelplane.compose.pod_references import copy_name
from modelplane.compose.pod_template import (
    check_template,
    mounts,
    security,
    template_spec,
    template_volumes,
    with_probes,
)
from tests.compose.conftest import make_scene
from tests.compose.test_compose_pods import pods

OURS = {
    "startupProbe": {"httpGet": {"path": "/health", "port": 8000}, "periodSeconds": 10, "failureThreshold": 360},
    "readinessProbe": {"httpGet": {"path": "/health", "port": 8000}, "periodSeconds": 5},
}
READY = {"httpGet": {"path": "/ready", "port": 8000}, "periodSeconds": 2}
ALIVE = {"tcpSocket": {"port": "http"}}
ENGINE = make_scene("whole-pod").replica.spec.engines[0]


def container(**given) -> Container:
    return decode(Container, {"name": "engine", "image": "e", **given})


def member(**spec) -> ReplicaMember:
    template = {"spec": {"containers": [{"name": "engine", "image": "e"}], **spec}}
    return decode(ReplicaMember, {"role": "Standalone", "nodePoolName": "p", "template": template})


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ({}, OURS),
        ({"readinessProbe": READY},
         {"readinessProbe": READY,
          "startupProbe": {"httpGet": READY["httpGet"], "periodSeconds": 10, "failureThreshold": 360}}),
        ({"startupProbe": READY}, {**OURS, "startupProbe": READY}),
        ({"startupProbe": ALIVE, "readinessProbe": READY}, {"startupProbe": ALIVE, "readinessProbe": READY}),
        ({"livenessProbe": ALIVE}, {**OURS, "livenessProbe": ALIVE}),
    ],
)  # fmt: skip
def test_the_users_probes_take_the_place_of_ours(given, found):
    assert with_probes(container(**given), OURS) == found


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ({}, {"allowPrivilegeEscalation": False}),
        ({"runAsUser": 7, "readOnlyRootFilesystem": True},
         {"runAsUser": 7, "readOnlyRootFilesystem": True, "allowPrivilegeEscalation": False}),
        ({"privileged": True, "allowPrivilegeEscalation": True}, {"allowPrivilegeEscalation": False}),
    ],
)  # fmt: skip
def test_a_container_gains_nothing(given, found):
    assert security(container(securityContext=given), {"allowPrivilegeEscalation": False}) == found


MEMORY = "/dev/shm"  # noqa: S108  a mount inside the container
SHM, CACHE = {"name": "shared-memory", "mountPath": MEMORY}, {"name": "cache-0", "mountPath": "/mnt/models"}


@pytest.mark.parametrize(
    ("path", "found"),
    [("/data", [SHM, CACHE, {"name": "v", "mountPath": "/data"}]),
     (MEMORY, [CACHE, {"name": "v", "mountPath": MEMORY}]),
     (f"{MEMORY}/", [CACHE, {"name": "v", "mountPath": f"{MEMORY}/"}])],
)  # fmt: skip
def test_a_mount_takes_the_place_of_ours(path, found):
    given = container(volumeMounts=[{"name": "v", "mountPath": path}])
    assert mounts(ENGINE, given, [SHM, CACHE], frozenset({"/mnt/models"})) == found


def test_nothing_covers_a_cache():
    given = container(volumeMounts=[{"name": "v", "mountPath": "/mnt/models/"}])
    with pytest.raises(RenderError, match="container engine: volumeMounts: a cache is mounted at /mnt/models"):
        mounts(ENGINE, given, [SHM, CACHE], frozenset({"/mnt/models"}))


@pytest.mark.parametrize(
    ("given", "routed", "wrong"),
    [
        ({"volumes": [{"name": "cache-0", "emptyDir": {}}]}, False, "volumes: cache-0 is the name of a volume of ours"),
        ({"initContainers": [{"name": "a", "image": "b", "volumeMounts": [{"name": "v", "mountPath": "/v"}]}]}, False,
         "container a: volumeMounts: no volume is named v"),
        ({"serviceAccountName": "mine"}, True,
         "serviceAccountName: the routing sidecar of decode pods needs one of its own"),
    ],
)  # fmt: skip
def test_what_cannot_be_merged_is_refused(given, routed, wrong):
    with pytest.raises(RenderError) as caught:
        check_template(ENGINE, member(**given), ["shared-memory", "cache-0"], routed=routed)
    assert str(caught.value) == f"engine main: {wrong}"


def test_what_only_users_set_is_as_it_is_written():
    term = {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["nvme"]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    written = {
        "affinity": {"nodeAffinity": required},
        "runtimeClassName": "nvidia",
        "hostname": "qwen",
        "serviceAccountName": "reader",
    }
    scene = make_scene("whole-pod")
    context = Context(scene.replica, decode(InferenceCluster, scene.required["cluster"][0]), ())
    assert template_spec(context, ENGINE, member(**written).template.spec) == written
    claim = {"name": "scratch", "persistentVolumeClaim": {"claimName": "scratch"}}
    assert template_volumes(context, member(volumes=[claim]).template.spec) == [claim]


def test_pods_of_an_engine_are_kept_even_where_no_more_is_said():
    scene = make_scene("whole-pod")
    context = Context(scene.replica, decode(InferenceCluster, scene.required["cluster"][0]), ())
    selector = {"matchLabels": {"modelplane.ai/replica": scene.replica.metadata.name, "modelplane.ai/engine": "main"}}
    even = {"maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", "topologyKey": "zone", "labelSelector": selector}
    written = [{"topologyKey": "zone"}, {"topologyKey": "zone", "maxSkew": 2, "whenUnsatisfiable": "ScheduleAnyway"}]
    spec = template_spec(context, ENGINE, member(topologySpreadConstraints=written).template.spec)
    assert spec == {"topologySpreadConstraints": [even, {**even, **written[1]}]}


def test_files_come_from_the_copies_of_what_users_name():
    scene = make_scene("whole-pod")
    ((_, _, spec),) = pods(scene.compose())
    name = scene.replica.metadata.name
    by_name = {volume["name"]: volume for volume in spec["volumes"]}
    assert by_name["chat-template"]["configMap"]["name"] == copy_name(name, "ConfigMap", "chat-template")
    assert by_name["certificates"]["secret"]["secretName"] == copy_name(name, "Secret", "own-ca")
    variable = spec["initContainers"][0]["env"][0]["valueFrom"]["secretKeyRef"]
    assert variable["name"] == copy_name(name, "Secret", "tune")


@pytest.mark.parametrize("backend", ["native", "kserve"])
def test_probes_of_a_template_are_not_the_workers(scene, backend):
    """Workers of a gang run the same template and answer no requests."""
    made = scene("pipeline-2", backend)
    engine = made.replica.spec.engines[0]
    members = tuple(_probed(each) for each in engine.members)
    spec = replace(made.replica.spec, engines=(replace(engine, members=members),))
    made.replica = replace(made.replica, spec=spec)
    probed = [
        "readinessProbe" in next(each for each in spec["containers"] if each["name"] in {"engine", "main"})
        for _, _, spec in pods(made.compose())
    ]
    assert probed == [True, False]


def _probed(found: ReplicaMember) -> ReplicaMember:
    template = found.template
    containers = tuple(
        decode(Container, {"name": each.name, "image": each.image, "readinessProbe": READY, "args": ["Q"]})
        for each in template.spec.containers
    )
    return replace(found, template=replace(template, spec=replace(template.spec, containers=containers)))
