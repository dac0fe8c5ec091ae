"""Observed is input: one property for each composer.

From a state that it reached, any inputs are dropped, emptied, shortened, repeated, aged or garbled. Nothing that was
composed and exists leaves, it stays the object that it was, and no condition says more than was read. What a result
adds is composed too, and the damaged inputs are composed once more: a successor must not drive out what serves.
"""

from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from modelplane.api.codec import decode
from modelplane.api.errors import InputError
from modelplane.api.models import InferenceClass, InferenceCluster, InferenceGateway
from modelplane.api.objects import name_of
from modelplane.compose.clouds import CLOUDS
from modelplane.compose.contract import ComposeRequest, ComposeResult, Helm, Local, Observed
from modelplane.compose.fleet_snapshot import fleet_of
from modelplane.compose.readiness import has_condition, serves
from modelplane.compose.registry import COMPOSERS
from tests.support import settled
from tests.support.damage import damaged, damages

HOSTS = ("usage-", "access-", "tenant-", "copy-")
"""Keys of what the host adds."""
pytestmark = pytest.mark.slow


@dataclass(frozen=True)
class Case:
    state: settled.State
    tree: dict
    observed: dict[str, Observed]
    result: ComposeResult

    def fetched(self, name):
        return self.tree["required"].get(name)

    def condition(self, kind):
        (found,) = [condition for condition in self.result.conditions if condition.type == kind]
        return found.status.value

    def kept(self):
        return {key: _target_identity(desired.target) for key, desired in self.result.desired.items()}


def _target_identity(target):
    return (target.release,) if isinstance(target, Helm) else _identity(target.manifest)


def _stated_identity(target, item):
    """Of an object as it was desired last."""
    if isinstance(target, Helm):
        return (item["metadata"]["annotations"]["crossplane.io/external-name"],)
    return _identity(item if isinstance(target, Local) else item["spec"]["forProvider"]["manifest"])


def _identity(manifest):
    return manifest.get("apiVersion"), manifest.get("kind"), name_of(manifest)


def composed(state, tree, **fleet):
    """The result for damaged inputs, and for those again once what it added serves."""
    first = _compose(state, tree, **fleet)
    added = first.result.desired.keys() - first.observed.keys()
    if not added:
        return [first]
    more = {key: _serving(first.result.desired[key]) for key in added}
    return [first, _compose(state, tree, more, **fleet)]


def _compose(state, tree, more=None, **fleet):
    observed = {
        key: settled.CACHES.read_back(item).observed
        for key, item in tree["composed"].items()
        if not key.startswith(HOSTS)
    }
    entry = COMPOSERS[state.composite["kind"]]
    resource, seen = decode(entry.resource, state.composite), {**observed, **(more or {})}
    request = ComposeRequest(resource, seen, tree["required"], now=settled.NOW, **fleet)
    return Case(state, tree, observed, entry.compose(request))


def _serving(desired):
    if isinstance(desired.target, Helm):
        return Observed(desired.target, ready=True)
    manifest = settled.as_observed(desired.target.manifest)
    return Observed(Local(manifest, desired.target.ready_when), ready=True)


def assert_all_stay(case, gone=""):
    """All that is observed but what is below a prefix: what a decision that names it took."""
    observed = {key: item for key, item in case.observed.items() if not gone or not key.startswith(gone)}
    before = {key: _stated_identity(item.target, case.state.resources[key]) for key, item in observed.items()}
    kept = case.kept()
    assert before.keys() <= kept.keys()
    # An object that is passed on as it was observed is what it was, whatever was observed of it.
    changed = {key for key, item in observed.items() if case.result.desired[key].target is not item.target}
    assert {key: kept[key] for key in changed} == {key: before[key] for key in changed}
    kinds = [condition.type for condition in case.result.conditions]
    assert len(set(kinds)) == len(kinds)


FLEETS = [("b", 1, 8), ("b", 2, 8), ("bc", 3, 4), ("bc", 4, 8), ("bcd", 4, 1)]
"""Clusters, replicas, and devices of a replica."""


@pytest.mark.parametrize("shape", FLEETS)
@given(chosen=damages())
@settings(max_examples=100)
def test_no_replica_or_endpoint_of_a_deployment_leaves(shape, chosen):
    state = settled.deployment(*shape)
    for case in composed(state, damaged(state.tree, state.places, chosen)):
        assert_all_stay(case)
        _assert_deployment(case)


def _assert_deployment(case):
    lists = [case.fetched(name) for name in ("clusters", "replicas", "caches")]
    if None in lists:
        assert case.condition("ReplicasScheduled") == "Unknown"
        return
    listed = {name_of(item) for item in case.fetched("clusters") if _reads(InferenceCluster, item)}
    placed = {item["spec"]["clusterName"] for item in settled.replicas_of(case.state.composed)}
    if not placed <= listed | {name_of(item) for item in case.fetched("clusters")}:
        assert case.condition("ReplicasScheduled") == "Unknown"
    serving = sum(serves(item.manifest) for key, item in case.observed.items() if key.startswith("replica-"))
    assert case.result.status.ready_replicas <= serving + len(case.result.desired) - len(case.observed)
    if case.condition("ReplicasReady") == "True":
        assert case.result.status.ready_replicas >= case.state.composite["spec"]["replicas"]


