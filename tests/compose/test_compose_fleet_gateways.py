import pytest

from modelplane.api.codec import decode
from modelplane.api.models import InferenceGateway
from modelplane.compose.fleet_gateways import (
    certificate_refs,
    gateway_object_name,
    has_router,
    is_serving,
    route_accepted,
)


def gateway(name="default", **metadata):
    tls = {"secretRef": {"name": "one"}}
    return decode(InferenceGateway, {"metadata": {"name": name, **metadata}, "spec": {"tls": tls}})


def test_each_gateway_has_a_name_of_its_own():
    names = {gateway_object_name(each) for each in (None, gateway(), gateway("eu"), gateway("modelplane"))}
    assert len(names) == 3
    assert gateway_object_name(gateway()) == "modelplane"


def test_a_gateway_that_is_deleted_serves_nothing():
    assert is_serving(gateway())
    assert not is_serving(gateway(deletionTimestamp="2026-01-01T00:00:00Z"))


KEYS = {"method": "APIKey", "apiKey": {"secretSelector": {"matchLabels": {"a": "b"}}}}
LIMITED = {**KEYS, "callers": [{"name": "ada", "requestsPerMinute": 3}]}


@pytest.mark.parametrize(
    ("spec", "embedded", "expected"),
    [
        ({}, True, False),
        ({}, False, True),
        ({"auth": KEYS}, True, False),
        ({"auth": LIMITED}, True, True),
        ({"auth": LIMITED}, False, True),
        ({"auth": LIMITED, "router": {"replicas": 0}}, True, False),
        ({"router": {}}, True, True),
        ({"router": {"replicas": 0}}, False, False),
        ({"router": {"replicas": 1}}, False, True),
    ],
)
def test_a_gateway_has_a_router_where_callers_have_rules(spec, embedded, expected):
    found = decode(InferenceGateway, {"metadata": {"name": "default"}, "spec": spec})
    assert has_router(found, embedded=embedded) is expected


def test_certificates_in_either_form():
    assert [each.name for each in certificate_refs(gateway().spec.tls)] == ["one"]
    newer = decode(
        InferenceGateway,
        {"metadata": {"name": "a"}, "spec": {"tls": {"certificateRefs": [{"name": "a"}, {"name": "b"}]}}},
    )
    assert [each.name for each in certificate_refs(newer.spec.tls)] == ["a", "b"]


def parent(name, namespace="modelplane-system", **statuses):
    conditions = [{"type": kind, "status": status} for kind, status in statuses.items()]
    reference = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"parentRef": reference, "conditions": conditions}


@pytest.mark.parametrize(
    ("parents", "expected"),
    [
        ([], False),
        ([parent("a", Accepted="True", ResolvedRefs="True")], True),
        ([parent("b", Accepted="True", ResolvedRefs="True")], False),
        ([parent("a", Accepted="True", ResolvedRefs="False")], False),
        ([parent("a", Accepted="True")], False),
        ([parent("a", None, Accepted="True", ResolvedRefs="True")], True),
        ([parent("a", "team", Accepted="True", ResolvedRefs="True")], False),
        ([{}, 7, parent("a", Accepted="True", ResolvedRefs="True")], True),
    ],
)
def test_whether_a_gateway_accepted_a_route(parents, expected):
    assert route_accepted({"status": {"parents": parents}}, "a") is expected
