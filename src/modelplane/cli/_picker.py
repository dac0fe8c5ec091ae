"""`modelplane picker …`: the endpoint picker's own commands.

Each is a module of this room with `configure(parser)` and `run(arguments) -> int`, and one row below. The modules
import what they need when they run.
"""

import argparse
import importlib
from typing import NamedTuple


class Subcommand(NamedTuple):
    name: str
    summary: str
    module: str


SUBCOMMANDS = (
    Subcommand("serve", "runs the endpoint picker: an ext_proc server for Envoy", "_picker_serve"),
    Subcommand("check", "validates a configuration and shows what it builds", "_picker_check"),
    Subcommand("explain", "explains which endpoint a request goes to, and why", "_picker_explain"),
    Subcommand("new-plugin", "writes a package with a plugin of your own", "_picker_new_plugin"),
    Subcommand("conformance", "tests any endpoint picker behind a real Envoy", "_picker_conformance"),
    Subcommand("sidecar", "routing sidecar of a decode server: sends prefill to other servers", "_picker_sidecar"),
    Subcommand("warm-up", "sends requests to an engine before its pod is ready", "_picker_warm_up"),
)

_EPILOG = """\
examples:
  modelplane picker serve --config config.yaml --endpoints endpoints.yaml
  modelplane picker check config.yaml
  modelplane picker explain --config config.yaml --state state.yaml --request request.yaml
  modelplane picker new-plugin gold-first --kind scorer

'modelplane picker COMMAND --help' explains one of them.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.description = "The endpoint picker chooses the server for each inference request."
    parser.epilog = _EPILOG
    commands = parser.add_subparsers(dest="subcommand", metavar="COMMAND", title="commands", required=True)
    for command in SUBCOMMANDS:
        subparser = commands.add_parser(
            command.name, help=command.summary, formatter_class=argparse.RawDescriptionHelpFormatter
        )
        module = importlib.import_module(f"modelplane.cli.{command.module}")
        module.configure(subparser)
        subparser.set_defaults(run_subcommand=module.run)


def run(arguments: argparse.Namespace) -> int:
    return int(arguments.run_subcommand(arguments))
