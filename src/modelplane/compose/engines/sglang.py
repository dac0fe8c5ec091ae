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
    Launch,
    LaunchAsk,
    flag_value,
    has_flag,
    is_path,
    names_for,
    unless_given,
    without_flag,
)

SERVE = ("python3", "-m", "sglang.launch_server")
_MODEL, _CONFIG = ("--model-path", "--model"), "--config"
_RENDEZVOUS_PORT = 20000


def launch(ask: LaunchAsk) -> Launch:
    if ask.coordination == "Ray":
        message = f"engine {ask.engine}: SGLang finds its nodes by itself; coordination Ray belongs to vLLM"
        raise RenderError(Reason.INVALID, message)
    model, rest = _model(ask)
    return Launch(SERVE, (*model, *_server(ask), *_parallelism(ask), *_nodes(ask), *_adapters(ask), *rest))


def _model(ask: LaunchAsk) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The model with its name, and what the user wrote besides. Weights that are mounted are not fetched again."""
    flag = next((name for name in _MODEL if has_flag(ask.args, name)), None)
    given = flag_value(ask.args, flag) if flag else None
    if has_flag(ask.args, _CONFIG) or (given is not None and (ask.model_path is None or is_path(given))):
        return (), ask.args
    if ask.model_path is None:
        message = f"engine {ask.engine}: no model: mount a cache of weights or give --model-path in the engine's args"
        raise RenderError(Reason.INVALID, message)
    rest = without_flag(ask.args, flag) if flag else ask.args
    named = unless_given(rest, ["--served-model-name"], "--served-model-name", *names_for(ask, given)[:1])
    return ("--model-path", ask.model_path, *named), rest


def _server(ask: LaunchAsk) -> tuple[str, ...]:
    return (
        *unless_given(ask.args, ["--host"], "--host", "0.0.0.0"),  # noqa: S104  the pod's own network, behind its policy
        *unless_given(ask.args, ["--port"], "--port", str(ask.port)),
        *unless_given(ask.args, ["--enable-metrics"], "--enable-metrics"),
    )


def _parallelism(ask: LaunchAsk) -> tuple[str, ...]:
    topology = ask.topology
    spans = topology.data_local is not None and topology.data_local < topology.data
    tensor = topology.tensor * topology.data if spans else topology.tensor
    sizes = (
        (tensor, ("--tp-size", "--tp", "--tensor-parallel-size")),
        (topology.pipeline, ("--pp-size", "--pp", "--pipeline-parallel-size")),
        (topology.data, ("--dp-size", "--dp", "--data-parallel-size")),
    )
    flags = [word for size, names in sizes if size > 1 for word in unless_given(ask.args, names, names[0], str(size))]
    if spans:
        flags += unless_given(ask.args, ["--enable-dp-attention"], "--enable-dp-attention")
    return tuple(flags)


def _nodes(ask: LaunchAsk) -> tuple[str, ...]:
    if ask.role == "Standalone":
        return ()
    address = f"$({LEADER_ADDRESS}):{_RENDEZVOUS_PORT}"
    return ("--nnodes", f"$({GROUP_SIZE})", "--node-rank", f"$({RANK})", "--dist-init-addr", address)


def _adapters(ask: LaunchAsk) -> tuple[str, ...]:
    if not ask.adapters or has_flag(ask.args, "--lora-paths"):
        return ()
    paths = (f"{name}={path}" for name, path in ask.adapters)
    return (*unless_given(ask.args, ["--enable-lora"], "--enable-lora"), "--lora-paths", *paths)
