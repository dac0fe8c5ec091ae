from dataclasses import replace
from pathlib import Path

import pytest

from modelplane.api.objects import API_VERSION
from modelplane.compose.context import remote_namespace
from modelplane.compose.contract import CopiedFrom, EventType, Requirement, Use
from tests.compose.caches import (
    NOW,
    STORAGE,
    Fleet,
    loader_pod,
    make_cache,
    make_cluster,
    make_config_map,
    make_replica,
    make_secret,
)
from tests.compose.test_compose_golden import as_text

GOLDEN = Path(__file__).parent / "golden-caches"
KEY = "90e92b697e5f03ed"
BLOCKS = {
    "hugging-face": {},
    "hugging-face-gated": {
        "huggingFace": {"repo": "a/b", "include": ["*.safetensors"], "authSecret": {"name": "hf"}},
        "storage": {"type": "PVC", "sizeGiB": 20, "storageClassName": "rwx"},
    },
    "s3": {
        "source": "S3",
        "huggingFace": None,
        "s3": {"bucket": "models", "prefix": "q/", "secretRef": {"name": "hf"}},
    },
    "http": {
        "source": "HTTP",
        "huggingFace": None,
        "http": {"url": "https://files.example/w.bin", "authSecretRef": {"name": "hf", "key": "HF_TOKEN"}},
        "retention": {"whenDeleted": "Retain"},
    },
    "config-map": {
        "source": "ConfigMap",
        "huggingFace": None,
        "configMap": {"name": "files", "key": "a.jinja"},
        "storage": {"type": "PVC"},
    },
    "inline": {
        "source": "Inline",
        "huggingFace": None,
        "inline": {"filename": "a.jinja", "content": "x"},
        "storage": {"type": "PVC"},
    },
}


def cache_of(**changes):
    made = make_cache(**{name: value for name, value in changes.items() if value is not None})
    made["spec"] = {
        name: value for name, value in {**made["spec"], **changes}.items() if value is not None and name != "name"
    }
    return made


@pytest.mark.parametrize("name", BLOCKS)
def test_rendered_objects_are_as_reviewed_and_well_formed(problems, golden, name):
    fleet = Fleet(cache_of(**BLOCKS[name]), [make_cluster("east")], secrets=[make_secret()])
    fleet.config_maps = [make_config_map()] if name == "config-map" else None
    result = fleet.compose()
    assert not [found for item in result.desired.values() for found in problems(item.target.manifest)]
    golden.check(GOLDEN / f"{name}.yaml", as_text(result))


def test_no_golden_file_is_left_over(golden):
    golden.check_folder(GOLDEN, {f"{name}.yaml" for name in BLOCKS})


def test_each_matching_cluster_gets_a_volume_and_a_job_and_then_only_the_volume():
    fleet = Fleet(make_cache())
    fleet.apply()
    assert fleet.keys("volume", "job") == [
        *(f"job-{name}-{KEY}-0" for name in ("east", "west")),
        *(f"volume-{name}-{KEY}" for name in ("east", "west")),
    ]
    fleet.apply()
    assert fleet.phases() == dict.fromkeys(("east", "west"), ("Hydrating", "Hydrating"))
    assert "stagedBytes" not in fleet.cache["status"]
    fleet.end_jobs()
    fleet.apply()
    assert fleet.phases() == dict.fromkeys(("east", "west"), ("Ready", "Staged"))
    result = fleet.apply()
    assert fleet.keys("job", "secret") == []
    assert [condition.status.value for condition in result.conditions] == ["True", "True", "True"]
    assert (fleet.cache["status"]["summary"], fleet.cache["status"]["key"]) == ({"ready": "2/2"}, KEY)
    assert result.uses == tuple(
        Use(API_VERSION, "InferenceCluster", name, reason="a cache is staged on the cluster")
        for name in ("east", "west")
    )


def test_a_status_lists_a_thousand_clusters():
    fleet = Fleet(make_cache(), [make_cluster(f"c{at:04}") for at in range(1_001)])
    found = fleet.compose().status.clusters
    assert [entry.name for entry in found] == [f"c{at:04}" for at in range(1_000)]


def test_replicas_of_other_caches_are_not_counted():
    mounting = [make_replica("east"), make_replica("west", index=1), make_replica("east", cache="other", index=2)]
    mounting[0]["spec"]["caches"] += [{"name": "other"}]
    mounting += [make_replica("west", index=index) for index in (3, 4)]
    mounting[3]["spec"]["caches"] = mounting[4]["spec"]["caches"] = []
    mounting += [make_replica("west", cache="other", index=5)]
    fleet = Fleet(make_cache(), replicas=mounting)
    fleet.apply()
    assert fleet.cache["status"]["references"] == 2
    assert [entry.get("references") for entry in fleet.cache["status"]["clusters"]] == [1, 1]


def test_a_lost_status_does_not_stage_again():
    fleet = Fleet(make_cache())
    fleet.settle()
    fleet.cache.pop("status")
    fleet.now = NOW + 60
    result = fleet.apply()
    assert fleet.phases() == dict.fromkeys(("east", "west"), ("Ready", "Staged"))
    assert fleet.entries()["east"]["lastHydratedAt"] == "2027-01-15T08:01:00Z"
    assert not [key for key in result.desired if key.startswith("job-")]


def test_a_transition_has_one_event():
    fleet = Fleet(make_cache(), [make_cluster("east")])
    told = [event for _ in range(3) for event in fleet.apply().events]
    fleet.end_jobs()
    told += [event for _ in range(3) for event in fleet.apply().events]
    assert [(event.type, event.reason.value, event.message) for event in told] == [
        (EventType.NORMAL, "Staged", "ArtifactReady: 1 of 1 clusters hold it"),
        (EventType.NORMAL, "Staged", "cluster east holds the artifact"),
    ]


