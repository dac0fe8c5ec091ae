"""The function protocol, message by message: whole requests become calls, whole results become responses."""

import pytest
from crossplane.function.proto.v1 import run_function_pb2 as fnv1

from modelplane.api.conditions import ConditionType, fails, holds, unknown
from modelplane.api.reasons import Reason
from modelplane.compose.contract import Event, EventType, Requirement
from modelplane.crossplane import messages
from modelplane.crossplane.calls import Composed, FunctionCall, FunctionResult
from modelplane.crossplane.structs import StructCodec

STRUCTS = StructCodec(2**20)
COMPOSITE = {"kind": "InferenceGateway", "metadata": {"name": "default", "uid": "g1"}, "spec": {"replicas": 2}}
GATEWAY = {"kind": "Gateway", "metadata": {"name": "g", "uid": "u", "resourceVersion": "1"}}
CLASS = {"kind": "InferenceClass", "metadata": {"name": "h200"}}


def struct(content):
    made = fnv1.Resource()
    made.resource.update(content)
    return made


def request(**fields):
    made = fnv1.RunFunctionRequest(meta=fnv1.RequestMeta(tag="t"))
    made.observed.composite.CopyFrom(struct(COMPOSITE))
    for key, item in fields.get("composed", {}).items():
        made.observed.resources[key].CopyFrom(struct(item))
    for key, items in fields.get("required", {}).items():
        made.required_resources[key].items.extend(struct(item) for item in items)
        made.required_resources[key].SetInParent()
    for key, item in fields.get("desired", {}).items():
        made.desired.resources[key].CopyFrom(struct(item))
    return made


@pytest.mark.parametrize(
    ("received", "call"),
    [
        pytest.param(request(), FunctionCall(COMPOSITE), id="a composite"),
        pytest.param(
            request(composed={"gateway": GATEWAY}), FunctionCall(COMPOSITE, {"gateway": GATEWAY}), id="with its objects"
        ),
        pytest.param(
            request(required={"class": [CLASS], "replicas": []}),
            FunctionCall(COMPOSITE, {}, {"class": (CLASS,), "replicas": ()}),
            id="fetched, and fetched without a match",
        ),
    ],
)
def test_requests(received, call):
    assert messages.read(received, STRUCTS) == call


def result(**fields):
    empty = {"resources": {}, "status": {}, "ready": False, "conditions": (), "events": (), "requirements": {}}
    return FunctionResult(**{**empty, "ttl_s": 300.0, **fields})


def response(*, composite="READY_FALSE", status=None, **fields):
    made = fnv1.RunFunctionResponse(meta=fnv1.ResponseMeta(tag="t"), **fields)
    made.meta.ttl.FromSeconds(300)
    made.context.SetInParent()
    made.desired.composite.resource.update({"status": status or {}})
    made.desired.composite.ready = fnv1.Ready.Value(composite)
    return made


def desired(**resources):
    made = response(composite="READY_TRUE")
    for key, (item, ready) in resources.items():
        made.desired.resources[key].CopyFrom(struct(item))
        made.desired.resources[key].ready = fnv1.Ready.Value(ready)
    return made


def conditions(*found):
    return response(
        conditions=[
            fnv1.Condition(
                type=kind, status=getattr(fnv1, f"STATUS_CONDITION_{status}"), reason=reason, message=message
            )
            for kind, status, reason, message in found
        ]
    )


def selectors(**found):
    made = response()
    for key, selector in found.items():
        made.requirements.resources[key].CopyFrom(selector)
    return made


