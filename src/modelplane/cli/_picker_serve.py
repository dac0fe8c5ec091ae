"""`modelplane picker serve`: the endpoint picker as an external processor of Envoy, until it is stopped."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from modelplane.api.errors import InputError
from modelplane.cli._log_format import ZAP_ENCODERS, say_serving
from modelplane.cli._picker_flags import add_flags, check_flags, log_level, tracing_warnings

if TYPE_CHECKING:
    from modelplane.epp.config.config import Config
    from modelplane.epp.datalayer.endpoints import EndpointSource
    from modelplane.epp.datalayer.peers import PeerOptions
    from modelplane.epp.flowcontrol import WorkerShare
    from modelplane.epp.server.main_process import PickerMainProcess
    from modelplane.epp.server.observe import DecisionLog, Tracing
    from modelplane.epp.server.runner import PickerRunner, PolicySource, RunnerOptions
    from modelplane.epp.server.server import MakeServer, PickerSettings

_EPILOG = """\
examples:
  modelplane picker serve --endpoints endpoints.yaml
  modelplane picker serve --config config.yaml --endpoints endpoints.yaml --secure-serving false
  modelplane picker serve --endpoints endpoints.yaml --policies priorities.yaml
  modelplane picker serve --config config.yaml --pool team-a/llama
  modelplane picker serve --pool team-a/llama --workers auto --peers pickers.team-a.svc:9004
  modelplane picker serve --endpoint-selector app=vllm --endpoint-target-ports 8000 --pool-namespace team-a

The files of --config, --endpoints and --policies are reloaded when they change. SIGTERM drains: readiness fails first,
and open requests have --drain-timeout to end.
Flags that llm-d's router and the Gateway API Inference Extension's picker have mean the same here. One that changes
nothing is logged, and one that is not supported is refused with what to use instead.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.description = "Runs the endpoint picker: an ext_proc server that picks an endpoint for each request."
    parser.epilog = _EPILOG
    parser.add_argument(
        "--config", "--config-file", dest="config", type=Path, metavar="FILE", help="EndpointPickerConfig"
    )
    parser.add_argument("--config-text", default="", metavar="YAML", help="the configuration itself")
    _add_sources(parser)
    _add_ports(parser)
    _add_security(parser)
    _add_observability(parser)
    add_flags(parser)
    parser.add_argument(
        "--drain-timeout", default="30s", metavar="TIME", help="time for open requests to end (default: 30s)"
    )
    parser.add_argument("--max-body", default="32Mi", metavar="SIZE", help="larger requests get 413 (default: 32Mi)")
    parser.add_argument("--no-scrape", action="store_true", help="do not scrape endpoints")
    parser.add_argument(
        "--server", choices=["own", "grpc"], default="own", help="grpc: serve by grpcio instead of the built-in server"
    )


