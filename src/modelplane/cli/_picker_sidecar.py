"""`modelplane picker sidecar`: the routing sidecar of a decode server."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from modelplane.cli._log_format import ZAP_ENCODERS, say_serving

if TYPE_CHECKING:
    from collections.abc import Callable

    from modelplane.epp.datalayer.endpoints import EndpointSource
    from modelplane.epp.sidecar.sidecar import RoutingSidecar, SidecarSettings

_POOL_GROUP = "inference.networking.k8s.io"
_POOL_GROUPS = (_POOL_GROUP, "inference.networking.x-k8s.io")
"""KServe's presets name the second, the group of the alpha, for pools that it makes in the first. That one is read."""
_FIXED = {"secure-proxy": "false", "enable-ssrf-protection": "true"}
"""Flags of the ecosystem's sidecar whose other values are not offered here."""
_MOST_RANKS = 8
_PLACES_OF_ROOMS = 1000

_EPILOG = """\
examples:
  modelplane picker sidecar --allow 10.0.0.7:8000 --allow 10.0.0.8:8000
  modelplane picker sidecar --endpoints endpoints.yaml --connector sglang
  modelplane picker sidecar --decoder 127.0.0.1:8200 --port 8000 --data-parallel-size 2

A request names its prefill server in the header x-prefiller-host-port, which the picker writes. Only servers given by
--allow (port 0: any port), in the file of --endpoints or in the pool of --inference-pool are called. Runs until
SIGTERM; open responses have --drain seconds to end.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.description = "The routing sidecar of a decode server, for prefill and decode on different servers."
    parser.epilog = _EPILOG
    parser.add_argument("--host", default="", help="address to listen on (default: all, of IPv4 and IPv6)")
    parser.add_argument("--port", type=int, default=8000, help="default: %(default)s")
    parser.add_argument("--decoder", default="127.0.0.1:8200", help="the local server (default: %(default)s)")
    parser.add_argument("--vllm-port", type=int, metavar="PORT", help="the same, by its port on this pod")
    parser.add_argument(
        "--connector",
        "--kv-connector",
        choices=("nixlv2", "shared-storage", "sglang"),
        default="nixlv2",
        help="KV connector of the engines",
    )
    parser.add_argument("--allow", action="append", default=[], metavar="HOST:PORT", help="a prefill server to call")
    parser.add_argument(
        "--endpoints", type=Path, metavar="FILE", help="a list of endpoints that may be called, watched"
    )
    parser.add_argument(
        "--inference-pool", default="", metavar="NS/NAME", help="its pods may be called, as the Kubernetes API has them"
    )
    parser.add_argument("--pool-group", default=_POOL_GROUP, help="API group of the pool (default: %(default)s)")
    for flag, only in _FIXED.items():
        parser.add_argument(f"--{flag}", default=only, choices=[only], help="only this value is supported")
    parser.add_argument(
        "--allow-any-prefiller", action="store_true", help="call whatever a header names; must be typed, never assumed"
    )
    parser.add_argument("--prefill-max-retries", type=int, default=0, help="default: %(default)s")
    parser.add_argument("--prefill-retry-backoff-ms", type=float, default=200.0, help="default: %(default)s")
    parser.add_argument(
        "--decode-fallback", action="store_true", help="prefill on the decode server where the prefill server fails"
    )
    parser.add_argument(
        "--enable-prefiller-sampling",
        action="store_true",
        help="choose any of several prefill servers instead of the first",
    )
    parser.add_argument("--sglang-bootstrap-port", type=int, default=8998, help="default: %(default)s")
    parser.add_argument("--data-parallel-size", type=int, default=1, help="ranks, each on the next port (default: 1)")
    parser.add_argument(
        "--zap-encoder",
        choices=list(ZAP_ENCODERS),
        help="of log lines (default: console on a terminal, else json)",
    )
    parser.add_argument("--drain", type=float, default=30.0, metavar="SECONDS", help="default: %(default)s")


def run(arguments: argparse.Namespace) -> int:
    import asyncio
    import logging

    from modelplane.reconcile.log_lines import log_to_stderr

    log_to_stderr(ZAP_ENCODERS.get(arguments.zap_encoder), logging.INFO)
    if arguments.vllm_port is not None:
        arguments.decoder = f"127.0.0.1:{arguments.vllm_port}"
    _check(arguments)
    return asyncio.run(_serve(arguments))


def _check(arguments: argparse.Namespace) -> None:
    from modelplane.api.errors import InputError
    from modelplane.epp.sidecar.disaggregation import Allowlist

    if not 1 <= arguments.data_parallel_size <= _MOST_RANKS:
        raise InputError(f"--data-parallel-size must be 1 to {_MOST_RANKS}, not {arguments.data_parallel_size}")
    if arguments.prefill_max_retries < 0 or arguments.prefill_retry_backoff_ms < 0:
        raise InputError("--prefill-max-retries and --prefill-retry-backoff-ms must not be negative")
    if arguments.endpoints and arguments.inference_pool:
        raise InputError("--endpoints and --inference-pool are two lists; give one")
    if arguments.pool_group not in _POOL_GROUPS:
        raise InputError(f"--pool-group: pools of {_POOL_GROUP} are read, not of {arguments.pool_group}")
    Allowlist([*arguments.allow, arguments.decoder])


async def _serve(arguments: argparse.Namespace) -> int:
    import asyncio
    import signal

    source = _source(arguments)
    if source is not None:
        await source.start()
    sidecars: list[RoutingSidecar] = []
    stopped = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    try:
        await _listen(arguments, source, sidecars)
        await stopped.wait()
    finally:
        await asyncio.gather(*(sidecar.stop(arguments.drain) for sidecar in sidecars))
        if source is not None:
            await source.stop()
    return 0


def _source(arguments: argparse.Namespace) -> "EndpointSource | None":
    """Where the list of servers that may be called comes from, beside the command line."""
    if arguments.endpoints:
        from modelplane.epp.datalayer.discovery.endpoints_file import FileEndpoints

        return FileEndpoints(arguments.endpoints)
    if arguments.inference_pool:
        from modelplane.epp.datalayer.discovery import PoolEndpoints
        from modelplane.epp.server.flags import pool
        from modelplane.kube import KubeClient, load_config

        return PoolEndpoints(KubeClient(load_config()), *pool(arguments.inference_pool))
    return None


async def _listen(
    arguments: argparse.Namespace, source: "EndpointSource | None", sidecars: "list[RoutingSidecar]"
) -> None:
    """Opens a listener a rank; those that are open are in the list even if a later one fails."""
    from modelplane.epp.scheduling.subsets import join
    from modelplane.epp.sidecar.sidecar import RoutingSidecar

    allows = _allows(arguments, source)
    for rank in range(arguments.data_parallel_size):
        sidecar = RoutingSidecar(_settings(arguments, rank, allows))
        sidecars.append(sidecar)
        host, port = await sidecar.start(arguments.host, arguments.port + rank if arguments.port else 0)
        say_serving(f"listening on {join(host, str(port))}", ZAP_ENCODERS.get(arguments.zap_encoder))


def _allows(arguments: argparse.Namespace, source: "EndpointSource | None") -> "Callable[[str], bool]":
    from modelplane.epp.sidecar.disaggregation import Allowlist

    if arguments.allow_any_prefiller:
        return lambda _address: True
    fixed = Allowlist(arguments.allow)
    if source is None:
        return fixed.allows
    return lambda address: fixed.allows(address) or any(each.address == address for each in source.current)


def _settings(arguments: argparse.Namespace, rank: int, allows: "Callable[[str], bool]") -> "SidecarSettings":
    import random
    import time

    from modelplane.epp.sidecar.disaggregation import Connector
    from modelplane.epp.sidecar.sidecar import SidecarSettings

    host, _, first = arguments.decoder.rpartition(":")
    decoders = [f"{host}:{int(first) + each}" for each in range(arguments.data_parallel_size)]
    chance = random.SystemRandom()
    return SidecarSettings(
        decoders[rank],
        {arguments.port + each: decoder for each, decoder in enumerate(decoders)},
        Connector(arguments.connector),
        allows,
        arguments.prefill_max_retries,
        arguments.prefill_retry_backoff_ms / 1000.0,
        decode_fallback=arguments.decode_fallback,
        chance=chance.random if arguments.enable_prefiller_sampling else None,
        room=lambda: time.time_ns() + chance.randrange(_PLACES_OF_ROOMS),
        bootstrap_port=arguments.sglang_bootstrap_port,
    )
