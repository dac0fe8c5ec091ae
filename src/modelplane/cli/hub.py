"""`modelplane hub`: where agents of workload clusters dial in, and where the control plane reaches them."""

import argparse
import logging
from pathlib import Path

from modelplane.cli._log_format import add_log_format

_EPILOG = """\
examples:
  modelplane hub --host hub.example.org            in a pod of the control plane, by its ServiceAccount
  modelplane hub --kubeconfig control.yaml --host 127.0.0.1 --address 127.0.0.1

Agents dial --port; provider-kubernetes and the function server use --proxy-port. Its certificate authority is the
Secret modelplane-hub-authority in modelplane-system, which the first start makes.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Connects agents of workload clusters with the control plane. No credential of a cluster is here."
    )
    parser.epilog = _EPILOG
    parser.add_argument(
        "--host",
        action="append",
        default=[],
        metavar="NAME",
        help="a name or an address that agents dial, for the certificate; may be repeated",
    )
    parser.add_argument("--address", default="0.0.0.0", help="where to listen")  # noqa: S104  in a pod
    parser.add_argument("--port", type=int, default=8443, help="for agents (default: %(default)s)")
    parser.add_argument("--proxy-port", type=int, default=8444, help="for the control plane (default: %(default)s)")
    parser.add_argument("--heartbeat", type=float, default=60.0, help="seconds between announcements (%(default)s)")
    parser.add_argument("--kubeconfig", type=Path, help="the control plane (default: as kubectl finds it)")
    add_log_format(parser)


def run(arguments: argparse.Namespace) -> int:
    from modelplane.api.errors import InputError
    from modelplane.api.labels import SYSTEM_NAMESPACE
    from modelplane.cli.terminal import run_until_signal
    from modelplane.kube import KubeClient, KubeError, load_config
    from modelplane.reconcile.log_lines import log_to_stderr
    from modelplane.tunnel.serving import HubOptions, serve_hub

    service = "modelplane-hub"
    inside = (service, f"{service}.{SYSTEM_NAMESPACE}", f"{service}.{SYSTEM_NAMESPACE}.svc", "localhost", "127.0.0.1")
    options = HubOptions(
        hosts=tuple(dict.fromkeys([*inside, *arguments.host])),
        address=arguments.address,
        dialled_port=arguments.port,
        proxied_port=arguments.proxy_port,
        check_s=arguments.heartbeat,
    )

    async def serve() -> int:
        client = KubeClient(load_config(arguments.kubeconfig))
        try:
            await serve_hub(client, options)
        finally:
            await client.close()
        return 0

    log_to_stderr(arguments.log_format, logging.INFO)
    try:
        return run_until_signal(serve())
    except KubeError as error:
        raise InputError(f"the control plane does not answer: {error}") from None
