"""`modelplane trace`: what an object leads to, as a tree."""

import argparse
from typing import TYPE_CHECKING

from modelplane.cli._formats import add_plane, add_watch, data_text, plane_of, print_changes, table_text
from modelplane.cli._kinds import read_target
from modelplane.cli._objects import PlaneObjects, add_namespace

if TYPE_CHECKING:
    from modelplane.views.object_tree import ObjectTree, TracedObjects

_EPILOG = """\
examples:
  modelplane trace md/qwen3-8b                  its caches and replicas, their clusters, endpoints and services
  modelplane trace ms chat -w                   from the service back to the clusters, again when something changes
  modelplane trace inferencecluster/east        every replica there, and the services that it answers for
  modelplane trace md/qwen3-8b -n team -o json --kubeconfig ~/.kube/config

Each object has its state, since when, and its own words for why. Pods are on the clusters: a replica says what they
wait for. `modelplane explain md/NAME` says why replicas are where they are.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.description = "Shows what an object leads to, from deployment over replicas and endpoints to services."
    parser.epilog = _EPILOG
    parser.add_argument("words", metavar="KIND/NAME", nargs="+", help="the object: KIND NAME or KIND/NAME")
    add_namespace(parser)
    add_plane(parser)
    parser.add_argument("-o", "--output", choices=("text", "json", "yaml"), default="text", help="text, json or yaml")
    add_watch(parser)


def run(arguments: argparse.Namespace) -> int:
    from modelplane.views.object_tree import TREE_KINDS

    kind, name = read_target(arguments.words, TREE_KINDS)
    objects = PlaneObjects(plane_of(arguments))
    resource = objects.resource(kind)
    namespace = arguments.namespace if resource.namespaced else ""

    def text() -> str:
        traced = _read(objects, namespace)
        with objects.suggesting(resource, namespace, name):
            return tree_text(traced.tree(kind, namespace, name), arguments.output)

    print_changes(text, watch=arguments.watch)
    return 0


def _read(objects: PlaneObjects, namespace: str) -> "TracedObjects":
    """Of one namespace, as far as kinds have one: that is all that whoever works in it may read."""
    from modelplane.views.object_tree import TREE_KINDS, TracedObjects

    resources = [objects.resource(kind) for kind in TREE_KINDS]
    return TracedObjects.of(item for each in resources for item in objects.list(each, namespace))


def tree_text(tree: "ObjectTree", output: str) -> str:
    if output != "text":
        import msgspec

        return data_text(msgspec.to_builtins(tree), output)
    header = ("OBJECT", "NAMESPACE", "HEALTH", "SINCE", "WHY")
    rows = [(title, each.namespace, each.state, each.since, each.why) for title, each in tree.rows()]
    if not tree.namespace:
        return table_text(header, rows)
    return table_text((header[0], *header[2:]), ((row[0], *row[2:]) for row in rows))
