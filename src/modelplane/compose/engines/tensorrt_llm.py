"""TensorRT-LLM: `trtllm-serve MODEL`, which its images do not begin with. It listens to its own pod alone unless told.

An engine over several nodes needs MPI, which a pod does not bring: one node it is.
"""

from modelplane.compose.engines.launch import Launch, LaunchRequest, flag_value, has_flag, unless_given
from modelplane.compose.engines.one_node import ANY_ADDRESS, check_one_node, missing_model, own_model

SERVE = ("trtllm-serve",)
_NAME = ("--served_model_name", "--served-model-name")


def launch(request: LaunchRequest) -> Launch:
    check_one_node(request, "TensorRT-LLM")
    model, rest = _model(request)
    return Launch(SERVE, (*model, *_server(request), *_parallelism(request), *rest))


def _model(request: LaunchRequest) -> tuple[tuple[str, ...], tuple[str, ...]]:
    given, rest = own_model(request.args)
    path = request.model_path or given
    if path is None:
        raise missing_model(request, "name the model in the engine's args")
    names = (given, *request.served_names) if given else request.served_names
    return (path, *(unless_given(rest, _NAME, _NAME[0], names[0]) if names else ())), rest


def _server(request: LaunchRequest) -> tuple[str, ...]:
    return (
        *unless_given(request.args, ["--host"], "--host", ANY_ADDRESS),
        *unless_given(request.args, ["--port"], "--port", str(request.port)),
    )


def _parallelism(request: LaunchRequest) -> tuple[str, ...]:
    tensor = request.topology.tensor
    sizes = [("--tp_size", tensor)] if tensor > 1 else []
    if request.topology.expert and tensor > 1:
        sizes.append(("--ep_size", int(flag_value(request.args, "--tp_size") or tensor)))
    return tuple(word for flag, size in sizes if not has_flag(request.args, flag) for word in (flag, str(size)))
