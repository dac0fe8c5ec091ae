"""A simulated node looks at the volumes of caches before an engine starts, in the words of the real check."""

import shutil

from modelplane.api.objects import manifest, with_metadata
from modelplane.cli import main as modelplane
from modelplane.compose.pod_causes import pod_cause
from modelplane.sim.cluster import ClusterSettings
from modelplane.testing.cluster import TENANT_NAMESPACE, claim_template, deployment, gpu_pool, run_cluster

KEY, PATH = "6b3a5ff1c0d84e27", "/mnt/models"
EMPTY = f"{PATH}: the volume is empty or its staging did not end: .modelplane/complete.json is not there"
SOURCE = '{"inline": {"filename": "config.json", "content": "{}"}}'
MOUNT = {"name": "cache-0", "mountPath": PATH, "readOnly": True}
CHECK = {
    "name": "cache-check",
    "image": "modelplane-loader:v1",
    "args": ["check", f"--staged={KEY}={PATH}"],
    "volumeMounts": [MOUNT],
}
TUNE = {"name": "tune", "image": "vllm/vllm-openai:v1"}


def storage_class():
    made = {**manifest("storage.k8s.io/v1", "StorageClass", "fast"), "provisioner": "p"}
    return with_metadata(made, annotations={"storageclass.kubernetes.io/is-default-class": "true"})


def volume_claim():
    spec = {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}}
    return manifest("v1", "PersistentVolumeClaim", "weights", namespace=TENANT_NAMESPACE, spec=spec)


def model(*initial):
    made = deployment()
    pod = made["spec"]["template"]["spec"]
    pod["volumes"] = [{"name": "cache-0", "persistentVolumeClaim": {"claimName": "weights"}}]
    pod["initContainers"] = list(initial)
    return made


def run(story, folder, *initial):
    """The story begins when the claim is bound; it gets the folder of its volume."""

    async def main(lab):
        lab.apply(storage_class(), volume_claim())
        await lab.settle()
        volume = folder / "east" / lab.get(volume_claim())["spec"]["volumeName"]
        return await story(lab, volume, lambda: lab.apply(claim_template(), model(*initial)))

    settings = ClusterSettings(volumes=folder, pull_s=1, load_s=1, system_nodes=0)
    return run_cluster(main, pools=[gpu_pool("h200", 1)], settings=settings)


def stage(volume):
    assert modelplane(["hydrate", "--source", SOURCE, "--into", str(volume), "--cache-key", KEY]) == 0


def shown(lab):
    (pod,) = lab.pods()
    initial = {each["name"]: next(iter(each["state"])) for each in pod["status"]["initContainerStatuses"]}
    engine = pod["status"]["containerStatuses"][0]
    cause = pod_cause(pod)
    return pod["status"]["phase"], initial, engine["restartCount"], (cause.reason, cause.message) if cause else None


def test_an_engine_waits_for_a_volume_that_was_emptied_and_starts_when_it_is_staged(tmp_path):
    async def story(lab, volume, start):
        start()
        await lab.clock.sleep(30)
        before = shown(lab)
        stage(volume)
        await lab.clock.sleep(60)
        return before, shown(lab)

    assert run(story, tmp_path, CHECK, TUNE) == (
        (
            "Pending",
            {"cache-check": "waiting", "tune": "waiting"},
            0,
            ("CacheIncomplete", f"init container cache-check: exit code 74 (Error): {EMPTY}"),
        ),
        ("Running", {"cache-check": "terminated", "tune": "terminated"}, 0, None),
    )


def test_an_engine_that_serves_is_not_stopped_when_its_volume_is_emptied(tmp_path):
    async def story(lab, volume, start):
        stage(volume)
        start()
        await lab.clock.sleep(10)
        shutil.rmtree(volume)
        await lab.clock.sleep(600)
        return shown(lab)

    assert run(story, tmp_path, CHECK) == ("Running", {"cache-check": "terminated"}, 0, None)


def test_a_back_off_of_hours_ends(tmp_path):
    """Failures are counted anew only for containers that ran."""

    async def story(lab, _volume, start):
        start()
        await lab.clock.sleep(4 * 3600)
        (pod,) = lab.pods()
        (check,) = pod["status"]["initContainerStatuses"]
        return check["restartCount"]

    assert 40 < run(story, tmp_path, CHECK) < 60


def test_a_pod_without_the_check_is_not_looked_at(tmp_path):
    async def story(lab, _volume, start):
        start()
        await lab.clock.sleep(10)
        return shown(lab)

    assert run(story, tmp_path, TUNE) == ("Running", {"tune": "terminated"}, 0, None)


def test_a_sidecar_among_the_init_containers_runs_on(tmp_path):
    async def story(lab, _volume, start):
        start()
        await lab.clock.sleep(10)
        return shown(lab)

    proxy = {"name": "proxy", "image": "vllm/vllm-openai:v1", "restartPolicy": "Always"}
    assert run(story, tmp_path, proxy) == ("Running", {"proxy": "running"}, 0, None)
