"""`modelplane version`: which version this program has, and which one the control plane runs."""

import argparse
import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from modelplane.api.errors import ModelplaneError
from modelplane.api.objects import text_at
from modelplane.api.version import __version__
from modelplane.cli._formats import add_plane, data_text, plane_of, table_text
from modelplane.cli.running import RunningPlane
from modelplane.k8s.admission.decode import escape

_EPILOG = """\
examples:
  modelplane version
  modelplane version -o json
  modelplane version --data ./plane
  modelplane version --kubeconfig ~/.kube/config     the plane's version is that of its Configuration package

Exit code 0 where no plane runs, too: a version that is not known is `-`. `modelplane --version` is the program's alone.
"""
_OF_EMBEDDED: Final = re.compile(r"\+modelplane\.(.+)")
_OF_PACKAGE: Final = re.compile(r":v?(\d[^:/@]*)(?:@|$)")
_CONFIGURATION: Final = "/apis/pkg.crossplane.io/v1/configurations/modelplane"


class PlaneVersion(NamedTuple):
    """What is known of a control plane, and why the rest is not."""

    plane: str = ""
    kubernetes: str = ""
    why: str = ""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.description = "Shows the versions of this program, of the plane and of the plane's Kubernetes API."
    parser.epilog = _EPILOG
    add_plane(parser)
    parser.add_argument("-o", "--output", choices=("text", "json", "yaml"), default="text", help="text, json or yaml")


def run(arguments: argparse.Namespace) -> int:
    print(version_text(_found(arguments), arguments.output), end="")
    return 0


def _found(arguments: argparse.Namespace) -> PlaneVersion:
    """A kubeconfig that cannot be read is wrong usage; a plane that does not run or answer is not."""
    if arguments.kubeconfig is not None:
        return plane_version(plane_of(arguments))
    try:
        plane = plane_of(arguments)
    except (ModelplaneError, OSError, ValueError) as error:
        return PlaneVersion(why=str(error))
    return plane_version(plane)


def plane_version(plane: RunningPlane) -> PlaneVersion:
    try:
        kubernetes = text_at(plane.request("GET", "/version"), "gitVersion")
    except (ModelplaneError, OSError, ValueError) as error:
        return PlaneVersion(why=str(error))
    embedded = _OF_EMBEDDED.search(kubernetes)
    return PlaneVersion(embedded[1], kubernetes) if embedded else _installed(plane, kubernetes)


def _installed(plane: RunningPlane, kubernetes: str) -> PlaneVersion:
    """On Crossplane the tag of the package is the version. One may be forbidden to read it, or it has a digest only."""
    try:
        package = text_at(plane.request("GET", _CONFIGURATION), "spec", "package")
    except (ModelplaneError, OSError, ValueError) as error:
        return PlaneVersion("", kubernetes, f"its Configuration modelplane cannot be read: {error}")
    tag = _OF_PACKAGE.search(package)
    return PlaneVersion(tag[1], kubernetes) if tag else PlaneVersion("", kubernetes, f"{package} has no version")


def version_text(found: PlaneVersion, output: str) -> str:
    if output != "text":
        return data_text(_data(found), output)
    rows = (("client", __version__), ("plane", found.plane or "-"), ("kubernetes", found.kubernetes or "-"))
    table = table_text(("COMPONENT", "VERSION"), rows)
    return f"{table}\n{escape(found.why)}\n" if found.why else table


def _data(found: PlaneVersion) -> Mapping[str, str | None]:
    known = {"client": __version__, "plane": found.plane or None, "kubernetes": found.kubernetes or None}
    return {**known, "message": found.why} if found.why else known
