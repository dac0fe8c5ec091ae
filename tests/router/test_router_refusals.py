import json

import pytest

from modelplane.epp.scheduling.requests import InferenceApi
from modelplane.router.refusals import FrontOutcome, FrontRefusal, answer, error_body, refuse


@pytest.mark.parametrize("outcome", list(FrontOutcome)[2:])
def test_every_refusal_has_a_shape_for_each_api(outcome):
    refusal = FrontRefusal(outcome, "because")
    openai = json.loads(error_body(refusal, InferenceApi.CHAT))["error"]
    anthropic = json.loads(error_body(refusal, InferenceApi.MESSAGES))
    assert openai.keys() == {"message", "type", "param", "code"}
    assert openai["code"]
    assert anthropic["type"] == "error"
    assert anthropic["error"]["type"] == outcome.anthropic_kind != ""


def test_what_went_wrong_inside_is_not_for_clients():
    assert b"secret" not in error_body(FrontRefusal(FrontOutcome.FAULT, "secret"), InferenceApi.CHAT)


def test_a_refusal_says_when_to_come_again():
    assert b"retry-after" in refuse(FrontRefusal(FrontOutcome.NOT_READY, "x", 3), InferenceApi.CHAT)
    assert b"www-authenticate" in refuse(FrontRefusal(FrontOutcome.UNAUTHENTICATED, "x"), InferenceApi.CHAT)
    assert b"modelplane_router" in answer(b"{}")
