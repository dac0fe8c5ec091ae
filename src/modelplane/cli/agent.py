"""`modelplane agent`: dials the hub, and carries its requests to the API server of this cluster."""

import argparse
import logging
import os
from pathlib import Path
from typing import TYPE_CHECKING

from modelplane.api.errors import InputError
from modelplane.cli._log_format import add_log_format

if TYPE_CHECKING:
    from modelplane.tunnel.agent import AgentApi

_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_EPILOG = """\
examples:
  modelplane agent --hub https://hub.example.org:8443 --hub-ca /hub/ca.crt --cluster east
                                                   in a pod: joins with $MODELPLANE_JOIN_TOKEN the first time

`modelplane cluster add east --agent` prints the Deployment. The agent's certificate is kept in the Secret
modelplane-agent-identity beside it; its rights are those of its ServiceAccount (`modelplane cluster role`).
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Runs in a workload cluster. The control plane reaches the cluster through it, and not otherwise."
    )
    parser.epilog = _EPILOG
    parser.add_argument("--hub", required=True, metavar="URL", help="the hub, https://host:port")
    parser.add_argument("--hub-ca", required=True, type=Path, metavar="FILE", help="the hub's certificate authority")
    parser.add_argument("--cluster", required=True, help="name of the InferenceCluster")
    parser.add_argument("--api-server", default="", metavar="URL", help="default: that of the pod's cluster")
    parser.add_argument("--token-file", type=Path, default=_ACCOUNT / "token", help="default: %(default)s")
    parser.add_argument("--ca-file", type=Path, default=_ACCOUNT / "ca.crt", help="default: %(default)s")
    add_log_format(parser)


def run(arguments: argparse.Namespace) -> int:
    from modelplane.cli.terminal import run_until_signal
    from modelplane.reconcile.log_lines import log_to_stderr
    from modelplane.tunnel.enrolment import Enrolment, IdentityStore, run_agent
    from modelplane.tunnel.frames import TunnelError

    if not arguments.hub.startswith("https://"):
        raise InputError(f"--hub {arguments.hub!r}: is no https:// address")
    if not arguments.hub_ca.is_file():
        raise InputError(f"--hub-ca {arguments.hub_ca}: there is no such file")
    hub, api = arguments.hub.rstrip("/"), _api(arguments)
    enrolment = Enrolment(hub, arguments.hub_ca, IdentityStore(api))

    async def serve() -> int:
        await run_agent(enrolment, api, arguments.cluster, os.environ.get("MODELPLANE_JOIN_TOKEN", ""))
        return 0

    log_to_stderr(arguments.log_format, logging.INFO)
    try:
        return run_until_signal(serve())
    except TunnelError as error:
        raise InputError(str(error)) from None


def _api(arguments: argparse.Namespace) -> "AgentApi":
    from modelplane.tunnel.agent import AgentApi

    server = arguments.api_server.rstrip("/")
    if not server:
        host, port = os.environ.get("KUBERNETES_SERVICE_HOST", ""), os.environ.get("KUBERNETES_SERVICE_PORT", "443")
        if not host:
            raise InputError("--api-server is needed outside a pod")
        server = f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
    token = arguments.token_file if arguments.token_file.is_file() else None
    authority = arguments.ca_file if arguments.ca_file.is_file() else None
    return AgentApi(server, token, authority)
