"""An engine that we know nothing of: what the user wrote runs as it is.

Two things are added where there is no command, because nothing else could: the path of the mounted weights, which is
what Modelplane v0.3 did, and the port, where a sidecar takes the usual one.
"""

from modelplane.compose.engines.launch import Launch, LaunchRequest, has_flag, unless_given


def launch(request: LaunchRequest) -> Launch:
    model: tuple[str, ...] = ()
    if request.model_path is not None and not _names_model(request.args):
        model = (f"--model={request.model_path}",)
    port = unless_given(request.args, ["--port"], f"--port={request.port}") if request.moved else ()
    return Launch((), (*request.args, *model, *port))


def _names_model(args: tuple[str, ...]) -> bool:
    return has_flag(args, "--model", "--model-path") or bool(args and not args[0].startswith("-"))