@pytest.mark.parametrize(
    ("reasons", "worst"),
    [
        (("SecretMissing", "SourceNotFound"), "SecretMissing"),
        (("SourceNotFound", "SecretMissing"), "SecretMissing"),
        (("SourceNotFound", "SourceInvalid"), "SourceNotFound"),
    ],
    ids=["the first", "the second", "equally bad: the first"],
)
def test_the_worst_reason_of_clusters_that_failed(reasons, worst):
    fleet = Fleet(make_cache())
    fleet.apply()
    fleet.apply()
    fleet.end_jobs("Failed")
    said = [loader_pod(phase="Failed", reason=reason, message="no") for reason in reasons]
    fleet.pods = {name: [pod] for name, pod in zip(("east", "west"), said, strict=True)}
    artifact = fleet.apply().conditions[-1]
    assert (artifact.reason, [phase for phase, _ in fleet.phases().values()]) == (worst, ["Failed", "Failed"])


def test_the_worst_reason_and_what_each_cluster_says():
    fleet = Fleet(make_cache(), [make_cluster("east"), make_cluster("west", ready=False)])
    fleet.apply()
    fleet.apply()
    (artifact,) = [each for each in fleet.cache["status"]["conditions"] if each["type"] == "ArtifactReady"]
    message = "0 of 2 clusters hold it; east: Hydrating; west: WaitingForCluster: the cluster is not ready"
    assert (artifact["status"], artifact["reason"], artifact["message"]) == ("False", "Hydrating", message)


def test_the_latest_time_that_its_source_was_staged_is_shown_until_the_source_changes():
    fleet = Fleet(make_cache(), [make_cluster("east")])
    fleet.settle()
    fleet.clusters.append(make_cluster("west"))
    fleet.apply()
    fleet.end_jobs(completed="2027-01-15T09:00:00Z")
    fleet.apply()
    assert (fleet.phases()["west"][0], fleet.cache["status"]["lastHydratedAt"]) == ("Ready", "2027-01-15T09:00:00Z")
    fleet.observed = {}
    fleet.apply()
    assert (fleet.phases()["west"][0], fleet.cache["status"]["lastHydratedAt"]) == ("Pending", "2027-01-15T09:00:00Z")
    fleet.cache["spec"]["huggingFace"] = {"repo": "Qwen/Qwen3-0.6B"}
    fleet.apply()
    assert "lastHydratedAt" not in fleet.cache["status"]


def test_what_is_missing_is_said_of_the_clusters_that_miss_it():
    fleet = Fleet(make_cache(), [make_cluster("east")])
    fleet.settle()
    fleet.clusters.append(make_cluster("west", ready=False))
    artifact = fleet.compose().conditions[-1]
    assert (artifact.status, artifact.message) == (
        "False",
        "1 of 2 clusters hold it; west: WaitingForCluster: the cluster is not ready",
    )


def test_the_digest_is_that_of_any_cluster_that_has_it_and_stays_with_its_source():
    fleet = Fleet(make_cache())
    fleet.apply()
    fleet.pods["west"] = [loader_pod(phase="Complete", revision="c" * 40)]
    fleet.end_jobs()
    fleet.apply()
    assert fleet.cache["status"]["resolvedDigest"] == "c" * 40
    fleet.observed = {}
    fleet.apply()
    assert (fleet.phases()["west"][0], fleet.cache["status"]["resolvedDigest"]) == ("Pending", "c" * 40)
    fleet.cache["spec"]["huggingFace"] = {"repo": "Qwen/Qwen3-0.6B"}
    fleet.apply()
    assert "resolvedDigest" not in fleet.cache["status"]


@pytest.mark.parametrize(
    ("names", "more"), [(("a", "b", "c"), ""), (("a", "b", "c", "d"), "; 1 more")], ids=["three", "four"]
)
def test_three_clusters_that_miss_it_are_named(names, more):
    fleet = Fleet(make_cache(), [make_cluster(name, ready=False) for name in names])
    shown = "; ".join(f"{name}: WaitingForCluster: the cluster is not ready" for name in names[:3])
    assert fleet.compose().conditions[-1].message == f"0 of {len(names)} clusters hold it; {shown}{more}"


def test_where_some_failed_nothing_is_said_of_those_that_wait():
    fleet = Fleet(make_cache(), [make_cluster("east", ready=False), make_cluster("west")])
    fleet.apply()
    fleet.apply()
    fleet.end_jobs("Failed")
    fleet.pods = {"west": [loader_pod(phase="Failed", reason="SourceNotFound", message="404")]}
    artifact = fleet.apply().conditions[-1]
    assert (artifact.reason, artifact.message.partition("; 1 attempt")[0]) == (
        "SourceNotFound",
        "0 of 2 clusters hold it; west: SourceNotFound: 404",
    )


def test_a_cache_that_no_cluster_matches_is_not_ready_for_that_reason():
    ready = Fleet(make_cache(clusterSelector={"matchLabels": {"a": "b"}})).compose().ready
    assert (ready.status, ready.reason) == ("False", "NoClusters")
    unread = Fleet(make_cache(), clusters=None).compose().conditions[1]
    assert (unread.status, unread.message) == ("Unknown", "clusters and replicas are not read yet")


def test_all_older_forms_are_shown_with_the_newer_ones():
    hub = {"source": {"huggingFace": {"repo": "a/b"}}}
    accepted = Fleet(cache_of(source=None, huggingFace=None, artifact=hub, storage={"pvc": {}})).compose().conditions[0]
    first, second = accepted.message.split("; ")
    assert first.startswith("spec.artifact.source is an older form of spec.source: HuggingFace")
    assert second == "spec.storage.pvc is an older form of spec.storage.sizeGiB"


def test_progress_is_that_of_the_cluster_that_has_the_least_of_it():
    fleet = Fleet(make_cache())
    fleet.apply()
    fleet.pods["east"] = [loader_pod(bytes=2**30, total=4 * 2**30)]
    fleet.pods["west"] = [loader_pod(bytes=2 * 2**30, total=40 * 2**30)]
    fleet.apply()
    assert fleet.cache["status"]["summary"] == {"ready": "0/2", "progress": "2.0 of 40.0 GiB"}


