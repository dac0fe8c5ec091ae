"""SGLang: its images have no entrypoint of their own, and the server listens to its own pod alone unless told.

All nodes of a worker run the same command; only the first answers requests. Ranks that are split over nodes share one
attention-parallel group, so the tensor size counts the GPUs of all of them.
"""

from modelplane.api.reasons import Reason
from modelplane.compose.context import RenderError
from modelplane.compose.engines.launch import (
    GROUP_SIZE,
    LEADER_ADDRESS,
    RANK,
    CacheTransfer,
    Launch,
    LaunchRequest,
    flag_value,
    has_flag,
    is_path,
    names_for,
    unless_given,
    without_flag,
)
from modelplane.compose.shapes import spans_ranks

SERVE = ("python3", "-m", "sglang.launch_server")
MODEL_FLAGS, _CONFIG = ("--model-path", "--model"), "--config"
_RENDEZVOUS_PORT = 20000
_SIDE = "--disaggregation-mode"
_BOOTSTRAP, _BOOTSTRAP_PORT = "--disaggregation-bootstrap-port", "8998"
_TRANSFER_BACKEND = "--disaggregation-transfer-backend"


def launch(request: LaunchRequest) -> Launch:
    if request.coordination == "Ray":
        message = f"engine {request.engine}: SGLang finds its nodes by itself; coordination Ray belongs to vLLM"
        raise RenderError(Reason.INVALID, message)
    model, rest = _model(request)
    return Launch(
        SERVE,
        (
            *model,
            *_server(request),
            *_parallelism(request),
            *_nodes(request),
            *_adapters(request),
            *_disaggregation(request),
            *rest,
        ),
    )


def _model(request: LaunchRequest) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The model with its name, and what the user wrote besides. Weights that are mounted are not fetched again."""
    flag = next((name for name in MODEL_FLAGS if has_flag(request.args, name)), None)
    given = flag_value(request.args, flag) if flag else None
    if has_flag(request.args, _CONFIG) or (given is not None and (request.model_path is None or is_path(given))):
        return (), request.args
    if request.model_path is None:
        message = f"engine {request.engine}: no model: mount a cache of weights or set --model-path in the args"
        raise RenderError(Reason.INVALID, message)
    rest = without_flag(request.args, flag) if flag else request.args
    named = unless_given(rest, ["--served-model-name"], "--served-model-name", *names_for(request, given)[:1])
    return ("--model-path", request.model_path, *named), rest


def _server(request: LaunchRequest) -> tuple[str, ...]:
    return (
        *unless_given(request.args, ["--host"], "--host", "0.0.0.0"),  # noqa: S104  the pod's own network, behind its policy
        *unless_given(request.args, ["--port"], "--port", str(request.port)),
        *unless_given(request.args, ["--enable-metrics"], "--enable-metrics"),
    )


def _parallelism(request: LaunchRequest) -> tuple[str, ...]:
    topology = request.topology
    spans = spans_ranks(topology)
    tensor = topology.tensor * topology.data if spans else topology.tensor
    sizes = (
        (tensor, ("--tp-size", "--tp", "--tensor-parallel-size")),
        (topology.pipeline, ("--pp-size", "--pp", "--pipeline-parallel-size")),
        (topology.data, ("--dp-size", "--dp", "--data-parallel-size")),
    )
    flags = [
        word for size, names in sizes if size > 1 for word in unless_given(request.args, names, names[0], str(size))
    ]
    if topology.expert:
        flags += unless_given(request.args, ["--ep-size", "--ep", "--expert-parallel-size"], "--ep-size", str(tensor))
    if spans:
        flags += unless_given(request.args, ["--enable-dp-attention"], "--enable-dp-attention")
    return tuple(flags)


def _nodes(request: LaunchRequest) -> tuple[str, ...]:
    if request.role == "Standalone":
        return ()
    address = f"$({LEADER_ADDRESS}):{_RENDEZVOUS_PORT}"
    return ("--nnodes", f"$({GROUP_SIZE})", "--node-rank", f"$({RANK})", "--dist-init-addr", address)


def _disaggregation(request: LaunchRequest) -> tuple[str, ...]:
    """The side of the pair that the engine is, where they meet, and how caches move."""
    if request.phase is None:
        return ()
    wanted, given = request.phase.lower(), flag_value(request.args, _SIDE)
    if given is not None and given != wanted:
        message = f"engine {request.engine}: {_SIDE} {given} in the args contradicts its phase, {request.phase}"
        raise RenderError(Reason.INVALID, message)
    port = unless_given(request.args, [_BOOTSTRAP], _BOOTSTRAP, _BOOTSTRAP_PORT) if request.phase == "Prefill" else ()
    chosen = request.transfer_backend
    backend = unless_given(request.args, [_TRANSFER_BACKEND], _TRANSFER_BACKEND, chosen) if chosen else ()
    return (*unless_given(request.args, [_SIDE], _SIDE, wanted), *port, *backend)


def _adapters(request: LaunchRequest) -> tuple[str, ...]:
    if not request.adapters or has_flag(request.args, "--lora-paths"):
        return ()
    paths = (f"{name}={path}" for name, path in request.adapters)
    return (*unless_given(request.args, ["--enable-lora"], "--enable-lora"), "--lora-paths", *paths)


def _backend(words: tuple[str, ...]) -> str | None:
    return flag_value(words, _TRANSFER_BACKEND)


BACKEND = CacheTransfer(
    name=_TRANSFER_BACKEND,
    said=_backend,
    # Its own choice, Mooncake, opens RDMA queues whatever the network is. NIXL uses what there is.
    without_verbs="nixl",
    bootstrap_flag=_BOOTSTRAP,
    bootstrap_port=_BOOTSTRAP_PORT,
    sidecar_flag="--sglang-bootstrap-port",
)
