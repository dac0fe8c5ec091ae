"""modelplane function: serve Crossplane's calls for every kind."""

import argparse
import logging
import os
from pathlib import Path

from modelplane.api.errors import ModelplaneError
from modelplane.cli._images import add_images, images_of

_EPILOG = """\
examples:
  modelplane function                              as Crossplane starts it: certificates from $TLS_SERVER_CERTS_DIR
  modelplane function --insecure --address 127.0.0.1:9443
                                                   for `crossplane render`, on this machine only

Crossplane calls with its client certificate and nobody else is answered. Metrics, /healthz and /readyz are on the
admin address. Exits with 1 when it cannot start, and says which option or file is at fault.
"""


class FunctionUsageError(ModelplaneError):
    """The arguments are invalid."""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.description = "The composition function server: composes every kind of Modelplane when Crossplane calls."
    parser.epilog = _EPILOG
    parser.add_argument("--address", default="0.0.0.0:9443", help="where to listen (default: %(default)s)")
    parser.add_argument("--admin-address", default="0.0.0.0:8080", help="metrics and health (default: %(default)s)")
    folder = os.environ.get("TLS_SERVER_CERTS_DIR")
    parser.add_argument(
        "--tls-certs-dir",
        default=folder,
        help="folder with tls.crt, tls.key and ca.crt (default: $TLS_SERVER_CERTS_DIR)",
    )
    parser.add_argument("--insecure", action="store_true", help="serve without TLS; must be typed, never assumed")
    parser.add_argument("--threads", type=int, default=4, help="compositions at the same time (default: %(default)s)")
    parser.add_argument("--call-timeout", type=float, default=20.0, help="seconds for one call (default: %(default)s)")
    parser.add_argument(
        "--helm", action="store_true", help="provider-helm is installed: give it access to clusters too"
    )
    parser.add_argument("--live", action="store_true", help="watch the fleet, so that Crossplane does not fetch it")
    parser.add_argument(
        "--observe",
        action=argparse.BooleanOptionalAction,
        help="with --live, watch nodes, devices, queues and pods of the workload clusters (default: as --live)",
    )
    parser.add_argument(
        "--traffic-metrics",
        action="append",
        default=[],
        metavar="URL",
        help="with --live, metrics of routers or gateways, which canaries are judged by; may be given again",
    )
    parser.add_argument("--kubeconfig", type=Path, help="for --live, outside a pod (default: as kubectl finds it)")
    parser.add_argument("--profile", type=Path, metavar="FILE", help="the plugins that place replicas")
    add_images(parser)
    parser.add_argument("--log-calls", action="store_true", help="a line for every call, with its cost and sizes")
    parser.add_argument("--debug", action="store_true", help="logs for people instead of JSON, with every call")


def run(arguments: argparse.Namespace) -> int:
    import asyncio

    try:
        from modelplane.cli._plugins import profile_of
        from modelplane.crossplane.server import FunctionServer, Options, ServerLimits
        from modelplane.reconcile.clock import SystemClock
        from modelplane.reconcile.log_lines import log_to_stderr
        from modelplane.router.provider_lists import ProviderLists
    except ImportError as error:
        raise FunctionUsageError(
            f"the function server needs the extra: pip install 'modelplane[crossplane]' ({error})"
        ) from error
    if not arguments.tls_certs_dir and not arguments.insecure:
        raise FunctionUsageError("no --tls-certs-dir was given; to serve without TLS type --insecure")
    if arguments.threads < 1 or arguments.call_timeout <= 0:
        raise FunctionUsageError("--threads and --call-timeout must be greater than 0")
    if arguments.observe and not arguments.live:
        raise FunctionUsageError("--observe needs --live")
    if arguments.traffic_metrics and not arguments.live:
        raise FunctionUsageError("--traffic-metrics needs --live")
    for url in arguments.traffic_metrics:
        if not url.startswith(("http://", "https://")):
            raise FunctionUsageError(f"--traffic-metrics {url!r}: is no http:// or https:// address")
    log_to_stderr(*(("text", logging.DEBUG) if arguments.debug else ("json", logging.INFO)))
    logging.getLogger("aiohttp.access").disabled = True
    lists = ProviderLists(SystemClock())
    options = Options(
        address=arguments.address,
        certificates=None if arguments.insecure else Path(arguments.tls_certs_dir),
        admin_address=arguments.admin_address,
        limits=ServerLimits(threads=arguments.threads, call_s=arguments.call_timeout),
        helm=arguments.helm,
        live=arguments.live,
        observe=arguments.live if arguments.observe is None else arguments.observe,
        traffic_metrics=tuple(arguments.traffic_metrics),
        kubeconfig=arguments.kubeconfig,
        profile=profile_of(arguments.profile),
        log_calls=arguments.log_calls,
        images=images_of(arguments),
        list_models=lists,
    )
    try:
        asyncio.run(FunctionServer(options).run())
    finally:
        lists.close()
    return 0