LABELLED = fnv1.ResourceSelector(api_version="v1", kind="Node", match_labels=fnv1.MatchLabels(labels={"a": "b"}))
TEAM = fnv1.ResourceSelector(api_version="v1", kind="Secret", namespace="team")


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        pytest.param(result(), response(), id="nothing"),
        pytest.param(result(status={"nodes": 2}), response(status={"nodes": 2}), id="a status"),
        pytest.param(
            result(ready=True, resources={"a": Composed(GATEWAY, ready=True), "b": Composed(CLASS, ready=False)}),
            desired(a=(GATEWAY, "READY_TRUE"), b=(CLASS, "READY_FALSE")),
            id="objects and their readiness",
        ),
        pytest.param(
            result(
                conditions=(
                    holds(ConditionType.READY, Reason.AVAILABLE),
                    holds(ConditionType.ACCEPTED, Reason.ACCEPTED, "m"),
                    fails(ConditionType.ROUTE_READY, Reason.INVALID, "n"),
                    unknown(ConditionType.SCHEDULED, Reason.UNRESOLVED, "o"),
                )
            ),
            conditions(
                ("Accepted", "TRUE", "Accepted", "m"),
                ("RouteReady", "FALSE", "Invalid", "n"),
                ("Scheduled", "UNKNOWN", "Unresolved", "o"),
            ),
            id="conditions, without those that Crossplane reserves",
        ),
        pytest.param(
            result(events=(Event(EventType.WARNING, Reason.INVALID, "m"), Event(EventType.NORMAL, Reason.PLACED, "n"))),
            response(
                results=[
                    fnv1.Result(severity=fnv1.SEVERITY_WARNING, reason="Invalid", message="m"),
                    fnv1.Result(severity=fnv1.SEVERITY_NORMAL, reason="Placed", message="n"),
                ]
            ),
            id="events",
        ),
        pytest.param(
            result(
                requirements={
                    "named": Requirement("v1", "Node", name="n"),
                    "labelled": Requirement("v1", "Node", labels={"a": "b"}),
                    "within": Requirement("v1", "Secret", namespace="team"),
                }
            ),
            selectors(
                named=fnv1.ResourceSelector(api_version="v1", kind="Node", match_name="n"),
                labelled=LABELLED,
                within=TEAM,
            ),
            id="requirements",
        ),
    ],
)
def test_responses(answer, expected):
    written = messages.write(request(), FunctionCall(COMPOSITE), answer, STRUCTS)
    assert fnv1.RunFunctionResponse.FromString(written) == expected


def test_what_earlier_functions_desire_stays_unless_it_has_the_same_key():
    received = request(desired={"theirs": CLASS, "gateway": {"kind": "Old", "spec": {"gone": True}}})
    answer = result(resources={"gateway": Composed(GATEWAY, ready=False)})
    written = fnv1.RunFunctionResponse.FromString(messages.write(received, FunctionCall(COMPOSITE), answer, STRUCTS))
    found = {key: STRUCTS.decode(item.resource) for key, item in written.desired.resources.items()}
    assert found == {"theirs": CLASS, "gateway": GATEWAY}


REPORTED = {**COMPOSITE, "status": {"conditions": [{"type": messages.SIZE_CONDITION}]}}


NEAR = "the response has 3.6 MiB; Crossplane accepts 4 MiB. Split this object into several before it grows"
OVER = "the response has 4.4 MiB; Crossplane accepts 4 MiB. Nothing is changed. Split this object into several"


@pytest.mark.parametrize(
    ("share", "composite", "expected"),
    [
        pytest.param(0.5, COMPOSITE, ([], []), id="small"),
        pytest.param(0.5, REPORTED, ([("TRUE", "Fits", "")], []), id="small again"),
        pytest.param(0.9, COMPOSITE, ([("FALSE", "NearlyTooLarge", NEAR)], []), id="near the limit"),
        pytest.param(1.1, COMPOSITE, ([], [(fnv1.SEVERITY_FATAL, OVER)]), id="over it"),
    ],
)
def test_the_size_of_a_response(share, composite, expected):
    large = {"text": "x" * int(messages.MOST_BYTES * share)}
    answer = result(resources={"large": Composed(large, ready=False)})
    written = fnv1.RunFunctionResponse.FromString(messages.write(request(), FunctionCall(composite), answer, STRUCTS))
    names = {number: name.removeprefix("STATUS_CONDITION_") for name, number in fnv1.Status.items()}
    assert (
        [(names[found.status], found.reason, found.message) for found in written.conditions],
        [(found.severity, found.message) for found in written.results],
    ) == expected


def test_a_refusal_is_fatal_and_keeps_what_earlier_functions_desire():
    received = request(desired={"theirs": CLASS})
    expected = fnv1.RunFunctionResponse(meta=fnv1.ResponseMeta(tag="t"))
    expected.desired.CopyFrom(received.desired)
    expected.context.SetInParent()
    expected.results.add(severity=fnv1.SEVERITY_FATAL, message="why")
    assert fnv1.RunFunctionResponse.FromString(messages.refuse(received, "why")) == expected