def test_progress_of_clusters_that_have_nothing_yet_is_that_of_the_first():
    fleet = Fleet(make_cache())
    fleet.apply()
    fleet.pods = {"east": [loader_pod(bytes=0, total=4 * 2**30)], "west": [loader_pod(bytes=0, total=40 * 2**30)]}
    fleet.apply()
    assert fleet.cache["status"]["summary"] == {"ready": "0/2", "progress": "0.0 of 4.0 GiB"}


@pytest.mark.parametrize(("said", "shown"), [([], None), (["east"], 7), (["west"], 7)])
def test_the_bytes_that_some_loader_counted_are_shown(said, shown):
    fleet = Fleet(make_cache())
    fleet.apply()
    fleet.pods = {name: [loader_pod(phase="Complete", bytes=7, total=7)] for name in said}
    fleet.end_jobs()
    fleet.apply()
    assert (set(fleet.phases().values()), fleet.cache["status"].get("stagedBytes")) == ({("Ready", "Staged")}, shown)


def test_progress_and_digest_are_what_the_loader_says():
    fleet = Fleet(make_cache(), [make_cluster("east")])
    fleet.apply()
    fleet.pods["east"] = [loader_pod(bytes=2**30, total=4 * 2**30, rate=2**20, eta=3072)]
    fleet.apply()
    entry = fleet.entries()["east"]
    assert entry | {"unusedSince": ""} == {
        "name": "east",
        "phase": "Hydrating",
        "reason": "Hydrating",
        "stagedBytes": 2**30,
        "totalBytes": 4 * 2**30,
        "bytesPerSecond": 2**20,
        "etaSeconds": 3072,
        "unusedSince": "",
    }
    assert fleet.cache["status"]["summary"] == {"ready": "0/1", "progress": "1.0 of 4.0 GiB"}
    fleet.pods["east"] = [loader_pod(phase="Complete", bytes=7, total=7, key="k", revision="c" * 40)]
    fleet.end_jobs()
    fleet.apply()
    fleet.pods.clear()
    fleet.apply()
    status = fleet.cache["status"]
    assert (status["resolvedDigest"], status["stagedBytes"]) == ("c" * 40, 7)
    assert status["lastHydratedAt"] == "2027-01-15T08:00:00Z"


def test_a_source_that_is_away_is_named_while_it_is_tried_again():
    fleet = Fleet(make_cache(), [make_cluster("east")])
    fleet.apply()
    fleet.apply()
    fleet.pods["east"] = [loader_pod(phase="Resolving", reason="SourceUnreachable", message="hub.example: refused")]
    result = fleet.apply()
    entry = fleet.entries()["east"]
    assert (entry["phase"], entry["reason"]) == ("Hydrating", "SourceUnreachable")
    assert entry["message"] == "hub.example: refused; it is tried again"
    assert entry["cause"] == "hub.example: refused"
    assert result.conditions[-1].reason == "SourceUnreachable"
    fleet.pods["east"] = [loader_pod(bytes=1, total=2)]
    fleet.apply()
    assert (fleet.phases(), "message" in fleet.entries()["east"]) == ({"east": ("Hydrating", "Hydrating")}, False)


def test_all_clusters_get_the_commit_that_the_first_one_resolved():
    fleet = Fleet(make_cache(), [make_cluster("east")])
    fleet.apply()
    fleet.pods["east"] = [loader_pod(phase="Complete", revision="c" * 40)]
    fleet.end_jobs()
    fleet.apply()
    fleet.clusters.append(make_cluster("west"))
    result = fleet.compose()
    job = result.desired[f"job-west-{KEY}-0"].target.manifest
    assert f'"revision":"{"c" * 40}"' in job["spec"]["template"]["spec"]["containers"][0]["args"][1]


UNSCHEDULABLE = {
    "type": "PodScheduled",
    "status": "False",
    "reason": "Unschedulable",
    "message": "0/3 nodes are available",
}
EXIT = {"reason": "PodFailurePolicy", "message": "Container loader for pod a/b failed with exit code {}"}


@pytest.mark.parametrize(
    ("code", "said", "expected"),
    [
        (28, None, ("NoSpace", "Container loader for pod a/b failed with exit code 28")),
        (66, None, ("SourceNotFound", "Container loader for pod a/b failed with exit code 66")),
        (77, {"reason": "Unauthorized", "message": "no such token"}, ("Unauthorized", "no such token")),
        (1, {"reason": "SecretMissing", "message": "no key"}, ("SecretMissing", "no key")),
        (76, {"reason": "Unheard", "message": "404 sha256"}, ("SourceInvalid", "404 sha256")),
        (1, {"message": "404 sha256"}, ("StagingFailed", "404 sha256")),
        (1, None, ("StagingFailed", "Container loader for pod a/b failed with exit code 1")),
        (99, None, ("StagingFailed", "Container loader for pod a/b failed with exit code 99")),
    ],
)
def test_a_failure_has_its_cause_from_the_exit_code_or_the_last_words(code, said, expected):
    fleet = Fleet(make_cache(), [make_cluster("east")], now=NOW + 10)
    fleet.apply()
    fleet.apply()
    fleet.end_jobs("Failed", reason=EXIT["reason"], message=EXIT["message"].format(code))
    fleet.pods["east"] = [loader_pod(phase="Failed", **said)] if said else []
    result = fleet.apply()
    reason, message = expected
    entry = fleet.entries()["east"]
    again = "; 1 attempt failed, the next begins at 2027-01-15T08:01:00Z"
    assert (entry["phase"], entry["reason"], entry["message"]) == ("Failed", reason, f"{message}{again}")
    assert (entry["cause"], entry["failedAt"]) == (message, "2027-01-15T08:00:00Z")
    assert "pods-east" in result.requirements
    assert result.conditions[-1].reason == reason
    assert result.requeue_after_s == 50
    assert [event.reason.value for event in result.events if event.type is EventType.WARNING][:1] == [reason]


def test_a_staging_that_takes_too_long_has_timed_out():
    fleet = Fleet(make_cache(), [make_cluster("east")], now=NOW + 10)
    fleet.apply()
    fleet.apply()
    fleet.end_jobs("Failed", reason="DeadlineExceeded", message="Job was active longer than specified deadline")
    fleet.apply()
    assert fleet.phases() == {"east": ("Failed", "StagingTimedOut")}


