"""Staging on one cluster: when it begins, and what stays."""

import json

from tests.compose.caches import Fleet, make_cache, make_cluster, make_secret


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
