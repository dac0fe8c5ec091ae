"""`modelplane up`: runs the embedded plane on this machine until it is stopped."""

import argparse
from pathlib import Path

from modelplane.cli._log_format import add_log_format
from modelplane.cli.ports import Ports, page_token
from modelplane.cli.running import add_data_argument
from modelplane.cli.terminal import Progress, run_until_signal

_EPILOG = """\
examples:
  modelplane up -f examples/quickstart/
  modelplane up --data ./plane --gateway-port 8080
  modelplane up --clusters 5
  modelplane up --clusters 2 -f examples/quickstart/3-model.yaml
  modelplane up --this-machine -f model.yaml

Then, in another terminal, with the data folder that it prints:
  export KUBECONFIG=FOLDER/kubeconfig
  kubectl get modeldeployments,modelreplicas,modelservices -A
  curl http://127.0.0.1:PORT/default/chat/v1/models

Everything listens on loopback. Ctrl-C stops everything once the requests in flight are answered. The data folder keeps
the state: the next `up` with it continues from there, on the same ports where they are free. The page keeps its token.
"""


_MAX_PORT = 65535
_MAX_CLUSTERS = 1000


def configure(parser: argparse.ArgumentParser) -> None:
    parser.description = "Starts the embedded plane and keeps it running: API, composers, simulated clusters, Envoy."
    parser.epilog = _EPILOG
    parser.add_argument(
        "-f", "--filename", type=Path, action="append", default=[], metavar="PATH", help="manifests to apply"
    )
    parser.add_argument(
        "--clusters", type=_count, default=0, metavar="N",
        help="add N simulated clusters of four 8-GPU nodes each, with a class and a gateway where the manifests have "
        "none",
    )  # fmt: skip
    add_data_argument(parser)
    parser.add_argument(
        "--profile", type=Path, metavar="FILE", help="a PlacementProfile: the plugins that place replicas"
    )
    parser.add_argument(
        "--router",
        action="store_true",
        help="let the fleet router decide at every gateway, asked for or not",
    )
    parser.add_argument(
        "--this-machine",
        action="store_true",
        help="add this machine as a cluster: its GPUs, and processes in the place of containers",
    )
    parser.add_argument(
        "--mutual-tls", action="store_true", help="let gateways of clusters accept the fleet's gateways only"
    )
    add_log_format(parser)
    parser.add_argument("--api-port", type=_port, default=0, metavar="N", help="port of the API (default: any)")
    parser.add_argument("--gateway-port", type=_port, default=0, metavar="N", help="port for requests (default: any)")


def run(arguments: argparse.Namespace) -> int:
    import logging

    from modelplane.reconcile.log_lines import log_to_stderr

    log_to_stderr(arguments.log_format, logging.WARNING)
    return run_until_signal(_up(arguments))


async def _up(arguments: argparse.Namespace) -> int:
    from modelplane.cli._plugins import profile_of
    from modelplane.cli.demo_steps import Steps
    from modelplane.cli.manifests import read_documents, simulated_fleet
    from modelplane.cli.this_machine import this_machine
    from modelplane.plane.apply import check_documents
    from modelplane.plane.plane import Plane, PlaneSettings
    from modelplane.reconcile.collector import calm_collector
    from modelplane.web.page_token import PageToken
    from modelplane.web.server import serve
    from modelplane.web.source import DashboardSource

    progress = Progress()
    given = read_documents(arguments.filename)
    machine = this_machine(arguments.data) if arguments.this_machine else None
    documents = [*simulated_fleet(arguments.clusters, given), *(machine.documents(given) if machine else ()), *given]
    check_documents(documents)
    ports = Ports.of(arguments.data)
    settings = PlaneSettings(
        data=arguments.data,
        api_port=ports.again("api", arguments.api_port),
        gateway_port=ports.again("gateway", arguments.gateway_port),
        profile=profile_of(arguments.profile),
        router=arguments.router,
        mutual_tls=arguments.mutual_tls,
    )
    progress.say(f"starting the plane with the data folder {arguments.data}")
    if machine is not None:
        progress.say(machine.summary)
    async with Plane(settings, report=progress.say, machine=machine.engines if machine else None) as plane:
        calm_collector()
        progress.say(f"API         {plane.api_url}")
        progress.say(f"kubeconfig  {plane.kubeconfig}")
        progress.say(f"gateway     {plane.gateway_url}")
        source = DashboardSource(plane.store, plane.gateway_url, plane.recent_traffic, tokens=plane.counted_tokens)
        page = await serve(source, token=PageToken.printed(page_token(arguments.data)), port=ports.again("page", 0))
        ports.remember(api=plane.api_url, gateway=plane.gateway_url, page=page.url)
        progress.say(f"page        {page.url}")
        steps = Steps(plane, progress)
        steps.report_existing()
        await steps.apply(documents)
        progress.say("running; Ctrl-C stops everything")
        try:
            await steps.watch()
        finally:
            await page.close()
    return 0


def _count(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= _MAX_CLUSTERS:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of clusters from 1 to {_MAX_CLUSTERS}")
    return int(text)


def _port(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) > _MAX_PORT:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port from 0 to {_MAX_PORT}")
    return int(text)