@pytest.mark.parametrize(
    ("volume", "pods", "expected"),
    [
        pytest.param({"phase": "Lost"}, [], ("Failed", "VolumeLost", "its PersistentVolume is lost"), id="lost"),
        pytest.param(
            {"phase": "Pending"},
            [],
            ("Pending", "WaitingForVolume", "its PersistentVolumeClaim is not bound yet"),
            id="not bound",
        ),
        pytest.param(
            {"phase": "Bound"},
            [loader_pod(phase="Failed", reason="Unauthorized", message="no such token")],
            ("Hydrating", "Unauthorized", "no such token; the Job tries again"),
            id="a loader that failed, which the Job makes again",
        ),
        pytest.param(
            {"phase": "Bound"},
            [{"metadata": {"name": "p"}, "status": {"phase": "Pending", "conditions": [UNSCHEDULABLE]}}],
            ("Pending", "Unschedulable", "1 of 1 pod: 0/3 nodes are available"),
            id="a pod that finds no node",
        ),
    ],
)
def test_why_nothing_is_fetched_while_a_job_runs(volume, pods, expected):
    fleet = Fleet(make_cache(), [make_cluster("east")])
    fleet.apply()
    key = f"volume-east-{KEY}"
    seen = fleet.observed[key]
    fleet.observed[key] = replace(seen, target=replace(seen.target, manifest={**seen.manifest, "status": volume}))
    fleet.pods["east"] = pods
    fleet.apply()
    entry = fleet.entries()["east"]
    assert (entry["phase"], entry["reason"], entry["message"]) == expected
    assert entry["cause"] == expected[2].removesuffix("; the Job tries again")


def test_what_is_fetched_on_a_cluster_that_is_not_listed_stays_and_waits():
    fleet = Fleet(make_cache(replication="WherePlaced"), replicas=[make_replica("east")])
    fleet.apply()
    before = fleet.keys("namespace", "volume", "job")
    fleet.clusters = [make_cluster("west")]
    fleet.apply()
    assert (fleet.keys("namespace", "volume", "job"), fleet.phases()) == (
        before,
        {"east": ("Pending", "WaitingForCluster")},
    )
    assert fleet.entries()["east"]["message"] == "the cluster is not listed"


def test_the_namespace_of_a_cluster_that_is_not_listed_stays():
    fleet = Fleet(make_cache(replication="WherePlaced"), replicas=[make_replica("east")])
    fleet.settle()
    fleet.clusters = [make_cluster("west")]
    fleet.apply()
    assert (fleet.keys("namespace", "volume"), fleet.phases()) == (
        ["namespace-east", f"volume-east-{KEY}"],
        {"east": ("Ready", "Staged")},
    )


def test_a_failed_staging_is_tried_again_after_a_back_off_and_at_once_when_asked():
    fleet = Fleet(make_cache(), [make_cluster("east")], now=NOW + 10)
    fleet.apply()
    fleet.end_jobs("Failed", reason="BackoffLimitExceeded", message="")
    fleet.apply()
    assert fleet.keys("job") == [f"job-east-{KEY}-0"]
    fleet.now = NOW + 61
    fleet.apply()
    assert fleet.keys("job") == [f"job-east-{KEY}-1"]
    fleet.end_jobs("Failed", reason="BackoffLimitExceeded", message="")
    fleet.apply()
    assert (fleet.keys("job"), fleet.entries()["east"]["attempts"]) == ([f"job-east-{KEY}-1"], 2)
    fleet.cache["metadata"]["annotations"]["modelplane.ai/retry"] = "now"
    fleet.apply()
    (key,) = fleet.keys("job")
    assert key.startswith(f"job-east-{KEY}-2.")
    assert fleet.phases()["east"][0] == "Hydrating"


def test_the_token_is_copied_while_the_job_needs_it_and_another_one_starts_a_failed_job_again():
    spec = {"huggingFace": {"repo": "a/b", "authSecret": {"name": "hf"}}}
    fleet = Fleet(make_cache(**spec), [make_cluster("east")])
    fleet.apply()
    assert fleet.phases() == {"east": ("Failed", "SecretMissing")}
    assert fleet.observed == {}
    fleet.secrets = [make_secret("1", OTHER="eA==")]
    fleet.apply()
    assert fleet.entries()["east"]["message"] == "Secret team/hf has no key HF_TOKEN"
    fleet.secrets = [make_secret("2")]
    fleet.apply()
    copy = fleet.observed["secret-east"]
    (job,) = fleet.keys("job")
    assert (copy.target.copied_from.version, copy.outlives) == ("2", (job,))
    fleet.end_jobs("Failed", reason="BackoffLimitExceeded", message="")
    fleet.secrets = [make_secret("3")]
    fleet.apply()
    assert fleet.keys("job") != [job]
    fleet.end_jobs()
    fleet.apply()
    assert (fleet.keys("secret"), fleet.phases()) == ([], {"east": ("Ready", "Staged")})
    fleet.apply()
    assert fleet.keys("job") == []


def test_a_config_map_is_copied_while_the_job_needs_it():
    fleet = Fleet(cache_of(**BLOCKS["config-map"]), [make_cluster("east")])
    result = fleet.apply()
    assert result.requirements["configmap"] == Requirement("v1", "ConfigMap", name="files", namespace="team")
    assert fleet.entries()["east"]["message"] == "ConfigMap team/files is not read yet"
    fleet.config_maps = []
    fleet.apply()
    assert (fleet.phases(), fleet.entries()["east"]["message"]) == (
        {"east": ("Failed", "ConfigMapMissing")},
        "ConfigMap team/files does not exist",
    )
    fleet.config_maps = [make_config_map(other="x")]
    fleet.apply()
    assert fleet.entries()["east"]["message"] == "ConfigMap team/files has no key a.jinja"
    fleet.config_maps = [make_config_map()]
    fleet.apply()
    copied, (job,) = fleet.observed["configmap-east"], fleet.keys("job")
    assert copied.target.copied_from == CopiedFrom("v1", "ConfigMap", "files", "team", ("data",), "1")
    assert copied.outlives == (job,)
    fleet.config_maps = [make_config_map(), *fleet.config_maps]
    fleet.end_jobs()
    fleet.apply()
    assert (fleet.keys("configmap"), fleet.phases()) == ([], {"east": ("Ready", "Staged")})


