"""`modelplane scale`: how many replicas a deployment has."""

import argparse

from modelplane.api.errors import InputError
from modelplane.api.objects import value_at
from modelplane.cli._formats import add_plane, plane_of
from modelplane.cli._kinds import read_name
from modelplane.cli._objects import PlaneObjects, add_namespace

_EPILOG = """\
examples:
  modelplane scale md/qwen3-8b --replicas 3
  modelplane scale md qwen3-8b --replicas 0 -n team
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.description = "Changes how many replicas a ModelDeployment has."
    parser.epilog = _EPILOG
    parser.add_argument("words", metavar="md/NAME", nargs="+", help="the ModelDeployment: md/NAME, or md NAME")
    parser.add_argument("--replicas", type=_count, required=True, metavar="N", help="how many it shall have")
    add_namespace(parser)
    add_plane(parser)


def _count(text: str) -> int:
    if not text.isdecimal() or not text.isascii():
        raise argparse.ArgumentTypeError(f"{text!r} is no number of replicas")
    return int(text)


def run(arguments: argparse.Namespace) -> int:
    kind, name = read_name(arguments.words)
    if kind != "ModelDeployment":
        raise InputError(f"a {kind} has no number of replicas; a ModelDeployment has")
    objects = PlaneObjects(plane_of(arguments))
    resource = objects.resource(kind)
    before = value_at(objects.get(resource, arguments.namespace, name), "spec", "replicas")
    objects.patch(resource, arguments.namespace, name, {"spec": {"replicas": arguments.replicas}}, "scale")
    print(f"{resource.shown(name)} scaled from {before} to {arguments.replicas}")
    return 0
