import argparse
import importlib
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from modelplane.api.errors import ModelplaneError

EXIT_OK = 0
EXIT_REFUSED = 1
EXIT_USAGE = 2
EXIT_INTERRUPTED = 130


@dataclass(frozen=True, slots=True)
class Command:
    name: str
    summary: str
    module: str


COMMANDS = (
    Command("validate", "check manifests offline: schema, unknown fields, rules, references", "validate"),
    Command("crds", "print the plain CustomResourceDefinitions", "crds"),
    Command("conformance", "run conformance vectors and count what passes", "conformance"),
    Command("up", "start the embedded plane and keep it running", "up"),
    Command("demo", "two clusters, one model, one answered request; ends by itself", "demo"),
)

_EPILOG = """\
start here:
  modelplane demo                      see the whole path work, from manifests to an answered request
  modelplane validate -f examples/     check manifests before anything reads them
  modelplane up                        run a plane on this machine and keep it

'modelplane COMMAND --help' explains one command with examples. Exit codes: 0 done, 1 refused or failed, 2 wrong usage.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command. Expected failures are one sentence on stderr and a non-zero code, never a traceback."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    parser = _parser(words)
    parsed = parser.parse_args(words)
    if parsed.command is None:
        parser.print_help()
        return EXIT_USAGE
    try:
        return int(parsed.run(parsed))
    except ModelplaneError as error:
        print(f"modelplane {parsed.command}: {error}", file=sys.stderr)
        return EXIT_REFUSED
    except BrokenPipeError:
        sys.stderr.close()
        return EXIT_REFUSED
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED


def _parser(words: Sequence[str]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="modelplane",
        description="The control plane for a fleet of inference clusters.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"modelplane {_version()}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands")
    wanted = next((word for word in words if not word.startswith("-")), None)
    for command in COMMANDS:
        subparser = commands.add_parser(
            command.name, help=command.summary, formatter_class=argparse.RawDescriptionHelpFormatter
        )
        if command.name == wanted:
            module = importlib.import_module(f"modelplane.cli.{command.module}")
            module.configure(subparser)
            subparser.set_defaults(run=module.run)
    return parser


def _version() -> str:
    from modelplane import __version__

    return __version__
