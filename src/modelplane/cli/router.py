"""`modelplane router`: the fleet router as an external processor of Envoy, until it is stopped."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from modelplane.api.errors import InputError
from modelplane.cli._log_format import add_log_format, say_serving

if TYPE_CHECKING:
    from collections.abc import Callable

    from modelplane.router.server import RouterServer

_EPILOG = """\
examples:
  modelplane router --plans /etc/modelplane/plans
  modelplane router --plans plans/ --summaries loads.yaml --usage-log -
  modelplane router --plans plans/ --secure-serving false --grpc-port 9012

The folder of --plans has a document for each service, and callers.json where callers have keys or limits. It is read
again when a file changes. SIGTERM drains: readiness fails first, and open requests have --drain-timeout to end.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.description = "Runs the fleet router: an ext_proc server that chooses an endpoint of a service."
    parser.epilog = _EPILOG
    parser.add_argument("--plans", type=Path, required=True, metavar="DIR", help="the plans of the services")
    parser.add_argument(
        "--config", type=Path, metavar="FILE", help="EndpointPickerConfig, instead of the default profile"
    )
    parser.add_argument("--summaries", type=Path, metavar="FILE", help="loads of clusters, in an endpoints file")
    add_log_format(parser)
    parser.add_argument("--usage-log", default="", metavar="FILE", help="a JSON line a request; - is standard output")
    parser.add_argument("--no-probes", action="store_true", help="do not check endpoints")
    parser.add_argument("--host", default="", help="address to listen on (default: all, of IPv4 and IPv6)")
    parser.add_argument("--grpc-port", default="9012", metavar="N", help="external processing (default: 9012)")
    parser.add_argument("--grpc-health-port", default="9013", metavar="N", help="health, plain text (default: 9013)")
    parser.add_argument("--admin-port", default="9091", metavar="N", help="decisions, metrics, probes (default: 9091)")
    parser.add_argument("--secure-serving", default="true", metavar="BOOL", help="TLS on the gRPC port (default: true)")
    parser.add_argument("--cert-path", type=Path, metavar="DIR", help="tls.crt and tls.key (default: self-signed)")
    parser.add_argument(
        "--client-ca", type=Path, metavar="FILE", help="accept only clients with a certificate of this CA"
    )
    parser.add_argument(
        "--hop-identity", type=Path, metavar="DIR", help="tls.crt and tls.key for gateways of clusters with mutual TLS"
    )
    parser.add_argument("--max-body", default="32Mi", metavar="SIZE", help="larger requests get 413 (default: 32Mi)")
    parser.add_argument(
        "--drain-timeout", default="30s", metavar="TIME", help="time for open requests to end (default: 30s)"
    )


def run(arguments: argparse.Namespace) -> int:
    import logging

    from modelplane.cli.terminal import run_until_signal
    from modelplane.epp.transport.loop import make_loop
    from modelplane.reconcile.log_lines import log_to_stderr, writes_text

    log_to_stderr(arguments.log_format, logging.INFO)
    logged = not writes_text(arguments.log_format)
    return run_until_signal(_serve(arguments), logged=logged, make_loop=make_loop)


async def _serve(arguments: argparse.Namespace) -> int:
    import asyncio
    from contextlib import suppress

    from modelplane.reconcile.collector import calm_collector

    router = build(arguments)
    await router.start()
    calm_collector()
    say_serving(
        f"serving on port {router.port}; health on {router.health_port}; decisions on {router.admin_port}; "
        f"{len(router.catalog.services)} services",
        arguments.log_format,
    )
    # A signal ends the wait. After draining the exit code is 0; a second signal cuts that short.
    with suppress(asyncio.CancelledError):
        await asyncio.Event().wait()
    await router.stop()
    return 0


def build(arguments: argparse.Namespace) -> "RouterServer":
    """What the flags say, not started."""
    import time

    from modelplane.epp.server.flags import duration, port, size, truth
    from modelplane.epp.transport.tls import read_identity, self_signed
    from modelplane.router.profile import load_profile
    from modelplane.router.server import RouterServer, RouterSettings

    if not arguments.plans.is_dir():
        raise InputError(f"--plans {arguments.plans} is no folder")
    identity = None
    if truth(arguments.secure_serving):
        clients = arguments.client_ca
        if arguments.cert_path is not None:
            identity = read_identity(arguments.cert_path, clients)
        else:
            identity = self_signed(time.time(), clients.read_bytes() if clients else b"")
    elif arguments.cert_path or arguments.client_ca:
        raise InputError("--cert-path and --client-ca need --secure-serving true")
    settings = RouterSettings(
        host=arguments.host,
        port=port(arguments.grpc_port),
        health_port=port(arguments.grpc_health_port),
        admin_port=port(arguments.admin_port),
        identity=identity,
        body_bytes=size(arguments.max_body),
        drain_s=duration(arguments.drain_timeout),
        plans=arguments.plans,
        summaries=arguments.summaries,
        probes=not arguments.no_probes,
        hop_identity=arguments.hop_identity,
    )
    config = load_profile(_read(arguments.config), str(arguments.config)) if arguments.config is not None else None
    return RouterServer(settings, config, write_usage=_usage_log(arguments.usage_log))


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from error


def _usage_log(where: str) -> "Callable[[bytes], object] | None":
    from modelplane.epp.server.line_log import open_line_log

    return open_line_log("--usage-log", where) if where else None
