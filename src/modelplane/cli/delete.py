"""`modelplane delete`: deletes objects, and waits until they are gone while it says what holds them."""

import argparse
import sys
import time
from collections.abc import Iterator

from modelplane.api.errors import InputError, NotFoundError
from modelplane.api.objects import text_at
from modelplane.cli._formats import add_plane, plane_of
from modelplane.cli._kinds import read_names
from modelplane.cli._objects import ApiResource, PlaneObjects, add_namespace
from modelplane.cli.apply import manifests_of
from modelplane.cli.wait import WaitGoal, wait_for

_EPILOG = """\
examples:
  modelplane delete md qwen3-8b
  modelplane delete -f examples/quickstart          the last of the files first
  modelplane delete inferencecluster east --no-wait

An object that others use is deleted when they are gone; the wait says what holds it.
Exit codes: 0 deleted, 1 refused or not there, 3 the wait ended before that.
"""
_MISSING, _HELD = 1, 3


def configure(parser: argparse.ArgumentParser) -> None:
    parser.description = "Deletes objects of a control plane."
    parser.epilog = _EPILOG
    parser.add_argument("words", metavar="KIND NAME", nargs="*", help="a kind and names, or KIND/NAME")
    parser.add_argument(
        "-f", "--filename", dest="manifests", metavar="PATH", nargs="+", action="extend", default=[],
        help="the objects of manifests",
    )  # fmt: skip
    add_namespace(parser)
    add_plane(parser)
    parser.add_argument("--wait", action=argparse.BooleanOptionalAction, default=True, help="until they are gone (yes)")
    parser.add_argument("--timeout", type=float, default=None, metavar="S", help="how long to wait (no limit)")
    parser.add_argument("--ignore-not-found", action="store_true", help="what is not there is no error")


def run(arguments: argparse.Namespace) -> int:
    objects = PlaneObjects(plane_of(arguments))
    targets = list(_targets(objects, arguments))
    deleted = [each for each in targets if _is_deleted(objects, *each)]
    missing = len(deleted) < len(targets) and not arguments.ignore_not_found
    if arguments.wait:
        ends = None if arguments.timeout is None else time.monotonic() + arguments.timeout
        gone = [wait_for(objects, *each, WaitGoal.DELETED, ends) for each in deleted]
        if not all(gone):
            return _HELD
    return _MISSING if missing else 0


def _is_deleted(objects: PlaneObjects, resource: ApiResource, namespace: str, name: str) -> bool:
    """One that is not there keeps none of the others."""
    try:
        objects.delete(resource, namespace, name)
    except NotFoundError as error:
        print(f"modelplane delete: {error}", file=sys.stderr)
        return False
    print(f"{resource.shown(name)} is being deleted", flush=True)
    return True


def _targets(objects: PlaneObjects, arguments: argparse.Namespace) -> Iterator[tuple[ApiResource, str, str]]:
    if bool(arguments.words) == bool(arguments.manifests):
        raise InputError("give KIND NAME, or manifests by -f")
    if arguments.words:
        (kind, *_), names = read_names(arguments.words)
        if not names:
            raise InputError(f"name the {kind} to delete")
        resource = objects.resource(kind)
        yield from ((resource, arguments.namespace, name) for name in names)
        return
    for item in reversed(manifests_of(arguments.manifests)):
        resource = objects.resource(text_at(item, "kind"), text_at(item, "apiVersion"))
        namespace = text_at(item, "metadata", "namespace") or arguments.namespace
        yield resource, namespace, text_at(item, "metadata", "name")
