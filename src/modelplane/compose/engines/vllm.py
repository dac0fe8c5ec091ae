"""vLLM: `vllm serve MODEL`, the entrypoint of its images.

nodes of one worker      how they find each other
layers split (pipeline,  the same command on all, with --nnodes, --node-rank and --master-addr; others are headless
or tensor over nodes)
ranks split (data)       a bootstrap that works out each node's first rank
Ray, when asked for      a Ray cluster first, then the server on the leader
"""

from modelplane.api.reasons import Reason
from modelplane.compose.context import RenderError
from modelplane.compose.engines.bootstrap import PYTHON, RAY_WORKER, VLLM_DATA_PARALLEL, VLLM_RAY_LEADER
from modelplane.compose.engines.kv_connector import kv_transfer
from modelplane.compose.engines.launch import (
    GROUP_SIZE,
    LEADER_ADDRESS,
    RANK,
    Launch,
    LaunchRequest,
    first_positional,
    flag_value,
    has_flag,
    is_path,
    names_for,
    pod_ip,
    unless_given,
    without_flag,
)
from modelplane.compose.shapes import spans_ranks

SERVE = ("vllm", "serve")
DEFAULT_PORT = 8000
DATA_RPC_PORT = "13345"
_ALONE = (
    *("--enable-", "--disable-", "--no-", "--async-scheduling", "--enforce-eager", "--headless", "--trust-remote-code"),
    *("--skip-", "--use-", "--return-", "--calculate-kv-scales"),
)
"""How flags without a value begin."""
_MANY = frozenset(
    {
        *("--served-model-name", "--lora-modules", "--middleware", "--api-key", "--compilation-sizes"),
        *("--cudagraph-capture-sizes", "--cuda-graph-sizes", "--logits-processors"),
    }
)
"""Flags with several values: a model after their values would be one of them."""


def launch(request: LaunchRequest) -> Launch:
    if request.coordination == "Ray" and request.role == "Worker":
        return Launch((*PYTHON, RAY_WORKER), (), env=(pod_ip("VLLM_HOST_IP"),))
    model, rest = _model(request)
    args = (*model, *_port(request), *_parallelism(request), *_adapters(request), *kv_transfer(request))
    if request.role == "Standalone":
        return Launch((), (*args, *rest), SERVE)
    env = (pod_ip("VLLM_HOST_IP"),)
    if request.coordination == "Ray":
        return Launch((*PYTHON, VLLM_RAY_LEADER), (*args, *rest), env=env)
    if spans_ranks(request.topology):
        local = request.topology.data_local
        return Launch((*PYTHON, VLLM_DATA_PARALLEL), (str(local), *args, *rest), env=env)
    return Launch((), (*args, *_nodes(request), *rest), SERVE, env)


def given_model(args: tuple[str, ...]) -> tuple[str | None, tuple[str, ...]]:
    """The model that the user names, wherever among the args, and the other args."""
    index = first_positional(args, alone=_ALONE, many=_MANY)
    if index is not None:
        return args[index], (*args[:index], *args[index + 1 :])
    return flag_value(args, "--model"), without_flag(args, "--model")


def _model(request: LaunchRequest) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The model as the first argument with its names, and what the user wrote besides.

    Weights that are mounted are served under the name that the user gave: by that name alone the engine would fetch
    them again from where they came from.
    """
    given, rest = given_model(request.args)
    if given is not None and (request.model_path is None or is_path(given)):
        return (given, *_named(request, rest, given)), rest
    if given is None and has_flag(request.args, "--config"):
        return (), request.args
    if request.model_path is None:
        message = f"engine {request.engine}: no model: mount a cache of weights or name the model in the engine's args"
        raise RenderError(Reason.INVALID, message)
    return (request.model_path, *_named(request, rest, given)), rest


def _named(request: LaunchRequest, rest: tuple[str, ...], given: str | None) -> tuple[str, ...]:
    """By all of its names: requests come in under any of them."""
    if not request.served_names:
        return ()
    return unless_given(rest, ["--served-model-name"], "--served-model-name", *names_for(request, given))


def _port(request: LaunchRequest) -> tuple[str, ...]:
    return () if request.port == DEFAULT_PORT else unless_given(request.args, ["--port"], "--port", str(request.port))


def _parallelism(request: LaunchRequest) -> tuple[str, ...]:
    topology = request.topology
    sizes = (
        (topology.tensor, "--tensor-parallel-size", "-tp"),
        (topology.pipeline, "--pipeline-parallel-size", "-pp"),
        (topology.data, "--data-parallel-size", "-dp"),
    )
    flags = [
        word
        for size, flag, short in sizes
        if size > 1
        for word in unless_given(request.args, [flag, short], flag, str(size))
    ]
    if topology.expert:
        flags += unless_given(request.args, ["--enable-expert-parallel", "-ep"], "--enable-expert-parallel")
    if spans_ranks(topology):
        names = ["--data-parallel-size-local", "-dpl"]
        flags += unless_given(request.args, names, names[0], str(topology.data_local))
        flags += unless_given(request.args, ["--data-parallel-rpc-port"], "--data-parallel-rpc-port", DATA_RPC_PORT)
    return tuple(flags)


def _nodes(request: LaunchRequest) -> tuple[str, ...]:
    found = ("--nnodes", f"$({GROUP_SIZE})", "--node-rank", f"$({RANK})", "--master-addr", f"$({LEADER_ADDRESS})")
    return (*found, "--headless") if request.role == "Worker" else found


def _adapters(request: LaunchRequest) -> tuple[str, ...]:
    if not request.adapters or has_flag(request.args, "--lora-modules"):
        return ()
    modules = (f"{name}={path}" for name, path in request.adapters)
    return (
        *unless_given(request.args, ["--enable-lora"], "--enable-lora"),
        *unless_given(request.args, ["--max-loras"], "--max-loras", str(len(request.adapters))),
        *("--lora-modules", *modules),
    )
