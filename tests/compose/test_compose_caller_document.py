"""What callers may do, as a gateway says it and as the router reads it."""

import json

import msgspec
import pytest

from modelplane.api.codec import decode
from modelplane.api.models import InferenceGateway
from modelplane.compose.caller_document import Caller, CallerDocument, gateway_callers, write_callers


def gateway(*callers, auth=True):
    keys = {"method": "APIKey", "apiKey": {"secretSelector": {"matchLabels": {"a": "b"}}}, "callers": list(callers)}
    spec = {"auth": keys} if auth else {}
    item = {"apiVersion": "modelplane.ai/v1alpha1", "kind": "InferenceGateway", "metadata": {"name": "door"}}
    return decode(InferenceGateway, {**item, "spec": spec})


ADA = {
    "name": "ada",
    "services": ["chat/*"],
    "requestsPerMinute": 60,
    "tokensPerMinute": 1000,
    "monthlyBudget": "12.50",
}


@pytest.mark.parametrize(
    ("given", "names", "made"),
    [
        (gateway(auth=False), ["ada"], ()),
        (gateway(), ["bob", "ada"], (Caller("ada"), Caller("bob"))),
        (
            gateway(ADA, {"name": "gone"}, {"name": "eve", "tokensPerMinute": 5}),
            ["bob", "eve", "ada"],
            (
                Caller("ada", services=("chat/*",), requests_per_minute=60, tokens_per_minute=1000, budget=12.5),
                Caller("bob"),
                Caller("eve", tokens_per_minute=5),
            ),
        ),
    ],
    ids=["no keys", "no limits", "limits of one, and of one without a key"],
)
def test_callers_of_a_gateway(given, names, made):
    assert gateway_callers(given, names) == CallerDocument(made, checks_keys=False)


def test_a_document_that_says_nothing_else_checks_keys_and_a_caller_has_no_limits():
    found = msgspec.json.decode(b'{"callers": [{"name": "ada"}]}', type=CallerDocument)
    ada = Caller("ada", digests=(), services=("*",), requests_per_minute=0, tokens_per_minute=0, budget=0.0)
    assert found == CallerDocument((ada,), checks_keys=True)


def test_only_services_restrict():
    assert gateway_callers(gateway(ADA), ["ada"]).restricts
    assert gateway_callers(gateway(ADA), ["ada", "bob"]).restricts
    assert not gateway_callers(gateway({"name": "ada", "requestsPerMinute": 1}), ["ada"]).restricts


def test_the_document_has_no_key():
    text = write_callers(gateway_callers(gateway({"name": "ada", "requestsPerMinute": 1}), ["ada", "bob"]))
    callers = [{"name": "ada", "requestsPerMinute": 1}, {"name": "bob"}]
    assert json.loads(text) == {"callers": callers, "checksKeys": False}


@pytest.mark.parametrize(
    ("services", "expected"),
    [
        (("*",), [True, True, True]),
        (("chat/*",), [True, True, False]),
        (("chat/small",), [True, False, False]),
        (("chat/small", "code/*"), [True, False, True]),
        ((), [False, False, False]),
    ],
)
def test_which_services_a_caller_may_call(services, expected):
    caller = Caller("ada", services=services)
    assert [caller.may_call(service) for service in ("chat/small", "chat/large", "code/small")] == expected
