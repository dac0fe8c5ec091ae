"""`modelplane describe`: objects with their conditions and what happened to them."""

import argparse
from collections.abc import Iterator, Mapping

from modelplane.api.objects import annotations_of, items_at, labels_of, text_at
from modelplane.cli._formats import add_plane, plane_of, table_text
from modelplane.cli._objects import PlaneObjects
from modelplane.cli._selection import SelectedObject, add_selection, select
from modelplane.cli.events import events_of, events_text
from modelplane.k8s.admission.decode import escape

_EPILOG = """\
examples:
  modelplane describe md qwen3-8b
  modelplane describe md -l team=search            those with a label; --all: all of the namespace
  modelplane describe inferencecluster/east --kubeconfig ~/.kube/config

`modelplane explain md/NAME` says why its replicas are where they are.
"""
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


def configure(parser: argparse.ArgumentParser) -> None:
    parser.description = "Shows objects, their conditions and their events."
    parser.epilog = _EPILOG
    add_selection(parser)
    add_plane(parser)


def run(arguments: argparse.Namespace) -> int:
    objects = PlaneObjects(plane_of(arguments))
    for number, target in enumerate(select(objects, arguments)):
        print("\n\n" if number else "", end="")
        _describe(objects, target)
    return 0


def _describe(objects: PlaneObjects, target: SelectedObject) -> None:
    kind = target.resource.kind
    namespace = target.namespace if target.resource.namespaced else ""
    item = objects.get(target.resource, namespace, target.name)
    events = events_of(objects, kind, namespace, target.name)
    print("\n".join(_head(kind, item)))
    print("".join(_parts(item)), end="")
    print("\nEvents:\n" + (_indented(events_text(events)) if events else "  none\n"), end="")


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
