"""Tenants do not interfere: pairs of them with names that look alike, on one cluster and behind one gateway."""

import json
from functools import cache

import msgspec
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from modelplane.api.codec import decode
from modelplane.api.models import ModelService
from modelplane.api.names import is_dns_label
from modelplane.api.objects import name_of, namespace_of
from modelplane.compose import model_service
from modelplane.compose.context import remote_namespace, replica_header
from modelplane.compose.contract import ComposeRequest
from tests.compose.conftest import Scene, make_cache, make_originals, make_scene
from tests.support import settled

labels = st.text("ab-0", min_size=1, max_size=63).filter(is_dns_label)
"""Few letters, so that one name is often the beginning or the end of another."""
SHAPES = ("single-gpu", "tensor-8", "kimi-k2-5p3d")


@st.composite
def pairs(draw):
    first, second = draw(labels), draw(labels)
    assume(first != second)
    return first, second


known_scene = cache(make_scene)


def of_tenant(shape, namespace, name):
    """The replica of a shape as another tenant's, with what it asks for."""
    scene = known_scene(shape)
    metadata = msgspec.structs.replace(scene.replica.metadata, namespace=namespace, name=name)
    replica = msgspec.structs.replace(scene.replica, metadata=metadata)
    caches = {f"cache-{mount.name}": (make_cache(mount.name, namespace),) for mount in replica.spec.caches}
    return Scene(replica, {"cluster": scene.required["cluster"], **caches, **make_originals(replica)})


def rendered(shape, namespace, name):
    return [desired.target.manifest for desired in of_tenant(shape, namespace, name).compose().desired.values()]


@given(pairs(), labels, labels)
def test_no_two_tenants_share_a_namespace_on_a_cluster_or_a_way_to_their_replicas(tenants, one, other):
    first, second = tenants
    assert remote_namespace(first) != remote_namespace(second)
    assert is_dns_label(remote_namespace(first))
    replicas = [of_tenant("single-gpu", *each).replica for each in ((first, one), (second, other))]
    headers = [replica_header(each)["value"] for each in replicas]
    assert headers[0] != headers[1]


@settings(max_examples=30)
@given(pairs(), st.sampled_from(["chat", "a", "b"]), st.sampled_from(SHAPES))
def test_what_is_rendered_for_a_tenant_lies_in_its_namespace_and_names_no_other(tenants, name, shape):
    first, second = tenants
    items = rendered(shape, first, name)
    assert items
    own, foreign = remote_namespace(first), json.dumps(remote_namespace(second))
    for item in items:
        home = name_of(item) if item["kind"] == "Namespace" else namespace_of(item)
        assert home == own, item["kind"]
        assert foreign not in json.dumps(item)
    places = [
        {(str(item["kind"]), namespace_of(item), name_of(item)) for item in found}
        for found in (items, rendered(shape, second, name))
    ]
    assert not places[0] & places[1]


@given(labels, labels)
def test_a_service_asks_for_endpoints_of_its_own_namespace_only(tenant, name):
    state = settled.service("aab", "replica")
    metadata = {**state.composite["metadata"], "namespace": tenant, "name": name}
    service = decode(ModelService, {**state.composite, "metadata": metadata})
    result = model_service.compose(ComposeRequest(service, {}, {}, now=settled.NOW))
    asked = [each for each in result.requirements.values() if each.kind == "ModelEndpoint"]
    assert [each.namespace for each in asked] == [tenant] * len(asked)
    assert asked
