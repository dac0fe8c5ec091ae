"""The Model Context Protocol as far as tools need it: a message in, a message out, without any IO.

Both forms of the protocol are spoken: that which begins with `initialize` (2024-11-05 to 2025-11-25), and that in which
every request names its version (2026-07-28). Fields that only the newer one has are ignored by clients of the older.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import msgspec

from modelplane.api.errors import InputError
from modelplane.api.version import __version__
from modelplane.cli._mcp_tools import Arguments, McpTool
from modelplane.cli._near import near_name

HANDSHAKE_VERSIONS: Final = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
"""The newest first."""
VERSIONS: Final = ("2026-07-28",)
PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND, INVALID_PARAMS = -32700, -32600, -32601, -32602
UNSUPPORTED_VERSION: Final = -32022
_VERSION_KEY: Final = "io.modelcontextprotocol/protocolVersion"
_SERVER_KEY: Final = "io.modelcontextprotocol/serverInfo"
_INFO: Final = {"name": "modelplane", "title": "Modelplane", "version": __version__}
_INSTRUCTIONS: Final = (
    "Tools of a fleet of inference clusters. All of them only read. fleet_status says what is wrong, trace and explain "
    "say why, plan and simulate say what a change would do."
)
_CAPABILITIES: Final = {"tools": {"listChanged": False}}
_CACHE: Final = {"ttlMs": 0, "cacheScope": "private"}
Json = dict[str, object]
CallTool = Callable[[McpTool, Arguments], "ToolOutput"]


class ToolOutput(msgspec.Struct, frozen=True):
    """What a call brought. `value` is the text as a JSON object, where it is one."""

    text: str
    value: object | None = None
    failed: bool = False


class _RpcError(Exception):
    def __init__(self, code: int, message: str, data: object = None) -> None:
        super().__init__(message)
        self.code = code
        self.data = data


class McpSession:
    """Answers the messages of one client. `call` runs a tool."""

    def __init__(self, tools: Sequence[McpTool], call: CallTool) -> None:
        self._tools = {tool.name: tool for tool in tools}
        self._call = call
        self._methods: Mapping[str, Callable[[Mapping[str, object]], Json]] = {
            "initialize": self._initialize,
            "server/discover": self._discover,
            "ping": lambda _params: {},
            "tools/list": self._list,
            "tools/call": self._called,
        }

    def answer(self, line: bytes) -> bytes | None:
        """The response to a message; None for a notification and for a response."""
        try:
            message = msgspec.json.decode(line)
        except (msgspec.DecodeError, RecursionError) as error:
            return _failed(None, PARSE_ERROR, f"this is no JSON: {error}")
        if not isinstance(message, dict) or message.get("jsonrpc") != "2.0":
            return _failed(None, INVALID_REQUEST, "this is no JSON-RPC 2.0 message")
        method, identity = message.get("method"), message.get("id")
        if not isinstance(method, str) or identity is None:
            return None
        if not isinstance(identity, int | str) or isinstance(identity, bool):
            return _failed(None, INVALID_REQUEST, "id is neither a number nor a string")
        try:
            result = self._answer(method, message.get("params", {}))
        except _RpcError as error:
            return _failed(identity, error.code, str(error), error.data)
        return _encode({"jsonrpc": "2.0", "id": identity, "result": {"resultType": "complete", **result}})

    def _answer(self, method: str, params: object) -> Json:
        if not isinstance(params, dict):
            raise _RpcError(INVALID_PARAMS, "params is not an object")
        _check_version(params)
        found = self._methods.get(method)
        if found is None:
            raise _RpcError(METHOD_NOT_FOUND, f"there is no method {method}")
        return found(params)

    def _initialize(self, params: Mapping[str, object]) -> Json:
        wanted = params.get("protocolVersion")
        version = wanted if wanted in HANDSHAKE_VERSIONS else HANDSHAKE_VERSIONS[0]
        about: Json = {"capabilities": _CAPABILITIES, "serverInfo": _INFO, "instructions": _INSTRUCTIONS}
        return {"protocolVersion": version, **about}

    def _discover(self, _params: Mapping[str, object]) -> Json:
        about: Json = {"capabilities": _CAPABILITIES, "instructions": _INSTRUCTIONS, "_meta": {_SERVER_KEY: _INFO}}
        return {"supportedVersions": list(VERSIONS), **about, **_CACHE}

    def _list(self, _params: Mapping[str, object]) -> Json:
        return {"tools": [tool.shown() for tool in self._tools.values()], **_CACHE}

    def _called(self, params: Mapping[str, object]) -> Json:
        tool, arguments = self._tools.get(str(params.get("name"))), params.get("arguments", {})
        if tool is None:
            wrong = str(params.get("name"))[:60]
            raise _RpcError(INVALID_PARAMS, f"there is no tool {wrong!r}{near_name(wrong, list(self._tools))}")
        if not isinstance(arguments, dict):
            raise _RpcError(INVALID_PARAMS, "arguments is not an object")
        try:
            output = self._call(tool, arguments)
        except InputError as error:
            output = ToolOutput(str(error), failed=True)
        value = {"structuredContent": output.value} if output.value is not None else {}
        return {"content": [{"type": "text", "text": output.text}], "isError": output.failed, **value}


def _check_version(params: Mapping[str, object]) -> None:
    meta = params.get("_meta")
    wanted = meta.get(_VERSION_KEY) if isinstance(meta, dict) else None
    if wanted is not None and wanted not in VERSIONS:
        data = {"supported": [*VERSIONS, *HANDSHAKE_VERSIONS], "requested": str(wanted)}
        raise _RpcError(UNSUPPORTED_VERSION, "this version of the protocol is not spoken", data)


def _failed(identity: int | str | None, code: int, message: str, data: object = None) -> bytes:
    error = {"code": code, "message": message, **({} if data is None else {"data": data})}
    return _encode({"jsonrpc": "2.0", "id": identity, "error": error})


def _encode(message: Json) -> bytes:
    return msgspec.json.encode(message) + b"\n"
