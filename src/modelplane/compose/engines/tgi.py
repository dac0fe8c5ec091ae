"""Text Generation Inference: `text-generation-launcher`, the entrypoint of its images."""

from modelplane.compose.engines.launch import Launch, LaunchRequest, has_flag, unless_given
from modelplane.compose.engines.one_node import ANY_ADDRESS, check_one_node, missing_model

SERVE = ("text-generation-launcher",)


def launch(request: LaunchRequest) -> Launch:
    check_one_node(request, "TGI")
    if request.model_path is None and not has_flag(request.args, "--model-id"):
        raise missing_model(request, "set --model-id in the args")
    shards = str(request.topology.tensor)
    added = (
        *(unless_given(request.args, ["--model-id"], "--model-id", request.model_path) if request.model_path else ()),
        *unless_given(request.args, ["--hostname"], "--hostname", ANY_ADDRESS),
        *unless_given(request.args, ["--port", "-p"], "--port", str(request.port)),
        *(unless_given(request.args, ["--num-shard"], "--num-shard", shards) if request.topology.tensor > 1 else ()),
    )
    return Launch((), (*added, *request.args), SERVE)
