"""Routing headers are the picker's: what a client sends of them never goes on."""

import pytest

from modelplane.epp.scheduling.headers import spoofed_headers

ROUTING = (
    "x-gateway-destination-endpoint",
    "x-gateway-destination-endpoint-subset",
    "x-gateway-destination-endpoint-served",
    "x-gateway-destination-endpoint-scores",
    "x-prefiller-host-port",
    "x-prefiller-url",
    "x-encoder-hosts-ports",
    "x-data-parallel-host-port",
    "x-kv-cache-source-host-port",
)


@pytest.mark.parametrize("name", ROUTING)
def test_each_is_removed_unless_the_picker_writes_it(name):
    sent = {name: "10.0.0.1:80", "x-request-id": "r", "authorization": "Bearer t"}
    assert spoofed_headers(sent, ()) == (name,)
    assert spoofed_headers(sent, ((name, "10.0.0.2:80"),)) == ()


def test_all_at_once():
    assert spoofed_headers(dict.fromkeys(ROUTING, "x"), (("x-prefiller-url", "y"),)) == tuple(
        sorted(set(ROUTING) - {"x-prefiller-url"})
    )
    assert spoofed_headers({"x-request-id": "r"}, ()) == ()
