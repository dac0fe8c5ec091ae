"""`modelplane delete`: deletes objects, and waits until they are gone while it says what holds them."""

import argparse
import sys

from modelplane.api.errors import NotFoundError
from modelplane.cli._formats import add_plane, plane_of
from modelplane.cli._objects import PlaneObjects
from modelplane.cli._selection import SelectedObject, add_selection, select
from modelplane.cli.wait import WaitGoal, add_timeout, ends_of, wait_for

_EPILOG = """\
examples:
  modelplane delete md qwen3-8b
  modelplane delete md/qwen3-8b ms/chat             several, of several kinds
  modelplane delete -f examples/quickstart          the last of the files first
  modelplane delete md -l team=search -n search     those with a label
  modelplane delete md,ms --all -n scratch          all of a namespace
  modelplane delete inferencecluster east --no-wait

An object that others use is deleted when they are gone; the wait says what holds it.
Exit codes: 0 deleted, 1 refused or not there, 3 the wait ended before that.
"""
_MISSING, _HELD = 1, 3


def configure(parser: argparse.ArgumentParser) -> None:
    parser.description = "Deletes objects of a control plane."
    parser.epilog = _EPILOG
    add_selection(parser)
    add_plane(parser)
    parser.add_argument("--wait", action=argparse.BooleanOptionalAction, default=True, help="until they are gone (yes)")
    add_timeout(parser)
    parser.add_argument("--ignore-not-found", action="store_true", help="what is not there is no error")


def run(arguments: argparse.Namespace) -> int:
    objects = PlaneObjects(plane_of(arguments))
    targets = select(objects, arguments)
    if not targets:
        print("nothing matches, so nothing is deleted")
        return 0
    ordered = targets[::-1] if arguments.manifests else targets
    deleted = [each for each in ordered if _is_deleted(objects, each)]
    missing = len(deleted) < len(targets) and not arguments.ignore_not_found
    if arguments.wait:
        ends = ends_of(arguments)
        gone = [wait_for(objects, each, WaitGoal.DELETED, ends) for each in deleted]
        if not all(gone):
            return _HELD
    return _MISSING if missing else 0


def _is_deleted(objects: PlaneObjects, target: SelectedObject) -> bool:
    """One that is not there keeps none of the others."""
    try:
        objects.delete(*target)
    except NotFoundError as error:
        print(f"modelplane delete: {error}", file=sys.stderr)
        return False
    print(f"{target.title} is being deleted", flush=True)
    return True
