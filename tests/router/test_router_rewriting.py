import json

import pytest

from modelplane.epp.scheduling.requests import InferenceApi
from modelplane.router.addressing import read_path
from modelplane.router.rewriting import ToAnthropic, ToOpenAi, can_serve, upstream_request
from modelplane.router.translation.values import TranslationError
from tests.router.conftest import endpoint, provider

BODY = b'{"model": "m", "messages": []}'
CLAUDE = provider("claude", schema="Anthropic", prefix="/api/v1")


def test_a_body_without_another_model_stays():
    found = upstream_request(read_path("/v1/chat/completions"), endpoint("a"), "m", "", BODY)
    assert (found.path, found.body, found.translator) == ("/v1/chat/completions", None, None)
    assert upstream_request(read_path("/v1/completions"), endpoint("a"), "m", "m", BODY).body is None


def test_chat_for_anthropic_is_translated():
    found = upstream_request(read_path("/v1/chat/completions"), CLAUDE, "m", "opus", BODY)
    assert found.path == "/v1/messages"
    assert json.loads(found.body) == {"model": "opus", "messages": [], "max_tokens": 4096}
    assert found.set_headers == (("anthropic-version", "2023-06-01"),)
    assert isinstance(found.translator, ToOpenAi)


def test_messages_for_openai_are_translated_and_for_anthropic_are_not():
    found = upstream_request(read_path("/v1/messages"), endpoint("a"), "m", "engine", BODY)
    assert (found.path, json.loads(found.body)["model"]) == ("/v1/chat/completions", "engine")
    found = upstream_request(read_path("/anthropic/v1/messages"), CLAUDE, "m", "opus", BODY)
    assert (found.path, json.loads(found.body)["model"], found.translator) == ("/v1/messages", "opus", None)


def test_what_anthropic_does_not_have_is_refused():
    assert not can_serve(InferenceApi.EMBEDDINGS, "Anthropic")
    with pytest.raises(TranslationError, match="/v1/embeddings is not served by the model's provider"):
        upstream_request(read_path("/v1/embeddings"), CLAUDE, "m", "opus", BODY)


def test_a_whole_response_is_translated_at_its_end():
    translator = ToAnthropic("m")
    assert translator.begin(200, {"content-type": "application/json"}) == (("content-type", "application/json"),)
    body = b'{"id": "c", "choices": [{"message": {"content": "hi"}, "finish_reason": "stop"}]}'
    assert translator.feed(body[:10]) == b""
    assert json.loads(translator.feed(body[10:], ends=True))["content"] == [{"type": "text", "text": "hi"}]


def test_an_error_is_translated_and_so_is_what_is_no_json():
    for translator, name in ((ToAnthropic("m"), "type"), (ToOpenAi("m", clock=lambda: 1.0), "error")):
        translator.begin(400, {})
        assert name in json.loads(translator.feed(b'{"error": {"message": "no"}}', ends=True))
        translator.begin(200, {})
        assert "no JSON" in translator.feed(b"<html>", ends=True).decode()
