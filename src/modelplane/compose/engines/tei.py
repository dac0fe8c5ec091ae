"""Text Embeddings Inference: `text-embeddings-router`, for embeddings and rerankers, on one GPU or on none.

Its address is also read from the variable HOSTNAME, which containers have with the name of their pod: it is given as a
flag, which wins.
"""

from modelplane.compose.engines.launch import Launch, LaunchRequest, has_flag, unless_given
from modelplane.compose.engines.one_node import ANY_ADDRESS, check_one_node, missing_model

SERVE = ("text-embeddings-router",)


def launch(request: LaunchRequest) -> Launch:
    check_one_node(request, "TEI", splits=False)
    if request.model_path is None and not has_flag(request.args, "--model-id"):
        raise missing_model(request, "set --model-id in the args")
    path, names = request.model_path, request.served_names[:1]
    added = (
        *(unless_given(request.args, ["--model-id"], "--model-id", path) if path else ()),
        *(unless_given(request.args, ["--served-model-name"], "--served-model-name", *names) if path and names else ()),
        *unless_given(request.args, ["--hostname"], "--hostname", ANY_ADDRESS),
        *unless_given(request.args, ["--port", "-p"], "--port", str(request.port)),
    )
    return Launch((), (*added, *request.args), SERVE)
