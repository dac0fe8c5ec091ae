"""Copies of Secrets and ConfigMaps: what is desired, what the condition says, and that no value is in either."""

from dataclasses import replace

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelplane.api.models import ModelReplicaStatus
from modelplane.compose.contract import CopiedFrom, Observed, Remote, Requirement

KEYS = ("secret-registry", "configmap-engine", "secret-engine", "configmap-telemetry")
WORKLOAD = "workload-main-deployment"
CANARY = "Y2FuYXJ5"


def observe(made, *, ready=True):
    for key, desired in made.compose().desired.items():
        if not desired.target.shared:
            item = desired.target.manifest
            status = {"replicas": 1, "updatedReplicas": 1} if item["kind"] == "Deployment" else {}
            target = replace(desired.target, copied_from=None, manifest={**item, "status": status} if status else item)
            made.observed[key] = Observed(target, ready)


def secrets_ready(made):
    found = next(each for each in made.compose().conditions if each.type == "SecretsReady")
    return found.status.value, found.reason, found.message


def test_each_object_that_pods_name_is_required_by_name_in_the_namespace_of_the_replica(scene):
    wanted = scene("gpt-oss-20b").compose().requirements
    assert {key: wanted[key] for key in KEYS} == {
        "secret-registry": Requirement("v1", "Secret", "registry", "chat"),
        "configmap-engine": Requirement("v1", "ConfigMap", "engine", "chat"),
        "secret-engine": Requirement("v1", "Secret", "engine", "chat"),
        "configmap-telemetry": Requirement("v1", "ConfigMap", "telemetry", "chat"),
    }


def test_a_copy_says_where_its_values_come_from_and_has_none(scene):
    made = scene("gpt-oss-20b")
    desired = made.compose().desired
    copy = desired["secret-engine"].target
    assert copy.copied_from == CopiedFrom("v1", "Secret", "engine", "chat", ("data",), "7")
    assert (copy.shared, desired["secret-engine"].outlives) == (False, (WORKLOAD,))
    assert copy.manifest["metadata"]["annotations"] == {"modelplane.ai/copied-from": "chat/engine"}
    assert "data" not in copy.manifest
    assert list(desired).index("secret-engine") < list(desired).index(WORKLOAD)


@pytest.mark.parametrize(
    ("given_type", "copied", "data"),
    [
        ("kubernetes.io/dockercfg", "kubernetes.io/dockercfg", {".dockercfg": "e30="}),
        ("kubernetes.io/dockerconfigjson", "kubernetes.io/dockerconfigjson", {".dockerconfigjson": "e30="}),
        ("kubernetes.io/tls", "Opaque", None),
        ("kubernetes.io/service-account-token", "Opaque", None),
        (None, "Opaque", None),
    ],
)
def test_only_a_type_that_kubelets_ask_for_is_copied(scene, given_type, copied, data):
    """Kubernetes refuses a Secret of such a type without its key, so it is created with an empty document."""
    made = scene("gpt-oss-20b")
    made.required["secret-engine"][0]["type"] = given_type
    found = made.compose().desired["secret-engine"].target.manifest
    assert (found["type"], found.get("data")) == (copied, data)


def test_binary_data_of_a_config_map_is_copied_too(scene):
    made = scene("gpt-oss-20b")
    made.required["configmap-telemetry"][0].update({"data": {}, "binaryData": {"a": "AA=="}})
    assert made.compose().desired["configmap-telemetry"].target.copied_from.fields == ("binaryData",)


@pytest.mark.parametrize("field", ["data", "binaryData"])
def test_a_key_of_a_config_map_may_be_text_or_binary(scene, field):
    made = scene("gpt-oss-20b")
    original = made.required["configmap-engine"][0]
    original.update({"data": {}, "binaryData": {}, field: {"log-level": "AA=="}})
    assert secrets_ready(made) == ("False", "SecretsCopying", "0 of 4 Secrets and ConfigMaps copied to east")


def unread(made):
    del made.required["secret-engine"]


def missing(made):
    made.required["secret-engine"] = ()


def without_key(made):
    made.required["secret-engine"][0]["data"] = {"other": CANARY}


def without_data(made):
    del made.required["secret-engine"][0]["data"]


def missing_map(made):
    made.required["configmap-engine"] = ()


def missing_pull(made):
    made.required["secret-registry"] = ()


def wrong_type(made):
    made.required["secret-registry"][0]["type"] = "Opaque"


def hollow_pull(made):
    made.required["secret-registry"][0]["data"] = {}


