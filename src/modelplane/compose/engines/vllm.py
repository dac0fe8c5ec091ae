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
    has_flag,
    pod_ip,
    unless_given,
)

SERVE = ("vllm", "serve")
DEFAULT_PORT = 8000
DATA_RPC_PORT = "13345"


def launch(ask: LaunchAsk) -> Launch:
    if ask.coordination == "Ray" and ask.role == "Worker":
        return Launch((*PYTHON, RAY_WORKER), (), env=(pod_ip("VLLM_HOST_IP"),))
    model, rest = _model(ask)
    args = (*model, *_names(ask), *_port(ask), *_parallelism(ask), *_adapters(ask))
    if ask.role == "Standalone":
        return Launch((), (*args, *rest), SERVE)
    env = (pod_ip("VLLM_HOST_IP"),)
    if ask.coordination == "Ray":
        return Launch((*PYTHON, VLLM_RAY_LEADER), (*args, *rest), env=env)
    local = ask.topology.data_local
    if local is not None and local < ask.topology.data:
        return Launch((*PYTHON, VLLM_DATA_PARALLEL), (str(local), *args, *rest), env=env)
    return Launch((), (*args, *_nodes(ask), *rest), SERVE, env)


def _model(ask: LaunchAsk) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The model as the first argument, and what the user wrote besides. Given twice, the engine refuses it."""
    if ask.args and not ask.args[0].startswith("-"):
        return ask.args[:1], ask.args[1:]
    if has_flag(ask.args, "--model", "--config"):
        return (), ask.args
    if ask.model_path is None:
        message = f"engine {ask.engine}: no model: mount a cache of weights or name the model in the engine's args"
        raise RenderError(Reason.INVALID, message)
    return (ask.model_path,), ask.args


def _names(ask: LaunchAsk) -> tuple[str, ...]:
    if ask.model_path is None or has_flag(ask.args, "--model", "--config") or not ask.served_names:
        return ()
    if ask.args and not ask.args[0].startswith("-"):
        return ()
    return unless_given(ask.args, ["--served-model-name"], "--served-model-name", *ask.served_names)


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
