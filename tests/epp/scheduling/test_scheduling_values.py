"""Values of the request path that are plain classes: all their fields, what changes of a copy, and what does not."""

import pytest

from modelplane.epp.scheduling.decisions import Decision
from modelplane.epp.scheduling.endpoints import Endpoint
from modelplane.epp.scheduling.metrics import Adapters, EndpointMetrics
from modelplane.epp.scheduling.outcomes import Outcome
from modelplane.epp.scheduling.parsed import Parsed
from modelplane.epp.scheduling.producers.matches import PrefixMatch
from modelplane.epp.scheduling.requests import InferenceApi, Request
from modelplane.epp.scheduling.response_usage import ResponseUsage
from modelplane.epp.scheduling.responses import EndpointResponse

A, B = Endpoint("a", "10.0.0.1:80"), Endpoint("b", "10.0.0.2:80")
WHOLE = {
    Request: {
        "id": "r1", "model": "m", "api": InferenceApi.MESSAGES, "prompts": (b"p",), "headers": {"a": "b"},
        "priority": -1, "fairness_id": "f", "size": 7, "max_output_tokens": 9, "streaming": True, "salt": "s",
        "has_media": True,
        "subset": ("10.0.0.1:80",), "ttft_goal_s": 0.5, "tpot_goal_s": 0.25, "received_s": 3.0, "token_ids": ((1, 2),),
    },
    Decision: {
        "outcome": Outcome.PICKED, "groups": ((A,), (B,)), "profile": "decode", "others": (("prefill", (B,)),),
        "set_headers": (("h", "v"),), "remove_headers": ("x",), "response_headers": (("y", "z"),),
        "addresses": ("10.0.0.3:80",), "shadows": (("shadow", (A,)),), "why": "because", "cached_tokens": 5,
    },
    EndpointResponse: {
        "endpoint": A, "status": 200, "started_s": 1.0, "first_byte_s": 2.0, "ended_s": 3.0,
        "usage": ResponseUsage(1, 2, 3), "given_up": True,
    },
    PrefixMatch: {
        "total_blocks": 4, "block_size": 64, "matched": [1, 2], "weighted": [0.5, 1.5], "chains": ((1, 2),),
        "lengths": (2,),
    },
}  # fmt: skip


def fields_of(value):
    return {name: getattr(value, name) for name in WHOLE[type(value)]}


@pytest.mark.parametrize("kind", WHOLE, ids=lambda kind: kind.__name__)
def test_each_has_what_it_was_made_with_by_name_and_by_place(kind):
    given = WHOLE[kind]
    assert fields_of(kind(**given)) == fields_of(kind(*given.values())) == given


@pytest.mark.parametrize("kind", [Request, Decision], ids=lambda kind: kind.__name__)
def test_a_change_is_of_another_one(kind):
    before = kind(next(iter(WHOLE[kind].values())))
    bare = fields_of(before)
    for name, value in WHOLE[kind].items():
        assert (fields_of(before.changed(**{name: value})), fields_of(before)) == (bare | {name: value}, bare)
    with pytest.raises(TypeError, match=r"unknown|12 given|18 given"):  # interpreted, compiled
        before.changed(unknown=1)


def test_what_is_sent_has_its_cached_tokens_and_all_else():
    before = Decision(**WHOLE[Decision])
    assert fields_of(before.sent(640)) == WHOLE[Decision] | {"cached_tokens": 640}
    assert before.cached_tokens == 5


def test_a_response_of_another_endpoint_is_the_same_otherwise():
    assert fields_of(EndpointResponse(**WHOLE[EndpointResponse]).by(B)) == WHOLE[EndpointResponse] | {"endpoint": B}


def test_what_people_read_has_all_fields():
    assert repr(Decision(Outcome.EXCLUDED, why="no room")) == (
        "Decision(outcome=<Outcome.EXCLUDED: ('Excluded', 503, 'rejected-no-endpoints')>, groups=(), profile='', "
        "others=(), set_headers=(), remove_headers=(), response_headers=(), addresses=(), shadows=(), why='no room', "
        "cached_tokens=0)"
    )
    assert repr(Request("r1", "m")) == (
        "Request(id='r1', model='m', api=<InferenceApi.CHAT: 'chat/completions'>, prompts=(), "
        "headers=mappingproxy({}), priority=0, fairness_id='', size=0, max_output_tokens=0, streaming=False, salt='', "
        "has_media=False, subset=None, ttft_goal_s=0.0, tpot_goal_s=0.0, received_s=0.0, token_ids=())"
    )


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (
            EndpointResponse(A, 200, 1.0),
            {
                "endpoint": A, "status": 200, "started_s": 1.0, "first_byte_s": -1.0, "ended_s": -1.0,
                "usage": ResponseUsage(-1, -1, -1), "given_up": False,
            },
        ),
        (
            PrefixMatch(4, 64, [1]),
            {"total_blocks": 4, "block_size": 64, "matched": [1], "weighted": None, "chains": (), "lengths": ()},
        ),
    ],
    ids=["response", "match"],
)  # fmt: skip
def test_what_is_not_given(value, expected):
    assert fields_of(value) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (ResponseUsage(), ResponseUsage(prompt_tokens=-1, output_tokens=-1, cached_tokens=-1)),
        (
            Parsed(),
            Parsed(model="", prompts=(), streaming=False, max_output_tokens=0, salt="", has_media=False),
        ),
        (Adapters(), Adapters(running=frozenset(), waiting=frozenset(), most=0)),
        (
            EndpointMetrics(),
            EndpointMetrics(
                waiting=0.0, running=0.0, kv_cache_usage=0.0, block_size=0, blocks=0, adapters=Adapters(),
                models=frozenset(), scraped_s=-1.0, requests_at_scrape=0, tokens_at_scrape=0, refused_scrapes=0,
            ),
        ),
    ],
    ids=["usage", "parsed", "adapters", "metrics"],
)  # fmt: skip
def test_what_is_not_known(value, expected):
    assert value == expected


@pytest.mark.parametrize(
    ("prompts", "token_ids", "found"),
    [((), (), (0, 0)), ((b"12345", b"678"), (), (8, 2)), ((b"12345",), ((1, 2, 3),), (5, 3))],
    ids=["nothing", "bytes", "tokens"],
)
def test_the_size_of_the_prompts(prompts, token_ids, found):
    request = Request("r", prompts=prompts, token_ids=token_ids)
    assert (request.prompt_bytes, request.tokens) == found


def test_apis_are_told_by_these_words():
    assert list(InferenceApi) == [
        "chat/completions", "completions", "responses", "embeddings", "messages", "generate", "other"
    ]  # fmt: skip
