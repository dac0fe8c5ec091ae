"""Prefill and decode must move KV caches in the same way: by one engine, one connector and one backend.

Each engine is told what is right for its phase by itself. What users write on one side only is seen here: engines that
do not agree start, and every request fails.
"""

from collections.abc import Mapping

from modelplane.api.models import ReplicaEngine, ReplicaMember
from modelplane.compose.context import Context, head_member
from modelplane.compose.engines import ENGINES
from modelplane.compose.engines.launch import CacheTransfer, flag_value
from modelplane.compose.fabric_domains import fabric_type
from modelplane.compose.node_share import memory_bytes
from modelplane.compose.ports import engine_container

_HOST_CACHE_PART = 4
_TRANSFER = "--kv-transfer-config"
_VERBS = frozenset({"InfiniBand", "RoCE"})
"""Networks that are used by the same library calls."""


def phase_fault(context: Context) -> str | None:
    """Why the phases of a replica cannot work together."""
    if not context.disaggregated:
        return None
    engines = context.replica.spec.engines
    known = [(engine, transfer) for engine in engines if (transfer := _transfer(engine))]
    if len(known) < len(engines):
        return None
    if len({engine.type_ for engine in engines}) > 1:
        return f"{_listed({engine.name: engine.type_ for engine in engines})}: they cannot exchange KV caches"
    said = {engine.name: transfer.said(_words(engine)) for engine, transfer in known}
    if len({way for way in said.values() if way is not None}) > 1:
        (_, transfer), *_ = known
        return f"{transfer.name} differs: {_listed({name: way or 'the default' for name, way in said.items()})}"
    return None


def transfer_backend(context: Context) -> str:
    """What engines that have a flag for it are told to move KV caches by; empty for their own choice.

    What one of them says is the other's. Otherwise it depends on the network between their nodes.
    """
    if not context.disaggregated or context.earlier_defaults:
        return ""
    engines = context.replica.spec.engines
    known = [(transfer, engine) for engine in engines if (transfer := _transfer(engine)) and transfer.without_verbs]
    said = next((found for transfer, engine in known if (found := transfer.said(_words(engine)))), None)
    if said is not None:
        return said
    pools = {head_member(engine).node_pool_name for engine in engines}
    has_verbs = all(fabric_type(context.cluster, pool) in _VERBS for pool in pools)
    return "" if has_verbs else next((transfer.without_verbs for transfer, _ in known), "")


def host_cache(context: Context, member: ReplicaMember) -> int:
    """Bytes of the node's memory that an engine keeps KV caches in; 0: none.

    Only where phases are apart, their pools have no fast network and nobody says how caches move. It is a part of what
    the pod requests by itself: a limit that a user set may be less.
    """
    if not context.disaggregated or context.earlier_defaults or member.node_share is None:
        return 0
    if context.cluster.spec.backend.type_ == "Dynamo":  # its module around vLLM knows connectors by name
        return 0
    limits = engine_container(member).resources
    if limits is not None and limits.limits:
        return 0
    engines = context.replica.spec.engines
    if any(word.startswith(_TRANSFER) for engine in engines for word in _words(engine)):
        return 0
    pools = {head_member(engine).node_pool_name for engine in engines}
    slow = all(fabric_type(context.cluster, pool) == "None" for pool in pools)
    return memory_bytes(member.node_share.memory) // _HOST_CACHE_PART if slow else 0


def bootstrap_arguments(context: Context) -> list[str]:
    """What the routing sidecar is told of where prefill engines wait for decode engines."""
    for engine in context.replica.spec.engines:
        transfer = ENGINES[engine.type_].kv_transfer if engine.phase == "Prefill" else None
        if transfer is None or not transfer.bootstrap_flag:
            continue
        port = flag_value(_words(engine), transfer.bootstrap_flag)
        return [f"{transfer.sidecar_flag}={port}"] if port and port != transfer.bootstrap_port else []
    return []


def _transfer(engine: ReplicaEngine) -> CacheTransfer | None:
    """None where the engine is told nothing by us."""
    has_command = bool(engine_container(head_member(engine)).command)
    return None if has_command else ENGINES[engine.type_].kv_transfer


def _words(engine: ReplicaEngine) -> tuple[str, ...]:
    container = engine_container(head_member(engine))
    return (*container.command, *container.args)


def _listed(found: Mapping[str, str]) -> str:
    return ", ".join(f"{name} is {what}" for name, what in found.items())
