"""`modelplane get`: objects of a control plane, in the columns that its API gives them."""

import argparse
from collections.abc import Iterator, Mapping, Sequence

from modelplane.api.errors import InputError
from modelplane.api.objects import items_at, text_at, value_at
from modelplane.cli._formats import (
    add_formats,
    add_plane,
    add_watch,
    data_text,
    plane_of,
    print_changes,
    table_text,
    without_ages,
)
from modelplane.cli._kinds import read_objects
from modelplane.cli._objects import ApiResource, PlaneObjects, add_namespace
from modelplane.cli._selection import add_labels

_EPILOG = """\
examples:
  modelplane get md                              the ModelDeployments of the namespace default
  modelplane get md,ms -A                        deployments and services of all namespaces
  modelplane get inferencecluster east -o yaml   one object, whole
  modelplane get md/qwen3-8b ms/chat             objects of several kinds
  modelplane get mr -l modelplane.ai/deployment=qwen3-8b   those with a label
  modelplane get all -n team -w                  again whenever something changes, until Ctrl-C
  modelplane get md -o name --kubeconfig ~/.kube/config

Kinds are spelled as kubectl spells them: md, modeldeployment, modeldeployments. `all` is what serves models.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.description = "Shows objects of a control plane."
    parser.epilog = _EPILOG
    parser.add_argument("words", metavar="KIND [NAME]", nargs="+", help="a kind, several with commas, or all; names")
    add_labels(parser)
    add_namespace(parser, every=True)
    add_plane(parser)
    add_formats(parser)
    add_watch(parser)


_Wanted = tuple[ApiResource, tuple[str, ...]]
"""A kind, and the names that are meant; none: all."""


def run(arguments: argparse.Namespace) -> int:
    wanted = read_objects(arguments.words)
    if arguments.selector and any(names for _, names in wanted):
        raise InputError("give names or -l, not both")
    objects = PlaneObjects(plane_of(arguments))
    resources = [(objects.resource(kind), names) for kind, names in wanted]
    essence = without_ages if arguments.output in {"text", "wide"} else str
    print_changes(lambda: _text(objects, resources, arguments), watch=arguments.watch, essence=essence)
    return 0


def _text(objects: PlaneObjects, wanted: Sequence[_Wanted], arguments: argparse.Namespace) -> str:
    if arguments.output in {"text", "wide"}:
        tables = [text for each in wanted for text in _tables(objects, each, arguments)]
        return "\n".join(tables) or _nothing(arguments)
    found = [(each[0], item) for each in wanted for item in _items(objects, each, arguments)]
    if arguments.output == "name":
        return "".join(f"{each.shown(text_at(item, 'metadata', 'name'))}\n" for each, item in found)
    if len(found) == 1 and wanted[0][1]:
        return data_text(found[0][1], arguments.output)
    return data_text({"apiVersion": "v1", "kind": "List", "items": [item for _, item in found]}, arguments.output)


def _nothing(arguments: argparse.Namespace) -> str:
    labels = " with these labels" if arguments.selector else ""
    if arguments.all_namespaces:
        return f"nothing is in all namespaces{labels}\n"
    return f"nothing is in namespace {arguments.namespace}{labels}; -A shows all namespaces\n"


def _namespace(arguments: argparse.Namespace) -> str:
    return "" if arguments.all_namespaces else arguments.namespace


def _items(objects: PlaneObjects, wanted: _Wanted, arguments: argparse.Namespace) -> Sequence[Mapping[str, object]]:
    (resource, names), namespace = wanted, _namespace(arguments)
    if names:
        return [objects.get(resource, namespace, name) for name in names]
    return objects.list(resource, namespace, arguments.selector)


def _tables(objects: PlaneObjects, wanted: _Wanted, arguments: argparse.Namespace) -> Iterator[str]:
    """None where there is nothing, as with kubectl."""
    (resource, names), namespace = wanted, _namespace(arguments)
    found = [objects.table(resource, namespace, name, arguments.selector) for name in (names or ("",))]
    wide = arguments.output == "wide"
    columns = [
        (index, text_at(each, "name"))
        for index, each in enumerate(items_at(found[0], "columnDefinitions"))
        if wide or not value_at(each, "priority")
    ]
    first = ("NAMESPACE",) if arguments.all_namespaces and resource.namespaced else ()
    rows = [(*_place(row, first), *_cells(row, columns)) for table in found for row in items_at(table, "rows")]
    if rows:
        titles = (name.upper() if index else resource.kind.upper() for index, name in columns)
        yield table_text((*first, *titles), rows)


def _place(row: Mapping[str, object], first: Sequence[str]) -> tuple[str, ...]:
    return (text_at(row, "object", "metadata", "namespace"),) if first else ()


def _cells(row: Mapping[str, object], columns: Sequence[tuple[int, str]]) -> Iterator[str]:
    cells = row.get("cells")
    listed = cells if isinstance(cells, list) else []
    for index, _ in columns:
        cell = listed[index] if index < len(listed) else None
        yield "" if cell is None else str(cell)
