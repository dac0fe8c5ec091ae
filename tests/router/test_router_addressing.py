import pytest

from modelplane.epp.scheduling.requests import InferenceApi
from modelplane.router.addressing import FrontPath, read_path, upstream_path

CHAT, MESSAGES, OTHER = InferenceApi.CHAT, InferenceApi.MESSAGES, InferenceApi.OTHER


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/v1/chat/completions", FrontPath("", "/v1/chat/completions", CHAT)),
        ("/v1/messages?beta=true", FrontPath("", "/v1/messages?beta=true", MESSAGES)),
        ("/anthropic/v1/messages", FrontPath("", "/v1/messages", MESSAGES)),
        ("/team/chat/v1/chat/completions", FrontPath("team/chat", "/v1/chat/completions", CHAT)),
        ("/team/chat/anthropic/v1/messages", FrontPath("team/chat", "/v1/messages", MESSAGES)),
        ("/team/chat/tokenize", FrontPath("team/chat", "/tokenize", OTHER)),
        ("/v1x/chat/completions", FrontPath("v1x/chat", "/completions", InferenceApi.COMPLETIONS)),
        ("/team/chat", None),
        ("/", None),
        ("/team//v1/models", None),
        ("*", None),
        ("/tëam/chat/v1/models", None),
    ],
)
def test_a_path_says_whom_a_request_is_for(path, expected):
    assert read_path(path) == expected


@pytest.mark.parametrize(
    ("rest", "prefix", "expected"),
    [
        ("/v1/chat/completions", "/v1", "/v1/chat/completions"),
        ("/v1/chat/completions?x=1", "/openai/v1", "/openai/v1/chat/completions?x=1"),
        ("/v1/models", "", "/models"),
        ("/v1", "/", "/"),
        ("/tokenize", "/openai/v1", "/tokenize"),
        ("/v1beta/x", "/openai/v1", "/v1beta/x"),
    ],
)
def test_a_prefix_takes_the_place_of_v1(rest, prefix, expected):
    assert upstream_path(rest, prefix) == expected


def test_the_list_of_models_is_known_by_its_path():
    assert [read_path(path).lists_models for path in ("/v1/models", "/v1/models/?limit=3", "/v1/models/x")] == [
        True,
        True,
        False,
    ]
