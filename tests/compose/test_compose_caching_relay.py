"""One cluster fetches from the source, and the others copy from it."""

import json

import pytest

from modelplane.api.codec import decode
from modelplane.api.models import ModelCache
from modelplane.api.objects import name_of
from modelplane.compose.caching.inputs import CacheInputs
from modelplane.compose.caching.relay_choice import chosen_relay
from modelplane.compose.caching.source import source_of
from modelplane.compose.caching.storage import storage_of
from modelplane.compose.contract import ComposeRequest
from tests.compose.caches import Fleet, make_cache, make_cluster, make_secret
from tests.compose.test_compose_model_cache import KEY

RELAY = {"cluster": "east", "url": "https://cache.example/qwen", "authSecretRef": {"name": "relay"}}


SERVER = {
    "name": "relay",
    "image": "loader:1",
    "args": ["serve", "--volume", "/volume", "--listen", "0.0.0.0:8080", "--token-file", "/run/credentials/token"],
    "ports": [{"name": "http", "containerPort": 8080}],
    "readinessProbe": {"httpGet": {"path": "/healthz", "port": "http"}},
    "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "1Gi"}},
    "securityContext": {
        "runAsNonRoot": True,
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    },
    "volumeMounts": [
        {"name": "volume", "mountPath": "/volume", "readOnly": True},
        {"name": "credentials", "mountPath": "/run/credentials", "readOnly": True},
    ],
}


def make_relay(**spec):
    secret = make_secret(token="c2VjcmV0")
    secret["metadata"]["name"] = "relay"
    return Fleet(make_cache(relay={**RELAY, **spec}), relay_secrets=[secret])


def job_arguments(fleet, cluster):
    (job,) = [item.manifest for key, item in fleet.observed.items() if key.startswith(f"job-{cluster}-")]
    return job["spec"]["template"]["spec"]["containers"][0]["args"]


def test_the_others_wait_and_then_copy_with_the_token():
    fleet = make_relay()
    result = fleet.apply()
    assert fleet.phases() == {"east": ("Pending", "WaitingForVolume"), "west": ("Pending", "WaitingForRelay")}
    assert fleet.entries()["west"]["message"] == "it is copied from cluster east, which does not have it"
    assert result.requeue_after_s == 10
    assert list(json.loads(job_arguments(fleet, "east")[1])) == ["huggingFace"]
    fleet.apply()
    fleet.end_jobs()
    fleet.apply()
    fleet.apply()
    words = job_arguments(fleet, "west")
    assert json.loads(words[1]) == {"peer": {"url": RELAY["url"], "authSecretRef": {"key": "token"}}}
    assert words[words.index("--credentials-dir") + 1] == "/run/credentials"
    assert fleet.observed["secret-west"].target.copied_from.name == "relay"
    fleet.settle()
    assert fleet.phases() == {"east": ("Ready", "Staged"), "west": ("Ready", "Staged")}
    assert "secret-west" not in fleet.observed


def test_the_first_serves_its_volume_to_those_that_have_the_token(problems):
    fleet = make_relay()
    for _ in range(2):
        fleet.settle()
    assert not [found for item in fleet.observed.values() for found in problems(item.manifest)]
    assert fleet.keys("relay", "relayservice", "relaysecret") == ["relay-east", "relaysecret-east", "relayservice-east"]
    pod = fleet.observed["relay-east"].manifest["spec"]["template"]["spec"]
    claim, secret = (name_of(fleet.observed[key].manifest) for key in (f"volume-east-{KEY}", "relaysecret-east"))
    assert pod["volumes"] == [
        {"name": "volume", "persistentVolumeClaim": {"claimName": claim, "readOnly": True}},
        {"name": "credentials", "secret": {"secretName": secret, "defaultMode": 0o440}},
    ]
    assert (pod["containers"], pod["automountServiceAccountToken"]) == ([SERVER], False)
    spec, service = (fleet.observed[f"{part}-east"].manifest["spec"] for part in ("relay", "relayservice"))
    assert spec["selector"]["matchLabels"] == spec["template"]["metadata"]["labels"] == service["selector"]
    assert spec["replicas"] == 1
    assert service["ports"] == [{"name": "http", "port": 80, "targetPort": "http"}]
    names = {name_of(fleet.observed[f"{part}-east"].manifest) for part in ("relay", "relayservice", "relaysecret")}
    assert [name.rpartition("-")[0] for name in names] == ["cache-qwen-relay"]


@pytest.mark.parametrize(
    ("lacking", "expected"),
    [
        ({"relay_secrets": []}, ("Failed", "SecretMissing")),
        ({"relay_secrets": None}, ("Pending", "Unresolved")),
        ({"gateways": None}, ("Pending", "Unresolved")),
    ],
)
def test_what_is_missing_for_a_copy_is_its_reason_and_removes_nothing(lacking, expected):
    fleet = make_relay()
    fleet.settle()
    before = fleet.keys("relay", "relayservice", "relaysecret", "volume")
    token = fleet.observed["relaysecret-east"].target
    for name, value in lacking.items():
        setattr(fleet, name, value)
    fleet.observed = {key: item for key, item in fleet.observed.items() if "-west" not in key}
    fleet.apply()
    assert fleet.phases()["west"] == expected
    assert [key for key in before if "-east" in key] == [
        key for key in fleet.keys("relay", "relayservice", "relaysecret", "volume") if "-east" in key
    ]
    assert fleet.observed["relaysecret-east"].target == token


