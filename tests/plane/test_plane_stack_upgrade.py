"""A new release of the software on the clusters of the embedded plane, wave by wave."""

import pytest

from modelplane.api.meta import ClusterName
from modelplane.api.objects import GROUP, mapping_at, name_of, text_at
from modelplane.reconcile.store import ObjectRef
from modelplane.sim.cloud import CLOUD_FAULTS
from modelplane.testing.clock import run_virtual
from tests.plane.test_plane_clouds import documents
from tests.support.local_fleet import running_fleet

NEWER = [{"name": "cert-manager", "version": "v1.21.0"}]


def cluster(name, wave, **upgrade):
    existing = {"secretRef": {"name": name}, "components": "Managed"}
    policy = {"wave": wave, "pauseSeconds": 60, "deadlineSeconds": 120, **upgrade}
    return {
        "apiVersion": "modelplane.ai/v1alpha1",
        "kind": "InferenceCluster",
        "metadata": {"name": name},
        "spec": {"cluster": {"source": "Existing", "existing": existing}, "software": {"upgrade": policy}},
    }


def edit(fleet, name, **software):
    found = fleet.get("InferenceCluster", name)
    spec = mapping_at(found, "spec")
    fleet.plane.replace({**found, "spec": {**spec, "software": {**mapping_at(spec, "software"), **software}}})


def phases(fleet, *names):
    return {name: text_at(fleet.get("InferenceCluster", name), "status", "software", "phase") for name in names}


def version(fleet, name):
    (found,) = [
        item
        for item in fleet.plane.list("helm.m.crossplane.io", "Release")
        if name_of(item).startswith(f"{name}-stack-cert-manager")
    ]
    return text_at(found, "spec", "forProvider", "chart", "version")


@pytest.mark.slow  # ten minutes of three clusters
def test_waves():
    names = ("a", "b", "c")

    async def main(clock):
        async with running_fleet(clock) as fleet:
            for manifest in documents("InferenceClass"):
                fleet.plane.create(manifest)
            for name, wave in zip(names, (0, 0, 1), strict=True):
                fleet.plane.create(cluster(name, wave))
            await clock.sleep(60)
            assert phases(fleet, *names) == dict.fromkeys(names, "UpToDate")
            fleet.clusters.annotate(ClusterName("a"), CLOUD_FAULTS, "stack-cert-manager=the image cannot be pulled")
            for name in names:
                edit(fleet, name, overrides=NEWER)
            await clock.sleep(30)
            assert phases(fleet, *names) == {"a": "Upgrading", "b": "Waiting", "c": "Waiting"}
            assert [version(fleet, name) for name in names] == ["v1.21.0", "v1.20.2", "v1.20.2"]
            await clock.sleep(150)
            assert phases(fleet, *names) == {"a": "Failed", "b": "Waiting", "c": "Waiting"}
            waits = text_at(fleet.get("InferenceCluster", "c"), "status", "software", "message")
            release = text_at(fleet.get("InferenceCluster", "a"), "status", "software", "release")
            assert waits == f"stopped: the upgrade of a failed; its spec.software.upgrade.resume has to be {release}"
            fleet.clusters.annotate(ClusterName("a"), CLOUD_FAULTS, None)
            await clock.sleep(120)
            assert phases(fleet, *names) == {"a": "Failed", "b": "Waiting", "c": "Waiting"}
            edit(fleet, "a", upgrade={"wave": 0, "resume": release})
            await clock.sleep(75)
            assert phases(fleet, *names) == {"a": "UpToDate", "b": "UpToDate", "c": "Waiting"}
            await clock.sleep(120)
            assert phases(fleet, *names) == dict.fromkeys(names, "UpToDate")
            assert {version(fleet, name) for name in names} == {"v1.21.0"}

    run_virtual(main)


def test_software_is_removed_before_what_it_needs():
    """df9060f6, d75d72f0, on a cluster that exists: a definition or a webhook goes after what needs it."""

    async def main(clock):
        async with running_fleet(clock) as fleet:
            for manifest in documents("InferenceClass"):
                fleet.plane.create(manifest)
            fleet.plane.create(cluster("a", 0))
            await clock.sleep(60)
            gone = []
            fleet.plane.subscribe(lambda change: gone.append(change.ref.name) if change.type == "DELETED" else None)
            fleet.plane.delete(ObjectRef(GROUP, "InferenceCluster", "", "a"))
            await clock.sleep(60)
            assert fleet.plane.get(ObjectRef(GROUP, "InferenceCluster", "", "a")) is None
            order = [
                next(index for index, name in enumerate(gone) if name.startswith(f"a-stack-{each}"))
                for each in ("leader-worker-set", "cert-manager")
            ]
            assert order == sorted(order)

    run_virtual(main)


def test_auto_is_found_on_a_simulated_cluster():
    """One with software of others behaves as if it had all of it, and serves the APIs."""

    async def main(clock):
        async with running_fleet(clock) as fleet:
            for manifest in documents("InferenceClass"):
                fleet.plane.create(manifest)
            found = cluster("a", 0)
            found["spec"]["cluster"]["existing"]["components"] = "Provided"
            found["spec"]["scheduling"] = {"type": "Auto"}
            fleet.plane.create(found)
            await clock.sleep(10)
            status = mapping_at(fleet.get("InferenceCluster", "a"), "status")
            assert text_at(status, "inClusterScheduler", "type") == "KAI"
            assert [queue["name"] for queue in status["queues"]] == ["default-queue"]

    run_virtual(main)
