"""Commands that keep pods from starting, and what becomes of it in the plane."""

from pathlib import Path

import pytest
import yaml

from modelplane.api.errors import InputError, NotFoundError
from modelplane.api.objects import GROUP, name_of, namespace_of
from modelplane.sim.cluster.settings import ENGINE_FLAGS, IMAGES
from modelplane.sim.commands.command import SimCommand
from modelplane.sim.commands.verbs import inventory, perform
from modelplane.testing.clock import run_virtual
from tests.support.local_fleet import running_fleet

EXAMPLES = Path(__file__).resolve().parents[3] / "examples" / "quickstart"
IMAGE = "vllm/vllm-openai:v0.27.1"


def virtually(story, change=lambda manifest: manifest):
    async def main(clock):
        async with running_fleet(clock) as fleet:
            for path in sorted(EXAMPLES.glob("*.yaml")):
                for manifest in yaml.safe_load_all(path.read_text()):
                    if manifest["kind"] == "ModelDeployment":
                        await clock.sleep(5)
                    fleet.plane.create(change(manifest))
            await clock.sleep(20)
            await story(fleet, clock)

    run_virtual(main)


def do(fleet, verb, cluster="east", name="", value=""):
    return perform(fleet.clusters, SimCommand(verb, cluster, name, value))


def why(fleet, cluster="east"):
    return [row["why"] for row in inventory(fleet.clusters, cluster)["pods"]]


def replace_pod(fleet, cluster="east"):
    (pod,) = fleet.pods(cluster)
    node = pod["spec"]["nodeName"]
    do(fleet, "drain-node", cluster, name=node)
    do(fleet, "uncordon-node", cluster, name=node)
    return f"{namespace_of(pod)}/{name_of(pod)}"


def annotation(fleet, key):
    return fleet.get("InferenceCluster", "east")["metadata"].get("annotations", {}).get(key)


def test_an_image_that_is_removed_is_not_pulled_until_it_is_added():
    async def story(fleet, clock):
        assert do(fleet, "image-remove", name=IMAGE) == (
            f"east does not find {IMAGE}; new pods that need it do not start."
        )
        await clock.sleep(1)
        assert fleet.endpoints() == {"east": 1, "west": 1}
        replace_pod(fleet)
        await clock.sleep(20)
        (said,) = why(fleet)
        assert said.startswith(f'ImagePullBackOff: Back-off pulling image "{IMAGE}": ErrImagePull:')
        assert fleet.endpoints() == {"west": 1}
        do(fleet, "image-add", name=IMAGE)
        assert annotation(fleet, IMAGES) == IMAGE
        await clock.sleep(40)
        assert (why(fleet), fleet.endpoints()) == ([""], {"east": 1, "west": 1})

    virtually(story)


def test_images_are_listed():
    async def story(fleet, _clock):
        do(fleet, "image-add", name="acme/engine", value="key")
        do(fleet, "image-remove", name=IMAGE)
        assert do(fleet, "image-list").splitlines()[1:] == [
            "pulled    acme/engine with the pull Secret key",
            f"not found {IMAGE}",
        ]
        with pytest.raises(InputError, match="'A:b:c' is not the name of an image"):
            do(fleet, "image-add", name="A:b:c")

    virtually(story)


def test_an_option_that_is_removed_crashes_new_engines():
    async def story(fleet, clock):
        said = do(fleet, "flag-remove", name="--served-model-name")
        assert said.startswith("engines on east do not have the option --served-model-name")
        await clock.sleep(1)
        replace_pod(fleet)
        await clock.sleep(15)
        (said,) = why(fleet)
        assert said.startswith("CrashLoopBackOff: vllm: error: unrecognized arguments: --served-model-name")
        do(fleet, "flag-add", name="served_model_name")
        assert annotation(fleet, ENGINE_FLAGS) == "served-model-name"
        await clock.sleep(60)
        assert fleet.endpoints() == {"east": 1, "west": 1}

    virtually(story)


def gated(manifest):
    if manifest["kind"] == "ModelDeployment":
        reference = {"secretKeyRef": {"name": "hf", "key": "HF_TOKEN"}}
        container = manifest["spec"]["workers"]["template"]["spec"]["containers"][0]
        container["env"] = [{"name": "HF_TOKEN", "valueFrom": reference}]
    return manifest


def secret(name, data):
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": "default"}, "data": data}


def needing(name, namespace):
    reference = {"secretKeyRef": {"name": name, "key": "HF_TOKEN"}}
    container = {"name": "c", "image": IMAGE, "env": [{"name": "HF_TOKEN", "valueFrom": reference}]}
    metadata = {"name": "needs", "namespace": namespace}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [container]}}


def test_pods_wait_for_a_secret_until_it_is_added():
    async def story(fleet, clock):
        assert fleet.pods("east") == ()
        assert fleet.get("ModelDeployment", "qwen3-8b", "default")["status"]["reason"] == "SecretMissing"
        fleet.plane.create(secret("hf", {"HF_TOKEN": "eA=="}))
        await clock.sleep(15)
        assert fleet.endpoints() == {"east": 1, "west": 1}
        # A Secret that only the cluster has: the kubelet's words, and `sim secret` around them.
        space = namespace_of(fleet.pods("east")[0])
        fleet.database.store("cluster/east").create(needing("own", space))
        await clock.sleep(5)
        assert 'CreateContainerConfigError: secret "own" not found' in why(fleet)
        do(fleet, "secret-add", name="default/own", value="HF_TOKEN=a,b\nOTHER=c")
        await clock.sleep(15)
        assert 'CreateContainerConfigError: secret "own" not found' not in why(fleet)
        do(fleet, "secret-remove", name="default/own")
        with pytest.raises(NotFoundError, match=r"cluster east has no Secret mp-default-.*/hf"):
            do(fleet, "secret-remove", name="default/hf")
        with pytest.raises(NotFoundError, match="cluster east has no namespace nosuch"):
            do(fleet, "secret-add", name="nosuch/hf", value="a=b")
        with pytest.raises(InputError, match="'hf' is not NAMESPACE/NAME"):
            do(fleet, "secret-add", name="hf", value="a=b")
        with pytest.raises(InputError, match="'a' is not KEY=VALUE"):
            do(fleet, "secret-add", name="default/hf", value="a")

    virtually(story, gated)


