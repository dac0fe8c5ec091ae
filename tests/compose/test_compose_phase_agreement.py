"""Prefill and decode that move KV caches in the same way, by default and by what users write on one side."""

import copy
import dataclasses
import json

import pytest
import yaml
from msgspec.structs import replace

from modelplane.api.codec import decode
from modelplane.api.models import InferenceCluster, ModelDeployment, NodeResources, Resources
from modelplane.compose.context import Context
from modelplane.compose.contract import Observed
from modelplane.compose.images import RELEASE_IMAGES
from modelplane.compose.phase_agreement import bootstrap_arguments, host_cache, phase_fault, transfer_backend
from modelplane.compose.rendering import can_render, render
from modelplane.testing.placing import placed
from tests.compose.conftest import CLUSTER, HERE, POOLS, make_cluster

BACKEND = "--disaggregation-transfer-backend"
NIXL, LMCACHE = '{"kv_connector":"NixlConnector","kv_role":"kv_both"}', '{"kv_connector":"LMCacheConnectorV1"}'


SHARE = NodeResources(cpu="8", memory="64Gi")


def context(shape, prefill=(), decode_=(), fabric=None, engine=None, share=None, **more):
    """The phases with further args, the decode side perhaps of another engine."""
    text = (HERE / "deployments" / f"{shape}.yaml").read_text()
    document = json.loads(json.dumps(yaml.safe_load(text)))  # nothing is shared between the phases
    for phase, words in (("prefill", prefill), ("decode", decode_)):
        container = document["spec"][phase]["workers"]["template"]["spec"]["containers"][0]
        container["args"] = [*container.get("args", ()), *words]
    if engine:
        document["spec"]["decode"]["workers"]["engine"] = engine
    cluster = copy.deepcopy(make_cluster())
    kinds = fabric if isinstance(fabric, tuple) else [fabric] * len(POOLS)
    cluster["spec"]["nodePools"] = [
        {"name": name, "className": "c", **({"fabric": {"type": kind}} if kind else {})}
        for name, kind in zip(POOLS.values(), kinds, strict=True)
    ]
    found = decode(InferenceCluster, cluster)
    replica = placed(decode(ModelDeployment, document), CLUSTER, pools=POOLS)
    if share is not None:
        replica = with_share(replica, share)
    return Context(replica, found, images=RELEASE_IMAGES.for_cluster(found), **more)


def with_share(replica, share):
    engines = tuple(
        replace(engine, members=tuple(replace(member, node_share=share) for member in engine.members))
        for engine in replica.spec.engines
    )
    return replace(replica, spec=replace(replica.spec, engines=engines))


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        pytest.param({}, "nixl", id="nobody says what the network is"),
        pytest.param({"fabric": "EFA"}, "nixl", id="no verbs"),
        pytest.param({"fabric": "InfiniBand"}, "", id="verbs"),
        pytest.param({"fabric": "RoCE"}, "", id="verbs over Ethernet"),
        pytest.param({"fabric": ("RoCE", "EFA")}, "nixl", id="one pool has verbs"),
        pytest.param({"fabric": ("EFA", "RoCE")}, "nixl", id="the other pool has verbs"),
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
    found = context(shape, **given)
    assert (phase_fault(found), can_render(found)) == (expected, expected)


@pytest.mark.parametrize(
    "given", [{"prefill": ["--kv-transfer-config", NIXL]}, {"engine": "Custom"}], ids=["vLLM", "one of the user's own"]
)
def test_engines_without_a_flag_for_it_are_not_told_what_to_move_caches_by(given):
    assert transfer_backend(context("prefill-decode", **given)) == ""


def test_nothing_is_known_of_engines_whose_server_is_the_users_own():
    assert phase_fault(context("prefill-decode", engine="Custom")) is None


def test_a_connector_that_cannot_be_read_is_named_and_agrees_with_any():
    found = context("prefill-decode", decode_=["--kv-transfer-config", "{"])
    why = "engine decode: --kv-transfer-config is not JSON"
    assert (phase_fault(found), can_render(found)) == (None, why)


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


