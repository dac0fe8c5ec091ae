"""An engine that we know nothing of: what the user wrote runs as it is.

Two things are added where there is no command, because nothing else could: the path of the mounted weights, which is
what Modelplane v0.3 did, and the port, where a sidecar takes the usual one.
"""

from modelplane.compose.engines.launch import Launch, LaunchAsk, has_flag, unless_given


def launch(ask: LaunchAsk) -> Launch:
    model: tuple[str, ...] = ()
    if ask.model_path is not None and not _names_model(ask.args):
        model = (f"--model={ask.model_path}",)
    port = unless_given(ask.args, ["--port"], f"--port={ask.port}") if ask.moved else ()
    return Launch((), (*ask.args, *model, *port))


def _names_model(args: tuple[str, ...]) -> bool:
    return has_flag(args, "--model", "--model-path") or bool(args and not args[0].startswith("-"))
