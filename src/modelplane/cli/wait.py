"""`modelplane wait`: until an object is ready, has another condition, or is gone, with progress."""

import argparse
import re
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from modelplane.api.objects import items_at, mapping_at, text_at
from modelplane.cli._formats import add_plane, plane_of
from modelplane.cli._kinds import read_names
from modelplane.cli._objects import ApiResource, PlaneObjects, add_namespace
from modelplane.k8s.admission.decode import escape

_EPILOG = """\
examples:
  modelplane wait md/qwen3-8b                                     until it is Ready
  modelplane wait md qwen3-8b --for condition=Placed --timeout 60
  modelplane wait inferencecluster east --for condition=Ready=False
  modelplane wait md/qwen3-8b --for delete

Each change of its reason is a line. Exit codes: 0 it is so, 1 refused, 3 the time is over.
"""
_FOR = re.compile(r"delete|condition=([A-Za-z]+)(?:=([A-Za-z]+))?")
_EVERY_S = 0.5
_NOT_YET = 3


@dataclass(frozen=True, slots=True)
class WaitGoal:
    """A condition with a status, or that the object is gone."""

    condition: str = "Ready"
    status: str = "True"

    DELETED: ClassVar["WaitGoal"]
    """Without a condition."""

    def is_met(self, item: Mapping[str, object] | None) -> bool:
        if not self.condition or item is None:
            return item is None and not self.condition
        found = (each for each in items_at(item, "status", "conditions") if each.get("type") == self.condition)
        return any(text_at(each, "status").lower() == self.status.lower() for each in found)

    def __str__(self) -> str:
        return f"condition {self.condition} {self.status}" if self.condition else "deleted"


WaitGoal.DELETED = WaitGoal("")


def configure(parser: argparse.ArgumentParser) -> None:
    parser.description = "Waits for an object, and shows what it waits for."
    parser.epilog = _EPILOG
    parser.add_argument("words", metavar="KIND/NAME", nargs="+", help="the object: KIND NAME or KIND/NAME")
    parser.add_argument(
        "--for", dest="goal", type=_goal, default=WaitGoal(), metavar="WHAT",
        help="condition=TYPE, condition=TYPE=STATUS or delete (condition=Ready)",
    )  # fmt: skip
    parser.add_argument("--timeout", type=float, default=None, metavar="S", help="how long to wait (no limit)")
    add_namespace(parser)
    add_plane(parser)


def _goal(text: str) -> WaitGoal:
    found = _FOR.fullmatch(text)
    if found is None:
        raise argparse.ArgumentTypeError(f"{text!r} is none of condition=TYPE, condition=TYPE=STATUS, delete")
    return WaitGoal(found[1], found[2] or "True") if found[1] else WaitGoal.DELETED


def run(arguments: argparse.Namespace) -> int:
    (kind, *_), names = read_names(arguments.words)
    objects = PlaneObjects(plane_of(arguments))
    resource = objects.resource(kind)
    ends = None if arguments.timeout is None else time.monotonic() + arguments.timeout
    for name in names:
        if arguments.goal.condition:
            objects.get(resource, arguments.namespace, name)  # one that is not there is refused at once
        if not wait_for(objects, resource, arguments.namespace, name, arguments.goal, ends):
            return _NOT_YET
    return 0


def wait_for(
    objects: PlaneObjects, resource: ApiResource, namespace: str, name: str, goal: WaitGoal, ends: float | None
) -> bool:
    """Whether it came to that in time."""
    shown, title = "", resource.shown(name)
    while not goal.is_met(item := objects.find(resource, namespace, name)):
        why = _why(item, goal)
        if why != shown:
            print(f"{title}: {why}", flush=True)
            shown = why
        if ends is not None and time.monotonic() >= ends:
            print(f"{title}: not {goal} in time", file=sys.stderr)
            return False
        time.sleep(_EVERY_S)
    print(f"{title}: {goal}", flush=True)
    return True


def _why(item: Mapping[str, object] | None, goal: WaitGoal) -> str:
    """The condition's own words, else those of the object's status."""
    if item is None:
        return "it is gone"
    wanted = goal.condition or "Deletable"
    conditions = (each for each in items_at(item, "status", "conditions") if each.get("type") == wanted)
    parts = [mapping_at(item, "status"), *conditions]
    said = (f"{text_at(part, 'reason')}: {text_at(part, 'message')}".strip(": ") for part in parts)
    return escape(next((text for text in said if text), "")) or "nothing was decided yet"
