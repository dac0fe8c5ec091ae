import pytest

from modelplane.api.objects import manifest, text_at, with_metadata
from modelplane.reconcile.store import ref_of
from modelplane.sim.cluster.objects import condition_of
from modelplane.testing.cluster import TENANT_NAMESPACE, gpu_pool, run_cluster


def storage_class(name="fast", *, default=False, **body):
    made = {**manifest("storage.k8s.io/v1", "StorageClass", name), "provisioner": "p", **body}
    return with_metadata(made, annotations={"storageclass.kubernetes.io/is-default-class": str(default).lower()})


def volume_claim(name="weights", storage="fast"):
    spec = {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Ti"}}}
    if storage is not None:
        spec["storageClassName"] = storage
    return manifest("v1", "PersistentVolumeClaim", name, namespace=TENANT_NAMESPACE, spec=spec)


def pod(claim="weights"):
    volumes = [{"name": "w", "persistentVolumeClaim": {"claimName": claim}}]
    spec = {"containers": [{"name": "c"}], "volumes": volumes, "tolerations": [{"operator": "Exists"}]}
    return manifest("v1", "Pod", "p", namespace=TENANT_NAMESPACE, spec=spec)


def phase(lab, name="weights"):
    return text_at(lab.get(volume_claim(name)), "status", "phase")


def why(lab):
    return condition_of(lab.get(pod()), "PodScheduled").get("message")


def test_a_claim_gets_a_volume_of_its_class_and_takes_it_along():
    async def main(lab):
        lab.apply(storage_class(), volume_claim())
        await lab.settle()
        claim = lab.get(volume_claim())
        (volume,) = lab.store.list("", "PersistentVolume")
        lab.store.delete(ref_of(claim))
        await lab.settle()
        return (
            claim["spec"]["volumeName"] == volume["metadata"]["name"],
            claim["status"],
            lab.store.list("", "PersistentVolume"),
        )

    bound, status, left = run_cluster(main)
    assert bound
    assert status == {"phase": "Bound", "capacity": {"storage": "1Ti"}, "accessModes": ["ReadWriteMany"]}
    assert left == ()


def test_a_volume_that_is_to_be_kept_is_released():
    async def main(lab):
        lab.apply(storage_class(reclaimPolicy="Retain"), volume_claim())
        await lab.settle()
        lab.store.delete(ref_of(volume_claim()))
        await lab.settle()
        (volume,) = lab.store.list("", "PersistentVolume")
        return volume["status"]["phase"]

    assert run_cluster(main) == "Released"


@pytest.mark.parametrize(("classes", "expected"), [([], "Pending"), ([storage_class(default=True)], "Bound")])
def test_a_claim_without_a_class_gets_the_default_one(classes, expected):
    async def main(lab):
        lab.apply(volume_claim(storage=None), *classes)
        await lab.settle()
        return phase(lab)

    assert run_cluster(main) == expected


def test_pods_wait_for_their_volumes():
    async def main(lab):
        lab.apply(pod())
        await lab.settle()
        missing = why(lab)
        lab.apply(volume_claim())
        await lab.settle()
        unbound = why(lab)
        lab.apply(storage_class())
        await lab.settle()
        return missing, unbound, text_at(lab.get(pod()), "status", "phase")

    missing, unbound, late = run_cluster(main, pools=[gpu_pool()])
    assert 'persistentvolumeclaim "weights" not found' in missing
    assert "pod has unbound immediate PersistentVolumeClaims" in unbound
    assert late == "Running"


def test_a_late_class_binds_with_the_first_pod():
    async def main(lab):
        lab.apply(storage_class(volumeBindingMode="WaitForFirstConsumer"), volume_claim())
        await lab.settle()
        before = phase(lab)
        lab.apply(pod())
        await lab.settle()
        return before, phase(lab), text_at(lab.get(pod()), "status", "phase")

    assert run_cluster(main, pools=[gpu_pool()]) == ("Pending", "Bound", "Running")
