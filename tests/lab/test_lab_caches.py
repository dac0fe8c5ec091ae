"""The lab's step with caches: what the loader is told there, and how its pod ends."""

import pytest

from lab.e2e.caches import arguments, ended, manifests, storage
from lab.stages import LOADER_IMAGE, without_loaders
from modelplane.compose.caching.progress import newest_status
from modelplane.plane.apply import admitted
from tests.compose.caches import Fleet, make_cluster

EXPRESSION = {"key": ".spec.containers.[].image", "operator": "NotIn", "values": [LOADER_IMAGE]}


def loader_pod():
    """The pod of a Job as it is composed for the lab's cache, running."""
    cache, _ = (admitted(item) for item in manifests())
    fleet = Fleet(cache, [make_cluster("east", backend={"images": {"loader": LOADER_IMAGE}})])
    fleet.apply()
    (job,) = [item.manifest for key, item in fleet.observed.items() if key.startswith("job-")]
    container = {"name": "loader", "ready": True, "state": {"running": {}}}
    return {**job["spec"]["template"], "status": {"phase": "Running", "containerStatuses": [container]}}


def test_the_loader_gets_folders_for_what_it_mounts(tmp_path):
    words = arguments(loader_pod(), tmp_path)
    assert words[2:4] == ["--into", str(tmp_path / "volume")]
    assert words[6:8] == ["--status-file", str(tmp_path / "last-words")]
    assert not [word for word in words if word.startswith(("/volume", "/dev"))]


@pytest.mark.parametrize(("code", "phase"), [(0, "Succeeded"), (77, "Failed")])
def test_a_pod_ends_as_its_loader_does(code, phase):
    status = ended(loader_pod(), code, '{"phase": "Complete", "bytes": 2, "total": 2}')
    assert status["phase"] == phase
    assert newest_status([{"status": status}]).total == 2


def test_kwok_ends_no_pod_of_the_loader():
    other = {"metadata": {"name": "pod-ready"}, "spec": {"selector": {"matchExpressions": []}}}
    stage = {
        "metadata": {"name": "pod-complete"},
        "spec": {"selector": {"matchExpressions": [{"key": "a"}]}, "next": {}},
    }
    spared = {"selector": {"matchExpressions": [{"key": "a"}, EXPRESSION]}, "next": {}}
    assert without_loaders([other, stage]) == [other, {**stage, "spec": spared}]


def test_claims_of_a_site_have_a_volume():
    made, volume = storage("east")
    assert volume["spec"]["storageClassName"] == made["metadata"]["name"]
