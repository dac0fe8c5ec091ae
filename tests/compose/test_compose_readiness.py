"""Whether a ModelReplica serves, by its conditions."""

from types import MappingProxyType

import pytest

from modelplane.api.codec import decode, encode
from modelplane.api.models import ModelReplica
from modelplane.compose.contract import ReadyWhen
from modelplane.compose.readiness import (
    first_address,
    is_ready,
    programming_problem,
    route_problem,
    serves,
    serving_since,
    stopped_at,
)

POD = {"spec": {"containers": [{"name": "engine", "image": "i"}]}}


def replica(**held: str) -> dict:
    conditions = [{"type": kind, "status": status, "reason": "X"} for kind, status in held.items()]
    item = {
        "metadata": {"name": "r", "namespace": "n"},
        "spec": {
            "clusterName": "east",
            "engines": [{"name": "m", "members": [{"role": "Standalone", "nodePoolName": "p", "template": POD}]}],
        },
        "status": {"conditions": conditions, "address": "http://192.0.2.1"},
    }
    return encode(decode(ModelReplica, item))


@pytest.mark.parametrize(
    ("held", "expected"),
    [
        ({}, False),
        ({"WorkloadReady": "True"}, False),
        ({"WorkloadReady": "True", "RouteReady": "False"}, False),
        ({"WorkloadReady": "True", "RouteReady": "True"}, True),
        ({"WorkloadReady": "True", "RouteReady": "True", "Accepted": "False", "Ready": "False"}, True),
    ],
)
def test_a_replica_serves_while_its_workload_and_its_route_do(held, expected):
    assert serves(replica(**held)) is expected


@pytest.mark.parametrize(
    ("spec", "pods", "expected"),
    [
        ({"replicas": 0}, {}, True),
        ({"replicas": 1}, {}, False),
        ({"replicas": 1}, {"availableReplicas": 1}, True),
        ({"replicas": 2}, {"readyReplicas": 1}, True),
        ({}, {}, False),
        ({}, {"readyReplicas": 0}, False),
    ],
)
def test_a_workload_is_available_with_a_pod_where_it_wants_one(spec, pods, expected):
    available = {"conditions": [{"type": "Available", "status": "True"}], **pods}
    assert is_ready({"spec": spec, "status": available}, ReadyWhen.AVAILABLE) is expected


def test_conditions_of_an_older_generation_count_for_serving():
    item = replica(WorkloadReady="True", RouteReady="True")
    item["metadata"]["generation"] = 7
    for condition in item["status"]["conditions"]:
        condition["observedGeneration"] = 6
    assert serves(item)


AT_9, AT_10 = 1_767_258_000.0, 1_767_261_600.0


@pytest.mark.parametrize(
    ("workload", "route", "since", "stopped"),
    [
        (("True", "09"), ("True", "10"), AT_10, None),
        (("True", "10"), ("True", "09"), AT_10, None),
        (("True", None), ("True", "09"), AT_9, None),
        (("True", None), ("True", None), None, None),
        (("True", "09"), ("False", "10"), None, AT_10),
        (("False", "10"), ("False", "09"), None, AT_10),
        (("False", None), ("Unknown", "09"), None, AT_9),
        (("False", None), ("True", "09"), None, None),
    ],
)
def test_since_when_a_replica_serves_or_not(workload, route, since, stopped):
    item = replica(WorkloadReady=workload[0], RouteReady=route[0])
    for condition, (_, hour) in zip(item["status"]["conditions"], (workload, route), strict=True):
        condition["lastTransitionTime"] = f"2026-01-01T{hour}:00:00Z" if hour else ""
    assert (serving_since(item), stopped_at(item)) == (since, stopped)


def parents(*conditions):
    return {"metadata": {"generation": 2}, "status": {"parents": [{"conditions": list(each)} for each in conditions]}}


ACCEPTED = {"type": "Accepted", "status": "True", "reason": "Accepted"}
RESOLVED = {"type": "ResolvedRefs", "status": "True", "reason": "ResolvedRefs"}
LOST = {"type": "ResolvedRefs", "status": "False", "reason": "BackendNotFound", "message": "no one"}


@pytest.mark.parametrize(
    ("route", "ready", "problem"),
    [
        (parents([ACCEPTED, RESOLVED]), True, None),
        (parents([ACCEPTED, RESOLVED], [ACCEPTED, LOST]), False, "BackendNotFound: no one"),
        (parents([ACCEPTED, LOST]), False, "BackendNotFound: no one"),
        (parents([{**ACCEPTED, "observedGeneration": 1}, RESOLVED]), False, None),
        (parents([{**ACCEPTED, "observedGeneration": 2}, RESOLVED]), True, None),
        (parents([]), False, None),
        (parents(), False, None),
        ({}, False, None),
    ],
)
def test_a_route_is_in_force_when_every_parent_accepts_it(route, ready, problem):
    assert (is_ready(route, ReadyWhen.ROUTED), route_problem(route)) == (ready, problem)


@pytest.mark.parametrize(
    ("when", "item", "expected"),
    [
        (ReadyWhen.CREATED, {}, False),
        (ReadyWhen.CREATED, {"kind": "ConfigMap"}, True),
        (ReadyWhen.COMPLETE, {"status": {"conditions": [{"type": "Complete", "status": "True"}]}}, True),
        (ReadyWhen.COMPLETE, {"status": {"conditions": [{"type": "Failed", "status": "True"}]}}, False),
        (ReadyWhen.READY, {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}, True),
        (ReadyWhen.ADDRESSED, {"status": {"addresses": [{"value": "192.0.2.1"}]}}, True),
        (ReadyWhen.ADDRESSED, {"status": {}}, False),
        (ReadyWhen.AVAILABLE, {"status": {"conditions": [{"type": "Available", "status": "True"}]}}, False),
        (
            ReadyWhen.AVAILABLE,
            {"status": {"conditions": [{"type": "Available", "status": "True"}], "readyReplicas": 1}},
            True,
        ),
    ],
)
def test_when_an_object_is_ready(when, item, expected):
    assert is_ready(item, when) is expected


@pytest.mark.parametrize(
    ("kind", "status", "problem"),
    [
        ("Accepted", "False", "Invalid: no class"),
        ("Programmed", "False", "Invalid: no class"),
        ("Programmed", "True", None),
        ("Accepted", "Unknown", None),
        ("Ready", "False", None),
    ],
)
def test_why_a_gateway_does_not_serve_what_it_should(kind, status, problem):
    condition = {"type": kind, "status": status, "reason": "Invalid", "message": "no class"}
    assert programming_problem({"status": {"conditions": [{"status": "False"}, condition]}}) == problem


@pytest.mark.parametrize(
    ("addresses", "expected"),
    [
        ([{"value": "192.0.2.1"}, {"value": "192.0.2.2"}], "192.0.2.1"),
        ([{"type": "IPAddress"}, {"value": ""}, {"value": "192.0.2.2"}], "192.0.2.2"),
        ([MappingProxyType({"value": "192.0.2.1"}), "192.0.2.2"], "192.0.2.1"),
        ([{"type": "IPAddress"}], None),
        ([], None),
    ],
)
def test_the_address_of_a_gateway_is_the_first_that_has_a_value(addresses, expected):
    assert first_address({"status": {"addresses": addresses}}) == expected