def _reads(kind, item):
    try:
        decode(kind, item)
    except InputError:
        return False
    return True


@pytest.mark.parametrize("shape", FLEETS)
@given(chosen=damages())
@settings(max_examples=60)
def test_no_replica_or_endpoint_of_a_deployment_leaves_when_the_live_fleet_differs(shape, chosen):
    state = settled.deployment(*shape)
    tree = damaged(state.tree, state.places, chosen)
    fleet = fleet_of(tree["required"].get("clusters", ()), tree["required"].get("replicas", ()))
    for case in composed(state, {**tree, "required": {}}, fleet=fleet):
        assert_all_stay(case)


REPLICAS = [
    ("single-gpu", "native"),
    ("single-gpu", "pool"),
    ("single-gpu", "kserve"),
    ("qwen3-coder-lora", "native"),
    ("pipeline-2", "native"),
    ("pipeline-2", "kserve"),
    ("kimi-k2-5p3d", "native"),
]


@pytest.mark.parametrize("shape", REPLICAS)
@given(chosen=damages())
@settings(max_examples=50)
def test_no_object_of_a_replica_leaves_or_changes(shape, chosen):
    _assert_replica(settled.replica(*shape), chosen)


@pytest.mark.parametrize("backend", ["native", "pool", "kserve"])
@given(chosen=damages())
@settings(max_examples=40)
def test_no_claim_of_a_replica_leaves_during_an_update(backend, chosen):
    _assert_replica(settled.updated_replica(backend), chosen)


def _assert_replica(state, chosen):
    for case in composed(state, damaged(state.tree, state.places, chosen)):
        assert_all_stay(case)
        for key, item in case.observed.items():
            if case.result.desired[key].target is not item.target:
                wanted = state.resources[key]["spec"]["forProvider"]["manifest"]
                assert case.result.desired[key].target.manifest == wanted
        clusters = case.fetched("cluster")
        if not clusters or not _reads(InferenceCluster, {**clusters[0], "status": {}}):
            assert case.condition("Scheduled") != "True"
        waiting = [key for key, item in case.result.desired.items() if key.startswith("workload") and not item.ready]
        assert (case.condition("WorkloadReady") == "True") is not bool(waiting)


@pytest.mark.parametrize("shape", [("None", ""), ("Volcano", "a"), ("Kueue", "aab"), ("KAI", "ab")])
@given(chosen=damages())
@settings(max_examples=80)
def test_no_object_or_pool_of_a_cluster_leaves(shape, chosen):
    state = settled.cluster(*shape)
    for case in composed(state, damaged(state.tree, state.places, chosen)):
        assert_all_stay(case)
        published = decode(InferenceCluster, state.composite).status.gpu_pools
        assert [pool.name for pool in case.result.status.gpu_pools] == [pool.name for pool in published]
        assert all(pool.devices for pool in case.result.status.gpu_pools)
        classes = case.fetched("class-h200")
        if not classes or not _reads(InferenceClass, classes[0]):
            devices = [[device.name for device in pool.devices] for pool in case.result.status.gpu_pools]
            assert devices == [[device.name for device in pool.devices] for pool in published]
            assert case.condition("ClusterReady") != "True"


@pytest.mark.parametrize("source", [*CLOUDS, "Existing"])
@given(chosen=damages())
@settings(max_examples=25)
def test_nothing_of_a_cluster_that_was_made_or_equipped_leaves(source, chosen):
    state = settled.made_cluster(source)
    for case in composed(state, damaged(state.tree, state.places, chosen)):
        assert_all_stay(case)
        if source != "Existing" and not all(item.ready for item in case.observed.values()):
            kept = [key for key, item in case.observed.items() if key.startswith("cloud-") and not item.ready]
            assert (case.condition("Provisioned") == "True") is not bool(kept)


@given(chosen=damages())
@settings(max_examples=150)
def test_no_object_of_a_collector_leaves(chosen):
    state = settled.collected_cluster()
    assert {"telemetry-collector", "telemetry-secret-cred"} <= state.composed.keys()
    for case in composed(state, damaged(state.tree, state.places, chosen)):
        assert_all_stay(case)
        if case.condition("TelemetryReady") == "True":
            assert case.result.desired["telemetry-collector"].ready


SERVICES = [("a", "replica"), ("aab", "replica"), ("abcc", "named"), ("ab", "credential"), ("", "replica")]