def connectors(found):
    """Of the engines, by workload."""
    told = {}
    for key, item in render(found)[0].items():
        if key.startswith("workload-"):
            containers = item.target.manifest["spec"]["template"]["spec"]["containers"]
            (engine,) = (each for each in containers if each["name"] == "engine")
            told[key] = json.loads(engine["args"][engine["args"].index("--kv-transfer-config") + 1])
    return told


def test_without_a_fast_network_caches_stay_in_the_nodes_memory_too():
    told = connectors(context("prefill-decode", share=SHARE))
    both = {"kv_role": "kv_both"}
    host = {"kv_connector": "OffloadingConnector", **both, "kv_connector_extra_config": {"cpu_bytes_to_use": 16 << 30}}
    parts = [{"kv_connector": "NixlConnector", **both}, host]
    whole = {"kv_connector": "MultiConnector", **both, "kv_connector_extra_config": {"connectors": parts}}
    assert told == dict.fromkeys(("workload-decode-deployment", "workload-prefill-deployment"), whole)


@pytest.mark.parametrize(
    "given",
    [
        pytest.param({}, id="no share of the node is known"),
        pytest.param({"share": SHARE, "fabric": "RoCE"}, id="a fast network"),
        pytest.param({"share": SHARE, "fabric": "EFA"}, id="another fast network"),
        pytest.param({"share": SHARE, "fabric": ("RoCE", "None")}, id="one pool has a fast network"),
        pytest.param({"share": SHARE, "earlier_defaults": True}, id="as an earlier release rendered it"),
        pytest.param({"share": SHARE, "prefill": ["--kv-offloading-size", "8"]}, id="the args of one say a size"),
    ],
)
def test_otherwise_caches_are_only_moved(given):
    found = connectors(context("prefill-decode", **given))
    assert found["workload-prefill-deployment"] == {"kv_connector": "NixlConnector", "kv_role": "kv_both"}


def test_a_connector_of_one_side_is_not_joined_by_another_on_the_other():
    found = connectors_of_decode(prefill=["--kv-transfer-config", NIXL])
    assert found == {"kv_connector": "NixlConnector", "kv_role": "kv_both"}


def connectors_of_decode(**given):
    found = context("prefill-decode", share=SHARE, **given)
    return connectors(found)["workload-decode-deployment"]


def test_a_limit_of_memory_leaves_no_room_for_caches():
    found = context("prefill-decode", share=SHARE)
    limited = Resources(limits={"memory": "8Gi"})

    def member(each):
        spec = each.template.spec
        containers = tuple(replace(container, resources=limited) for container in spec.containers)
        return replace(each, template=replace(each.template, spec=replace(spec, containers=containers)))

    engine = found.replica.spec.engines[0]
    assert host_cache(found, engine.members[0]) == 16 << 30
    assert host_cache(found, member(engine.members[0])) == 0


def test_dynamos_workers_know_connectors_by_name_and_get_no_further_one():
    found = context("prefill-decode", share=SHARE)
    spec = found.cluster.spec
    dynamo = replace(found.cluster, spec=replace(spec, backend=replace(spec.backend, type_="Dynamo")))
    member = found.replica.spec.engines[0].members[0]
    assert host_cache(dataclasses.replace(found, cluster=dynamo), member) == 0


def test_pods_of_vllm_that_an_earlier_release_rendered_stay(scene):
    made = scene("prefill-decode")
    made.replica = with_share(made.replica, SHARE)
    cluster = decode(InferenceCluster, made.required["cluster"][0])
    images = RELEASE_IMAGES.for_cluster(cluster)
    before = render(Context(made.replica, cluster, images=images, earlier_defaults=True))[0]
    kept = {key: item.target for key, item in before.items() if key.startswith("workload-")}
    assert "OffloadingConnector" not in str(kept)
    assert "OffloadingConnector" in str(made.compose().desired)
    made.observed = {key: Observed(item.target, ready=True) for key, item in before.items()}
    after = {key: item.target for key, item in made.compose().desired.items() if key.startswith("workload-")}
    assert after == kept != {}
