"""`modelplane demo`: the whole path on this machine, from manifests to an answered request."""

import argparse
import tempfile
from pathlib import Path

from modelplane.api.errors import InputError
from modelplane.cli.terminal import Progress, run_until_signal

_EPILOG = """\
What it does: starts the embedded plane in a temporary folder, applies examples/quickstart (a hardware class, two
simulated clusters, a model of two replicas, a service), waits until the service is ready, and sends it requests
with the openai client through a real Envoy. It stops everything that it started.

examples:
  modelplane demo
  modelplane demo -f my-manifests/ --prompt "Why two clusters?"
"""
_DAY_S = 86_400
_QUICKSTART = Path(__file__).resolve().parents[3] / "examples" / "quickstart"


def configure(parser: argparse.ArgumentParser) -> None:
    parser.description = "Runs the whole path once: two clusters, one model, one answered request."
    parser.epilog = _EPILOG
    parser.add_argument("-f", "--filename", type=Path, default=_QUICKSTART, help="manifests (default: the quickstart)")
    parser.add_argument("--prompt", default="Say hello to the fleet.", help="the prompt")
    parser.add_argument(
        "--timeout", type=_seconds, default=60, metavar="S", help="how long to wait for the service (60)"
    )


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1
    if not 0 < seconds <= _DAY_S:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds above 0")
    return seconds


def run(arguments: argparse.Namespace) -> int:
    return run_until_signal(_demo(arguments))


async def _demo(arguments: argparse.Namespace) -> int:
    from modelplane.cli.demo_steps import Steps
    from modelplane.cli.manifests import read_documents
    from modelplane.plane.apply import check_documents
    from modelplane.plane.plane import Plane, PlaneSettings

    progress = Progress()
    documents = read_documents([arguments.filename])
    check_documents(documents)
    if not any(isinstance(each.value, dict) and each.value.get("kind") == "ModelService" for each in documents):
        raise InputError(f"{arguments.filename}: no ModelService to send a request to")
    with tempfile.TemporaryDirectory(prefix="modelplane-") as folder:
        progress.say("starting the plane: store, composers, API, Envoy")
        async with Plane(PlaneSettings(data=Path(folder))) as plane:
            progress.say(f"the API serves on {plane.api_url}")
            steps = Steps(plane, progress)
            progress.say(f"applying {_shown(arguments.filename)}")
            applied = await steps.apply(documents)
            services = [ref for ref in applied if ref.kind == "ModelService"]
            service = await steps.until_serving(services[0], arguments.timeout)
            steps.explain_placement()
            await steps.send_prompt(str(service), arguments.prompt)
            steps.report_next_steps()
        progress.say("stopped")
    return 0


def _shown(path: Path) -> str:
    try:
        return str(path.relative_to(Path.cwd()))
    except ValueError:
        return str(path)
