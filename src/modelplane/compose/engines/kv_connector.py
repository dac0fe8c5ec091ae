"""How vLLM moves KV caches from prefill to decode: NIXL, unless the args say otherwise.

An engine that is not told of a connector answers all the same: decode computes the whole prompt again, and nothing
shows it.
"""

import json

from modelplane.api.reasons import Reason
from modelplane.compose.context import RenderError
from modelplane.compose.engines.launch import LaunchRequest, flag_value

KV_TRANSFER = "--kv-transfer-config"
NIXL_CONNECTOR = "NixlConnector"
_NIXL = f'{{"kv_connector":"{NIXL_CONNECTOR}","kv_role":"kv_both"}}'
_OTHER_SIDE = {"Prefill": "kv_consumer", "Decode": "kv_producer"}


def kv_transfer(request: LaunchRequest) -> tuple[str, ...]:
    """The words that we add."""
    if request.phase is None or any(arg.startswith(f"{KV_TRANSFER}.") for arg in request.args):
        return ()
    given = flag_value(request.args, KV_TRANSFER)
    if given is None:
        return KV_TRANSFER, _NIXL
    fault = _fault(given, request.phase)
    if fault is not None:
        raise RenderError(Reason.INVALID, f"engine {request.engine}: {KV_TRANSFER} {fault}")
    return ()


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
