"""Staging on one cluster: when it begins, and what stays."""

import json
from dataclasses import replace

import pytest

from modelplane.compose.contract import CopiedFrom
from tests.compose.caches import Fleet, make_cache, make_cluster, make_config_map, make_replica, make_secret
from tests.compose.test_compose_model_cache import KEY


def fetched_with(key):
    spec = {"source": "HTTP", "http": {"url": "https://files.example/w.bin"}, "storage": {"sizeGiB": 1}}
    spec["http"]["authSecretRef"] = {"name": "hf", "key": key}
    return {**make_cache(), "spec": spec}


def test_staging_that_failed_begins_again_at_once_when_another_key_of_the_secret_is_named():
    fleet = Fleet(fetched_with("old"), [make_cluster("east")], secrets=[make_secret(old="eA==", new="eQ==")])
    fleet.apply()
    fleet.end_jobs("Failed", reason="BackoffLimitExceeded", message="")
    fleet.apply()
    assert fleet.phases() == {"east": ("Failed", "StagingFailed")}
    fleet.cache["spec"] = fetched_with("new")["spec"]
    fleet.apply()
    (job,) = (fleet.observed[key].manifest for key in fleet.keys("job"))
    told = json.loads(job["spec"]["template"]["spec"]["containers"][0]["args"][1])
    assert told == {"http": {"url": "https://files.example/w.bin", "authSecretRef": {"key": "new"}}}


PULL_SECRET, OPAQUE = "kubernetes.io/dockerconfigjson", "Opaque"


@pytest.mark.parametrize(
    ("given", "expected"),
    [(PULL_SECRET, PULL_SECRET), ("kubernetes.io/tls", OPAQUE), (None, OPAQUE)],
)
def test_the_copy_of_a_secret_that_pulls_has_its_type(given, expected):
    cache = {**make_cache(), "spec": {"source": "OCI", "oci": {"reference": "a.example/b:1"}}}
    cache["spec"]["oci"]["pullSecretRef"] = {"name": "hf"}
    secret = {**make_secret(**{".dockerconfigjson": "e30="}), **({"type": given} if given else {})}
    fleet = Fleet(cache, [make_cluster("east")], secrets=[secret])
    fleet.apply()
    copy = fleet.observed["secret-east"].target
    assert copy.manifest["type"] == expected
    assert copy.copied_from == CopiedFrom("v1", "Secret", "hf", "team", ("data",), "1")


@pytest.mark.parametrize("part", ["data", "binaryData"])
def test_a_file_may_be_in_either_part_of_a_config_map(part):
    spec = {"source": "ConfigMap", "configMap": {"name": "files", "key": "a.bin"}}
    files = {"kind": "ConfigMap", "metadata": {"name": "files", "namespace": "team"}, part: {"a.bin": "eA=="}}
    fleet = Fleet({**make_cache(), "spec": spec}, [make_cluster("east")], config_maps=[files])
    fleet.apply()
    assert fleet.phases() == {"east": ("Pending", "WaitingForVolume")}
    assert fleet.observed["configmap-east"].target.copied_from.fields == (part,)


def hub(revision):
    return {"repo": "Qwen/Qwen3-8B", "revision": revision}


def test_no_older_volume_goes_while_one_of_them_is_mounted():
    fleet = Fleet(make_cache(), [make_cluster("east")])
    for revision in ("main", "v2", "v3"):
        fleet.cache["spec"]["huggingFace"] = hub(revision)
        fleet.settle()
    three = fleet.keys("volume")
    assert len(three) == 3
    fleet.replicas = [make_replica("east", key=KEY)]
    for _ in range(3):
        fleet.now += 7200
        fleet.apply()
    assert (fleet.keys("volume"), "olderUnusedSince" in fleet.entries()["east"]) == (three, False)


def finding_it_empty(since, *caches):
    """A replica whose pods do so."""
    made = make_replica("east", key=KEY)
    made["spec"]["caches"] += caches
    return {**made, "status": {"reason": "CacheIncomplete", "since": since}}


@pytest.mark.parametrize(
    ("since", "phase", "job"),
    [
        ("2027-01-15T08:00:00Z", ("Ready", "Staged"), 0),
        ("2027-01-15T08:00:01Z", ("Hydrating", "Hydrating"), 1),
    ],
)
def test_a_job_that_completed_before_pods_found_the_volume_empty_did_not_fill_it(since, phase, job):
    fleet = Fleet(make_cache(), [make_cluster("east")])
    fleet.apply()
    fleet.end_jobs(completed="2027-01-15T08:00:00Z")
    content = make_replica("east", key=KEY, index=1)
    fleet.replicas = [content, finding_it_empty(since, {"name": "other", "key": "another"})]
    fleet.apply()
    assert (fleet.phases(), fleet.keys("job")) == ({"east": phase}, [f"job-east-{KEY}-{job}"])


