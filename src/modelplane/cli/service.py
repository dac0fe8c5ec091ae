"""`modelplane service`: the ways in to a service, its tiers, and why endpoints get no requests."""

import argparse
from contextlib import suppress
from pathlib import Path

import msgspec

from modelplane.api.errors import NotFoundError, UnavailableError
from modelplane.cli._formats import add_plane, add_watch, data_text, plane_of, print_changes
from modelplane.cli._kinds import read_target
from modelplane.cli._objects import PlaneObjects
from modelplane.cli._routers import fetch, router_urls
from modelplane.cli._shown import add_output
from modelplane.k8s.admission.decode import escape
from modelplane.views.services import EndpointShown, service_lines

_EPILOG = """\
examples:
  modelplane service chat
  modelplane service chat -n team --watch
  modelplane service ms/chat -o yaml
  modelplane service chat --kubeconfig ~/.kube/config

Health of endpoints and requests in flight come from the fleet router of a plane of this machine; a kubeconfig does not
say where the routers of a control plane are.

Exit codes: 0 shown, 1 no plane is running or no such service exists.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Shows a ModelService: its model name, its address, the share of each endpoint and why one has none. "
        "Where a fleet router decides, also the health of each endpoint and its requests in flight."
    )
    parser.epilog = _EPILOG
    parser.add_argument("name", metavar="NAME", help="the ModelService, or ms/NAME")
    parser.add_argument("-n", "--namespace", default="default", help="its namespace (default)")
    add_watch(parser)
    add_output(parser)
    add_plane(parser)


def run(arguments: argparse.Namespace) -> int:
    objects = PlaneObjects(plane_of(arguments))
    resource = objects.resource("ModelService")
    name = service_name(arguments.name)

    def text() -> str:
        service = objects.get(resource, arguments.namespace, name)
        if arguments.output != "text":
            return data_text(service, arguments.output)
        seen = _seen(arguments.data, f"{arguments.namespace}/{name}") if arguments.kubeconfig is None else None
        return "".join(f"{escape(line)}\n" for line in service_lines(service, seen))

    print_changes(text, watch=arguments.watch)
    return 0


def service_name(word: str) -> str:
    """Of `NAME` or `ms/NAME`."""
    return read_target([word], {"ModelService": "service"})[1] if "/" in word else word


def _seen(data: Path, key: str) -> dict[str, EndpointShown] | None:
    """What a router of a gateway that serves it knows of its endpoints; None where there is no such router."""
    for router in router_urls(data):
        with suppress(UnavailableError, NotFoundError):
            found = msgspec.json.decode(fetch(router, "/endpoints"), type=dict[str, list[EndpointShown]])["endpoints"]
            members = {each.endpoint.partition("/")[2]: each for each in found if key in each.services}
            if members:
                return members
    return None
