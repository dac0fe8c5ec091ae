"""The protocol, message by message."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelplane.api.errors import InputError
from modelplane.cli._mcp_session import HANDSHAKE_VERSIONS, VERSIONS, McpSession, ToolOutput
from modelplane.cli._mcp_tools import McpTool

ECHO = McpTool("echo", "Says it again.", {"text": {"type": "string"}}, ("text",), lambda _arguments: [])
META = "io.modelcontextprotocol/protocolVersion"


def called(tool, arguments):
    if "text" not in arguments:
        raise InputError("echo needs the argument 'text'")
    return ToolOutput(f"{tool.name} {arguments['text']}", {"said": arguments["text"]}, arguments["text"] == "bad")


def answer(message):
    line = message if isinstance(message, bytes) else json.dumps(message).encode()
    found = McpSession([ECHO], called).answer(line)
    if found is None:
        return None
    assert found.endswith(b"\n")
    assert found.count(b"\n") == 1
    return json.loads(found)


def result(method, **params):
    found = answer({"jsonrpc": "2.0", "id": 7, "method": method, "params": params})
    assert (found["jsonrpc"], found["id"], found["result"].pop("resultType")) == ("2.0", 7, "complete")
    return found["result"]


@pytest.mark.parametrize(
    ("asked", "spoken"),
    [(version, version) for version in HANDSHAKE_VERSIONS] + [("1999-01-01", HANDSHAKE_VERSIONS[0])],
)
def test_a_client_gets_its_version_or_the_newest(asked, spoken):
    found = result("initialize", protocolVersion=asked, capabilities={}, clientInfo={"name": "c", "version": "1"})
    assert found.pop("instructions").startswith("Tools of a fleet")
    assert found.pop("serverInfo")["name"] == "modelplane"
    assert found == {"protocolVersion": spoken, "capabilities": {"tools": {"listChanged": False}}}


def test_a_client_of_the_newer_form_discovers_the_server():
    found = result("server/discover", _meta={META: VERSIONS[0]})
    assert (found["supportedVersions"], found["ttlMs"], found["cacheScope"]) == (list(VERSIONS), 0, "private")


def test_tools_are_listed_as_reading_only():
    found = result("tools/list")
    assert found == {
        "tools": [
            {
                "name": "echo",
                "description": "Says it again.",
                "inputSchema": {
                    "type": "object",
                    "properties": {"text": {"type": "string"}},
                    "required": ["text"],
                    "additionalProperties": False,
                },
                "annotations": {
                    "readOnlyHint": True,
                    "destructiveHint": False,
                    "idempotentHint": True,
                    "openWorldHint": False,
                },
            }
        ],
        "ttlMs": 0,
        "cacheScope": "private",
    }


def test_a_call_has_text_and_value():
    assert result("tools/call", name="echo", arguments={"text": "hi"}) == {
        "content": [{"type": "text", "text": "echo hi"}],
        "isError": False,
        "structuredContent": {"said": "hi"},
    }


@pytest.mark.parametrize(("arguments", "text"), [({"text": "bad"}, "echo bad"), ({}, "echo needs the argument 'text'")])
def test_a_tool_that_fails_says_so_to_the_assistant(arguments, text):
    found = result("tools/call", name="echo", arguments=arguments)
    assert (found["isError"], found["content"][0]["text"]) == (True, text)


def test_ping():
    assert result("ping") == {}


@pytest.mark.parametrize(
    ("message", "code", "identity"),
    [
        (b"{", -32700, None),
        (b"\xff", -32700, None),
        (b"[" * 100_000, -32700, None),
        (b"[]", -32600, None),
        (b'{"id": 1, "method": "ping"}', -32600, None),
        (b'{"jsonrpc": "2.0", "id": [1], "method": "ping"}', -32600, None),
        (b'{"jsonrpc": "2.0", "id": true, "method": "ping"}', -32600, None),
        (b'{"jsonrpc": "2.0", "id": "a", "method": "resources/list"}', -32601, "a"),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "ping", "params": []}', -32602, 1),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "rm"}}', -32602, 1),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "echo", "arguments": 5}}', -32602, 1),
    ],
    ids=range(11),
)
def test_what_is_wrong_has_the_code_of_json_rpc(message, code, identity):
    found = answer(message)
    assert (found["id"], found["error"]["code"], bool(found["error"]["message"])) == (identity, code, True)


def test_a_tool_that_is_mistyped_is_guessed():
    found = answer({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "ehco"}})
    assert found["error"]["message"] == "there is no tool 'ehco'; did you mean echo?"


def test_a_version_that_is_not_spoken_is_refused_with_those_that_are():
    found = answer({"jsonrpc": "2.0", "id": 1, "method": "ping", "params": {"_meta": {META: "2099-01-01"}}})
    assert found["error"]["code"] == -32022
    assert found["error"]["data"] == {"supported": [*VERSIONS, *HANDSHAKE_VERSIONS], "requested": "2099-01-01"}


@pytest.mark.parametrize(
    "message",
    [
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}},
        {"jsonrpc": "2.0", "id": 3, "result": {}},
    ],
)
def test_notifications_and_responses_are_not_answered(message):
    assert answer(message) is None


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=10), inner, max_size=3),
    max_leaves=8,
)
METHODS = st.sampled_from(["initialize", "server/discover", "ping", "tools/list", "tools/call", "other"]) | VALUES
MESSAGES = st.fixed_dictionaries(
    {"jsonrpc": st.just("2.0")},
    optional={
        "id": VALUES,
        "method": METHODS,
        "params": st.fixed_dictionaries(
            {}, optional={"name": st.just("echo") | VALUES, "arguments": VALUES, "_meta": VALUES}
        )
        | VALUES,
    },
)


@given(
    MESSAGES.map(lambda message: json.dumps(message).encode())
    | VALUES.map(lambda v: json.dumps(v).encode())
    | st.binary()
)
def test_no_message_stops_the_server(line):
    found = answer(line)
    assert found is None or ("result" in found) != ("error" in found)
