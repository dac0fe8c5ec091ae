"""Observed is input, for whole calls: what the host adds to a composer's result stays too.

From states that composites reached, any inputs are dropped, emptied, shortened, repeated, aged or garbled. Nothing that
was composed and exists leaves: no replica, endpoint, namespace of a tenant, Usage, claim, Secret or ProviderConfig.
"""

import pytest
from hypothesis import given, settings

from modelplane.compose.clouds import CLOUDS
from modelplane.compose.fleet_snapshot import fleet_of
from modelplane.crossplane.calls import NoFleetCache, answer
from tests.support import settled
from tests.support.damage import damaged, damages

pytestmark = pytest.mark.slow


NOT_NEEDED = {"Provisioned", "RequirementsMet"}
"""Conditions of a cluster that its Ready does not need: a pool without nodes displaces nothing."""


def answers(state, tree, cache=None):
    """The answer to damaged inputs, and to those again once what it added serves."""
    helm = "access-helm" in state.composed
    first = answer(state.call(tree), settled.NOW, cache, caches=settled.CACHES, helm=helm)
    yield first
    if first.resources.keys() - tree["composed"].keys():
        composed = {**settled.serving(first, tree["composed"]), **tree["composed"]}
        yield answer(state.call({**tree, "composed": composed}), settled.NOW, cache, caches=settled.CACHES, helm=helm)


def identities(resources):
    return {
        key: (item["apiVersion"], item["kind"], item["metadata"]["name"], item["metadata"].get("namespace"))
        for key, item in resources.items()
    }


def assert_all_stay(state, found, but=frozenset()):
    resources = {key: item.manifest for key, item in found.resources.items()}
    before, after = identities(state.resources), identities(resources)
    assert before.items() - {(key, before[key]) for key in but if key in before} <= after.items()
    needed = [condition for condition in found.conditions if condition.type not in NOT_NEEDED]
    assert found.ready is False or all(condition.status.value == "True" for condition in needed)


@pytest.mark.parametrize("shape", [("b", 2, 8), ("bc", 3, 4), ("bcd", 4, 1)])
@given(chosen=damages())
@settings(max_examples=50)
def test_no_replica_or_endpoint_that_serves_leaves(shape, chosen):
    state = settled.deployment(*shape)
    for found in answers(state, damaged(state.tree, state.places, chosen)):
        assert_all_stay(state, found)


@given(chosen=damages())
@settings(max_examples=50)
def test_no_replica_or_endpoint_that_serves_leaves_when_the_live_fleet_differs(chosen):
    state = settled.deployment("bc", 3, 4)
    tree = damaged(state.tree, state.places, chosen)

    class Lagging(NoFleetCache):
        def fleet(self):
            return fleet_of(tree["required"].get("clusters", ()), tree["required"].get("replicas", ()))

    for found in answers(state, {**tree, "required": {}}, Lagging()):
        assert_all_stay(state, found)


@pytest.mark.parametrize("cordoned", [True, False])
@pytest.mark.parametrize("shape", [("None", ""), ("Volcano", "a"), ("Kueue", "aab")])
@given(chosen=damages())
@settings(max_examples=40)
def test_no_namespace_usage_or_access_of_a_cluster_leaves(shape, cordoned, chosen):
    state = settled.cluster(*shape, cordoned=cordoned)
    tree = damaged(state.tree, state.places, chosen)
    # To cordon a cluster on which no replica is listed is the decision that lets it be deleted.
    decided = cordoned and tree["required"].get("replicas") == ()
    for found in answers(state, tree):
        assert_all_stay(state, found, {"usage-of-itself"} if decided else set())


@pytest.mark.parametrize("source", [*CLOUDS, "Existing"])
@given(chosen=damages())
@settings(max_examples=10)
def test_no_object_usage_or_access_of_a_cluster_that_was_made_or_equipped_leaves(source, chosen):
    state = settled.made_cluster(source)
    for found in answers(state, damaged(state.tree, state.places, chosen)):
        assert_all_stay(state, found)


@pytest.mark.parametrize(
    "shape",
    [("single-gpu", "native"), ("qwen3-coder-lora", "pool"), ("pipeline-2", "kserve"), ("kimi-k2-5p3d", "native")],
)
@given(chosen=damages())
@settings(max_examples=30)
def test_no_object_or_usage_of_a_replica_leaves_or_changes(shape, chosen):
    state = settled.replica(*shape)
    for found in answers(state, damaged(state.tree, state.places, chosen)):
        assert {key: item.manifest for key, item in found.resources.items()} == state.resources


@pytest.mark.parametrize("shape", [("aab", "replica"), ("ab", "credential")])
@given(chosen=damages())
@settings(max_examples=30)
def test_no_route_of_a_service_leaves_or_loses_a_backend(shape, chosen):
    state = settled.service(*shape)
    for found in answers(state, damaged(state.tree, state.places, chosen)):
        assert_all_stay(state, found)
        assert backends(state.resources["route"]) <= backends(found.resources["route"].manifest)


def backends(route):
    return {item["name"] for rule in route["spec"]["rules"] for item in rule.get("backendRefs", ())}


@given(chosen=damages())
@settings(max_examples=30)
def test_no_key_of_a_caller_leaves(chosen):
    state = settled.keyed_gateway()
    for found in answers(state, damaged(state.tree, state.places, chosen)):
        assert_all_stay(state, found)
        for key in ("caller-keys", "callers"):
            assert found.resources[key].manifest == state.resources[key]


@pytest.mark.parametrize(
    "state", [settled.endpoint("credential"), settled.endpoint("replica"), settled.gateway(secure=True)]
)
@given(chosen=damages())
@settings(max_examples=30)
def test_no_object_of_an_endpoint_or_gateway_leaves(state, chosen):
    for found in answers(state, damaged(state.tree, state.places, chosen)):
        assert_all_stay(state, found)
