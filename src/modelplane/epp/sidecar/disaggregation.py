"""Prefill on one server, decode on another: the requests to each, for each KV connector. Pure.

    nixlv2            prefill, then decode. The prefill server keeps the blocks and returns their location, which goes
                      into the decode request.
    shared-storage    prefill, then decode; the cache goes through shared storage. A request with
                      `cache_hit_threshold` is sent to the decoder first, which stops with `cache_threshold` if
                      too little is cached.
    sglang            both at once; the servers connect at a bootstrap address, in a numbered room.

A prefill leg is the request for one token, not streamed.
"""

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum

import msgspec

from modelplane.api.errors import InputError

PATHS = frozenset(
    ("/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/messages", "/inference/v1/generate")
)
"""Paths that are disaggregated; other requests go to the local server unchanged."""
THRESHOLD = "cache_hit_threshold"
TRANSFER = "kv_transfer_params"
_CACHE_MISS = "cache_threshold"
_LIMITS = ("max_tokens", "max_completion_tokens", "max_output_tokens")
_LAST_PORT = 65535

Body = Mapping[str, object]


class Connector(StrEnum):
    NIXL = "nixlv2"
    SHARED_STORAGE = "shared-storage"
    SGLANG = "sglang"


def read_body(text: bytes) -> dict[str, object] | None:
    """The request; None if it is not a JSON object, or too deep. The server rejects that."""
    try:
        return msgspec.json.decode(text, type=dict[str, object])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def prefill_request(body: Body, path: str) -> dict[str, object]:
    """The request for one token, not streamed."""
    sent = {name: value for name, value in body.items() if name != "stream_options"}
    sent["stream"] = False
    if path.endswith("/generate"):
        sampling = body.get("sampling_params")
        sent["sampling_params"] = {**(sampling if isinstance(sampling, dict) else {}), "max_tokens": 1}
        return sent
    wanted = "max_output_tokens" if path.endswith("/responses") else "max_tokens"
    return sent | {name: 1 for name in _LIMITS if name in body or name == wanted}


def nixl_prefill_request(body: Body, path: str) -> dict[str, object]:
    remote = dict.fromkeys(("remote_engine_id", "remote_block_ids", "remote_host", "remote_port"))
    return prefill_request(body, path) | {TRANSFER: {"do_remote_decode": True, "do_remote_prefill": False, **remote}}


def nixl_decode_request(body: Body, reply: bytes) -> dict[str, object]:
    """The request with the transfer parameters of the prefill server; unchanged if there are none."""
    response = read_body(reply)
    found = None if response is None else response.get(TRANSFER)
    return dict(body) if found is None else {**body, TRANSFER: found}


def shared_prefill_request(body: Body, path: str) -> dict[str, object]:
    return prefill_request(body, path) | ({THRESHOLD: 0} if THRESHOLD in body else {})


def shared_decode_request(body: Body) -> dict[str, object]:
    return {**body, THRESHOLD: 0} if THRESHOLD in body else dict(body)


def is_cache_miss(response: bytes) -> bool:
    """Whether a response, or the first event of a streamed one, reports that too little was cached."""
    for line in response.splitlines() if response.lstrip().startswith((b"data:", b"event:", b":")) else (response,):
        found = read_body(line.removeprefix(b"data:"))
        choices = None if found is None else found.get("choices")
        if isinstance(choices, list) and any(
            isinstance(choice, dict) and choice.get("finish_reason") == _CACHE_MISS for choice in choices
        ):
            return True
    return False


def sglang_request(body: Body, prefiller: str, port: int, room: int) -> dict[str, object]:
    """The request for both servers, with their bootstrap address."""
    host = prefiller.rpartition(":")[0].strip("[]")
    return {**body, "bootstrap_host": host, "bootstrap_port": port, "bootstrap_room": room}


def choose_prefiller(header: str, chance: Callable[[], float] | None = None) -> str:
    """The first address of a list, or with `chance` any of them; empty if the list is."""
    listed = [each for part in header.split(",") if (each := part.strip())]
    if not listed:
        return ""
    return listed[int(chance() * len(listed))] if chance else listed[0]


class Allowlist:
    """Addresses that a header may name. Without it any client could make the sidecar connect to any address.

    An address is allowed with its port, unless it is listed with port 0.
    """

    def __init__(self, addresses: Sequence[str]) -> None:
        self._allowed = {_split(address) for address in addresses}

    def allows(self, address: str) -> bool:
        try:
            host, port = _split(address)
        except InputError:
            return False
        return port > 0 and ((host, port) in self._allowed or (host, 0) in self._allowed)


def _split(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    bare = host.removeprefix("[").removesuffix("]").lower()
    good = bare and port.isascii() and port.isdigit() and int(port) <= _LAST_PORT
    if not good or (":" in bare) != host.startswith("[") or set(bare) & set("/@?#% \\"):
        raise InputError(f"{address!r} is not host:port")
    return bare, int(port)
