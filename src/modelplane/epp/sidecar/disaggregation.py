"""Prefill on one server, decode on another: the requests to each, for each KV connector. Pure.

    nixlv2            prefill, then decode. The prefill server keeps the blocks and answers where they are; that goes
                      into the decode leg.
    shared-storage    prefill, then decode; the cache goes through a store both know. A request with
                      `cache_hit_threshold` is tried at the decoder first, which gives up with `cache_threshold` where
                      too little is cached.
    sglang            both at once; the servers meet at a bootstrap address, in a room with a number.

A prefill leg is the request for one token, not streamed.
"""

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum

import msgspec

from modelplane.api.errors import InputError

PATHS = frozenset(
    ("/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/messages", "/inference/v1/generate")
)
"""What is worth prefilling elsewhere; all else goes to the local server as it is."""
THRESHOLD = "cache_hit_threshold"
TRANSFER = "kv_transfer_params"
_GAVE_UP = "cache_threshold"
_LIMITS = ("max_tokens", "max_completion_tokens", "max_output_tokens")
_LAST_PORT = 65535

Body = Mapping[str, object]


class Connector(StrEnum):
    NIXL = "nixlv2"
    SHARED_STORAGE = "shared-storage"
    SGLANG = "sglang"


def read_body(text: bytes) -> dict[str, object] | None:
    """The request; None where it is no JSON object, which is for the server to refuse."""
    try:
        return msgspec.json.decode(text, type=dict[str, object])
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def prefill_leg(body: Body, path: str) -> dict[str, object]:
    """The request for one token in one piece."""
    leg = {name: value for name, value in body.items() if name != "stream_options"}
    leg["stream"] = False
    if path.endswith("/generate"):
        sampling = body.get("sampling_params")
        leg["sampling_params"] = {**(sampling if isinstance(sampling, dict) else {}), "max_tokens": 1}
        return leg
    wanted = "max_output_tokens" if path.endswith("/responses") else "max_tokens"
    return leg | {name: 1 for name in _LIMITS if name in body or name == wanted}


def nixl_prefill_leg(body: Body, path: str) -> dict[str, object]:
    remote = dict.fromkeys(("remote_engine_id", "remote_block_ids", "remote_host", "remote_port"))
    return prefill_leg(body, path) | {TRANSFER: {"do_remote_decode": True, "do_remote_prefill": False, **remote}}


def nixl_decode_leg(body: Body, reply: bytes) -> dict[str, object]:
    """The request with what the prefill server said; as it was where it said nothing."""
    answer = read_body(reply)
    found = None if answer is None else answer.get(TRANSFER)
    return dict(body) if found is None else {**body, TRANSFER: found}


def shared_prefill_leg(body: Body, path: str) -> dict[str, object]:
    return prefill_leg(body, path) | ({THRESHOLD: 0} if THRESHOLD in body else {})


def shared_decode_leg(body: Body) -> dict[str, object]:
    return {**body, THRESHOLD: 0} if THRESHOLD in body else dict(body)


def gave_up(answer: bytes) -> bool:
    """Whether a response, or the first event of a streamed one, says that too little was cached."""
    for line in answer.splitlines() if answer.lstrip().startswith((b"data:", b"event:", b":")) else (answer,):
        found = read_body(line.removeprefix(b"data:"))
        choices = None if found is None else found.get("choices")
        if isinstance(choices, list) and any(
            isinstance(choice, dict) and choice.get("finish_reason") == _GAVE_UP for choice in choices
        ):
            return True
    return False


def sglang_leg(body: Body, prefiller: str, port: int, room: int) -> dict[str, object]:
    """Both legs are the same: the request, and where its servers meet."""
    host = prefiller.rpartition(":")[0].strip("[]")
    return {**body, "bootstrap_host": host, "bootstrap_port": port, "bootstrap_room": room}


def choose_prefiller(header: str, chance: Callable[[], float] | None = None) -> str:
    """The first address of a list, or with `chance` any of them; empty where the list is."""
    listed = [each for part in header.split(",") if (each := part.strip())]
    if not listed:
        return ""
    return listed[int(chance() * len(listed))] if chance else listed[0]


class Allowlist:
    """Addresses that a header may name. Without it, whoever can send a request could make the sidecar call anything.

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
        raise InputError(f"{address!r} is no host:port")
    return bare, int(port)