PROBLEMS = [
    pytest.param(unread, "Unknown", "Unresolved", "Secret chat/engine is not read yet", id="not read"),
    pytest.param(
        missing,
        "False",
        "SecretMissing",
        "Secret chat/engine (key api-key) does not exist; running pods stay",
        id="missing",
    ),
    pytest.param(
        without_key, "False", "SecretMissing", "Secret chat/engine has no key api-key; running pods stay", id="no key"
    ),
    pytest.param(
        without_data, "False", "SecretMissing", "Secret chat/engine has no key api-key; running pods stay", id="no data"
    ),
    pytest.param(
        missing_map,
        "False",
        "ConfigMapMissing",
        "ConfigMap chat/engine (key log-level) does not exist; running pods stay",
        id="no ConfigMap",
    ),
    pytest.param(
        missing_pull,
        "False",
        "SecretMissing",
        "Secret chat/registry does not exist; running pods stay",
        id="no pull Secret",
    ),
    pytest.param(
        wrong_type,
        "False",
        "SecretInvalid",
        "Secret chat/registry has type Opaque; imagePullSecrets take kubernetes.io/dockerconfigjson; running pods stay",
        id="wrong type",
    ),
    pytest.param(
        hollow_pull,
        "False",
        "SecretMissing",
        "Secret chat/registry has no key .dockerconfigjson; running pods stay",
        id="no key to pull with",
    ),
]


@pytest.mark.parametrize(("spoil", "status", "reason", "message"), PROBLEMS)
def test_a_problem_is_a_condition_and_no_pod_is_created(scene, spoil, status, reason, message):
    made = scene("gpt-oss-20b")
    spoil(made)
    result = made.compose()
    assert secrets_ready(made) == (status, reason, message)
    assert WORKLOAD not in result.desired
    workload = next(each for each in result.conditions if each.type == "WorkloadReady")
    assert (workload.reason, workload.message) == ("WaitingForSecrets", message)


@pytest.mark.parametrize(("spoil", "status", "reason", "message"), PROBLEMS)
def test_a_workload_that_runs_stays_as_it_is(scene, spoil, status, reason, message):
    made = scene("gpt-oss-20b")
    observe(made)
    running = made.observed[WORKLOAD].target
    change_image(made)
    spoil(made)
    result = made.compose()
    assert result.desired[WORKLOAD].target is running
    assert result.desired[WORKLOAD].ready
    assert secrets_ready(made) == (status, reason, message)
    assert made.observed.keys() <= result.desired.keys()


def change_image(made):
    text = msgspec.json.encode(made.replica).replace(b"sglang:v0.5.18", b"sglang:v0.5.19")
    made.replica = msgspec.json.decode(text, type=type(made.replica))


def test_a_version_whose_secret_is_missing_was_not_served(scene):
    made = scene("gpt-oss-20b")
    observe(made)
    metadata = msgspec.structs.replace(made.replica.metadata, generation=2)
    status = ModelReplicaStatus(served_generation=1)
    made.replica = msgspec.structs.replace(made.replica, metadata=metadata, status=status)
    assert made.compose().status.served_generation == 2
    missing(made)
    assert made.compose().status.served_generation == 1


def test_an_optional_object_is_copied_when_it_is_there_and_missed_by_nobody(scene):
    made = scene("gpt-oss-20b")
    assert "configmap-telemetry" in made.compose().desired
    made.required["configmap-telemetry"] = ()
    result = made.compose()
    assert "configmap-telemetry" not in result.desired
    assert WORKLOAD in result.desired
    assert secrets_ready(made)[1] == "SecretsCopying"


def test_the_condition_holds_when_every_copy_is_observed(scene):
    made = scene("gpt-oss-20b")
    assert secrets_ready(made) == ("False", "SecretsCopying", "0 of 4 Secrets and ConfigMaps copied to east")
    observe(made)
    assert secrets_ready(made) == ("True", "SecretsCopied", "4 of 4 Secrets and ConfigMaps copied to east")
    assert made.compose().ready.reason == "Available"


def test_a_copy_that_is_no_longer_named_stays_until_no_pod_needs_it(scene):
    made = scene("gpt-oss-20b")
    observe(made)
    text = msgspec.json.encode(made.replica).replace(b'"name":"engine","key":"api-key"', b'"name":"other","key":"k"')
    made.replica = msgspec.json.decode(text, type=type(made.replica))
    made.required["secret-other"] = ({"metadata": {"resourceVersion": "9"}, "data": {"k": CANARY}},)
    first = made.compose().desired
    assert {"secret-engine", "secret-other"} <= first.keys()
    done = {**first[WORKLOAD].target.manifest, "status": {"replicas": 1, "updatedReplicas": 1}}
    made.observed[WORKLOAD] = Observed(Remote("east", done), ready=True)
    assert "secret-engine" not in made.compose().desired


@given(lost=st.sets(st.sampled_from(KEYS)), absent=st.booleans())
def test_desired_state_never_shrinks_because_an_original_is_lost(scene, lost, absent):
    made = scene("gpt-oss-20b")
    observe(made)
    for key in lost:
        made.required[key] = ()
        if not absent:
            del made.required[key]
    assert made.observed.keys() <= made.compose().desired.keys()


@given(spoiled=st.sampled_from([each.values[0] for each in PROBLEMS]), observed=st.booleans())
def test_no_value_is_in_anything_that_the_composer_returns(scene, spoiled, observed):
    made = scene("gpt-oss-20b")
    if observed:
        observe(made)
    assert CANARY not in repr(made.compose())
    spoiled(made)
    assert CANARY not in repr(made.compose())