def test_a_copy_stays_while_its_original_is_gone():
    spec = {"huggingFace": {"repo": "a/b", "authSecret": {"name": "hf"}}}
    fleet = Fleet(make_cache(**spec), [make_cluster("east")], secrets=[make_secret()])
    fleet.apply()
    before = fleet.keys("secret", "job", "volume")
    fleet.secrets = []
    fleet.apply()
    assert (fleet.phases(), fleet.keys("secret", "job", "volume")) == ({"east": ("Failed", "SecretMissing")}, before)


@pytest.mark.parametrize(
    ("gateway", "expected"),
    [
        pytest.param(
            {"spec": {"outbound": {"allow": ["10.0.0.0/8", "10.0.0.0/99"]}}},
            ("Invalid", "InferenceGateway default: spec.outbound.allow: "),
            id="an address that is none",
        ),
        pytest.param(
            {"spec": {"outbound": {"allow": 5}}},
            ("OutboundRefused", "spec.http.url: "),
            id="a gateway that cannot be read allows nothing",
        ),
    ],
)
def test_a_permission_that_cannot_be_read_permits_nothing(gateway, expected):
    spec = {"source": "HTTP", "huggingFace": None, "http": {"url": "http://10.0.0.7/w"}}
    fleet = Fleet(cache_of(**spec), [make_cluster("east")], gateways=[{"metadata": {"name": "default"}, **gateway}])
    fleet.apply()
    entry = fleet.entries()["east"]
    reason, message = expected
    assert (entry["phase"], entry["reason"], entry["message"].startswith(message)) == ("Failed", reason, True)


def test_a_source_inside_the_platforms_network_needs_its_permission():
    spec = {"source": "HTTP", "huggingFace": None, "http": {"url": "http://10.0.0.7/w"}}
    fleet = Fleet(cache_of(**spec), [make_cluster("east")])
    fleet.apply()
    assert fleet.phases() == {"east": ("Failed", "OutboundRefused")}
    fleet.gateways = [{"metadata": {"name": "default"}, "spec": {"outbound": {"allow": ["10.0.0.0/8"]}}}]
    result = fleet.apply()
    job = next(item.target.manifest for key, item in result.desired.items() if key.startswith("job-"))
    assert job["spec"]["template"]["spec"]["containers"][0]["args"][-2:] == ["--outbound-allow", "10.0.0.0/8"]


@pytest.mark.parametrize(
    ("cluster", "image", "expected"),
    [
        (make_cluster("east", ready=False), "loader:1", ("Pending", "WaitingForCluster")),
        (make_cluster("east"), "", ("Pending", "WaitingForVolume")),
        (make_cluster("east", storage={"csiDrivers": ["BlockDevice"]}), "loader:1", ("Failed", "NoStorage")),
        (make_cluster("east", backend={"images": {"loader": "own:1"}}), "", ("Pending", "WaitingForVolume")),
    ],
)
def test_what_a_cluster_lacks_is_its_own_reason(cluster, image, expected):
    fleet = Fleet(make_cache(), [cluster], image=image)
    fleet.compose()
    assert fleet.phases() == {"east": expected}


def test_another_source_is_staged_beside_and_the_old_volume_goes_when_nobody_mounts_it():
    fleet = Fleet(make_cache(), [make_cluster("east")], replicas=[make_replica("east", key=KEY)])
    fleet.settle()
    fleet.cache["spec"]["huggingFace"] = {"repo": "Qwen/Qwen3-8B", "revision": "v2"}
    fleet.apply()
    assert [key.rpartition("-")[2] == KEY for key in fleet.keys("volume")].count(True) == 1
    assert fleet.entries()["east"]["stagedKeys"] == [KEY]
    fleet.end_jobs()
    fleet.apply()
    new = fleet.cache["status"]["key"]
    assert fleet.entries()["east"]["stagedKeys"] == [new, KEY]
    fleet.now = NOW + 7200
    fleet.apply()
    assert len(fleet.keys("volume")) == 2
    fleet.replicas = [make_replica("east", key=new)]
    assert fleet.apply().requeue_after_s == 3600
    assert (len(fleet.keys("volume")), fleet.entries()["east"]["olderUnusedSince"]) == (2, "2027-01-15T10:00:00Z")
    fleet.now += 3599.5
    fleet.apply()
    assert len(fleet.keys("volume")) == 2
    fleet.now += 0.5
    fleet.apply()
    assert fleet.keys("volume") == [f"volume-east-{new}"]
    assert fleet.entries()["east"]["stagedKeys"] == [new]
    assert "olderUnusedSince" not in fleet.entries()["east"]


@pytest.mark.parametrize("retention", [0, 3600])
def test_a_list_that_lacks_a_replica_once_removes_nothing(retention):
    cache = make_cache(retention={"unusedSeconds": retention})
    fleet = Fleet(cache, [make_cluster("east")], replicas=[make_replica("east", key=KEY)])
    fleet.settle()
    fleet.cache["spec"]["huggingFace"] = {"repo": "Qwen/Qwen3-8B", "revision": "v2"}
    fleet.settle()
    full = fleet.keys("volume")
    assert len(full) == 2
    for _ in range(3):
        fleet.now += 7200
        fleet.replicas, seen = [], fleet.replicas
        assert fleet.apply().requeue_after_s == max(retention, 10)
        assert fleet.keys("volume") == full
        fleet.replicas = seen
        fleet.apply()
    fleet.cache["spec"]["clusterSelector"] = {"matchLabels": {"a": "b"}}
    fleet.replicas = []
    assert (fleet.apply().requeue_after_s, fleet.keys("volume")) == (10, full)
    fleet.apply()
    assert fleet.keys("volume") == []


