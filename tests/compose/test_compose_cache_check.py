"""The init container that looks at caches: which pods have it, and which image runs that do not change for it."""

from dataclasses import replace

import msgspec
import pytest

from modelplane.api.codec import decode, encode
from modelplane.api.models import ModelReplica
from modelplane.compose import model_replica
from modelplane.compose.contract import ComposeRequest, Observed
from modelplane.compose.images import ReleaseImages
from modelplane.compose.workload_status import stamped
from tests.compose.conftest import LOADER


def compose(found, image, observed=None):
    request = ComposeRequest(
        found.replica, observed=observed or {}, required=found.required, images=ReleaseImages(loader=image)
    )
    return model_replica.compose(request)


def workloads(result):
    return {key: item.target for key, item in result.desired.items() if key.startswith("workload-")}


def templates(target):
    spec = target.manifest["spec"]
    group = spec.get("leaderWorkerTemplate", spec)
    found = [group[name] for name in ("template", "leaderTemplate", "workerTemplate", "worker") if name in group]
    found += [spec["prefill"]["template"]] if "prefill" in spec else []
    return [each.get("spec", each) for each in found]


def checks(result):
    """The first init container of each pod."""
    pods = [pod for target in workloads(result).values() for pod in templates(target)]
    return [next(iter(pod.get("initContainers", ())), None) for pod in pods]


def images(result):
    return [check and check["image"] for check in checks(result)]


@pytest.mark.parametrize("backend", ["native", "kserve"])
@pytest.mark.parametrize("shape", ["gpt-oss-20b", "pipeline-2", "qwen3-coder-lora"])
def test_every_pod_that_mounts_a_staged_cache_has_it(scene, shape, backend):
    found = scene(shape, backend)
    result = compose(found, LOADER)
    assert images(result) == [LOADER] * len(checks(result)) != []
    for target in workloads(result).values():
        for pod in templates(target):
            claims = {each["name"] for each in pod["volumes"] if "persistentVolumeClaim" in each}
            assert {mount["name"] for mount in pod["initContainers"][0]["volumeMounts"]} == claims


def test_it_is_told_the_key_and_the_path_of_each_volume(scene):
    found = scene("qwen3-coder-lora")
    mounts = tuple(msgspec.structs.replace(each, key=f"key-{each.name}") for each in found.replica.spec.caches)
    found.replica = msgspec.structs.replace(
        found.replica, spec=msgspec.structs.replace(found.replica.spec, caches=mounts)
    )
    (check,) = checks(compose(found, LOADER))
    assert check["args"] == [
        "check",
        *(
            f"--staged=key-{name}={path}"
            for name, path in (
                ("qwen3-coder", "/mnt/models"),
                ("sql", "/mnt/adapters/sql"),
                ("rust", "/mnt/rust"),
            )
        ),
    ]
    assert check["securityContext"]["runAsUser"] == 65532


@pytest.mark.parametrize(
    ("engine", "expected"),
    [
        ({}, None),
        ({"requests": {"cpu": "8", "memory": "64Gi"}}, {"cpu": "500m", "memory": "256Mi"}),
        ({"limits": {"memory": "64Gi"}}, {"memory": "256Mi"}),
    ],
)
def test_it_requests_what_the_pod_requests_anyway(scene, engine, expected):
    """A queue of Kueue that has no quota of memory admits no pod that requests some."""
    found = scene("gpt-oss-20b")
    document = encode(found.replica)
    document["spec"]["engines"][0]["members"][0]["template"]["spec"]["containers"][0]["resources"] = engine
    found.replica = decode(ModelReplica, document)
    (check,) = checks(compose(found, LOADER))
    assert check.get("resources") == (expected and {"requests": expected, "limits": expected})


def test_a_claim_that_exists_has_no_marker_and_is_not_checked(scene):
    assert set(images(compose(scene("kimi-k2-5p3d"), LOADER))) == {None}


def seen(result):
    return {key: Observed(item.target, ready=True) for key, item in result.desired.items()}


@pytest.mark.parametrize("backend", ["native", "kserve"])
@pytest.mark.parametrize("shape", ["gpt-oss-20b", "pipeline-2"])
def test_another_image_changes_no_pod_until_something_else_does(scene, shape, backend):
    found = scene(shape, backend)
    first = compose(found, "loader:1")
    after = compose(found, "loader:2", seen(first))
    assert workloads(after) == workloads(first)
    spec = msgspec.structs.replace(found.replica.spec, priority="other")
    changed = replace(found, replica=msgspec.structs.replace(found.replica, spec=spec))
    assert set(images(compose(changed, "loader:2", seen(first)))) == {"loader:2"}


def test_pods_of_an_earlier_release_stay_without_it_until_they_change(scene):
    found = scene("gpt-oss-20b")
    before = compose(found, LOADER)
    (key,) = workloads(before)
    spec = before.desired[key].target.manifest["spec"]
    pod = {name: value for name, value in spec["template"]["spec"].items() if name != "initContainers"}
    older = {**spec, "template": {**spec["template"], "spec": pod}}
    target = before.desired[key].target
    target = stamped(replace(target, manifest={**target.manifest, "spec": older}))
    observed = {**seen(before), key: Observed(target, ready=True)}
    assert images(compose(found, LOADER, observed)) == [None]


def test_a_container_of_the_users_cannot_have_its_name(scene):
    found = scene("whole-pod")
    text = msgspec.json.encode(found.replica).replace(b'"name":"tune","image"', b'"name":"cache-check","image"')
    found.replica = msgspec.json.decode(text, type=type(found.replica))
    accepted = next(each for each in compose(found, LOADER).conditions if each.type == "Accepted")
    assert (accepted.reason, "cache-check is the name of a container of ours" in accepted.message) == ("Invalid", True)
