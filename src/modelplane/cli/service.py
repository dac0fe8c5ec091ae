"""`modelplane service`: the ways in to a service, its tiers, and why endpoints get no requests."""

import argparse
from contextlib import suppress
from pathlib import Path

import msgspec

from modelplane.api.errors import NotFoundError, UnavailableError
from modelplane.api.objects import Manifest, name_of, text_at
from modelplane.cli._formats import add_watch, print_changes
from modelplane.cli._routers import fetch, router_urls
from modelplane.cli.running import RunningPlane, add_data_argument
from modelplane.k8s.admission.decode import escape
from modelplane.views.services import EndpointShown, service_lines

_EPILOG = """\
examples:
  modelplane service chat
  modelplane service chat -n team --watch

Exit codes: 0 shown, 1 no plane is running or no such service exists.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Shows a ModelService: its model name, its address, the share of each endpoint and why one has none. "
        "Where a fleet router decides, also the health of each endpoint and its requests in flight."
    )
    parser.epilog = _EPILOG
    parser.add_argument("name", metavar="NAME", help="the ModelService")
    parser.add_argument("-n", "--namespace", default="default", help="its namespace (default)")
    add_watch(parser)
    add_data_argument(parser)


def run(arguments: argparse.Namespace) -> int:
    plane = RunningPlane.of(arguments.data)

    def text() -> str:
        service = _service(plane, arguments.namespace, arguments.name)
        lines = service_lines(service, _seen(arguments.data, f"{arguments.namespace}/{arguments.name}"))
        return "".join(f"{escape(line)}\n" for line in lines)

    print_changes(text, watch=arguments.watch)
    return 0


def _service(plane: RunningPlane, namespace: str, name: str) -> Manifest:
    for item in plane.items("modelservices"):
        if (text_at(item, "metadata", "namespace"), name_of(item)) == (namespace, name):
            return item
    raise NotFoundError(f"ModelService {namespace}/{name} does not exist")


def _seen(data: Path, key: str) -> dict[str, EndpointShown] | None:
    """What a router of a gateway that serves it knows of its endpoints; None where there is no such router."""
    for router in router_urls(data):
        with suppress(UnavailableError, NotFoundError):
            found = msgspec.json.decode(fetch(router, "/endpoints"), type=dict[str, list[EndpointShown]])["endpoints"]
            members = {each.endpoint.partition("/")[2]: each for each in found if key in each.services}
            if members:
                return members
    return None
