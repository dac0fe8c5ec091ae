"""`modelplane render`: the objects that deployments become, each with the cluster that it is for."""

import argparse
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from modelplane.api.errors import InputError
from modelplane.api.objects import name_of, namespace_of, text_at
from modelplane.cli._formats import data_text
from modelplane.cli._images import add_images, images_of
from modelplane.cli._shown import add_edited_namespace, add_inputs, read_change

if TYPE_CHECKING:
    from modelplane.compose.contract import Remote

_EPILOG = """\
examples:
  modelplane render -f examples/quickstart                     every object, as YAML
  modelplane render -f examples/ --cluster east                those of one cluster
  modelplane render -f model.yaml --data                       what changes in the running plane of this machine
  modelplane render -f model.yaml --kubeconfig ~/.kube/config  on the clusters of a control plane
  diff <(modelplane render -f old.yaml) <(modelplane render -f new.yaml)

Equal inputs give equal text: objects are in the order of cluster, kind, namespace and name. Nothing is applied.
Beside a fleet that is there, the objects of the deployments in the manifests are shown, and those of others that the
manifests change; --all shows every object of the fleet. Workloads are shown as they will be once their caches are
staged and their Secrets are there. A deployment that no cluster can run is refused with the reason.
"""
_NOTHING = (
    "nothing is rendered: the manifests place no replica and change none that is there; "
    "`modelplane plan` with the same options says why"
)


def configure(parser: argparse.ArgumentParser) -> None:
    parser.description = "Shows the objects that deployments become on their clusters, without applying anything."
    parser.epilog = _EPILOG
    add_inputs(parser, manifests_required=True)
    add_edited_namespace(parser)
    parser.add_argument("--all", dest="every", action="store_true", help="also the objects that stay as they are")
    parser.add_argument("--cluster", metavar="NAME", help="the objects of one cluster")
    add_images(parser)
    parser.add_argument("-o", "--output", choices=("yaml", "json"), default="yaml")


def run(arguments: argparse.Namespace) -> int:
    from modelplane.views.offline import render, render_change

    change, images = read_change(arguments), images_of(arguments)
    edited = {(namespace_of(item), name_of(item)) for item in change.edits.deployments}
    rendered = (
        render(change.after, images=images)
        if arguments.every
        else render_change(change.before, change.after, edited, images=images)
    )
    if not rendered:
        print(_NOTHING, file=sys.stderr)
    found = sorted(_selected(rendered, arguments.cluster), key=_place)
    if arguments.output == "json":
        sys.stdout.write(data_text([{"cluster": each.cluster, "object": each.manifest} for each in found], "json"))
    else:
        sys.stdout.write("---\n".join(_documents(found)))
    return 0


def _selected(found: Sequence["Remote"], cluster: str | None) -> list["Remote"]:
    known = sorted({each.cluster for each in found})
    if cluster is not None and cluster not in known:
        raise InputError(f"nothing is rendered for cluster {cluster!r}; replicas are on {', '.join(known) or 'none'}")
    return [each for each in found if cluster in {None, each.cluster}]


def _place(item: "Remote") -> tuple[str, str, str, str]:
    return item.cluster, text_at(item.manifest, "kind"), namespace_of(item.manifest), name_of(item.manifest)


def _documents(found: Sequence["Remote"]) -> Iterator[str]:
    for each in found:
        yield f"# cluster {each.cluster}\n{data_text(each.manifest, 'yaml')}"
