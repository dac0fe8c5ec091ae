"""`modelplane describe`: one object with its conditions and what happened to it."""

import argparse
from collections.abc import Iterator, Mapping

from modelplane.api.objects import annotations_of, items_at, labels_of, text_at
from modelplane.cli._formats import add_plane, plane_of, table_text
from modelplane.cli._kinds import read_name
from modelplane.cli._objects import PlaneObjects, add_namespace
from modelplane.cli.events import events_of, events_text
from modelplane.k8s.admission.decode import escape

_EPILOG = """\
examples:
  modelplane describe md qwen3-8b
  modelplane describe inferencecluster/east --kubeconfig ~/.kube/config

`modelplane explain md/NAME` says why its replicas are where they are.
"""
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


def configure(parser: argparse.ArgumentParser) -> None:
    parser.description = "Shows an object, its conditions and its events."
    parser.epilog = _EPILOG
    parser.add_argument("words", metavar="KIND/NAME", nargs="+", help="the object: KIND NAME or KIND/NAME")
    add_namespace(parser)
    add_plane(parser)


def run(arguments: argparse.Namespace) -> int:
    kind, name = read_name(arguments.words)
    objects = PlaneObjects(plane_of(arguments))
    resource = objects.resource(kind)
    namespace = arguments.namespace if resource.namespaced else ""
    item = objects.get(resource, namespace, name)
    events = events_of(objects, kind, namespace, name)
    print("\n".join(_head(kind, item)))
    print("".join(_parts(item)), end="")
    print("\nEvents:\n" + (_indented(events_text(events)) if events else "  none\n"), end="")
    return 0


def _head(kind: str, item: Mapping[str, object]) -> Iterator[str]:
    rows = {"Name": text_at(item, "metadata", "name"), "Namespace": text_at(item, "metadata", "namespace")}
    rows |= {"Kind": kind, "Created": text_at(item, "metadata", "creationTimestamp")}
    rows |= {"Deleted": text_at(item, "metadata", "deletionTimestamp")}
    marks = {key: value for key, value in annotations_of(item).items() if key != _LAST_APPLIED}
    for title, entries in (("Labels", labels_of(item)), ("Annotations", marks)):
        rows[title] = ", ".join(f"{key}={value}" for key, value in entries.items())
    rows |= {"Reason": text_at(item, "status", "reason"), "Message": text_at(item, "status", "message")}
    yield from (f"{title + ':':<13}{escape(value)}" for title, value in rows.items() if value)


def _parts(item: Mapping[str, object]) -> Iterator[str]:
    from modelplane.k8s.yaml import to_yaml

    conditions = list(items_at(item, "status", "conditions"))
    if conditions:
        fields = ("type", "status", "reason", "lastTransitionTime", "message")
        rows = [tuple(text_at(each, field) for field in fields) for each in conditions]
        yield "\nConditions:\n" + _indented(table_text(("TYPE", "STATUS", "REASON", "SINCE", "MESSAGE"), rows))
    for title in ("spec", "status"):
        part = item.get(title)
        if isinstance(part, Mapping):
            rest = {key: value for key, value in part.items() if key not in {"conditions", "reason", "message"}}
            if rest:
                yield f"\n{title.capitalize()}:\n" + _indented(to_yaml(rest))


def _indented(text: str) -> str:
    return "".join(f"  {line}\n" for line in text.splitlines())
