"""vLLM: `vllm serve MODEL`, the entrypoint of its images.

nodes of one worker      how they find each other
layers split (pipeline)  the same command on all, with --nnodes, --node-rank and --master-addr; others are headless
ranks split (data)       a bootstrap that works out each node's first rank
Ray, when asked for      a Ray cluster first, then the server on the leader
"""

from modelplane.api.reasons import Reason
from modelplane.compose.context import RenderError
from modelplane.compose.engines.bootstrap import PYTHON, RAY_WORKER, VLLM_DATA_PARALLEL, VLLM_RAY_LEADER
from modelplane.compose.engines.launch import (
    GROUP_SIZE,
    LEADER_ADDRESS,
    RANK,
    Launch,
    LaunchAsk,
    first_positional,
    flag_value,
    has_flag,
    is_path,
    names_for,
    pod_ip,
    unless_given,
    without_flag,
)

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


def launch(ask: LaunchAsk) -> Launch:
    if ask.coordination == "Ray" and ask.role == "Worker":
        return Launch((*PYTHON, RAY_WORKER), (), env=(pod_ip("VLLM_HOST_IP"),))
    model, rest = _model(ask)
    args = (*model, *_port(ask), *_parallelism(ask), *_adapters(ask))
    if ask.role == "Standalone":
        return Launch((), (*args, *rest), SERVE)
    env = (pod_ip("VLLM_HOST_IP"),)
    if ask.coordination == "Ray":
        return Launch((*PYTHON, VLLM_RAY_LEADER), (*args, *rest), env=env)
    local = ask.topology.data_local
    if local is not None and local < ask.topology.data:
        return Launch((*PYTHON, VLLM_DATA_PARALLEL), (str(local), *args, *rest), env=env)
    return Launch((), (*args, *_nodes(ask), *rest), SERVE, env)


def given_model(args: tuple[str, ...]) -> tuple[str | None, tuple[str, ...]]:
    """The model that the user names, wherever among the args, and the other args."""
    index = first_positional(args, alone=_ALONE, many=_MANY)
    if index is not None:
        return args[index], (*args[:index], *args[index + 1 :])
    return flag_value(args, "--model"), without_flag(args, "--model")


def _model(ask: LaunchAsk) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The model as the first argument with its names, and what the user wrote besides.

    Weights that are mounted are served under the name that the user gave: by that name alone the engine would fetch
    them again from where they came from.
    """
    given, rest = given_model(ask.args)
    if given is not None and (ask.model_path is None or is_path(given)):
        return (given,), rest
    if given is None and has_flag(ask.args, "--config"):
        return (), ask.args
    if ask.model_path is None:
        message = f"engine {ask.engine}: no model: mount a cache of weights or name the model in the engine's args"
        raise RenderError(Reason.INVALID, message)
    names = names_for(ask, given)
    named = unless_given(rest, ["--served-model-name"], "--served-model-name", *names) if names else ()
    return (ask.model_path, *named), rest


def _port(ask: LaunchAsk) -> tuple[str, ...]:
    return () if ask.port == DEFAULT_PORT else unless_given(ask.args, ["--port"], "--port", str(ask.port))


def _parallelism(ask: LaunchAsk) -> tuple[str, ...]:
    topology = ask.topology
    sizes = (
        (topology.tensor, "--tensor-parallel-size", "-tp"),
        (topology.pipeline, "--pipeline-parallel-size", "-pp"),
        (topology.data, "--data-parallel-size", "-dp"),
    )
    flags = [
        word
        for size, flag, short in sizes
        if size > 1
        for word in unless_given(ask.args, [flag, short], flag, str(size))
    ]
    local = topology.data_local
    if local is not None and local < topology.data:
        names = ["--data-parallel-size-local", "-dpl"]
        flags += unless_given(ask.args, names, names[0], str(local))
        flags += unless_given(ask.args, ["--data-parallel-rpc-port"], "--data-parallel-rpc-port", DATA_RPC_PORT)
    return tuple(flags)


def _nodes(ask: LaunchAsk) -> tuple[str, ...]:
    found = ("--nnodes", f"$({GROUP_SIZE})", "--node-rank", f"$({RANK})", "--master-addr", f"$({LEADER_ADDRESS})")
    return (*found, "--headless") if ask.role == "Worker" else found


def _adapters(ask: LaunchAsk) -> tuple[str, ...]:
    if not ask.adapters or has_flag(ask.args, "--lora-modules"):
        return ()
    modules = (f"{name}={path}" for name, path in ask.adapters)
    return (
        *unless_given(ask.args, ["--enable-lora"], "--enable-lora"),
        *unless_given(ask.args, ["--max-loras"], "--max-loras", str(len(ask.adapters))),
        *("--lora-modules", *modules),
    )
