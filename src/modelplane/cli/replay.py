"""`modelplane replay SNAPSHOT`: repeats the decisions of a snapshot and compares them bit for bit."""

import argparse
from typing import TYPE_CHECKING

from modelplane.api.errors import InputError
from modelplane.cli._shown import add_output, print_table, print_value

if TYPE_CHECKING:
    from modelplane.views.shapes import ReplayedDecision

EXIT_DIFFERS = 3
_EPILOG = """\
examples:
  modelplane replay snapshot.yaml
  modelplane replay snapshot.yaml -o json

Exit codes: 0 every decision is the same, 1 the input was refused, 3 a decision differs.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.description = "Repeats the decisions of a snapshot and compares them with the recorded ones."
    parser.epilog = _EPILOG
    parser.add_argument("snapshot", metavar="SNAPSHOT")
    add_output(parser)


def run(arguments: argparse.Namespace) -> int:
    from modelplane.cli._plugins import full_registry
    from modelplane.cli.manifests import read_documents
    from modelplane.views.replay import replay

    documents = read_documents([arguments.snapshot])
    if len(documents) != 1 or not isinstance(documents[0].value, dict):
        raise InputError(f"{arguments.snapshot}: expected one FleetSnapshot")
    found = replay(documents[0].value, full_registry())
    if arguments.output == "text":
        print_table(("DEPLOYMENT", "DECISION", "PLACEMENTS"), [_cells(one) for one in found])
    else:
        print_value({"decisions": found}, arguments.output)
    return 0 if all(one.same for one in found) else EXIT_DIFFERS


def _cells(one: "ReplayedDecision") -> tuple[str, ...]:
    waiting = (f"{one.decided.pending} wait",) if one.decided.pending else ()
    return one.deployment, "same" if one.same else "differs", ", ".join((*one.decided.placements, *waiting)) or "-"
