"""`modelplane wait`: until objects are ready, have another condition or value, or are gone, with progress."""

import argparse
import re
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from modelplane.api.errors import NotFoundError
from modelplane.api.objects import items_at, mapping_at, text_at
from modelplane.cli._formats import add_plane, duration_s, plane_of
from modelplane.cli._kinds import ALL, CORE_KINDS, kinds_of_word
from modelplane.cli._objects import PlaneObjects
from modelplane.cli._selection import SelectedObject, add_selection, select
from modelplane.k8s.admission.decode import escape
from modelplane.k8s.jsonpath import find

_EPILOG = """\
examples:
  modelplane wait md/qwen3-8b                                     until it is Ready
  modelplane wait md/qwen3-8b ms/chat                             until both are
  modelplane wait -f examples/quickstart --timeout 5m             until all of the files are
  modelplane wait md --all -n team                                or -l team=search: those with a label
  modelplane wait md qwen3-8b --for condition=Placed --timeout 60
  modelplane wait inferencecluster east --for condition=Ready=False
  modelplane wait md/qwen3-8b --for jsonpath='{.status.readyReplicas}'=3
  modelplane wait md/qwen3-8b --for create                        until somebody has made it
  modelplane wait md/qwen3-8b --for delete

Each change of its reason is a line. Of manifests, Namespaces, Secrets and ConfigMaps are left out: they have no
conditions. Exit codes: 0 it is so, 1 refused, 3 the time is over.
"""
_FORMS = "condition=TYPE, condition=TYPE=STATUS, jsonpath=PATH=VALUE, create, delete"
_CONDITION = re.compile(r"condition=([A-Za-z]+)(?:=([A-Za-z]+))?")
_JSONPATH = re.compile(r"jsonpath=(\{.*\}|[^{=]+)(?:=(.*))?")
_EVERY_S = 0.5
_NOT_YET = 3


@dataclass(frozen=True, slots=True)
class WaitGoal:
    """A condition with a status, a value at a path, or that the object is there or gone."""

    condition: str = "Ready"
    status: str = "True"
    path: str = ""
    value: str | None = None
    """None: any value."""

    CREATED: ClassVar["WaitGoal"]
    DELETED: ClassVar["WaitGoal"]

    def is_met(self, item: Mapping[str, object] | None) -> bool:
        if self == WaitGoal.DELETED or item is None:
            return item is None and self == WaitGoal.DELETED
        if self.path:
            return any(self.value is None or _shown(value) == self.value for value in find(self.path, item))
        found = (each for each in items_at(item, "status", "conditions") if each.get("type") == self.condition)
        return self == WaitGoal.CREATED or any(text_at(each, "status").lower() == self.status.lower() for each in found)

    def __str__(self) -> str:
        if self.path:
            return f"{self.path} {'there' if self.value is None else self.value}"
        return f"condition {self.condition} {self.status}" if self.condition else self.status


WaitGoal.CREATED = WaitGoal("", "created")
WaitGoal.DELETED = WaitGoal("", "deleted")
_PLAIN: Mapping[str, WaitGoal] = {"create": WaitGoal.CREATED, "delete": WaitGoal.DELETED}


def configure(parser: argparse.ArgumentParser) -> None:
    parser.description = "Waits for objects, and shows what it waits for."
    parser.epilog = _EPILOG
    add_selection(parser)
    parser.add_argument(
        "--for", dest="goal", type=_goal, default=WaitGoal(), metavar="WHAT", help=f"{_FORMS} (condition=Ready)"
    )
    add_timeout(parser)
    add_plane(parser)


def add_timeout(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--timeout", type=duration_s, default=None, metavar="TIME", help="how long to wait: 30, 90s, 5m (no limit)"
    )


def ends_of(arguments: argparse.Namespace) -> float | None:
    return None if arguments.timeout is None else time.monotonic() + arguments.timeout


def _goal(text: str) -> WaitGoal:
    if text in _PLAIN:
        return _PLAIN[text]
    if found := _CONDITION.fullmatch(text):
        return WaitGoal(found[1], found[2] or "True")
    if found := _JSONPATH.fullmatch(text):
        try:
            find(found[1], {})
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None
        return WaitGoal("", "", found[1], found[2])
    raise argparse.ArgumentTypeError(f"{text!r} is none of {_FORMS}")


def run(arguments: argparse.Namespace) -> int:
    objects = PlaneObjects(plane_of(arguments))
    targets = select(objects, arguments)
    if arguments.goal not in _PLAIN.values():
        targets = [each for each in targets if _can_be_met(objects, each, arguments)]
    if not targets and arguments.goal != WaitGoal.DELETED:
        raise NotFoundError("nothing matches, so there is nothing to wait for")
    ends = ends_of(arguments)
    met = [wait_for(objects, each, arguments.goal, ends) for each in targets]
    return 0 if all(met) else _NOT_YET


def _can_be_met(objects: PlaneObjects, target: SelectedObject, arguments: argparse.Namespace) -> bool:
    """One that is not there is refused at once. Of manifests, kinds without conditions are left out."""
    objects.get(*target)
    return not arguments.manifests or bool(arguments.goal.path) or target.resource.kind not in CORE_KINDS


def wait_for(objects: PlaneObjects, target: SelectedObject, goal: WaitGoal, ends: float | None) -> bool:
    """Whether it came to that in time."""
    shown = ""
    while not goal.is_met(item := objects.find(*target)):
        why = _why(item, goal)
        if why != shown:
            print(f"{target.title}: {why}", flush=True)
            shown = why
        if ends is not None and time.monotonic() >= ends:
            print(
                f"{target.title}: the time is over and it is not so: {goal}{_next(item, target, goal)}", file=sys.stderr
            )
            return False
        time.sleep(_EVERY_S)
    print(f"{target.title}: {goal}", flush=True)
    return True


def _next(item: Mapping[str, object] | None, target: SelectedObject, goal: WaitGoal) -> str:
    """What to type next: the conditions that there are, or the command that says what it waits for."""
    known = sorted(text_at(each, "type") for each in items_at(item or {}, "status", "conditions"))
    if goal.condition and known and goal.condition not in known:
        return f"; its conditions are {', '.join(known)}"
    if item is None or target.resource.kind not in kinds_of_word(ALL):
        return ""
    where = f" -n {target.namespace}" if target.namespace not in {"", "default"} else ""
    return f"; `modelplane trace {target.resource.kind.lower()}/{target.name}{where}` shows what it waits for"


def _shown(value: object) -> str:
    """As kubectl prints it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _why(item: Mapping[str, object] | None, goal: WaitGoal) -> str:
    """The condition's own words, else those of the object's status."""
    if item is None:
        return "it is not there yet" if goal == WaitGoal.CREATED else "it is gone"
    if goal.path:
        found = find(goal.path, item)
        return escape(f"{goal.path} is {', '.join(map(_shown, found))}" if found else f"{goal.path} is not there")
    wanted = goal.condition or "Deletable"
    conditions = (each for each in items_at(item, "status", "conditions") if each.get("type") == wanted)
    parts = [mapping_at(item, "status"), *conditions]
    said = (f"{text_at(part, 'reason')}: {text_at(part, 'message')}".strip(": ") for part in parts)
    return escape(next((text for text in said if text), "")) or "nothing was decided yet"
