"""`modelplane apply`: manifests are checked, then applied as kubectl applies them on the server's side."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from modelplane.api.errors import ConflictError, InputError
from modelplane.api.objects import Manifest, text_at
from modelplane.cli._formats import add_plane, plane_of
from modelplane.cli._objects import PlaneObjects, add_namespace
from modelplane.cli._shown import reviewed_documents

_EPILOG = """\
examples:
  modelplane apply -f examples/quickstart
  modelplane apply -f model.yaml -n team
  modelplane apply -f - --kubeconfig ~/.kube/config
  modelplane plan -f model.yaml                what it would place, before it is applied

Nothing is applied when one of the manifests is wrong. Namespaces come first, then the order of the files.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.description = "Creates objects from manifests, or changes those that exist."
    parser.epilog = _EPILOG
    add_files(parser)
    add_namespace(parser)
    add_plane(parser)
    parser.add_argument("--force-conflicts", action="store_true", help="take over fields that somebody else manages")


def add_files(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-f", "--filename", dest="manifests", metavar="PATH", nargs="+", action="extend", required=True,
        help="manifests: a file, a folder, or - for standard input",
    )  # fmt: skip


def manifests_of(paths: list[str | Path]) -> list[Manifest]:
    found = [document.value for document in reviewed_documents(paths) if isinstance(document.value, dict)]
    if not found:
        raise InputError(f"no manifest is in {', '.join(map(str, paths))}")
    return sorted(found, key=lambda item: item.get("kind") != "Namespace")


def run(arguments: argparse.Namespace) -> int:
    found = manifests_of(arguments.manifests)
    apply_all(PlaneObjects(plane_of(arguments)), found, arguments.namespace, force=arguments.force_conflicts)
    return 0


def apply_all(objects: PlaneObjects, found: Sequence[Manifest], namespace: str, *, force: bool) -> None:
    for manifest in found:
        name = text_at(manifest, "metadata", "name")
        try:
            resource, done = objects.apply(manifest, namespace, force=force)
        except ConflictError as error:
            raise ConflictError(f"{error}; --force-conflicts takes them over") from error
        print(f"{resource.shown(name)} {done}", flush=True)
