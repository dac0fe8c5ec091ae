"""Claims and the Jobs that fill them, on one cluster of a world."""

from modelplane.api.objects import manifest
from modelplane.testing.world.clockwork import Clockwork
from modelplane.testing.world.run import run_world
from modelplane.testing.world.store import ObjectId
from modelplane.testing.world.weights import ClusterVolumes, LoaderTrouble, cache_phase, claims_of


def made(volumes, kind, name="weights"):
    item = manifest("v1", kind, name, namespace="team", spec={})
    return {**item, "metadata": {**item["metadata"], **volumes.metadata(item, None)}}


def ended(volumes, job):
    return [each["type"] for each in volumes.status(job).get("conditions", ())]


def test_a_job_fills_its_claim_after_its_time():
    clock = Clockwork()
    volumes = ClusterVolumes(clock)
    claim, job = made(volumes, "PersistentVolumeClaim"), made(volumes, "Job")
    assert volumes.run_job(job, None) is None
    assert volumes.run_job(job, claim) == 6.0
    clock.run_until(6.0)
    assert (volumes.full, ended(volumes, job)) == (set(), [])
    assert volumes.run_job(job, claim) is None
    assert (volumes.full, ended(volumes, job)) == ({claim["metadata"]["uid"]}, ["Complete"])
    assert volumes.status(claim) == {"phase": "Bound"}


def test_a_broken_source_fails_its_job_and_a_lost_volume_says_so():
    clock = Clockwork()
    volumes = ClusterVolumes(clock)
    volumes.trouble = LoaderTrouble(fails=True)
    claim, job = made(volumes, "PersistentVolumeClaim"), made(volumes, "Job")
    volumes.run_job(job, claim)
    clock.run_until(3.0)
    volumes.run_job(job, claim)
    volumes.lost.add(claim["metadata"]["uid"])
    assert (volumes.full, ended(volumes, job), volumes.status(claim)) == (set(), ["Failed"], {"phase": "Lost"})
    volumes.calm()
    assert volumes.status(claim) == {"phase": "Bound"}


def test_a_claim_made_anew_is_another_one():
    volumes = ClusterVolumes(Clockwork())
    assert made(volumes, "PersistentVolumeClaim") != made(volumes, "PersistentVolumeClaim")
    known = made(volumes, "PersistentVolumeClaim")
    assert volumes.metadata(known, known).keys() == {"uid", "creationTimestamp"}
    assert volumes.metadata(manifest("v1", "Secret", "s"), None) == {}


def test_what_is_mounted_and_what_a_cache_says():
    volumes = [{"name": "w", "persistentVolumeClaim": {"claimName": "weights"}}, {"name": "m", "emptyDir": {}}]
    workload = manifest("apps/v1", "Deployment", "d", namespace="t", spec={"template": {"spec": {"volumes": volumes}}})
    assert claims_of(workload) == [ObjectId("PersistentVolumeClaim", "t", "weights")]
    cache = {"status": {"clusters": [{"name": "east", "phase": "Ready"}]}}
    assert [cache_phase(*each) for each in ((cache, "east"), (cache, "west"), (None, "east"))] == ["Ready", "", ""]


def test_a_world_with_caches_holds_and_settles():
    outcome = run_world(1_000_000)
    assert (outcome.violation, outcome.checker) == ("", "")