def test_a_cache_follows_its_replicas_and_prewarms():
    fleet = Fleet(make_cache(replication="WherePlaced", prewarm=1), [make_cluster(name) for name in "abc"])
    fleet.replicas = [make_replica("c")]
    fleet.apply()
    assert sorted(fleet.entries()) == ["a", "c"]
    fleet.replicas = []
    fleet.cache["spec"]["prewarm"] = 0
    fleet.apply()
    fleet.now += 600
    assert fleet.apply().requeue_after_s == 3000
    assert sorted(fleet.entries()) == ["a", "c"]
    fleet.now = NOW + 3601
    result = fleet.apply()
    assert (fleet.entries(), fleet.observed) == ({}, {})
    assert [(each.type, each.status, each.reason, each.message) for each in result.conditions[1:]] == [
        (kind, "True", "NotPlacedYet", "no replica mounts it yet") for kind in ("ClustersMatched", "ArtifactReady")
    ]


@pytest.mark.parametrize(
    "fleet",
    [
        Fleet(make_cache(clusterSelector={"matchLabels": {"a": "b"}})),
        Fleet(make_cache(replication="WherePlaced"), replicas=None),
    ],
    ids=["no cluster matches", "the replicas are not read"],
)
def test_without_a_cluster_it_is_not_known_whether_it_is_staged(fleet):
    artifact = fleet.compose().conditions[-1]
    assert (artifact.status, artifact.message) == ("Unknown", "no cluster is known to hold it")


def test_clusters_are_warmed_by_name():
    fleet = Fleet(make_cache(replication="WherePlaced", annotations={"modelplane.ai/warm": "east, none"}))
    fleet.apply()
    assert sorted(fleet.entries()) == ["east"]


@pytest.mark.parametrize("lacking", ["clusters", "replicas", "caches", "gateways", "secrets"])
@pytest.mark.parametrize("value", [None, []])
def test_nothing_leaves_because_an_input_is_missing_or_empty(lacking, value):
    fleet = Fleet(make_cache(replication="WherePlaced"), replicas=[make_replica("east"), make_replica("west")])
    fleet.settle()
    before, status = dict(fleet.observed), fleet.entries()
    setattr(fleet, lacking, value)
    fleet.apply()
    if value is None:
        assert fleet.entries() == status
    assert fleet.observed.keys() == before.keys()
    assert {key: seen.manifest["metadata"]["name"] for key, seen in fleet.observed.items()} == {
        key: seen.manifest["metadata"]["name"] for key, seen in before.items()
    }


def test_nothing_leaves_when_the_source_is_lost():
    fleet = Fleet(make_cache())
    fleet.settle()
    before = dict(fleet.observed)
    fleet.cache = {**fleet.cache, "spec": {}}
    result = fleet.apply()
    assert (fleet.observed.keys(), result.conditions[0].reason) == (before.keys(), "Invalid")


def test_a_cluster_that_no_longer_matches_or_is_deleted_gives_its_volume_up():
    fleet = Fleet(make_cache(clusterSelector={"matchLabels": {"tier": "a"}}))
    fleet.clusters = [make_cluster("east", labels={"tier": "a"}), make_cluster("west", labels={"tier": "a"})]
    fleet.settle()
    fleet.clusters[0]["metadata"]["labels"] = {}
    fleet.clusters[1]["metadata"]["deletionTimestamp"] = "2027-01-15T08:00:00Z"
    fleet.replicas = [make_replica("east", key=KEY)]
    fleet.apply()
    assert fleet.keys("volume") == [f"volume-east-{KEY}"]


def test_a_claim_that_exists_is_ready_when_it_is_bound():
    storage = {"type": "ExistingPVC", "existingPVC": {"claimName": "nfs"}}
    cache = make_cache()
    cache["spec"] = {"storage": storage}
    fleet = Fleet(cache)
    assert fleet.compose().desired == {}
    assert set(fleet.phases().values()) == {("Ready", "Adopted")}
    assert fleet.cache["status"]["source"] == "ExistingPVC"
    (artifact,) = [each for each in fleet.cache["status"]["conditions"] if each["type"] == "ArtifactReady"]
    assert (artifact["status"], artifact["reason"], artifact["message"]) == (
        *("True", "Adopted"),
        "2 of 2 clusters hold it",
    )
    fleet.claims = {"east": [{"status": {"phase": "Bound"}}], "west": []}
    read = fleet.compose().requirements["claim-west"]
    there = remote_namespace("team")
    assert read == Requirement("v1", "PersistentVolumeClaim", name="nfs", namespace=there, cluster="west")
    assert fleet.phases() == {"east": ("Ready", "Adopted"), "west": ("Failed", "VolumeMissing")}
    missing = f"PersistentVolumeClaim {remote_namespace('team')}/nfs does not exist on the cluster"
    assert fleet.entries()["west"]["message"] == missing
    fleet.claims["west"] = [{"status": {"phase": "Pending"}}]
    wanted = fleet.compose().requirements
    assert fleet.phases()["west"] == ("Pending", "WaitingForVolume")
    names = {"name": "nfs", "namespace": remote_namespace("team")}
    assert {key: each for key, each in wanted.items() if key.startswith("claim-")} == {
        f"claim-{cluster}": Requirement("v1", "PersistentVolumeClaim", cluster=cluster, **names)
        for cluster in ("east", "west")
    }


def test_an_image_volume_is_published():
    cache = cache_of(
        source="OCI",
        huggingFace=None,
        oci={"reference": "r.example/a:1", "artifact": "Image"},
        storage={"type": "Image"},
    )
    fleet = Fleet(cache)
    assert fleet.compose().desired == {}
    assert set(fleet.phases().values()) == {("Ready", "Published")}


