"""The routing sidecar of a decode engine: a prefill engine computes the prompt, and its cache is copied.

As llm-d's sidecar with vLLM's NIXL connector: the request is sent to the prefill engine for one token, not streamed,
marked so that the engine keeps the prompt's blocks; the location that it returns goes with the request to the local
engine. A picker names the prefill engine in a header. Without a name any is taken. Without any, or if it fails, the
local engine computes the prompt itself, which is slower and never wrong.
"""

from collections.abc import Callable, Mapping
from http import HTTPStatus

import aiohttp
import msgspec

PREFILL_HEADER = "x-prefiller-host-port"
"""On a request: the address of the prefill engine that a picker chose."""
PREFILLED_BY = "x-prefilled-by"
"""On a response: the engine that computed its prompt, if it was another one."""

Prefillers = Callable[[str], str | None]
"""The `host:port` of the prefill engine of an address; of the empty address, any. None: there is none."""

_PREFILL_PARAMS = {
    "do_remote_decode": True,
    "do_remote_prefill": False,
    "remote_engine_id": None,
    "remote_block_ids": None,
    "remote_host": None,
    "remote_port": None,
}
_CONNECT_S = 2.0


class SimulatedSidecar:
    """The sidecar of one engine. Its connections stay open from the first request to `close`."""

    def __init__(self, prefillers: Prefillers) -> None:
        self._prefillers = prefillers
        self._session: aiohttp.ClientSession | None = None

    async def prefilled(self, path: str, headers: Mapping[str, str], body: bytes) -> tuple[bytes, str]:
        """The request for the local engine, and the engine that computed its prompt."""
        decoded = _object(body)
        where = self._prefillers(headers.get(PREFILL_HEADER, "")) if decoded is not None else None
        if decoded is None or where is None or decoded.get("kv_transfer_params") is not None:
            return body, ""
        found = await self._post(f"http://{where}{path}", headers, _prefill_request(decoded))
        if found is None:
            return body, ""
        transfer, by = found
        return msgspec.json.encode({**decoded, "kv_transfer_params": transfer}), by

    async def _post(self, url: str, headers: Mapping[str, str], body: bytes) -> tuple[object, str] | None:
        """The transfer parameters of the prefill engine; None if it keeps no cache."""
        sent = {"Content-Type": "application/json"}
        if "x-request-id" in headers:
            sent["x-request-id"] = headers["x-request-id"]
        try:
            async with self._connected().post(url, data=body, headers=sent) as response:
                found = _object(await response.read()) if response.status == HTTPStatus.OK else None
                by = response.headers.get("x-served-by", "")
        except (aiohttp.ClientError, OSError):
            return None
        transfer = found.get("kv_transfer_params") if found is not None else None
        return (transfer, by) if transfer is not None else None

    def _connected(self) -> aiohttp.ClientSession:
        if self._session is None:
            timeout = aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_S)
            self._session = aiohttp.ClientSession(timeout=timeout)
        return self._session

    async def close(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            await session.close()


def _prefill_request(decoded: Mapping[str, object]) -> bytes:
    kept = {name: value for name, value in decoded.items() if name not in {"stream", "stream_options"}}
    limits: dict[str, object] = {"max_tokens": 1}
    if "max_completion_tokens" in kept:
        limits["max_completion_tokens"] = 1
    return msgspec.json.encode({**kept, **limits, "kv_transfer_params": _PREFILL_PARAMS})


def _object(body: bytes) -> dict[str, object] | None:
    """A JSON object; the engine rejects anything else."""
    try:
        return msgspec.json.decode(body, type=dict[str, object])
    except msgspec.DecodeError:
        return None