def test_a_cluster_with_a_status_that_cannot_be_read_has_its_conditions():
    cluster = make_cluster("east")
    cluster["status"]["gpuPools"] = 7
    fleet = Fleet(make_cache(), [cluster])
    fleet.settle()
    assert fleet.phases() == {"east": ("Ready", "Staged")}


def test_what_waits_on_one_cluster_keeps_nothing_of_another():
    fleet = Fleet(make_cache(replication="WherePlaced"))
    fleet.replicas = [make_replica("east"), make_replica("west", index=1)]
    fleet.apply()
    fleet.clusters = [make_cluster("east")]
    fleet.end_jobs()
    fleet.apply()
    fleet.apply()
    assert (fleet.phases()["east"], fleet.keys("job")) == (("Ready", "Staged"), [f"job-west-{KEY}-0"])


def test_what_is_of_a_cluster_is_told_apart_where_names_begin_alike():
    spec = {"huggingFace": {"repo": "a/b", "authSecret": {"name": "hf"}}}
    fleet = Fleet(make_cache(**spec), [make_cluster("a"), make_cluster("a-b")], secrets=[make_secret()])
    fleet.settle()
    assert (set(fleet.phases().values()), fleet.keys("secret", "job")) == ({("Ready", "Staged")}, [])


@pytest.mark.parametrize(
    ("given", "asked"),
    [
        ("20Gi", "20Gi"),
        ("2Ti", "2048Gi"),
        ("30000Mi", "30Gi"),
        ("53687091200", "50Gi"),
        ("1.5Ti", "1536Gi"),
        ("?", "20Gi"),
    ],
)
def test_a_claim_that_somebody_enlarged_is_not_asked_to_shrink(given, asked):
    fleet = Fleet(make_cache(), [make_cluster("east")])
    fleet.settle()
    seen = fleet.observed[f"volume-east-{KEY}"]
    spec = {**seen.manifest["spec"], "resources": {"requests": {"storage": given}}}
    enlarged = replace(seen.target, manifest={**seen.manifest, "spec": spec})
    fleet.observed[f"volume-east-{KEY}"] = replace(seen, target=enlarged)
    desired = fleet.compose().desired[f"volume-east-{KEY}"].target.manifest
    assert desired["spec"]["resources"] == {"requests": {"storage": asked}}


def test_a_status_names_the_eight_newest_of_many_volumes():
    fleet = Fleet(make_cache(), [make_cluster("east")])
    for revision in range(9):
        fleet.cache["spec"]["huggingFace"] = hub(f"v{revision}")
        fleet.settle()
    named = fleet.entries()["east"]["stagedKeys"]
    assert (len(fleet.keys("volume")), len(named), named[0]) == (9, 8, fleet.cache["status"]["key"])


def test_since_when_older_volumes_are_unused_stays_while_nobody_says_the_time():
    fleet = Fleet(make_cache(), [make_cluster("east")])
    for revision in ("main", "v2"):
        fleet.cache["spec"]["huggingFace"] = hub(revision)
        fleet.settle()
    since = fleet.entries()["east"]["olderUnusedSince"]
    fleet.now = 0.0
    fleet.apply()
    assert (fleet.entries()["east"]["olderUnusedSince"], len(fleet.keys("volume"))) == (since, 2)


def test_older_volumes_stay_while_replicas_are_not_read():
    fleet = Fleet(make_cache(), [make_cluster("east")])
    for revision in ("main", "v2"):
        fleet.cache["spec"]["huggingFace"] = hub(revision)
        fleet.settle()
    fleet.replicas = None
    for _ in range(2):
        fleet.now += 7200
        fleet.apply()
    assert len(fleet.keys("volume")) == 2


def test_a_cluster_that_is_made_and_not_ready_is_waited_for():
    cluster = make_cluster("east", ready=False)
    cluster["status"]["conditions"].insert(0, {"type": "Provisioned", "status": "True", "reason": "Provisioned"})
    fleet = Fleet(make_cache(), [cluster])
    fleet.apply()
    assert fleet.phases() == {"east": ("Pending", "WaitingForCluster")}


