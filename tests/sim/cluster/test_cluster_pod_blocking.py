"""Pods whose containers cannot be created, by the clock."""

import pytest

from modelplane.api.objects import manifest, name_of
from modelplane.sim.cluster import ClusterSettings
from modelplane.sim.cluster.images import rules_of
from modelplane.sim.cluster.pod_status import pod_id
from modelplane.sim.cluster.sim_settings import SimSettings
from modelplane.testing.cluster import TENANT_NAMESPACE, claim_template, deployment, gpu_pool, run_cluster

POOLS = [gpu_pool("h200", 1)]
QUICK = ClusterSettings(system_nodes=0, pull_s=2, load_s=2)
FULL = "docker.io/nosuch/image:nope"
NOT_FOUND = (
    f'rpc error: code = NotFound desc = failed to pull and unpack image "{FULL}": '
    f'failed to resolve reference "{FULL}": {FULL}: not found'
)


def status(lab):
    (pod,) = lab.pods()
    return pod["status"]


def waiting(lab):
    (container,) = status(lab)["containerStatuses"]
    return container["state"].get("waiting", {})


def events(lab):
    return [(item["reason"], item["message"]) for item in lab.store.list("", "Event")]


async def reasons_at(lab, *seconds):
    found = []
    for second in seconds:
        await lab.clock.sleep(second - lab.clock.monotonic())
        found.append(waiting(lab).get("reason", "runs"))
    return found


def in_cluster(story, made):
    async def main(lab):
        lab.apply(claim_template(), made)
        return await story(lab)

    return run_cluster(main, pools=POOLS, settings=QUICK)


def with_container(made, **fields):
    made["spec"]["template"]["spec"]["containers"][0] |= fields
    return made


def test_an_image_that_does_not_exist_is_tried_again_later_each_time():
    async def story(lab):
        reasons = await reasons_at(lab, 1, 2.5, 4, 11.5, 12.5, 14, 31, 32.5, 34)
        return reasons, status(lab)["phase"], waiting(lab), sorted(set(events(lab))), lab.engines.running

    reasons, phase, said, told, running = in_cluster(story, deployment(image="nosuch/image:nope"))
    back_off = "ImagePullBackOff"
    assert reasons == [
        *("ContainerCreating", "ErrImagePull", back_off, back_off),
        *("ErrImagePull", back_off, back_off, "ErrImagePull", back_off),
    ]
    assert (phase, running) == ("Pending", {})
    assert said == {
        "reason": back_off,
        "message": f'Back-off pulling image "nosuch/image:nope": ErrImagePull: {NOT_FOUND}',
    }
    assert told == [
        ("Failed", "Error: ErrImagePull"),
        ("Failed", "Error: ImagePullBackOff"),
        ("Failed", f'Failed to pull image "nosuch/image:nope": {NOT_FOUND}'),
    ]


def test_an_image_that_is_there_at_the_next_try_is_pulled():
    async def story(lab):
        before = await reasons_at(lab, 5)
        lab.cluster.set_sim_settings(SimSettings(images=rules_of("nosuch/image")))
        return before, await reasons_at(lab, 11, 13, 15), status(lab)["phase"]

    assert in_cluster(story, deployment(image="nosuch/image:nope")) == (
        ["ImagePullBackOff"],
        ["ImagePullBackOff", "ContainerCreating", "runs"],
        "Running",
    )


def test_a_malformed_image_name_is_not_pulled():
    async def story(lab):
        return await reasons_at(lab, 3, 30), sorted({reason for reason, _ in events(lab)})

    assert in_cluster(story, deployment(image="Nosuch:a:b")) == (["InvalidImageName"] * 2, ["Failed", "InspectFailed"])


def secret(**data):
    return {**manifest("v1", "Secret", "token", namespace=TENANT_NAMESPACE), "data": data}


def gated():
    reference = {"secretKeyRef": {"name": "token", "key": "HF_TOKEN"}}
    return with_container(deployment(), env=[{"name": "HF_TOKEN", "valueFrom": reference}])


