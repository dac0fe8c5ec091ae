"""`modelplane events`: what happened to objects, the newest last."""

import argparse
import time
from collections.abc import Iterable, Mapping, Sequence

from modelplane.api.objects import text_at
from modelplane.cli._formats import add_formats, add_plane, data_text, plane_of, table_text
from modelplane.cli._kinds import read_name
from modelplane.cli._objects import ApiResource, PlaneObjects, add_namespace
from modelplane.views.events import event_subject, event_version, last_seen

_EPILOG = """\
examples:
  modelplane events                           of the namespace default; clusters' are there as well
  modelplane events -A -w                     of all namespaces, and new ones as they come
  modelplane events md/qwen3-8b               of one object; --for md/qwen3-8b, as kubectl spells it
  modelplane events -n team --types Warning -o json
"""
EVENTS = ApiResource("v1", "Event", "events", namespaced=True)
_EVERY_S = 1.0


def configure(parser: argparse.ArgumentParser) -> None:
    parser.description = "Shows the events of a control plane."
    parser.epilog = _EPILOG
    add_namespace(parser, every=True)
    add_plane(parser)
    add_formats(parser)
    parser.add_argument("words", metavar="KIND/NAME", nargs="*", help="those of one object, as with --for")
    parser.add_argument("--for", dest="target", metavar="KIND/NAME", help="those of one object")
    parser.add_argument("--types", choices=("Normal", "Warning"), help="those of one type")
    parser.add_argument("-w", "--watch", action="store_true", help="go on with new ones, until interrupted")


def run(arguments: argparse.Namespace) -> int:
    objects = PlaneObjects(plane_of(arguments))
    found = _selected(objects, arguments)
    if not found and not arguments.watch:
        _check_target(objects, arguments)
    print(_text(found, arguments.output, heads=True), end="", flush=True)
    while arguments.watch:
        time.sleep(_EVERY_S)
        seen = {event_version(event) for event in found}
        found = _selected(objects, arguments)
        new = [event for event in found if event_version(event) not in seen]
        print(_text(new, arguments.output, heads=False) if new else "", end="", flush=True)
    return 0


def _target(arguments: argparse.Namespace) -> tuple[str, str] | None:
    words = [arguments.target] if arguments.target else arguments.words
    return read_name(words) if words else None


def _check_target(objects: PlaneObjects, arguments: argparse.Namespace) -> None:
    """An object without events may be a name that was mistyped. With -A it has no namespace to be read from."""
    target = _target(arguments)
    if target is not None and not arguments.all_namespaces:
        objects.get(objects.resource(target[0]), arguments.namespace, target[1])


def _selected(objects: PlaneObjects, arguments: argparse.Namespace) -> list[Mapping[str, object]]:
    namespace, target = "" if arguments.all_namespaces else arguments.namespace, _target(arguments)
    found = [
        event
        for event in objects.list(EVENTS, namespace)
        if arguments.types in {None, event.get("type")} and (target is None or event_subject(event) == target)
    ]
    return sorted(found, key=last_seen)


def events_of(objects: PlaneObjects, kind: str, namespace: str, name: str) -> list[Mapping[str, object]]:
    """Those of one object. An object without a namespace has them in `default`."""
    found = objects.list(EVENTS, namespace or "default")
    return sorted((event for event in found if event_subject(event) == (kind, name)), key=last_seen)


def events_text(events: Iterable[Mapping[str, object]]) -> str:
    rows = [_row(event, time.time()) for event in events]
    return table_text(("LAST SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE"), rows)


def _text(events: Sequence[Mapping[str, object]], output: str, *, heads: bool) -> str:
    if output in {"json", "yaml"}:
        return data_text({"apiVersion": "v1", "kind": "List", "items": list(events)}, output)
    if output == "name":
        return "".join(f"event/{text_at(event, 'metadata', 'name')}\n" for event in events)
    if not events:
        return "nothing happened, or it is longer ago than events are kept\n" if heads else ""
    text = events_text(events)
    return text if heads else text.partition("\n")[2]


def _row(event: Mapping[str, object], now: float) -> tuple[str, ...]:
    from modelplane.apiserver.tables import duration

    kind, name = event_subject(event)
    count = event.get("count")
    often = f" (x{count})" if isinstance(count, int) and count > 1 else ""
    last_s = last_seen(event)[0]
    age = duration(now - last_s) if last_s else "-"
    return (
        f"{age}{often}",
        text_at(event, "type"),
        text_at(event, "reason"),
        f"{kind}/{name}",
        text_at(event, "message"),
    )
