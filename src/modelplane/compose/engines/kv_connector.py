"""How vLLM moves KV caches from prefill to decode: NIXL, unless the args say otherwise.

Where the network is slow, what was computed or moved once is kept in the node's memory as well, so that a prompt with a
known beginning moves less.

An engine that is not told of a connector answers all the same: decode computes the whole prompt again, and nothing
shows it.
"""

import json

from modelplane.api.reasons import Reason
from modelplane.compose.context import RenderError
from modelplane.compose.engines.launch import CacheTransfer, LaunchRequest, flag_value

_FLAG = "--kv-transfer-config"
_NIXL_CONNECTOR = "NixlConnector"
_NIXL = f'{{"kv_connector":"{_NIXL_CONNECTOR}","kv_role":"kv_both"}}'
_SEVERAL = "MultiConnector"
"""May have the other side's connector among its own."""
_OFFLOADING_FLAGS = "--kv-offloading"
_OTHER_SIDE = {"Prefill": "kv_consumer", "Decode": "kv_producer"}


def kv_transfer(request: LaunchRequest) -> tuple[str, ...]:
    """The words that we add."""
    if request.phase is None or any(arg.startswith(f"{_FLAG}.") for arg in request.args):
        return ()
    given = flag_value(request.args, _FLAG)
    if given is None:
        return _FLAG, _with_host_cache(request.host_cache) if _offloads(request) else _NIXL
    fault = _fault(given, request.phase)
    if fault is not None:
        raise RenderError(Reason.INVALID, f"engine {request.engine}: {_FLAG} {fault}")
    return ()


def _offloads(request: LaunchRequest) -> bool:
    """What the args say of offloading wins."""
    return bool(request.host_cache) and not any(arg.startswith(_OFFLOADING_FLAGS) for arg in request.args)


def _with_host_cache(size: int) -> str:
    both = {"kv_role": "kv_both"}
    host = {"kv_connector": "OffloadingConnector", **both, "kv_connector_extra_config": {"cpu_bytes_to_use": size}}
    connectors = [{"kv_connector": _NIXL_CONNECTOR, **both}, host]
    whole = {"kv_connector": _SEVERAL, **both, "kv_connector_extra_config": {"connectors": connectors}}
    return json.dumps(whole, separators=(",", ":"))


def _fault(given: str, phase: str) -> str | None:
    try:
        config = json.loads(given)
    except ValueError:
        return "is not JSON"
    if not isinstance(config, dict) or not config.get("kv_connector"):
        return "names no kv_connector"
    if config.get("kv_role") == _OTHER_SIDE[phase]:
        return f"has the role {_OTHER_SIDE[phase]}, and the engine's phase is {phase}"
    return None


def _said(words: tuple[str, ...]) -> str | None:
    given = flag_value(words, _FLAG)
    if given is None:
        return flag_value(words, f"{_FLAG}.kv_connector") or _NIXL_CONNECTOR
    try:
        config = json.loads(given)
    except ValueError:
        return None
    found = config.get("kv_connector") if isinstance(config, dict) else None
    return found if isinstance(found, str) and found != _SEVERAL else None


CONNECTOR = CacheTransfer("kv_connector", _said)
