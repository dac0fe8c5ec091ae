"""The routing sidecar before a decode engine: the prompt goes to a prefill engine first, its cache comes from there.

As llm-d's sidecar does it with vLLM's NIXL connector: the request is sent to the prefill engine for one token and
without streaming, marked so that the engine keeps the prompt's cache; what that one says of where the cache is goes
with the request to the engine here. A picker names the prefill engine in a header. Without a name any is taken. Without
any, or when it fails, the engine here computes the prompt itself, which is slower and never wrong.
"""

from collections.abc import Callable, Mapping
from http import HTTPStatus

import aiohttp
import msgspec

PREFILL_HEADER = "x-prefiller-host-port"
"""On a request: the address of the prefill engine that a picker chose."""
PREFILLED_BY = "x-prefilled-by"
"""On an answer: who computed its prompt, where that was another engine."""

Prefillers = Callable[[str], str | None]
"""Where the prefill engine of an address really answers, as `host:port`; of the empty address, any. None: nowhere."""

_LEG = {
    "do_remote_decode": True,
    "do_remote_prefill": False,
    "remote_engine_id": None,
    "remote_block_ids": None,
    "remote_host": None,
    "remote_port": None,
}
_CONNECT_S = 2.0


class SimulatedSidecar:
    """Of one engine. Its connections are open from the first request to `close`."""

    def __init__(self, prefillers: Prefillers) -> None:
        self._prefillers = prefillers
        self._session: aiohttp.ClientSession | None = None

    async def prefilled(self, path: str, headers: Mapping[str, str], body: bytes) -> tuple[bytes, str]:
        """The request as the engine here is to see it, and who computed its prompt."""
        asked = _object(body)
        where = self._prefillers(headers.get(PREFILL_HEADER, "")) if asked is not None else None
        if asked is None or where is None or asked.get("kv_transfer_params") is not None:
            return body, ""
        found = await self._ask(f"http://{where}{path}", headers, _prefill_leg(asked))
        if found is None:
            return body, ""
        transfer, by = found
        return msgspec.json.encode({**asked, "kv_transfer_params": transfer}), by

    async def _ask(self, url: str, headers: Mapping[str, str], leg: bytes) -> tuple[object, str] | None:
        """What the prefill engine says of the cache that it keeps; None where it keeps none."""
        sent = {"Content-Type": "application/json"}
        if "x-request-id" in headers:
            sent["x-request-id"] = headers["x-request-id"]
        try:
            async with self._connected().post(url, data=leg, headers=sent) as answer:
                found = _object(await answer.read()) if answer.status == HTTPStatus.OK else None
                by = answer.headers.get("x-served-by", "")
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


def _prefill_leg(asked: Mapping[str, object]) -> bytes:
    kept = {name: value for name, value in asked.items() if name not in {"stream", "stream_options"}}
    limits: dict[str, object] = {"max_tokens": 1}
    if "max_completion_tokens" in kept:
        limits["max_completion_tokens"] = 1
    return msgspec.json.encode({**kept, **limits, "kv_transfer_params": _LEG})


def _object(body: bytes) -> dict[str, object] | None:
    """A JSON object; anything else is for the engine to refuse."""
    try:
        return msgspec.json.decode(body, type=dict[str, object])
    except msgspec.DecodeError:
        return None
