"""The parts of staging: sources in every form, storage, and the loader's arguments."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelplane.api.codec import decode
from modelplane.api.models import InferenceCluster, ModelCache
from modelplane.compose.caching.job import JobRequest, StagingAttempt, arguments
from modelplane.compose.caching.progress import (
    LoaderStatus,
    failure,
    has_ended,
    is_complete,
    newest_status,
    trimmed_loader,
    with_progress,
)
from modelplane.compose.caching.source import CacheSource, SecretSource, older_forms, source_of
from modelplane.compose.caching.storage import StorageSpec, claim_name, storage_class, storage_fault, storage_of
from modelplane.hydrate import read_source
from tests.compose.caches import loader_pod, make_cluster


def cache(**spec) -> ModelCache:
    return decode(ModelCache, {"metadata": {"name": "c", "namespace": "team"}, "spec": spec})


HUB = {"repo": "a/b", "revision": "main"}
S3 = {"bucket": "models", "prefix": "q/", "region": "eu-1", "endpoint": "https://s3.example"}
URLS = [{"url": "https://files.example/a", "path": "x/a"}]
NEWER = {
    "huggingFace": ("HuggingFace", {**HUB, "authSecret": {"name": "s"}}, "HF_TOKEN"),
    "s3": ("S3", {**S3, "secretRef": {"name": "s"}}, ""),
    "gcs": ("GCS", {"bucket": "models", "secretRef": {"name": "s"}}, ""),
    "http": ("HTTP", {"urls": URLS, "header": "X-Key", "authSecretRef": {"name": "s"}}, "Authorization"),
    "oci": ("OCI", {"reference": "r.example/a:1", "pullSecretRef": {"name": "s"}}, ""),
    "configMap": ("ConfigMap", {"name": "files"}, None),
    "inline": ("Inline", {"filename": "a", "content": "b"}, None),
}


@pytest.mark.parametrize("block", NEWER)
def test_the_loader_reads_what_it_is_told_of_every_source(block):
    kind, written, key = NEWER[block]
    found = source_of(cache(source=kind, **{block: written}))
    assert (found.block, found.kind) == (block, kind)
    assert found.secret == (None if key is None else SecretSource("s", key, found.secret.field))
    request = JobRequest(
        cache(source=kind, **{block: written}),
        found,
        decode(InferenceCluster, make_cluster("east")),
        "image",
        StagingAttempt(0),
        allowed=("10.0.0.0/8",),
        config_map="files" if block == "configMap" else None,
    )
    words = arguments(request)
    told = json.loads(words[1])
    assert list(told) == [block]
    assert read_source(words[1]) is not None
    assert "name" not in told[block].get(found.secret.field if found.secret else "", {})
    assert ("--credentials-dir" in words, "--files-dir" in words) == (key is not None, block == "configMap")
    assert words[-2:] == ("--outbound-allow", "10.0.0.0/8")


def test_the_older_form_is_the_same_source_and_the_newer_one_is_told():
    older = cache(
        artifact={"source": {"huggingFace": {**HUB, "tokenSecretRef": {"name": "s"}}}},
        storage={"backend": "PVC", "pvc": {"sizeGiB": 7, "storageClassName": "rwx"}},
    )
    newer = cache(
        source="HuggingFace",
        huggingFace={**HUB, "authSecret": {"name": "s"}},
        storage={"sizeGiB": 7, "storageClassName": "rwx"},
    )
    assert source_of(older) == source_of(newer)
    assert storage_of(older) == storage_of(newer) == StorageSpec("PVC", 7, "rwx")
    assert list(older_forms(newer.spec)) == []
    assert list(older_forms(older.spec)) == [
        (
            ("spec", "artifact", "source"),
            "spec.source: HuggingFace and spec.huggingFace, with tokenSecretRef as authSecret",
        ),
        (("spec", "storage", "backend"), "spec.storage.type: PVC"),
        (("spec", "storage", "pvc"), "spec.storage.sizeGiB, spec.storage.storageClassName"),
    ]


@pytest.mark.parametrize(
    ("block", "written", "expected"),
    [
        ("huggingFace", HUB, ()),
        ("huggingFace", {**HUB, "endpoint": "http://hub.corp:8080"}, (("spec.huggingFace.endpoint", "hub.corp"),)),
        ("http", {"url": "http://127.0.0.1:9/a"}, (("spec.http.url", "127.0.0.1"),)),
        ("http", {"urls": URLS}, (("spec.http.urls[0].url", "files.example"),)),
        ("oci", {"reference": "localhost/a"}, (("spec.oci.reference", "localhost"),)),
        ("oci", {"reference": "10.0.0.1:5000/a/b:1"}, (("spec.oci.reference", "10.0.0.1"),)),
        ("oci", {"reference": "http://10.0.0.1/a"}, (("spec.oci.reference", "10.0.0.1"),)),
        ("oci", {"reference": "https://r.example/a"}, (("spec.oci.reference", "r.example"),)),
        ("oci", {"reference": "library/a:1"}, ()),
        ("s3", S3, (("spec.s3.endpoint", "s3.example"),)),
    ],
)
def test_hosts_that_a_user_names(block, written, expected):
    assert source_of(cache(source=NEWER[block][0], **{block: written})).hosts == expected


@pytest.mark.parametrize(
    ("block", "document", "shown"),
    [
        ("huggingFace", {"repo": "Qwen/Qwen3-8B", "revision": "main"}, "HuggingFace Qwen/Qwen3-8B"),
        ("s3", {"uri": "s3://models/a"}, "S3 s3://models/a"),
        ("gcs", {"bucket": "models"}, "GCS models"),
        ("http", {"url": "https://a.example/b"}, "HTTP https://a.example/b"),
        ("oci", {"reference": "a.example/b:1"}, "OCI a.example/b:1"),
        ("configMap", {"name": "files"}, "ConfigMap files"),
        ("inline", {"filename": "a.jinja", "content": "x"}, "Inline a.jinja"),
        ("inline", {}, "Inline"),
        ("http", {"url": "https://a.example/" + "b" * 300}, "HTTP https://a.example/" + "b" * 233),
    ],
)
def test_a_source_is_shown_by_its_kind_and_its_name(block, document, shown):
    assert CacheSource(block, document, "key").shown == shown
    assert len(shown) <= 256


@pytest.mark.parametrize(
    ("spec", "size"),
    [
        ({"huggingFace": {**HUB, "sizeGiB": 9}}, 9),
        ({"artifact": {"source": {"huggingFace": {**HUB, "sizeGiB": 9}}}}, 9),
        ({"huggingFace": {**HUB, "sizeGiB": 9}, "storage": {"sizeGiB": 7}}, 7),
        ({"huggingFace": HUB}, 1),
        ({"artifact": {"source": {"s3": S3}}}, 1),
    ],
)
def test_a_volume_is_as_large_as_the_cache_or_its_source_says(spec, size):
    assert storage_of(cache(**spec)).size_gib == size


def test_credentials_and_sizes_are_no_part_of_a_source():
    one = source_of(cache(source="HuggingFace", huggingFace=HUB))
    other = source_of(cache(source="HuggingFace", huggingFace={**HUB, "sizeGiB": 9, "authSecret": {"name": "s"}}))
    assert one.key == other.key
    assert one.key != source_of(cache(source="HuggingFace", huggingFace={**HUB, "revision": "v2"})).key


def test_what_is_taken_of_a_reference_is_no_part_of_the_source():
    plain, image = ({"reference": "a.example/b:1", **more} for more in ({}, {"artifact": "Image"}))
    assert source_of(cache(source="OCI", oci=image)) == source_of(cache(source="OCI", oci=plain))


@given(*(st.text("ab-", min_size=1, max_size=6) for _ in range(4)))
def test_claims_are_the_same_for_the_same_namespace_and_key_only(one, key, other, another):
    assert (claim_name(one, key) == claim_name(other, another)) == ((one, key) == (other, another))


@pytest.mark.parametrize(
    ("spec", "cluster", "expected"),
    [
        ({}, {}, None),
        ({}, {"storageClassName": "rwx"}, "rwx"),
        ({}, {"sharedFilesystem": {"driver": "EFS", "fileSystemId": "fs-1"}}, "modelplane-rwx"),
        ({"storageClassName": "own"}, {"storageClassName": "rwx"}, "own"),
    ],
)
def test_the_class_of_a_volume(spec, cluster, expected):
    made = decode(InferenceCluster, make_cluster("east", storage=cluster))
    assert storage_class(made, storage_of(cache(storage={"sizeGiB": 1, **spec}))) == expected


NO_SHARED = (
    "the cluster has BlockDevice, ObjectStorageMount and no SharedFilesystem in spec.storage.csiDrivers, "
    "and names no StorageClass"
)


@pytest.mark.parametrize(
    ("spec", "cluster", "fault"),
    [
        ({}, {"csiDrivers": ["BlockDevice", "ObjectStorageMount"]}, NO_SHARED),
        ({}, {"csiDrivers": ["BlockDevice", "SharedFilesystem"]}, None),
        ({}, {}, None),
        ({"accessMode": "ReadWriteOnce"}, {"csiDrivers": ["BlockDevice"]}, None),
        ({"storageClassName": "rwx"}, {"csiDrivers": ["BlockDevice"]}, None),
    ],
)
def test_a_volume_that_several_nodes_mount_needs_a_driver_or_a_class(spec, cluster, fault):
    made = decode(InferenceCluster, make_cluster("east", storage=cluster))
    assert storage_fault(made, storage_of(cache(storage={"sizeGiB": 1, **spec}))) == fault


def test_an_older_form_without_fields_names_the_one_that_a_volume_has():
    assert list(older_forms(cache(storage={"pvc": {}}).spec)) == [(("spec", "storage", "pvc"), "spec.storage.sizeGiB")]


def test_an_older_form_of_another_source_names_its_newer_form():
    older = cache(artifact={"source": {"s3": {"bucket": "models"}}})
    assert list(older_forms(older.spec)) == [(("spec", "artifact", "source"), "spec.source: S3 and spec.s3")]


ENDED = '{"phase":"Failed","reason":"NoSpace"}'


def terminated(message):
    return {"name": "loader", "lastState": {"terminated": {"exitCode": 28, "message": f"noise\n{message}"}}}


@pytest.mark.parametrize(
    ("statuses", "annotations"),
    [
        pytest.param([terminated(ENDED)], {"modelplane.ai/progress": ENDED}, id="its last words"),
        pytest.param([terminated("Killed")], None, id="words of another"),
        pytest.param(
            [{"name": "loader", "state": {"terminated": {"exitCode": 28, "message": ENDED}}}],
            {"modelplane.ai/progress": ENDED},
            id="its last words, and it is not started again",
        ),
        pytest.param([], None, id="none yet"),
    ],
)
def test_of_a_loader_its_last_words_are_kept(statuses, annotations):
    metadata = {
        "name": "p",
        "labels": {"modelplane.ai/cache": "qwen", "other": "x"},
        "creationTimestamp": "2027-01-15T07:00:00Z",
        "annotations": {"other": "y"},
    }
    found = trimmed_loader({"metadata": metadata, "status": {"containerStatuses": statuses}})
    assert found["metadata"] == {
        "name": "p",
        "labels": {"modelplane.ai/cache": "qwen"},
        "creationTimestamp": "2027-01-15T07:00:00Z",
        **({"annotations": annotations} if annotations else {}),
    }
    assert newest_status([found]) == (LoaderStatus("Failed", reason="NoSpace") if annotations else None)


def test_the_last_line_of_a_log_is_progress():
    pod = {"metadata": {"name": "p", "labels": {"a": "b"}}}
    found = with_progress(pod, '{"phase":"Fetching","bytes":1,"total":2}')
    assert found["metadata"]["labels"] == {"a": "b"}
    assert newest_status([found]) == LoaderStatus("Fetching", 1, 2)


@pytest.mark.parametrize("order", [1, -1])
def test_of_several_pods_the_newest_says_how_far_it_is(order):
    pods = [loader_pod(bytes=done, total=9) for done in (1, 2, 3)]
    for index, pod in enumerate(pods[:2]):
        pod["metadata"]["creationTimestamp"] = f"2027-01-15T08:0{index}:00Z"
    assert newest_status(pods[::order]) == LoaderStatus("Fetching", 2, 9)


@pytest.mark.parametrize(
    ("said", "found"),
    [
        ("{}", LoaderStatus("", bytes=0, total=0, rate=0)),
        ('{"bytes":9223372036854775807}', LoaderStatus(bytes=2**63 - 1)),
        ('{"bytes":9223372036854775808}', None),
        ('{"bytes":-1}', None),
        (f'{{"key":"{"k" * 128}"}}', LoaderStatus(key="k" * 128)),
        (f'{{"key":"{"k" * 129}"}}', None),
    ],
)
def test_what_a_status_cannot_hold_is_not_progress(said, found):
    assert newest_status([with_progress({"metadata": {"name": "p"}}, said)]) == found


def test_what_no_loader_wrote_is_not_progress():
    assert newest_status([{"metadata": {"annotations": {"modelplane.ai/progress": "starting…"}}}]) is None
    assert newest_status([loader_pod(bytes=1, total=2)]) == LoaderStatus("Fetching", 1, 2)


@pytest.mark.parametrize(
    ("suffix", "attempt"),
    [("0", StagingAttempt(0)), ("12.ab", StagingAttempt(12, "ab")), ("other", StagingAttempt(0))],
)
def test_an_attempt_is_read_from_the_key_of_its_job(suffix, attempt):
    assert StagingAttempt.parse(suffix) == attempt
    assert suffix in {attempt.suffix, "other"}


def test_a_job_that_runs_has_not_failed():
    assert failure({"status": {"conditions": [{"type": "Complete", "status": "True"}]}}, None) is None


@pytest.mark.parametrize(
    ("kind", "status", "expected"),
    [
        ("Complete", "True", (True, True)),
        ("Failed", "True", (False, True)),
        ("Failed", "False", (False, False)),
        ("Suspended", "True", (False, False)),
    ],
)
def test_a_job_has_ended_when_it_is_complete_or_failed(kind, status, expected):
    job = {"status": {"conditions": [{"type": kind, "status": status}]}}
    assert (is_complete(job), has_ended(job)) == expected