def test_a_private_image_is_pulled_with_its_secret():
    def private(manifest):
        if manifest["kind"] == "ModelDeployment":
            manifest["spec"]["workers"]["template"]["spec"]["imagePullSecrets"] = [{"name": "key"}]
        return manifest

    async def story(fleet, clock):
        do(fleet, "image-add", name=IMAGE, value="other")
        fleet.plane.create({**secret("key", {".dockerconfigjson": "e30="}), "type": "kubernetes.io/dockerconfigjson"})
        await clock.sleep(10)
        assert "401 Unauthorized" in why(fleet)[0]
        do(fleet, "image-add", name=IMAGE, value="key")
        await clock.sleep(60)
        assert fleet.endpoints() == {"east": 1, "west": 1}

    virtually(story, private)


def test_an_engine_is_killed_for_want_of_memory():
    async def story(fleet, clock):
        (pod,) = fleet.pods("east")
        assert "killed for want of memory" in do(fleet, "oom-pod", name=f"{namespace_of(pod)}/{name_of(pod)}")
        await clock.sleep(10)
        (container,) = fleet.pods("east")[0]["status"]["containerStatuses"]
        ended = container["lastState"]["terminated"]
        assert (ended["reason"], ended["exitCode"], container["restartCount"]) == ("OOMKilled", 137, 1)
        assert fleet.endpoints() == {"east": 1, "west": 1}

    virtually(story)


def devices(fleet, cluster="east"):
    (pool,) = fleet.get("InferenceCluster", cluster)["status"]["gpuPools"]
    return {field: pool["devices"][0].get(field) for field in ("allocated", "heldByOthers", "free")}


def test_pods_of_others_hold_devices_and_replicas_go_where_they_are_not():
    async def story(fleet, clock):
        said = do(fleet, "foreign", name="h200", value="5x3")
        assert said == "pool h200 of east has 3 pods of others with 5 devices each, where they fit."
        await clock.sleep(10)
        assert devices(fleet) == {"allocated": 1, "heldByOthers": 10, "free": 5}
        do(fleet, "foreign", name="h200", value="7x2")
        await clock.sleep(20)
        assert devices(fleet) == {"allocated": 1, "heldByOthers": 14, "free": 1}
        ref = fleet.get("ModelDeployment", "qwen3-8b", "default")
        fleet.plane.replace({**ref, "spec": {**ref["spec"], "replicas": 6}})
        await clock.sleep(30)
        assert fleet.endpoints() == {"east": 2, "west": 4}
        do(fleet, "foreign", name="h200", value="off")
        await clock.sleep(20)
        assert devices(fleet)["heldByOthers"] in {0, None}
        with pytest.raises(NotFoundError, match="cluster east has no pool l4"):
            do(fleet, "foreign", name="l4", value="1x1")
        with pytest.raises(InputError, match="'manyx1' is not <gpus>x<count>"):
            do(fleet, "foreign", name="h200", value="manyx1")

    virtually(story)


def test_pods_of_others_are_no_replicas():
    async def story(fleet, clock):
        do(fleet, "foreign", name="h200", value="1x2")
        await clock.sleep(20)
        assert {namespace_of(pod) for pod in fleet.pods("east")} >= {"others"}
        assert len(fleet.plane.list(GROUP, "ModelReplica")) == 2

    virtually(story)


def by_team(manifest):
    """The scheduler of the cluster is given by what its pods carry, with a queue for each team."""
    if manifest["kind"] == "InferenceCluster":
        labels = {"runai/queue": "{{ .Namespace }}", "runai/project": "{{ .Namespace }}"}
        manifest["spec"]["scheduling"] = {"schedulerName": "kai-scheduler", "defaultLabels": labels}
    return manifest


def test_a_queue_for_each_team_is_there_and_has_a_quota():
    async def story(fleet, clock):
        assert fleet.endpoints() == {"east": 1, "west": 1}
        assert do(fleet, "quota", value="0") == "each scheduler queue of east has a quota of 0 devices."
        await clock.sleep(5)
        replace_pod(fleet)
        await clock.sleep(30)
        assert "queue default has a limit of 0 devices" in why(fleet)[0]
        do(fleet, "quota", value="off")
        await clock.sleep(30)
        assert fleet.endpoints() == {"east": 1, "west": 1}

    virtually(story, by_team)


def test_a_resource_quota_keeps_pods_from_being_created():
    async def story(fleet, clock):
        said = do(fleet, "resource-quota", name="default", value="pods=0")
        assert said.endswith("has a ResourceQuota of pods=0.")
        replace_pod(fleet)
        await clock.sleep(20)
        assert fleet.pods("east") == ()
        told = inventory(fleet.clusters, "east")["warnings"]
        assert any(row["reason"] == "FailedCreate" and "exceeded quota: sim-quota" in row["message"] for row in told)
        do(fleet, "resource-quota", name="default", value="off")
        await clock.sleep(30)
        assert fleet.endpoints() == {"east": 1, "west": 1}
        with pytest.raises(InputError, match="pods: 'few' is not a quantity"):
            do(fleet, "resource-quota", name="default", value="pods=few")

    virtually(story)