def test_a_pod_waits_for_its_secret_and_starts_with_it():
    async def story(lab):
        await lab.clock.sleep(3)
        missing = waiting(lab)
        lab.apply(secret(OTHER="x"))
        await lab.clock.sleep(0.1)
        no_key = waiting(lab)
        lab.apply(secret(HF_TOKEN="x"))
        await lab.clock.sleep(0.1)
        loads = status(lab)["phase"]
        await lab.settle()
        return missing, no_key, loads, len(lab.engines.running), events(lab)

    missing, no_key, loads, running, told = in_cluster(story, gated())
    assert missing == {"reason": "CreateContainerConfigError", "message": 'secret "token" not found'}
    assert no_key == {
        "reason": "CreateContainerConfigError",
        "message": "couldn't find key HF_TOKEN in Secret team/token",
    }
    assert (loads, running) == ("Running", 1)
    assert ("Failed", 'Error: secret "token" not found') in told


def test_a_volume_without_its_config_map_is_told_by_an_event():
    made = deployment()
    made["spec"]["template"]["spec"]["volumes"] = [{"name": "v", "configMap": {"name": "nosuch"}}]

    async def story(lab):
        await lab.clock.sleep(3)
        return waiting(lab), events(lab)

    failed = 'MountVolume.SetUp failed for volume "v" : configmap "nosuch" not found'
    assert in_cluster(story, made) == ({"reason": "ContainerCreating"}, [("FailedMount", failed)])


def test_a_pull_secret_that_is_missing_is_told():
    made = deployment(image="nosuch/image:nope")
    made["spec"]["template"]["spec"]["imagePullSecrets"] = [{"name": "key"}]

    async def story(lab):
        await lab.clock.sleep(3)
        return dict(events(lab))["FailedToRetrieveImagePullSecret"]

    unable = "Unable to retrieve some image pull secrets (key); attempting to pull the image may not succeed."
    assert in_cluster(story, made) == unable


def test_an_unknown_option_crashes_the_engine_and_its_pod_backs_off():
    async def story(lab):
        await lab.clock.sleep(10)
        (container,) = status(lab)["containerStatuses"]
        (pod,) = lab.pods()
        return container, pod_id(pod), status(lab)["phase"], lab.engines.running

    made = with_container(deployment(), args=["Qwen/Qwen3-8B", "--no-such-flag"])
    container, name, phase, running = in_cluster(story, made)
    ended = container["lastState"]["terminated"]
    assert (ended["exitCode"], ended["reason"], ended["message"]) == (
        2,
        "Error",
        "vllm: error: unrecognized arguments: --no-such-flag",
    )
    message = f"back-off 10s restarting failed container=engine pod={name}"
    assert container["state"] == {"waiting": {"reason": "CrashLoopBackOff", "message": message}}
    assert (container["restartCount"], phase, running) == (1, "Running", {})


@pytest.mark.parametrize(
    ("fields", "code", "reason"),
    [
        ({"args": ["meta/llama-8b", "--tensor-parallel-size", "4"]}, 1, "Error"),
        ({"args": ["meta/llama-8b"], "resources": {"limits": {"memory": "2Gi"}}}, 137, "OOMKilled"),
    ],
)
def test_an_engine_that_cannot_load_crashes(fields, code, reason):
    async def story(lab):
        await lab.clock.sleep(10)
        (container,) = status(lab)["containerStatuses"]
        ended = container["lastState"]["terminated"]
        return container["state"]["waiting"]["reason"], ended["exitCode"], ended["reason"], lab.engines.running

    assert in_cluster(story, with_container(deployment(), **fields)) == ("CrashLoopBackOff", code, reason, {})


def test_a_pod_that_is_deleted_while_it_waits_goes_at_once():
    async def story(lab):
        await lab.clock.sleep(5)
        lab.apply(deployment(replicas=0, image="nosuch/image:nope"))
        await lab.settle()
        return [name_of(pod) for pod in lab.pods()], lab.claims()

    assert in_cluster(story, deployment(image="nosuch/image:nope")) == ([], ())