def test_an_image_volume_needs_nodes_that_can_mount_it():
    image = {"source": "OCI", "huggingFace": None, "oci": {"reference": "r.example/a:1", "artifact": "Image"}}
    clusters = [make_cluster("east"), make_cluster("west")]
    clusters[0]["status"]["kubernetesVersion"] = "v1.35.2-gke.1"
    fleet = Fleet(cache_of(**image, storage={"type": "Image"}), clusters)
    fleet.compose()
    assert fleet.phases() == {"east": ("Failed", "NotSupported"), "west": ("Ready", "Published")}
    words = "an image volume needs Kubernetes 1.36, and the cluster has a node of v1.35.2-gke.1"
    assert fleet.entries()["east"]["message"] == words
    fleet.cache["status"]["clusters"][0] |= {"phase": "Ready"}
    fleet.compose()
    assert fleet.phases()["east"] == ("Failed", "NotSupported")
    fleet.cache["status"]["clusters"][0] |= {"phase": "Ready", "references": 2}
    fleet.compose()
    assert fleet.phases()["east"] == ("Ready", "Published")


def test_a_cache_is_no_other_cache_of_itself_and_an_image_has_no_volume_to_share():
    unread = {**make_cluster("west"), "spec": 7}
    image = make_cache("image", storage={"type": "Image"}, source="OCI", oci={"reference": "r.example/a:1"})
    fleet = Fleet(make_cache(), [make_cluster("east"), unread])
    fleet.caches = [fleet.cache, image]
    fleet.settle()
    assert (fleet.phases(), "sharedWith" in fleet.entries()["east"]) == ({"east": ("Ready", "Staged")}, False)


def test_caches_with_the_same_source_share_one_volume():
    owner = Fleet(make_cache("first"), [make_cluster("east")])
    second = Fleet(make_cache("second"), [make_cluster("east")], caches=[owner.cache])
    assert second.compose().desired == {}
    owner.settle()
    second.caches = [owner.cache]
    result = second.compose()
    assert result.desired == {}
    assert second.phases() == {"east": ("Ready", "Staged")}
    assert second.entries()["east"]["sharedWith"] == "first"
    assert result.uses == (Use(API_VERSION, "ModelCache", "first", "team", "another cache uses its volume"),)
    owner.caches = [second.cache]
    owner.apply()
    assert owner.keys("volume") == [f"volume-east-{KEY}"]


def _sharing(**spec):
    """A cache that owns a volume on east, and another that shares it."""
    owner = Fleet(make_cache("first", **spec), [make_cluster("east")])
    owner.replicas = [make_replica("east", "first")]
    owner.settle()
    second = Fleet(make_cache("second"), [make_cluster("east")], caches=[owner.cache])
    second.apply()
    owner.caches = [second.cache]
    assert second.entries()["east"]["sharedWith"] == "first"
    return owner, second


def test_a_cache_shares_the_volume_of_one_that_is_being_deleted():
    """Which waits for it: a volume of its own would have the same name."""
    owner, second = _sharing()
    deleted = {**owner.cache["metadata"], "deletionTimestamp": "2027-01-15T09:00:00Z"}
    second.caches = [{**owner.cache, "metadata": deleted}]
    assert (second.apply().desired, second.entries()["east"]["sharedWith"]) == ({}, "first")
    third = Fleet(make_cache("third"), [make_cluster("east")], caches=second.caches)
    third.apply()
    assert third.entries()["east"]["sharedWith"] == "first"


@pytest.mark.parametrize("lacking", [None, []])
def test_a_cache_that_shares_a_volume_stages_nothing_because_a_list_is_short(lacking):
    _, second = _sharing()
    second.caches, before = lacking, second.entries()
    assert (second.compose().desired, second.entries()) == ({}, before)


def test_nothing_is_staged_before_the_other_caches_are_read():
    fleet = Fleet(make_cache(), [make_cluster("east")], caches=None)
    assert (fleet.compose().desired, fleet.phases()) == ({}, {"east": ("Pending", "Unresolved")})


@pytest.mark.parametrize("edit", ["replicas", "source", "selector"])
def test_an_owner_keeps_the_volume_while_another_cache_uses_it(edit):
    owner, second = _sharing(replication="WherePlaced" if edit == "replicas" else "AllMatchingClusters")
    owner.replicas = []
    if edit == "source":
        owner.cache["spec"]["huggingFace"] = {"repo": "Qwen/Qwen3-8B", "revision": "v2"}
    if edit == "selector":
        owner.cache["spec"]["clusterSelector"] = {"matchLabels": {"a": "b"}}
    for _ in range(3):
        owner.now = second.now = owner.now + 7200
        owner.settle()
        second.caches = [owner.cache]
        assert second.apply().desired == {}
        assert (second.phases(), second.entries()["east"]["sharedWith"]) == ({"east": ("Ready", "Staged")}, "first")
        assert second.entries()["east"]["stagedKeys"] == [KEY]
        owner.caches = [second.cache]
        assert f"volume-east-{KEY}" in owner.keys("volume")
    owner.caches = []
    for _ in range(2):
        owner.now += 7200
        owner.apply()
    assert f"volume-east-{KEY}" not in owner.keys("volume")


def test_a_claim_keeps_its_class_and_its_mode_and_never_shrinks():
    fleet = Fleet(make_cache(storage={"type": "PVC", "sizeGiB": 20, "storageClassName": "a"}), [make_cluster("east")])
    fleet.settle()
    once = {"type": "PVC", "sizeGiB": 10, "storageClassName": "b", "accessMode": "ReadWriteOnce"}
    fleet.cache["spec"]["storage"] = once
    spec = fleet.compose().desired[f"volume-east-{KEY}"].target.manifest["spec"]
    assert (spec["storageClassName"], spec["resources"]["requests"]["storage"]) == ("a", "20Gi")
    assert spec["accessModes"] == ["ReadWriteMany"]
    fleet.cache["spec"]["storage"]["sizeGiB"] = 30
    spec = fleet.compose().desired[f"volume-east-{KEY}"].target.manifest["spec"]
    assert spec["resources"]["requests"]["storage"] == "30Gi"


def test_a_retained_volume_outlives_its_cache():
    fleet = Fleet(make_cache(retention={"whenDeleted": "Retain"}, **STORAGE), [make_cluster("east")])
    assert fleet.compose().desired[f"volume-east-{KEY}"].target.shared


