"""`modelplane dashboard`: the dashboard of a control cluster, on this machine. It only reads."""

import argparse
import asyncio
import secrets
from contextlib import suppress
from pathlib import Path

from modelplane.cli.terminal import Progress, run_until_signal

_EPILOG = """\
examples:
  modelplane dashboard --kubeconfig ~/.kube/config
  modelplane dashboard --kubeconfig ~/.kube/config --context control --port 8081

The page of `modelplane up` for a control plane that runs elsewhere, with the rights of the kubeconfig: it lists and
watches InferenceClasses, InferenceClusters, ModelDeployments, ModelReplicas, ModelEndpoints, ModelServices, ModelCaches
and Events. It listens on loopback and writes nothing. Requests are those that statuses have.
"""
_SYNC_S = 30.0
_MAX_PORT = 65535


def configure(parser: argparse.ArgumentParser) -> None:
    parser.description = "Serves the dashboard of a control plane on this machine, until it is stopped."
    parser.epilog = _EPILOG
    parser.add_argument(
        "--kubeconfig", type=Path, metavar="FILE", help="the control plane (default: $KUBECONFIG, else ~/.kube/config)"
    )
    parser.add_argument("--context", metavar="NAME", help="context of the kubeconfig (default: its current one)")
    parser.add_argument("--port", type=_port, default=0, metavar="N", help="port of the page (default: any)")


def run(arguments: argparse.Namespace) -> int:
    return run_until_signal(_serve(arguments))


async def _serve(arguments: argparse.Namespace) -> int:
    from modelplane.kube import KubeClient, load_config
    from modelplane.web.control_cluster import ControlCluster
    from modelplane.web.server import serve
    from modelplane.web.source import DashboardSource

    progress = Progress()
    client = KubeClient(load_config(arguments.kubeconfig, arguments.context))
    cluster = ControlCluster(client)
    watching = asyncio.create_task(cluster.run(), name="watch the control cluster")
    try:
        await cluster.wait_synced(_SYNC_S)
        source = DashboardSource(cluster, problem=cluster.problem)
        page = await serve(source, token=secrets.token_urlsafe(16), port=arguments.port)
        progress.say(f"page        {page.url}")
        try:
            await watching
        finally:
            await page.close()
    finally:
        watching.cancel()
        with suppress(asyncio.CancelledError):
            await watching
        await client.close()
    return 0


def _port(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) > _MAX_PORT:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port from 0 to {_MAX_PORT}")
    return int(text)
