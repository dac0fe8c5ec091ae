"""Disaggregated prefill and decode: the fields of the requests, and the leases on KV blocks.

The protocol is that of vLLM's NIXL connector, which llm-d's sidecar uses. The prefill request has `kv_transfer_params:
{do_remote_decode: true}` and `max_tokens: 1`; its engine keeps the blocks of the prompt under a lease, and its response
has `kv_transfer_params` with their location. The decode request carries those; its engine takes blocks of its own,
waits for the copy, releases the remote blocks and computes only the last token of the prompt.

Engines of one process find each other in an `EngineRegistry`. A copy from an unknown engine takes its time and
succeeds, and its lease expires.
"""

from collections.abc import Callable
from typing import Protocol

import msgspec

from modelplane.sim.engine.config import EngineConfig
from modelplane.sim.engine.sequence import RemoteCache, Sequence


class KvTransferParams(msgspec.Struct, kw_only=True):
    """The kv_transfer_params of a request; unknown fields of other connectors are ignored."""

    do_remote_decode: bool = False
    do_remote_prefill: bool = False
    remote_engine_id: str | None = None
    remote_request_id: str | None = None
    remote_block_ids: list[int | str | list[int | str]] | None = None
    remote_host: str | None = None
    remote_port: int | None = None
    remote_num_tokens: int | None = None


class KvHolder(Protocol):
    """An engine that may keep a prompt's blocks for others."""

    def keeps(self, request: str) -> bool: ...

    def release(self, request: str) -> None: ...


class EngineRegistry:
    """The engines of one process by their id."""

    def __init__(self) -> None:
        self._keepers: dict[str, KvHolder] = {}

    def join(self, engine: str, keeper: KvHolder) -> None:
        self._keepers[engine] = keeper

    def leave(self, engine: str) -> None:
        self._keepers.pop(engine, None)

    def find(self, engine: str | None) -> KvHolder | None:
        return None if engine is None else self._keepers.get(engine)


def remote_cache(
    params: KvTransferParams, *, prompt_tokens: int, config: EngineConfig, exchange: EngineRegistry
) -> RemoteCache | None:
    """The remote cache of a decode request; None if it has to compute everything."""
    transfer = config.kv_transfer
    if transfer is None or not params.do_remote_prefill or not params.remote_block_ids:
        return None
    keeper, request = exchange.find(params.remote_engine_id), params.remote_request_id or ""
    tokens = params.remote_num_tokens or len(_flat(params.remote_block_ids)) * config.block_size
    return RemoteCache(
        tokens=min(tokens, prompt_tokens),
        latency_s=transfer.latency_ms / 1000 / config.speed,
        seconds_per_token=config.kv_bytes_per_token / (transfer.gb_per_s * 1e9) / config.speed,
        is_there=(lambda: keeper.keeps(request)) if keeper else (lambda: True),
        fetched=_releasing(keeper, request),
    )


def transfer_params(
    sequence: Sequence, *, engine: str, address: tuple[str, int], tensor_parallel: int
) -> dict[str, object]:
    """The kv_transfer_params of a prefill response, for the decode request."""
    host, port = address
    return {
        "do_remote_prefill": True,
        "do_remote_decode": False,
        "remote_block_ids": list(sequence.blocks),
        "remote_engine_id": engine,
        "remote_request_id": sequence.key,
        "remote_host": host,
        "remote_port": port,
        "remote_num_tokens": sequence.computed,
        "tp_size": tensor_parallel,
    }


def _releasing(keeper: KvHolder | None, request: str) -> Callable[[], None]:
    return (lambda: keeper.release(request)) if keeper else (lambda: None)


def _flat(blocks: list[int | str | list[int | str]]) -> list[int | str]:
    """One list of blocks, or one for each group of caches of which the first counts."""
    first = blocks[0]
    return first if isinstance(first, list) else [block for block in blocks if not isinstance(block, list)]
