"""Prefill and decode must move KV caches in the same way: by one engine, one connector and one backend.

Each engine is told what is right for its phase by itself. What users write on one side only is seen here: engines that
do not agree start, and every request fails.
"""

import json
from collections.abc import Mapping
from typing import Final

from modelplane.api.models import ReplicaEngine
from modelplane.compose.context import Context, head_member
from modelplane.compose.engines.kv_connector import KV_TRANSFER, NIXL_CONNECTOR
from modelplane.compose.engines.launch import flag_value
from modelplane.compose.engines.sglang import BOOTSTRAP, BOOTSTRAP_PORT, TRANSFER_BACKEND
from modelplane.compose.fabric_domains import fabric_type
from modelplane.compose.ports import engine_container

_SEVERAL: Final = "MultiConnector"
"""May have the other side's connector among its own."""
_HOW: Final[Mapping[str, str]] = {"vLLM": "kv_connector", "SGLang": TRANSFER_BACKEND}


def phase_fault(context: Context) -> str | None:
    """Why the phases of a replica cannot work together."""
    engines = context.replica.spec.engines
    known = [engine for engine in engines if engine.type_ in _HOW and not engine_container(head_member(engine)).command]
    if not context.disaggregated or len(known) < len(engines):
        return None
    types = {engine.type_ for engine in known}
    if len(types) > 1:
        return f"{_listed({engine.name: engine.type_ for engine in known})}: they cannot exchange KV caches"
    ways = {engine.name: _way(engine) for engine in known}
    if len({way for way in ways.values() if way is not None}) > 1:
        return f"{_HOW[known[0].type_]} differs: {_listed({name: way or 'the default' for name, way in ways.items()})}"
    return None


def transfer_backend(context: Context) -> str:
    """What SGLang's engines are told to move KV caches by: as one of them says, or NIXL; empty for their own choice.

    Their own choice, Mooncake, opens RDMA queues whatever the network is. NIXL uses what there is.
    """
    if not context.disaggregated or context.earlier_defaults:
        return ""
    engines = context.replica.spec.engines
    given = next((found for engine in engines if (found := flag_value(_words(engine), TRANSFER_BACKEND))), None)
    if given is not None:
        return given
    pools = {head_member(engine).node_pool_name for engine in engines}
    has_verbs = all(fabric_type(context.cluster, pool) == "InfiniBand" for pool in pools)
    return "" if has_verbs else "nixl"


def bootstrap_port(context: Context) -> str:
    """Where SGLang's prefill engines wait for decode engines."""
    prefill = (engine for engine in context.replica.spec.engines if engine.phase == "Prefill")
    found = (flag_value(_words(engine), BOOTSTRAP) for engine in prefill)
    return next((port for port in found if port), BOOTSTRAP_PORT)


def _way(engine: ReplicaEngine) -> str | None:
    """How it moves caches, by what the user wrote; None where nothing is known."""
    if engine.type_ == "SGLang":
        return flag_value(_words(engine), TRANSFER_BACKEND)
    given = flag_value(_words(engine), KV_TRANSFER)
    if given is None:
        dotted = flag_value(_words(engine), f"{KV_TRANSFER}.kv_connector")
        return dotted if dotted is not None else NIXL_CONNECTOR
    try:
        config = json.loads(given)
    except ValueError:
        return None
    found = config.get("kv_connector") if isinstance(config, dict) else None
    return found if isinstance(found, str) and found != _SEVERAL else None


def _words(engine: ReplicaEngine) -> tuple[str, ...]:
    container = engine_container(head_member(engine))
    return (*container.command, *container.args)


def _listed(found: Mapping[str, str]) -> str:
    return ", ".join(f"{name} is {what}" for name, what in found.items())
