"""`modelplane dashboard`: the dashboard of a control cluster, on this machine or in a pod beside it. It only reads."""

import argparse
import logging
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from modelplane.cli._log_format import add_log_format, say_serving
from modelplane.cli.terminal import Progress, run_until_signal

if TYPE_CHECKING:
    from modelplane.web.control_cluster import ControlCluster

_EPILOG = """\
examples:
  modelplane dashboard --kubeconfig ~/.kube/config
  modelplane dashboard --kubeconfig ~/.kube/config --context control --port 8081

The page of `modelplane up` for a control plane that runs elsewhere, with the rights of the kubeconfig: it lists and
watches InferenceClasses, InferenceClusters, ModelDeployments, ModelReplicas, ModelEndpoints, ModelServices,
ModelCaches, TelemetryDestinations and Events. It listens on loopback and writes nothing. Requests are those that
statuses have.

`modelplane install` runs it beside the function server, with the token of a Secret (--token-file).
"""
_LOOPBACK = "127.0.0.1"
_SYNC_S = 30.0
_MAX_PORT = 65535


def configure(parser: argparse.ArgumentParser) -> None:
    parser.description = "Serves the dashboard of a control plane, until it is stopped."
    parser.epilog = _EPILOG
    parser.add_argument(
        "--kubeconfig",
        type=Path,
        metavar="FILE",
        help="the control plane (default: the pod's ServiceAccount, else $KUBECONFIG, else ~/.kube/config)",
    )
    parser.add_argument("--context", metavar="NAME", help="context of the kubeconfig (default: its current one)")
    parser.add_argument("--port", type=_port, default=0, metavar="N", help="port of the page (default: any)")
    parser.add_argument(
        "--address", default=_LOOPBACK, help="where to listen; empty is every address (default: %(default)s)"
    )
    parser.add_argument(
        "--token-file",
        type=Path,
        metavar="FILE",
        help="has the token that opens the page, and is read anew (default: one is made and printed)",
    )
    parser.add_argument(
        "--probe-port", type=_port, metavar="N", help="port of /healthz and /readyz, for a kubelet (default: none)"
    )
    add_log_format(parser)


def run(arguments: argparse.Namespace) -> int:
    from modelplane.reconcile.log_lines import log_to_stderr

    in_pod = arguments.token_file is not None
    log_to_stderr(arguments.log_format, logging.INFO if in_pod else logging.WARNING)
    return run_until_signal(_serve(arguments), logged=in_pod)


async def _serve(arguments: argparse.Namespace) -> int:
    import asyncio

    from modelplane.kube import KubeClient, load_config
    from modelplane.web.control_cluster import ControlCluster

    progress = Progress()
    client = KubeClient(load_config(arguments.kubeconfig, arguments.context))
    cluster = ControlCluster(client)
    watching = asyncio.create_task(cluster.run(), name="watch the control cluster")
    try:
        async with _probed(cluster, arguments):
            if arguments.probe_port is None:
                await cluster.wait_synced(_SYNC_S)
            async with _page(cluster, arguments) as address:
                _announce(progress, address, arguments)
                await watching
    finally:
        watching.cancel()
        with suppress(asyncio.CancelledError):
            await watching
        await client.close()
    return 0


@asynccontextmanager
async def _probed(cluster: "ControlCluster", arguments: argparse.Namespace) -> AsyncIterator[None]:
    """A pod that is probed waits for kinds that are not served yet, and is not ready meanwhile."""
    from modelplane.web.probes import serve_probes

    if arguments.probe_port is None:
        yield
        return
    runner = await serve_probes(arguments.address, arguments.probe_port, cluster.missing)
    try:
        yield
    finally:
        await runner.cleanup()


@asynccontextmanager
async def _page(cluster: "ControlCluster", arguments: argparse.Namespace) -> AsyncIterator[str]:
    """Serves the page between entering and leaving. Yields its address."""
    from modelplane.web.page_token import PageToken
    from modelplane.web.server import serve
    from modelplane.web.source import DashboardSource

    file: Path | None = arguments.token_file
    token = PageToken.in_file(file) if file is not None else PageToken.printed(secrets.token_urlsafe(16))
    source = DashboardSource(cluster, problem=cluster.problem)
    page = await serve(source, token=token, host=arguments.address, port=arguments.port)
    try:
        yield page.url
    finally:
        await page.close()


def _announce(progress: Progress, address: str, arguments: argparse.Namespace) -> None:
    if arguments.token_file is None:
        progress.say(f"page        {address}")
    else:
        say_serving(f"page {address}, token in {arguments.token_file}", arguments.log_format)


def _port(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) > _MAX_PORT:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port from 0 to {_MAX_PORT}")
    return int(text)
