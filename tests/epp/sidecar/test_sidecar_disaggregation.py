"""Legs of requests, compared whole, and which addresses may be called."""

import pytest

from modelplane.api.errors import InputError
from modelplane.epp.sidecar.disaggregation import (
    Allowlist,
    choose_prefiller,
    is_cache_miss,
    nixl_decode_request,
    nixl_prefill_request,
    prefill_request,
    read_body,
    sglang_request,
    shared_decode_request,
    shared_prefill_request,
)

CHAT, RESPONSES, GENERATE = "/v1/chat/completions", "/v1/responses", "/inference/v1/generate"


@pytest.mark.parametrize(
    ("path", "body", "expected"),
    [
        (CHAT, {"model": "m"}, {"model": "m", "stream": False, "max_tokens": 1}),
        (
            CHAT,
            {"stream": True, "stream_options": {"include_usage": True}, "max_tokens": 9, "max_completion_tokens": 9},
            {"stream": False, "max_tokens": 1, "max_completion_tokens": 1},
        ),
        (RESPONSES, {"max_output_tokens": 9}, {"stream": False, "max_output_tokens": 1}),
        (RESPONSES, {}, {"stream": False, "max_output_tokens": 1}),
        (
            GENERATE,
            {"sampling_params": {"max_tokens": 9, "seed": 1}},
            {"stream": False, "sampling_params": {"max_tokens": 1, "seed": 1}},
        ),
        (GENERATE, {"sampling_params": None}, {"stream": False, "sampling_params": {"max_tokens": 1}}),
    ],
)
def test_a_prefill_request_is_for_one_token_and_not_streamed(path, body, expected):
    before = dict(body)
    assert prefill_request(body, path) == expected
    assert body == before


def test_nixl():
    assert nixl_prefill_request({"a": 1}, CHAT) == {
        "a": 1,
        "stream": False,
        "max_tokens": 1,
        "kv_transfer_params": {
            "do_remote_decode": True,
            "do_remote_prefill": False,
            "remote_engine_id": None,
            "remote_block_ids": None,
            "remote_host": None,
            "remote_port": None,
        },
    }
    assert nixl_decode_request({"a": 1}, b'{"kv_transfer_params": {"x": [1]}}') == {
        "a": 1,
        "kv_transfer_params": {"x": [1]},
    }
    for reply in (b"{}", b"no json", b"[]", b'{"kv_transfer_params": null}'):
        assert nixl_decode_request({"a": 1}, reply) == {"a": 1}


def test_shared_storage():
    body = {"cache_hit_threshold": 0.8}
    assert shared_prefill_request(body, CHAT) == {"cache_hit_threshold": 0, "stream": False, "max_tokens": 1}
    assert shared_decode_request(body) == {"cache_hit_threshold": 0}
    assert shared_prefill_request({}, CHAT) == {"stream": False, "max_tokens": 1}
    assert shared_decode_request({"a": 1}) == {"a": 1}


@pytest.mark.parametrize(
    ("response", "expected"),
    [
        (b'{"choices": [{"finish_reason": "cache_threshold"}]}', True),
        (b'{"choices": [{"finish_reason": "stop"}]}', False),
        (b'data: {"choices": [{"finish_reason": "cache_threshold"}]}\n\n', True),
        (b': hello\n\ndata:{"choices": [{"finish_reason": null}]}\n\n', False),
        (b"data: [DONE]\n\n", False),
        (b'{"choices": "cache_threshold"}', False),
        (b'{"choices": ["cache_threshold"]}', False),
        (b"", False),
    ],
)
def test_a_cache_miss_is_recognised(response, expected):
    assert is_cache_miss(response) is expected


def test_sglang():
    expected = {"a": 1, "bootstrap_host": "10.0.0.1", "bootstrap_port": 8998, "bootstrap_room": 7}
    assert sglang_request({"a": 1}, "10.0.0.1:8000", 8998, 7) == expected
    assert sglang_request({}, "[fd00::1]:8000", 8998, 7)["bootstrap_host"] == "fd00::1"


@pytest.mark.parametrize(
    ("header", "chance", "expected"),
    [("", None, ""), (" , ", None, ""), ("a:1, b:2", None, "a:1"), ("a:1,b:2", 0.99, "b:2"), ("a:1,b:2", 0.0, "a:1")],
)
def test_the_prefill_server(header, chance, expected):
    assert choose_prefiller(header, None if chance is None else lambda: chance) == expected


def test_bodies_that_are_no_objects():
    assert [read_body(text) for text in (b"[]", b"{", b"\xff", b'{"a": 1}')] == [None, None, None, {"a": 1}]


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("10.0.0.1:8000", True),
        ("10.0.0.1:8001", False),
        ("10.0.0.2:8000", False),
        ("[fd00::1]:8000", True),
        ("[FD00::1]:8000", True),
        ("fd00::1:8000", False),
        ("any.example:1", True),
        ("any.example:0", False),
        ("10.0.0.1", False),
        ("10.0.0.1:", False),
        ("10.0.0.1:80000", False),
        ("10.0.0.1:8000/path", False),
        ("user@10.0.0.1:8000", False),
        ("10.0.0.1:8000@evil:1", False),
        ("", False),
        ("10.0.0.1:٨", False),
    ],
)
def test_only_listed_addresses_with_their_ports_may_be_called(address, expected):
    assert Allowlist(["10.0.0.1:8000", "[fd00::1]:8000", "any.example:0"]).allows(address) is expected


def test_a_bad_entry_of_the_list_is_named():
    with pytest.raises(InputError, match=r"'10\.0\.0\.1' is not host:port"):
        Allowlist(["10.0.0.1"])
