"""What a request asks for: headers, body and the rules of the pool become one value."""

import json
from types import MappingProxyType

import msgspec
import pytest

from modelplane.epp.config.config import load
from modelplane.epp.scheduling.requests import InferenceApi, Request
from modelplane.epp.server.parsing import ParseError
from modelplane.epp.server.request_reader import DEFAULT_TENANT, RequestReader, unread_request
from modelplane.epp.server.server import apis_of
from modelplane.epp.server.steps import PickRequest, Rename

BODY = json.dumps({"model": "m", "messages": [{"role": "user", "content": "hello"}], "max_tokens": 9}).encode()
HEADERS = {":method": "POST", ":path": "/v1/chat/completions", "x-request-id": "r1"}


def read(body=BODY, *, reader=None, subset=None, **headers):
    named = HEADERS | {name.replace("_", "-"): value for name, value in headers.items()}
    return (reader or RequestReader(lambda: 0.5)).read(PickRequest(named, body, True, subset), 100.0)


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({}, {}),
        (
            {
                "x_llm_d_inference_fairness_id": "team",
                "x_llm_d_slo_ttft_ms": "250",
                "x_slo_tpot_ms": "40",
                "x_gateway_inference_objective": "gold",
            },
            {"fairness_id": "team", "ttft_goal_s": 0.25, "tpot_goal_s": 0.04},
        ),
        ({"x_gateway_inference_fairness_id": "old"}, {"fairness_id": "old"}),
        ({"x_llm_d_inference_fairness_id": "new", "x_gateway_inference_fairness_id": "old"}, {"fairness_id": "new"}),
    ],
    ids=["none for the picker", "all of them", "the old name of one", "both names of one"],
)
def test_a_request_in_the_terms_of_the_picker(headers, expected):
    request, renamed = read(subset=("10.0.0.0:8000",), **headers)
    plain = Request(
        "r1",
        "m",
        InferenceApi.CHAT,
        (b"\nuser\nhello",),
        request.headers,
        fairness_id=DEFAULT_TENANT,
        size=len(BODY),
        max_output_tokens=9,
        subset=("10.0.0.0:8000",),
        received_s=100.0,
    )
    assert renamed is None
    assert repr(request) == repr(plain.changed(**expected))


@pytest.mark.parametrize("text", ["", "soon", "-5", "nan", "inf", "0"])
def test_goals_that_are_none(text):
    assert read(x_llm_d_slo_ttft_ms=text)[0].ttft_goal_s == 0.0


def test_a_request_without_an_id_gets_one():
    first, second = read(x_request_id="")[0].id, read(x_request_id="")[0].id
    assert first
    assert first != second


def test_the_path_of_the_client_wins_over_the_one_it_was_rewritten_to():
    assert read(x_original_path="/v1/completions")[0].api is InferenceApi.COMPLETIONS


def test_a_request_that_is_not_read_has_what_its_headers_say():
    found = unread_request(PickRequest(HEADERS, b"junk", True, None), 7.0)
    expected = Request("r1", api=InferenceApi.CHAT, fairness_id=DEFAULT_TENANT, size=4, received_s=7.0)
    assert repr(found) == repr(expected)


class Ruled(msgspec.Struct):
    model: str
    name: str = "rule"
    exact: bool = True


class PoolRules:
    priorities = MappingProxyType({"gold": 10})

    def rewrite(self, model, _chance):
        return Ruled("ruled") if model == "m" else None


@pytest.mark.parametrize(
    ("body", "headers", "priority", "model", "renamed"),
    [
        (BODY, {"x_llm_d_inference_objective": "gold"}, 10, "ruled", ("m", "ruled")),
        (BODY, {"x_llm_d_inference_objective": "tin"}, 0, "ruled", ("m", "ruled")),
        (BODY, {"x_llm_d_model_name_rewrite": "tuned"}, 0, "ruled", ("m", "ruled")),
        (BODY.replace(b'"m"', b'"n"'), {"x_llm_d_model_name_rewrite": "tuned"}, 0, "tuned", ("n", "tuned")),
        (BODY.replace(b'"m"', b'"n"'), {"x_llm_d_model_name_rewrite": "n"}, 0, "n", None),
    ],
    ids=["an objective", "one that nobody knows", "a rule before a header", "a header before the body", "the same"],
)
def test_rules_beside_the_pool(body, headers, priority, model, renamed):
    reader = RequestReader(lambda: 0.5)
    reader.rules = PoolRules()
    request, found = read(body, reader=reader, **headers)
    assert (request.priority, request.model) == (priority, model)
    sent = json.dumps(json.loads(body) | {"model": model}).encode()
    assert found == (None if renamed is None else Rename(found.body, *renamed))
    assert found is None or json.loads(found.body) == json.loads(sent)


PARSERS = """
apiVersion: llm-d.ai/v1alpha1
kind: EndpointPickerConfig
plugins: [{type: random-picker}, {type: anthropic-parser}, {type: passthrough-parser}]
schedulingProfiles: [{name: default, plugins: [{pluginRef: random-picker}]}]
requestHandler: {parsers: [%s]}
"""


def reader_of(text):
    reader = RequestReader(lambda: 0.5)
    reader.apis = apis_of(load(text))
    return reader


def test_a_body_that_no_configured_parser_reads_is_passed_on_where_one_passes_on():
    reader = reader_of(PARSERS % "{pluginRef: anthropic-parser}, {pluginRef: passthrough-parser}")
    request, _ = read(reader=reader)
    assert (request.api, request.model, request.prompts) == (InferenceApi.OTHER, "", ())


def test_a_body_that_no_configured_parser_reads_is_refused_else():
    text = PARSERS.replace(", {type: passthrough-parser}", "") % "{pluginRef: anthropic-parser}"
    with pytest.raises(ParseError, match="no parser is configured for this path"):
        read(reader=reader_of(text))
    models = PickRequest({":method": "GET", ":path": "/v1/models"}, b"", True, None)
    assert reader_of(text).read(models, 0.0)[0].api is InferenceApi.OTHER


@pytest.mark.parametrize("parser", ["vllmgrpc-parser", "vertexai-parser"])
def test_grpc_messages_are_not_parsed(parser):
    text = PARSERS.replace("{type: anthropic-parser}, {type: passthrough-parser}", f"{{type: {parser}}}")
    text %= f"{{pluginRef: {parser}}}"
    assert any("gRPC messages are not parsed" in str(warning) for warning in load(text).warnings)
    request, _ = read(b"\x00\x00\x00\x00\x02\x0a\x00", reader=reader_of(text))
    assert request.prompts == ()


def test_a_configuration_that_names_no_parser_reads_all():
    assert apis_of(load("apiVersion: llm-d.ai/v1alpha1\nkind: EndpointPickerConfig\n")) is None
