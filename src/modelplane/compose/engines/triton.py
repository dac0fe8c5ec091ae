"""Triton with its OpenAI frontend, which its images with a backend for language models bring.

It serves a model repository: folders with a configuration each, whose names are those of the models. What a backend
splits over GPUs is said there.
"""

from modelplane.compose.engines.launch import Launch, LaunchRequest, has_flag, unless_given
from modelplane.compose.engines.one_node import ANY_ADDRESS, check_one_node, missing_model

SERVE = ("python3", "/opt/tritonserver/python/openai/openai_frontend/main.py")
HEALTH = "/health/ready"
PORT_FLAG = "--openai-port"
_REPOSITORY = "--model-repository"


def launch(request: LaunchRequest) -> Launch:
    check_one_node(request, "Triton", splits=False)
    if request.model_path is None and not has_flag(request.args, _REPOSITORY):
        raise missing_model(request, f"mount a cache with a model repository or set {_REPOSITORY} in the args")
    path = request.model_path
    added = (
        *(unless_given(request.args, [_REPOSITORY], _REPOSITORY, path) if path else ()),
        *unless_given(request.args, ["--host"], "--host", ANY_ADDRESS),
        *unless_given(request.args, [PORT_FLAG], PORT_FLAG, str(request.port)),
    )
    return Launch(SERVE, (*added, *request.args))
