"""Prefill and decode that move KV caches in the same way, by default and by what users write on one side."""

import copy
import json

import pytest
import yaml

from modelplane.api.codec import decode
from modelplane.api.models import InferenceCluster, ModelDeployment
from modelplane.compose.context import Context
from modelplane.compose.contract import Observed
from modelplane.compose.images import RELEASE_IMAGES
from modelplane.compose.phase_agreement import bootstrap_arguments, phase_fault, transfer_backend
from modelplane.compose.rendering import render
from modelplane.testing.placing import placed
from tests.compose.conftest import CLUSTER, HERE, POOLS, make_cluster

BACKEND = "--disaggregation-transfer-backend"
NIXL, LMCACHE = '{"kv_connector":"NixlConnector","kv_role":"kv_both"}', '{"kv_connector":"LMCacheConnectorV1"}'


def context(shape, prefill=(), decode_=(), fabric=None, engine=None, **more):
    """The phases with further args, the decode side perhaps of another engine."""
    text = (HERE / "deployments" / f"{shape}.yaml").read_text()
    document = json.loads(json.dumps(yaml.safe_load(text)))  # nothing is shared between the phases
    for phase, words in (("prefill", prefill), ("decode", decode_)):
        container = document["spec"][phase]["workers"]["template"]["spec"]["containers"][0]
        container["args"] = [*container.get("args", ()), *words]
    if engine:
        document["spec"]["decode"]["workers"]["engine"] = engine
    cluster = copy.deepcopy(make_cluster())
    cluster["spec"]["nodePools"] = [
        {"name": name, "className": "c", **({"fabric": {"type": fabric}} if fabric else {})} for name in POOLS.values()
    ]
    found = decode(InferenceCluster, cluster)
    replica = placed(decode(ModelDeployment, document), CLUSTER, pools=POOLS)
    return Context(replica, found, images=RELEASE_IMAGES.for_cluster(found), **more)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        pytest.param({}, "nixl", id="nobody says what the network is"),
        pytest.param({"fabric": "EFA"}, "nixl", id="no verbs"),
        pytest.param({"fabric": "InfiniBand"}, "", id="verbs"),
        pytest.param({"prefill": [BACKEND, "mori"]}, "mori", id="as one side says"),
        pytest.param({"earlier_defaults": True}, "", id="as an earlier release rendered it"),
    ],
)
def test_what_sglang_moves_caches_by(given, expected):
    found = context("prefill-decode-sglang", **given)
    assert transfer_backend(found) == expected
    words = [str(item.target.manifest) for key, item in render(found)[0].items() if key.startswith("workload-")]
    assert [expected in word and BACKEND in word for word in words] == [bool(expected)] * 2


@pytest.mark.parametrize(
    ("shape", "given", "expected"),
    [
        ("prefill-decode", {}, None),
        ("prefill-decode", {"prefill": ["--kv-transfer-config", NIXL]}, None),
        (
            "prefill-decode",
            {"decode_": ["--kv-transfer-config", LMCACHE]},
            "kv_connector differs: decode is LMCacheConnectorV1, prefill is NixlConnector",
        ),
        ("prefill-decode", {"decode_": ["--kv-transfer-config.kv_connector", "NixlConnector"]}, None),
        ("prefill-decode", {"decode_": ["--kv-transfer-config", '{"kv_connector":"MultiConnector"}']}, None),
        ("prefill-decode", {"engine": "SGLang"}, "decode is SGLang, prefill is vLLM: they cannot exchange KV caches"),
        (
            "prefill-decode-sglang",
            {"prefill": [BACKEND, "nixl"], "decode_": [f"{BACKEND}=mooncake"]},
            f"{BACKEND} differs: decode is mooncake, prefill is nixl",
        ),
        ("prefill-decode-sglang", {"prefill": [BACKEND, "nixl"]}, None),
    ],
)
def test_phases_that_do_not_agree_are_refused(shape, given, expected):
    assert phase_fault(context(shape, **given)) == expected


@pytest.mark.parametrize(
    ("prefill", "expected"), [([], None), (["--disaggregation-bootstrap-port", "9100"], "--sglang-bootstrap-port=9100")]
)
def test_the_sidecar_knows_where_prefill_engines_wait(prefill, expected):
    found = context("prefill-decode-sglang", prefill=prefill)
    assert bootstrap_arguments(found) == ([expected] if expected else [])
    args = [
        word
        for key, item in render(found)[0].items()
        if key.startswith("workload-decode")
        for container in item.target.manifest["spec"]["template"]["spec"]["containers"]
        if container["name"] == "routing-sidecar"
        for word in container["args"]
    ]
    assert [word for word in args if "bootstrap" in word] == ([expected] if expected else [])


def test_pods_that_an_earlier_release_rendered_stay(scene):
    made = scene("prefill-decode-sglang")
    cluster = decode(InferenceCluster, made.required["cluster"][0])
    images = RELEASE_IMAGES.for_cluster(cluster)
    before = render(Context(made.replica, cluster, images=images, earlier_defaults=True))[0]
    kept = {key: item.target for key, item in before.items() if key.startswith("workload-")}
    made.observed = {key: Observed(item.target, ready=True) for key, item in before.items()}
    after = {key: item.target for key, item in made.compose().desired.items() if key.startswith("workload-")}
    assert after == kept != {}
