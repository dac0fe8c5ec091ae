"""llama.cpp: `llama-server`, the entrypoint of its server images, on GPUs or on none.

It splits a model over the GPUs that it sees by itself. Weights are one GGUF file, which only the user can name.
"""

from modelplane.compose.engines.launch import Launch, LaunchRequest, has_flag, unless_given
from modelplane.compose.engines.one_node import ANY_ADDRESS, check_one_node, missing_model

_SERVE = ("/app/llama-server",)
_MODEL = ("-m", "--model", "-hf", "-hfr", "--hf-repo", "-mu", "--model-url")


def launch(request: LaunchRequest) -> Launch:
    check_one_node(request, "llama.cpp", splits=False)
    if not has_flag(request.args, *_MODEL):
        raise missing_model(request, "name a GGUF file by -m, or a repository by -hf, in the engine's args")
    server = (
        *unless_given(request.args, ["--host"], "--host", ANY_ADDRESS),
        *unless_given(request.args, ["--port"], "--port", str(request.port)),
        *unless_given(request.args, ["--metrics"], "--metrics"),
        *(unless_given(request.args, ["-a", "--alias"], "--alias", name) if (name := _name(request)) else ()),
    )
    return Launch((), (*request.args, *server), _SERVE)


def _name(request: LaunchRequest) -> str | None:
    return request.served_names[0] if request.served_names else None
