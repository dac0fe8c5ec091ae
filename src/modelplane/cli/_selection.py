"""Which objects a command is about, as kubectl selects them: by name, by manifests, by labels, or all of a kind."""

import argparse
from collections.abc import Iterator
from typing import NamedTuple

from modelplane.api.errors import InputError
from modelplane.api.objects import name_of, namespace_of, text_at
from modelplane.cli._kinds import read_objects
from modelplane.cli._objects import ApiResource, PlaneObjects, add_namespace
from modelplane.cli.apply import manifests_of


class SelectedObject(NamedTuple):
    resource: ApiResource
    namespace: str
    name: str

    @property
    def title(self) -> str:
        return self.resource.shown(self.name)


def add_labels(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-l", "--selector", default="", metavar="LABELS", help="those with these labels: a=b,c!=d")


def add_selection(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("words", metavar="KIND NAME", nargs="*", help="a kind and names, or KIND/NAME, several")
    parser.add_argument(
        "-f", "--filename", dest="manifests", metavar="PATH", nargs="+", action="extend", default=[],
        help="the objects of manifests",
    )  # fmt: skip
    add_labels(parser)
    parser.add_argument("--all", dest="every", action="store_true", help="all of the kind, in the namespace")
    add_namespace(parser, every=True)


def select(objects: PlaneObjects, arguments: argparse.Namespace) -> list[SelectedObject]:
    """In the order of the words or the files."""
    _refuse_contradictions(arguments)
    if arguments.manifests:
        return list(_of_files(objects, arguments))
    return list(_of_words(objects, arguments))


def _refuse_contradictions(arguments: argparse.Namespace) -> None:
    several = bool(arguments.selector or arguments.every)
    if bool(arguments.words) == bool(arguments.manifests):
        raise InputError("give KIND NAME, or manifests by -f")
    if several and arguments.manifests:
        raise InputError("-l and --all go with a kind, and not with -f")
    if arguments.selector and arguments.every:
        raise InputError("give -l or --all, not both")
    if arguments.all_namespaces and not several:
        raise InputError("-A goes with -l or --all: a name is in one namespace")


def _of_words(objects: PlaneObjects, arguments: argparse.Namespace) -> Iterator[SelectedObject]:
    several = bool(arguments.selector or arguments.every)
    for kind, names in read_objects(arguments.words):
        if several and names:
            raise InputError(f"give names of the {kind}, or -l or --all")
        if not several and not names:
            raise InputError(f"name the {kind}, or select some by -l LABELS or --all")
        resource = objects.resource(kind)
        if not several:
            yield from (SelectedObject(resource, arguments.namespace, name) for name in names)
            continue
        namespace = "" if arguments.all_namespaces else arguments.namespace
        for item in objects.list(resource, namespace, arguments.selector):
            yield SelectedObject(resource, namespace_of(item), name_of(item))


def _of_files(objects: PlaneObjects, arguments: argparse.Namespace) -> Iterator[SelectedObject]:
    for item in manifests_of(arguments.manifests):
        resource = objects.resource(text_at(item, "kind"), text_at(item, "apiVersion"))
        yield SelectedObject(resource, namespace_of(item) or arguments.namespace, name_of(item))