def _add_sources(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("endpoints, from one of")
    group.add_argument("--endpoints", type=Path, metavar="FILE", help="a file that lists them")
    group.add_argument("--pool", default="", metavar="NS/NAME", help="the pods of an InferencePool")
    group.add_argument("--pool-name", default="", metavar="NAME", help="the same, with --pool-namespace")
    group.add_argument("--pool-namespace", default="", metavar="NS", help="(default: that of $NAMESPACE, else default)")
    group.add_argument("--endpoint-selector", default="", metavar="LABELS", help="pods with these labels")
    group.add_argument("--endpoint-target-ports", default="8000", metavar="PORTS", help="their ports (default: 8000)")
    group.add_argument("--fleet", action="store_true", help="ModelEndpoints: pick a cluster")
    parser.add_argument(
        "--policies",
        type=Path,
        metavar="FILE",
        help="InferenceObjectives and InferenceModelRewrites, instead of the API's",
    )


def _add_ports(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--host", default="", help="address to listen on (default: all, of IPv4 and IPv6)")
    parser.add_argument("--grpc-port", default="9002", metavar="N", help="external processing (default: 9002)")
    parser.add_argument("--grpc-health-port", default="9003", metavar="N", help="health, plain text (default: 9003)")
    parser.add_argument("--metrics-port", default="9090", metavar="N", help="Prometheus and probes (default: 9090)")
    parser.add_argument(
        "--workers",
        default="1",
        metavar="N",
        help="processes that serve the gRPC port; auto: as many as there are processors (default: 1)",
    )
    parser.add_argument(
        "--peers",
        default="",
        metavar="HOST:PORT,…",
        help="the other pickers of the pool, such as a headless Service: they share loads and prompts",
    )
    parser.add_argument("--peer-port", default="9004", metavar="N", help="where peers are heard (default: 9004)")


def _add_security(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--secure-serving",
        nargs="?",
        const="true",
        default="true",
        metavar="BOOL",
        help="TLS on the gRPC port (default: true)",
    )
    parser.add_argument("--cert-path", type=Path, metavar="DIR", help="tls.crt and tls.key (default: self-signed)")
    parser.add_argument(
        "--client-ca", type=Path, metavar="FILE", help="accept only clients with a certificate of this CA"
    )


def _add_observability(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("observability")
    group.add_argument(
        "--decision-log", default="", metavar="FILE", help="write decisions as JSON lines; - is standard output"
    )
    group.add_argument(
        "--decision-log-share", default="0.01", metavar="SHARE", help="share of served requests to log (default: 0.01)"
    )
    group.add_argument(
        "--tracing-share", default="", metavar="SHARE", help="share of requests to trace by OTLP (default: none)"
    )
    group.add_argument("--tracing-endpoint", default="", metavar="URL", help="where to (default: OTEL_* variables)")
    group.add_argument("--legacy-metrics", action="store_true", help="show metrics by their older names, too")
    group.add_argument("--debug-state", action="store_true", help="show endpoints and loads at /debug/state")


def run(arguments: argparse.Namespace) -> int:
    import logging
    import os

    from modelplane.cli.terminal import run_until_signal
    from modelplane.epp.transport.loop import make_loop
    from modelplane.reconcile.log_lines import because, log_to_stderr
    from modelplane.reconcile.log_reasons import LogReason

    warnings = check_flags(arguments)
    log_to_stderr(ZAP_ENCODERS.get(arguments.zap_encoder), log_level(arguments))
    for warning in (*warnings, *tracing_warnings(os.environ, traced=_traces(arguments))):
        logging.getLogger(__name__).warning("%s", warning, extra=because(LogReason.OPTION_IGNORED))
    return run_until_signal(_serve(arguments), logged=_logs_json(arguments), make_loop=make_loop)


def _logs_json(arguments: argparse.Namespace) -> bool:
    from modelplane.reconcile.log_lines import writes_text

    return not writes_text(ZAP_ENCODERS.get(arguments.zap_encoder))


async def _serve(arguments: argparse.Namespace) -> int:
    import asyncio
    from contextlib import suppress

    from modelplane.epp.server.flags import worker_count
    from modelplane.epp.server.workers import processors
    from modelplane.reconcile.collector import calm_collector

    count = worker_count(arguments.workers, processors)
    runner = build(arguments) if count == 1 else build_workers(arguments, count)
    await runner.start()
    calm_collector()
    port, health, metrics = runner.port, runner.health_port, runner.metrics_port
    workers = f"; {count} workers" if count > 1 else ""
    serving = f"serving on port {port}; health on {health}; metrics on {metrics}{workers}"
    say_serving(serving, ZAP_ENCODERS.get(arguments.zap_encoder))
    # A signal ends the wait. After draining the exit code is 0; a second signal cuts that short.
    with suppress(asyncio.CancelledError):
        await asyncio.Event().wait()
    await runner.stop()
    return 0


def build(arguments: argparse.Namespace) -> "PickerRunner":
    """What the flags ask for, not started."""
    from modelplane.epp.server.runner import PickerRunner
    from modelplane.epp.transport.h2.server import H2Server

    make_server: MakeServer = H2Server
    if arguments.server == "grpc":
        from modelplane.epp.transport.grpc_aio import GrpcAioServer

        make_server = GrpcAioServer
    config, settings = _config(arguments), _settings(arguments)
    source, rules = _pool(arguments, config)
    log, tracing = _decision_log(arguments), _tracing(arguments)
    return PickerRunner(source, config, settings, _options(arguments, rules, make_server, log=log, tracing=tracing))


def build_workers(arguments: argparse.Namespace, count: int) -> "PickerMainProcess":
    """The same with so many workers: what is said of requests is said in them."""
    from modelplane.epp.server.flags import share
    from modelplane.epp.server.main_process import PickerMainProcess, WorkerOptions
    from modelplane.epp.server.worker_messages import TracingSetup, WorkerSetup
    from modelplane.epp.transport.h2.server import H2Server

    if arguments.server == "grpc":
        raise InputError("--server grpc serves by one process: give --workers 1")
    config, settings = _config(arguments), _settings(arguments)
    source, rules = _pool(arguments, config)
    # Opened here to refuse what no worker could use.
    _decision_log(arguments)
    tracing = None
    if _traces(arguments):
        tracing = TracingSetup(share(arguments.tracing_share or "1"), arguments.tracing_endpoint)

    def setup(of: "WorkerShare") -> WorkerSetup:
        return WorkerSetup(
            share=of,
            config=b"",
            config_source=config.source,
            identity=None,
            body_bytes=settings.body_bytes,
            held_bytes=max(settings.body_bytes, settings.held_bytes // of.workers),
            streams=settings.streams,
            drain_s=settings.drain_s,
            pool=arguments.pool or arguments.pool_name,
            has_policies=rules is not None,
            subscribes=not arguments.no_scrape,
            legacy_metrics=arguments.legacy_metrics,
            decision_log=arguments.decision_log,
            decision_log_share=share(arguments.decision_log_share),
            tracing=tracing,
            log_level=log_level(arguments),
            log_json=_logs_json(arguments),
        )

    workers = WorkerOptions(count=count, setup=setup)
    return PickerMainProcess(source, config, settings, _options(arguments, rules, H2Server), workers)


def _pool(arguments: argparse.Namespace, config: "Config") -> "tuple[EndpointSource, PolicySource | None]":
    source, rules = _source(arguments, config)
    if arguments.policies is not None:
        from modelplane.epp.datalayer.discovery import PolicyFile

        rules = PolicyFile(arguments.policies)
    return source, rules


def _options(
    arguments: argparse.Namespace,
    rules: "PolicySource | None",
    make_server: "MakeServer",
    *,
    log: "DecisionLog | None" = None,
    tracing: "Tracing | None" = None,
) -> "RunnerOptions":
    from modelplane.epp.server.flags import duration, port
    from modelplane.epp.server.runner import RunnerOptions

    return RunnerOptions(
        metrics_port=port(arguments.metrics_port),
        scrapes=not arguments.no_scrape,
        scrape_interval_s=duration(arguments.refresh_metrics_interval) if arguments.refresh_metrics_interval else None,
        pool=arguments.pool or arguments.pool_name,
        rules=rules,
        make_server=make_server,
        legacy_metrics=arguments.legacy_metrics,
        shows_state=arguments.debug_state,
        log=log,
        tracing=tracing,
        peers=_peers(arguments),
    )


def _peers(arguments: argparse.Namespace) -> "PeerOptions | None":
    from modelplane.epp.datalayer.peers import PeerOptions, named_peers
    from modelplane.epp.server.flags import port

    if not arguments.peers:
        return None
    names: list[tuple[str, int]] = []
    for each in arguments.peers.split(","):
        host, colon, number = each.strip().rpartition(":")
        if not (host and colon and number.isdecimal() and 0 < int(number) < 1 << 16):
            raise InputError(f"--peers: {each!r} is not HOST:PORT")
        names.append((host.strip("[]"), int(number)))
    return PeerOptions(named_peers(names), port(arguments.peer_port), arguments.host)


def _decision_log(arguments: argparse.Namespace) -> "DecisionLog | None":
    from modelplane.epp.server.flags import share
    from modelplane.epp.server.observe.decision_log import open_decision_log

    drawn = share(arguments.decision_log_share)
    return open_decision_log(arguments.decision_log, drawn) if arguments.decision_log else None


def _tracing(arguments: argparse.Namespace) -> "Tracing | None":
    from modelplane.epp.server.flags import share
    from modelplane.epp.server.observe import Tracing, otlp_provider

    if not _traces(arguments):
        return None
    drawn = share(arguments.tracing_share or "1")
    return Tracing(otlp_provider(endpoint=arguments.tracing_endpoint or None), share=drawn)


def _traces(arguments: argparse.Namespace) -> bool:
    from modelplane.epp.server.flags import truth

    wanted = truth(arguments.tracing) if arguments.tracing else bool(arguments.tracing_share)
    if not wanted and arguments.tracing_endpoint and not arguments.tracing:
        raise InputError("--tracing-endpoint needs --tracing-share")
    return wanted


def _settings(arguments: argparse.Namespace) -> "PickerSettings":
    import time

    import msgspec

    from modelplane.epp.server.flags import duration, port, size, truth
    from modelplane.epp.server.server import PickerSettings
    from modelplane.epp.transport.tls import read_identity, self_signed

    identity = None
    if truth(arguments.secure_serving):
        clients = arguments.client_ca
        if arguments.cert_path is not None:
            identity = read_identity(arguments.cert_path, clients)
        else:
            identity = self_signed(time.time(), clients.read_bytes() if clients else b"")
        identity = msgspec.structs.replace(identity, tls13=arguments.tls_min_version == "VersionTLS13")
    elif arguments.cert_path or arguments.client_ca:
        raise InputError("--cert-path and --client-ca need --secure-serving true")
    reloads = truth(arguments.enable_cert_reload) and identity is not None
    return PickerSettings(
        host=arguments.host,
        port=port(arguments.grpc_port),
        health_port=port(arguments.grpc_health_port),
        identity=identity,
        identity_folder=arguments.cert_path if reloads else None,
        body_bytes=size(arguments.grpc_max_recv_msg_size or arguments.max_body),
        drain_s=duration(arguments.drain_timeout),
        config_file=arguments.config,
    )


def _config(arguments: argparse.Namespace) -> "Config":
    from modelplane.epp.config.config import load
    from modelplane.epp.server.third_party import full_registry

    if arguments.config is not None and arguments.config_text:
        raise InputError("--config and --config-text are two configurations; give one")
    if arguments.config is None:
        return load(arguments.config_text, "--config-text", full_registry())
    try:
        text = arguments.config.read_bytes()
    except OSError as error:
        raise InputError(f"{arguments.config}: {error.strerror}") from error
    return load(text, str(arguments.config), full_registry())


def _source(arguments: argparse.Namespace, config: "Config") -> "tuple[EndpointSource, PolicySource | None]":
    from modelplane.epp.datalayer.setup import discovery_of

    pool = arguments.pool or arguments.pool_name
    chosen = [bool(arguments.endpoints), bool(pool), bool(arguments.endpoint_selector), arguments.fleet]
    listed = discovery_of(config)
    if listed is not None and not any(chosen):
        return listed, None
    if sum(chosen) != 1:
        raise InputError("say where endpoints come from: one of --endpoints, --pool, --endpoint-selector and --fleet")
    if arguments.endpoints:
        from modelplane.epp.datalayer.discovery import FileEndpoints

        return FileEndpoints(arguments.endpoints), None
    return _kubernetes_source(arguments)


def _kubernetes_source(arguments: argparse.Namespace) -> "tuple[EndpointSource, PolicySource | None]":
    import os

    from modelplane.epp.datalayer.discovery import (
        FleetEndpoints,
        InferencePoolSpec,
        PolicyInformers,
        PoolEndpoints,
        SelectedPods,
    )
    from modelplane.epp.server.flags import pool, ports, selector
    from modelplane.kube import KubeClient, load_config

    client = KubeClient(load_config())
    # Charts of other pickers pass the pod's namespace by this variable.
    own = arguments.pool_namespace or os.environ.get("NAMESPACE") or "default"
    if arguments.fleet:
        return FleetEndpoints(client), None
    if arguments.endpoint_selector:
        spec = InferencePoolSpec(selector(arguments.endpoint_selector), ports(arguments.endpoint_target_ports))
        return SelectedPods(client, own, spec), None
    namespace, name = pool(arguments.pool) if arguments.pool else (own, arguments.pool_name)
    return PoolEndpoints(client, namespace, name), PolicyInformers(client, namespace, name)