@pytest.mark.parametrize("shape", SERVICES)
@given(chosen=damages(), is_asked=st.booleans())
@settings(max_examples=60)
def test_no_backend_of_a_service_leaves(shape, chosen, is_asked):
    state = settled.service(*shape)
    tree = damaged(state.tree, state.places, chosen)
    (case,) = composed(state, tree)
    if is_asked:
        truth = {name_of(item): item for item in state.required["endpoints"]}
        asked = {key: wanted for key, wanted in case.result.requirements.items() if key.startswith("endpoint-")}
        found = {key: (truth[wanted.name],) for key, wanted in asked.items() if wanted.name in truth}
        (case,) = composed(state, {**tree, "required": {**found, **tree["required"]}})
    assert_all_stay(case)
    before, after = (
        _backends(item) for item in (state.resources["route"], case.result.desired["route"].target.manifest)
    )
    if settled_route(case):
        assert before.keys() <= after.keys()
    if case.condition("EndpointsResolved") == "True":
        read = [item for key in case.tree["required"] if key.startswith("endpoint") for item in case.fetched(key)]
        assert any(has_condition(item, "Ready") for item in read)


def settled_route(case):
    """Whether the spec of the observed route is what it was. It is not damaged, only its status is."""
    return case.observed["route"].manifest.get("spec") == case.state.composed["route"]["spec"]


def _backends(route):
    return {item["name"]: item for rule in route["spec"]["rules"] for item in rule.get("backendRefs", ())}


@pytest.mark.parametrize("urls", ["replica", "named", "credential"])
@given(chosen=damages())
@settings(max_examples=70)
def test_no_object_of_an_endpoint_leaves(urls, chosen):
    state = settled.endpoint(urls)
    for case in composed(state, damaged(state.tree, state.places, chosen)):
        assert_all_stay(case)
        if urls == "credential" and not case.fetched("secret"):
            assert case.condition("RouteReady") != "True"


@pytest.mark.parametrize("secure", [True, False])
@given(chosen=damages())
@settings(max_examples=50)
def test_the_gateway_of_the_fleet_stays(secure, chosen):
    state = settled.gateway(secure=secure)
    for case in composed(state, damaged(state.tree, state.places, chosen)):
        assert_all_stay(case)


@given(chosen=damages())
@settings(max_examples=100)
def test_no_key_of_a_caller_leaves(chosen):
    state = settled.keyed_gateway()
    for case in composed(state, damaged(state.tree, state.places, chosen)):
        assert_all_stay(case)
        wanted = case.result.desired
        assert wanted["caller-keys"].target.manifest["data"] == state.resources["caller-keys"]["data"]
        assert wanted["callers"].target.manifest["spec"] == state.resources["callers"]["spec"]


@given(chosen=damages())
@settings(max_examples=100)
def test_no_object_of_a_gateway_on_a_cluster_leaves(chosen):
    state = settled.cluster_gateway()
    for case in composed(state, damaged(state.tree, state.places, chosen)):
        assert_all_stay(case)
        clusters = case.fetched("cluster")
        if not clusters or not _reads(InferenceCluster, {**clusters[0], "status": {}}):
            assert case.condition("GatewayReady") != "True"
        if case.condition("GatewayReady") == "True":
            assert case.result.desired["cluster/gateway"].ready


@pytest.mark.parametrize("beside", [True, False])
@pytest.mark.parametrize("shape", [("a", "replica"), ("aab", "replica"), ("ab", "credential")])
@given(chosen=damages())
@settings(max_examples=60)
def test_nothing_of_a_service_at_a_gateway_on_a_cluster_leaves(shape, beside, chosen):
    state = settled.service_at_cluster(*shape, beside=beside)
    for case in composed(state, damaged(state.tree, state.places, chosen)):
        assert_all_stay(case, gone="eu/" if _is_gone(case, "gateways", "gateway-eu") else "")
        listed = [item for item in case.fetched("gateways") or () if _reads(InferenceGateway, item)]
        if case.condition("RouteReady") == "True" and "eu" in map(name_of, listed):
            assert case.result.desired["eu/route"].ready


def _is_gone(case, listed, named):
    """Whether a list was read without it and nothing was found by its name: that is how a deletion looks."""
    found = case.fetched(listed)
    return found is not None and not any(name_of(item) == "eu" for item in found) and case.fetched(named) == ()


@pytest.mark.parametrize("stage", ["fetching", "staged", "relayed", "beside"])
@given(chosen=damages())
@settings(max_examples=60)
def test_no_volume_or_job_of_a_cache_leaves(stage, chosen):
    state = settled.model_cache(stage)
    for case in composed(state, damaged(state.tree, state.places, chosen)):
        assert_all_stay(case)
        listed = case.fetched("clusters")
        assert {key.split("-")[1] for key in case.result.desired} == {"east", "west"}
        if listed is None or case.fetched("replicas") is None:
            assert case.result.status is None
            assert case.condition("ClustersMatched") == "Unknown"
        if stage == "fetching":
            assert case.condition("ArtifactReady") != "True"
