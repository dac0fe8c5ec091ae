import argparse
import importlib
import sys
from collections.abc import Sequence
from typing import NamedTuple

from modelplane.api.errors import ModelplaneError
from modelplane.cli._parser import CommandParser

EXIT_REFUSED = 1
EXIT_USAGE = 2
EXIT_INTERRUPTED = 130


class Command(NamedTuple):  # importing dataclasses takes a third of the time of --help
    name: str
    summary: str
    module: str


COMMANDS = (
    Command("validate", "check manifests offline: schema, unknown fields, rules, references", "validate"),
    Command("plan", "show what applying manifests would place, move, delete or leave pending, and its price", "plan"),
    Command("render", "show the objects that deployments become, each with its cluster, as YAML", "render"),
    Command("explain", "explain a placement, or where a request went, with every candidate", "explain"),
    Command("fleet", "write the inputs of the scheduler to a file", "fleet"),
    Command("simulate", "run a fleet in virtual time: lose a cluster, scale, drain, and see what happens", "simulate"),
    Command("replay", "repeat the decisions of a snapshot, bit for bit", "replay"),
    Command("cluster", "check a cluster, propose how it is declared, and adopt it", "cluster"),
    Command("catalog", "show real nodes, and print them as InferenceClasses", "catalog"),
    Command("new", "print manifests for a model, sized for the hardware that is there", "new"),
    Command("crds", "print the plain CustomResourceDefinitions", "crds"),
    Command("conformance", "run conformance vectors and count what passes", "conformance"),
    Command("picker", "the endpoint picker: check its configuration, explain its decisions", "_picker"),
    Command("router", "run the fleet router: an ext_proc server that chooses an endpoint of a service", "router"),
    Command("up", "start the embedded plane and keep it running", "up"),
    Command("status", "show whether clusters, deployments and services of a running plane are ready", "status"),
    Command("dashboard", "serve the dashboard of a control plane that runs elsewhere; it only reads", "dashboard"),
    Command("top", "show devices, requests, tokens and prices by class, pool, deployment and service", "top"),
    Command("cost", "show what teams and deployments cost, by the hour and for a million tokens", "cost"),
    Command("get", "show objects: md, ms, inferencecluster and so on, or all", "get"),
    Command("describe", "show an object, its conditions and its events", "describe"),
    Command("trace", "show what an object leads to, from deployment to service, with reasons and times", "trace"),
    Command("logs", "show what engines print, on this machine or on the clusters of a control plane", "logs"),
    Command("debug-bundle", "write what an issue needs into one archive, without credentials", "debug_bundle"),
    Command("apply", "create objects from manifests, or change those that exist", "apply"),
    Command("delete", "delete objects, and say what holds them", "delete"),
    Command("scale", "change how many replicas a deployment has", "scale"),
    Command("wait", "wait until an object is ready or gone, and show what that waits for", "wait"),
    Command("events", "show what happened, the newest last", "events"),
    Command("service", "show a service: its ways in, the share of each endpoint and why one has none", "service"),
    Command("chat", "talk to a service in the terminal", "chat"),
    Command("drain", "move the replicas of a cluster or a node pool away before maintenance", "drain"),
    Command("rollout", "show, undo, restart, pause or resume the update of a deployment", "rollout"),
    Command("cache", "show where caches are staged and how far that is, or stage one somewhere now", "cache"),
    Command("down", "stop a running plane", "down"),
    Command("sim", "cause failures and shortages in simulated clusters", "sim"),
    Command("hydrate", "stage the files of a model on a volume: resumable, checked, published at once", "hydrate"),
    Command("install", "install Modelplane on a control plane that runs Crossplane", "install"),
    Command("function", "serve the composition function of Crossplane", "function"),
    Command("hub", "serve the hub that agents of workload clusters dial", "hub"),
    Command("agent", "run the agent of a workload cluster: it dials the hub of the control plane", "agent"),
    Command("mcp", "serve read-only tools of a fleet to an assistant (Model Context Protocol)", "mcp"),
    Command("version", "show the versions of this program, of the plane and of its Kubernetes API", "version"),
    Command("completion", "print what a shell needs to complete commands and names", "completion"),
    Command("demo", "run two clusters, one model and one request, then stop", "demo"),
)

_EPILOG = """\
start here:
  modelplane demo                      run the whole path, from manifests to an answered request
  modelplane validate -f examples/     check manifests before they are applied
  modelplane plan -f examples/         show where replicas would be placed
  modelplane up                        run a plane on this machine

Commands find the plane by --data DIR, else $MODELPLANE_DATA, else the plane's own file in $KUBECONFIG, else in
~/.local/state/modelplane.
'modelplane COMMAND --help' explains one command with examples. Exit codes: 0 done, 1 refused or failed, 2 wrong usage.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command. An expected failure is one sentence on stderr and a non-zero exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if words[:1] == ["help"]:
        words = [*words[1:], "--help"]
    try:
        return _run(words)
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED


def _run(words: Sequence[str]) -> int:
    parser = _parser(words)
    parsed, rest = parser.parse_known_args(words)
    if rest:
        getattr(parsed, "parser", parser).error(f"unrecognized arguments: {' '.join(rest)}")
    if parsed.command is None:
        parser.print_help()
        return EXIT_USAGE
    from modelplane.cli._malformed_requests import mute_malformed_requests

    mute_malformed_requests()
    try:
        return int(parsed.run(parsed))
    except ModelplaneError as error:
        return _refuse(parsed.command, str(error))
    except BrokenPipeError:
        sys.stderr.close()
        return EXIT_REFUSED
    except OSError as error:
        return _refuse(parsed.command, f"{error.filename}: {error.strerror}" if error.filename else str(error))


def _command_of(words: Sequence[str]) -> str | None:
    return next((word for word in words if not word.startswith("-")), None)


def _refuse(command: str, sentence: str) -> int:
    print(f"modelplane {command}: {sentence}", file=sys.stderr)
    return EXIT_REFUSED


def _parser(words: Sequence[str]) -> argparse.ArgumentParser:
    parser = CommandParser(
        prog="modelplane",
        description="The control plane for a fleet of inference clusters.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"modelplane {_version()}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands")
    wanted = _command_of(words)
    for command in COMMANDS:
        subparser = commands.add_parser(
            command.name, help=command.summary, formatter_class=argparse.RawDescriptionHelpFormatter
        )
        if command.name == wanted:
            module = importlib.import_module(f"modelplane.cli.{command.module}")
            module.configure(subparser)
            subparser.set_defaults(run=module.run, parser=subparser)
    return parser


def parser_of(command: Command) -> argparse.ArgumentParser:
    """The parser of one command."""
    parser = CommandParser(prog=f"modelplane {command.name}")
    importlib.import_module(f"modelplane.cli.{command.module}").configure(parser)
    return parser


def _version() -> str:
    from modelplane.api.version import __version__

    return __version__