def test_a_url_inside_the_platforms_network_needs_its_permission():
    fleet = make_relay(url="http://10.0.0.7")
    fleet.settle()
    assert fleet.phases()["west"] == ("Failed", "OutboundRefused")
    assert fleet.entries()["west"]["message"].startswith("spec.relay.url: 10.0.0.7, a private address")


def test_a_copy_that_failed_begins_again_at_once_when_the_url_is_corrected():
    fleet = make_relay()
    fleet.settle()
    fleet.apply()
    fleet.end_jobs("Failed", reason="BackoffLimitExceeded", message="")
    fleet.apply()
    assert fleet.phases()["west"] == ("Failed", "StagingFailed")
    fleet.cache["spec"]["relay"] = {**RELAY, "url": "https://cache.example/right"}
    fleet.apply()
    assert fleet.phases()["west"] == ("Hydrating", "Hydrating")
    assert json.loads(job_arguments(fleet, "west")[1])["peer"]["url"] == "https://cache.example/right"


FALLBACK = {"fallbacks": [{"cluster": "west", "url": "https://west.example/qwen"}]}


def three(**spec):
    fleet = make_relay(**FALLBACK, **spec)
    fleet.clusters = [make_cluster(name) for name in ("east", "north", "west")]
    return fleet


def lose(fleet, *names):
    fleet.clusters = [make_cluster(name, ready=name not in names) for name in ("east", "north", "west")]


def without(fleet, cluster):
    """Nothing of the cache was ever on a cluster."""
    fleet.observed = {key: item for key, item in fleet.observed.items() if f"-{cluster}" not in key}
    entries = [entry for entry in fleet.cache["status"]["clusters"] if entry["name"] != cluster]
    fleet.cache["status"]["clusters"] = entries


def test_a_cluster_that_holds_the_content_takes_over_for_one_that_is_lost():
    fleet = three()
    for _ in range(4):
        fleet.settle()
    assert set(fleet.phases().values()) == {("Ready", "Staged")}
    assert fleet.keys("relay") == ["relay-east"]
    without(fleet, "north")
    lose(fleet, "east")
    for _ in range(3):
        fleet.apply()
    assert json.loads(job_arguments(fleet, "north")[1])["peer"]["url"] == "https://west.example/qwen"
    assert fleet.keys("relay") == ["relay-east", "relay-west"]
    assert [key for key in fleet.observed if key.startswith("job-west")] == []
    lose(fleet)
    fleet.settle()
    assert fleet.phases()["north"] == ("Ready", "Staged")
    assert fleet.keys("relay") == ["relay-east", "relay-west"]


def test_a_cluster_that_may_relay_no_longer_serves_nothing():
    fleet = three()
    for _ in range(4):
        fleet.settle()
    lose(fleet, "east")
    fleet.apply()
    assert fleet.keys("relay") == ["relay-east", "relay-west"]
    lose(fleet)
    fleet.cache["spec"]["relay"] = RELAY
    fleet.apply()
    assert fleet.keys("relay", "relayservice", "relaysecret") == ["relay-east", "relaysecret-east", "relayservice-east"]


def test_where_nobody_holds_it_the_next_fetches_from_the_source():
    fleet = three()
    lose(fleet, "east")
    fleet.apply()
    assert list(json.loads(job_arguments(fleet, "west")[1])) == ["huggingFace"]
    assert fleet.entries()["north"]["message"] == "it is copied from cluster west, which does not have it"


@pytest.mark.parametrize("clusters", [None, []])
def test_a_list_that_is_missing_or_short_moves_nothing(clusters):
    fleet = three()
    for _ in range(4):
        fleet.settle()
    before = set(fleet.observed)
    fleet.clusters = clusters
    fleet.apply()
    assert set(fleet.observed) == before


def test_a_relay_that_is_not_listed_is_deleted_or_is_not_ready_gives_way_to_one_that_answers():
    other = {"cluster": "west", "url": "https://west.example/qwen"}
    gone = make_cluster("east")
    gone["metadata"]["deletionTimestamp"] = "2027-01-15T09:00:00Z"
    dark = make_cluster("east", ready=False)
    dark["status"]["conditions"].insert(0, {"type": "Provisioned", "status": "True", "reason": "Provisioned"})
    cache = decode(ModelCache, make_cache(relay={**RELAY, "fallbacks": [other]}))
    found = []
    for clusters in (
        [make_cluster("east"), make_cluster("west")],
        [make_cluster("west")],
        [gone, make_cluster("west")],
        [dark, make_cluster("west")],
        [],
    ):
        request = ComposeRequest(cache, required={"clusters": tuple(clusters)})
        found.append(chosen_relay(CacheInputs(request, source_of(cache), storage_of(cache))).cluster)
    assert found == ["east", "west", "west", "west", "east"]


@pytest.mark.parametrize(
    ("holders", "expected"),
    [
        ((), "east"),
        (("east", "west"), "east"),
        (("west",), "west"),
        (("north",), "east"),
    ],
    ids=["nobody has it", "both have it", "the second has it", "one that may not relay has it"],
)
def test_of_relays_that_answer_one_that_holds_the_content_relays(holders, expected):
    other = {"cluster": "west", "url": "https://west.example/qwen"}
    entries = [{"name": name, "phase": "Ready", "stagedKeys": [KEY]} for name in holders]
    cache = decode(ModelCache, make_cache(status={"clusters": entries}, relay={**RELAY, "fallbacks": [other]}))
    request = ComposeRequest(cache, required={"clusters": (make_cluster("east"), make_cluster("west"))})
    assert chosen_relay(CacheInputs(request, source_of(cache), storage_of(cache))).cluster == expected