def test_a_job_stays_until_its_claim_is_observed_to_be_complete():
    """A provider may take a while to write the annotations of a claim, and nothing else says that it is complete."""
    fleet = Fleet(make_cache(), [make_cluster("east")])
    fleet.apply()
    fleet.end_jobs()
    before = fleet.observed
    for _ in range(3):
        result = fleet.compose()
        assert (fleet.phases(), f"job-east-{KEY}-0" in result.desired) == ({"east": ("Ready", "Staged")}, True)
        fleet.observed = before
    fleet.apply()
    fleet.apply()
    assert (fleet.phases(), fleet.keys("job")) == ({"east": ("Ready", "Staged")}, [])


def complaining(since, key=KEY, reason="CacheIncomplete"):
    return {**make_replica("east", key=key), "status": {"reason": reason, "since": since}}


def test_a_volume_that_pods_find_empty_is_staged_again_once():
    fleet = Fleet(make_cache(), [make_cluster("east")])
    fleet.settle()
    staged = fleet.observed[f"volume-east-{KEY}"].manifest["metadata"]["annotations"]
    fleet.replicas = [complaining("2027-01-15T09:00:00Z")]
    fleet.apply()
    assert fleet.phases() == {"east": ("Hydrating", "Hydrating")}
    assert (fleet.keys("job"), fleet.entries()["east"]["stagedKeys"]) == ([f"job-east-{KEY}-0"], [KEY])
    assert fleet.observed[f"volume-east-{KEY}"].manifest["metadata"]["annotations"] == staged
    fleet.end_jobs(completed="2027-01-15T09:05:00Z")
    fleet.apply()
    fleet.apply()
    assert (fleet.phases(), fleet.keys("job")) == ({"east": ("Ready", "Staged")}, [])
    fleet.replicas = [complaining("2027-01-15T09:05:00Z"), complaining("2027-01-15T09:00:00Z")]
    fleet.apply()
    assert fleet.phases() == {"east": ("Hydrating", "Hydrating")}


@pytest.mark.parametrize(
    "replica",
    [
        complaining("2027-01-15T07:59:59Z"),
        complaining("2027-01-15T09:00:00Z", key="another"),
        complaining("2027-01-15T09:00:00Z", reason="CrashLooping"),
    ],
    ids=["a complaint before it was staged", "of another volume", "of something else"],
)
def test_what_is_no_complaint_of_this_volume_stages_nothing(replica):
    fleet = Fleet(make_cache(), [make_cluster("east")])
    fleet.settle()
    fleet.replicas = [replica]
    fleet.apply()
    assert (fleet.phases(), fleet.keys("job")) == ({"east": ("Ready", "Staged")}, [])


def _claim_made(fleet, uid, at):
    """The cluster's own marks on the claim of east."""
    key = f"volume-east-{KEY}"
    seen = fleet.observed[key]
    metadata = {**seen.manifest["metadata"], "uid": uid, "creationTimestamp": at}
    fleet.observed[key] = replace(
        seen,
        target=replace(seen.target, manifest={**seen.manifest, "metadata": metadata, "status": {"phase": "Bound"}}),
    )


@pytest.mark.parametrize(
    ("uid", "made", "expected"),
    [
        ("one", "2027-01-15T08:30:00Z", ("Ready", "Staged")),
        ("two", "2027-01-15T08:00:00Z", ("Hydrating", "Hydrating")),
        ("two", "2027-01-15T07:00:00Z", ("Hydrating", "Hydrating")),
    ],
    ids=["a clock that went back", "made anew in the second of completion", "made anew by a clock that went back"],
)
def test_a_job_has_filled_the_claim_that_it_was_made_for_whatever_the_clocks_say(uid, made, expected):
    fleet = Fleet(make_cache(), [make_cluster("east")])
    fleet.apply()
    fleet.observed = {key: seen for key, seen in fleet.observed.items() if not key.startswith("job-")}
    _claim_made(fleet, "one", "2027-01-15T07:50:00Z")
    made_for = fleet.apply().desired[f"job-east-{KEY}-0"].target.manifest["metadata"]["annotations"]
    assert made_for == {"modelplane.ai/staged-on": "one"}
    fleet.end_jobs(completed="2027-01-15T08:00:00Z")
    _claim_made(fleet, uid, made)
    fleet.compose()
    assert fleet.phases() == {"east": expected}


def test_a_claim_that_was_made_anew_is_filled_by_a_job_of_another_name():
    """A provider that is late could write the mark of the new claim on the Job that filled the old one."""
    fleet = Fleet(make_cache(), [make_cluster("east")])
    fleet.apply()
    _claim_made(fleet, "zero", "2027-01-15T07:50:00Z")
    fleet.end_jobs()
    fleet.apply()
    names = set()
    for uid in ("one", "two"):
        _claim_made(fleet, uid, "2027-01-15T09:00:00Z")
        job = next(each for key, each in fleet.compose().desired.items() if key.startswith("job-"))
        names.add(job.target.manifest["metadata"]["name"])
    assert len(names) == 2


def test_what_a_cache_reads():
    api = "modelplane.ai/v1alpha1"
    relay = {"cluster": "east", "url": "https://cache.example/qwen", "authSecretRef": {"name": "relay"}}
    hub = {"repo": "Qwen/Qwen3-8B", "revision": "main", "authSecret": {"name": "hf"}}
    fleet = Fleet(make_cache(huggingFace=hub, relay=relay), [make_cluster("east")], secrets=[make_secret()])
    fleet.apply()
    assert fleet.compose().requirements == {
        "clusters": Requirement(api, "InferenceCluster"),
        "replicas": Requirement(api, "ModelReplica", namespace="team"),
        "caches": Requirement(api, "ModelCache", namespace="team"),
        "gateway": Requirement(api, "InferenceGateway", name="default"),
        "secret": Requirement("v1", "Secret", name="hf", namespace="team"),
        "relay-secret": Requirement("v1", "Secret", name="relay", namespace="team"),
        "pods-east": Requirement(
            "v1",
            "Pod",
            namespace=remote_namespace("team"),
            labels={"modelplane.ai/cache": "qwen"},
            cluster="east",
        ),
    }