@pytest.mark.parametrize(
    "ended",
    [{"phase": "Failed", "reason": "Evicted", "message": "the node was low on memory"}, {"phase": "Succeeded"}],
    ids=["evicted", "done, and its job not yet"],
)
def test_a_loader_that_ended_is_no_reason_while_its_job_goes_on(ended):
    fleet = Fleet(make_cache(), [make_cluster("east")])
    fleet.apply()
    fleet.pods["east"] = [{"metadata": {"name": "p"}, "status": ended}]
    fleet.apply()
    assert fleet.phases() == {"east": ("Hydrating", "Hydrating")}


@pytest.mark.parametrize(
    ("digest", "revision"),
    [("c" * 40, "c" * 40), ("z" + "c" * 39, "main"), ("c" * 64, "main")],
    ids=["a commit", "no commit", "a digest of content"],
)
def test_all_clusters_get_the_commit_that_was_resolved_and_nothing_else(digest, revision):
    fleet = Fleet(make_cache(status={"key": KEY, "resolvedDigest": digest}), [make_cluster("east")])
    job = fleet.compose().desired[f"job-east-{KEY}-0"].target.manifest
    told = json.loads(job["spec"]["template"]["spec"]["containers"][0]["args"][1])
    assert told["huggingFace"]["revision"] == revision


@pytest.mark.parametrize("scheduling", [{"defaultPriority": "batch"}, {}])
def test_loaders_have_the_default_priority_of_their_cluster(scheduling):
    fleet = Fleet(make_cache(), [make_cluster("east", scheduling=scheduling)])
    pod = fleet.compose().desired[f"job-east-{KEY}-0"].target.manifest["spec"]["template"]["spec"]
    assert pod.get("priorityClassName") == scheduling.get("defaultPriority")


def test_the_copy_of_a_config_map_stays_while_its_original_is_gone():
    spec = {"source": "ConfigMap", "configMap": {"name": "files"}}
    fleet = Fleet({**make_cache(), "spec": spec}, [make_cluster("east")], config_maps=[make_config_map()])
    fleet.apply()
    before = fleet.keys("configmap", "job", "volume")
    fleet.config_maps = []
    fleet.apply()
    assert (fleet.phases(), len(before)) == ({"east": ("Failed", "ConfigMapMissing")}, 3)
    assert fleet.keys("configmap", "job", "volume") == before


def test_where_nothing_is_fetched_no_pods_are_read():
    fleet = Fleet(make_cache(), [make_cluster("east", ready=False), make_cluster("west")])
    assert {"pods-east", "pods-west"} & fleet.apply().requirements.keys() == {"pods-west"}


def test_pods_of_loaders_are_read_until_the_claim_says_what_was_staged():
    fleet = Fleet(make_cache(), [make_cluster("east")])
    read = ["pods-east" in fleet.apply().requirements]
    assert fleet.entries()["east"]["message"] == "its PersistentVolumeClaim is not observed yet"
    fleet.end_jobs()
    results = [fleet.apply() for _ in range(2)]
    read += ["pods-east" in result.requirements for result in results]
    assert read == [True, True, False]
    assert [result.desired[f"volume-east-{KEY}"].ready for result in results] == [True, True]


def test_of_several_jobs_the_one_that_filled_the_volume_stays_until_that_is_observed():
    fleet = Fleet(make_cache(), [make_cluster("east")])
    fleet.retry_beside_the_first()
    fleet.end_jobs()
    fleet.apply()
    assert (fleet.phases(), fleet.keys("job")) == ({"east": ("Ready", "Staged")}, [f"job-east-{KEY}-1"])


@pytest.mark.parametrize(
    ("made", "phase"),
    [
        ("2027-01-15T07:59:59Z", ("Ready", "Staged")),
        ("2027-01-15T08:00:00Z", ("Ready", "Staged")),
        ("2027-01-15T08:00:01Z", ("Hydrating", "Hydrating")),
    ],
)
def test_a_job_that_names_no_claim_has_filled_one_that_was_there_when_it_completed(made, phase):
    fleet = Fleet(make_cache(), [make_cluster("east")])
    fleet.apply()
    fleet.end_jobs(completed="2027-01-15T08:00:00Z")
    seen = fleet.observed[f"volume-east-{KEY}"]
    metadata = {**seen.manifest["metadata"], "uid": "one", "creationTimestamp": made}
    claim = replace(seen.target, manifest={**seen.manifest, "metadata": metadata})
    fleet.observed[f"volume-east-{KEY}"] = replace(seen, target=claim)
    fleet.compose()
    assert fleet.phases() == {"east": phase}
