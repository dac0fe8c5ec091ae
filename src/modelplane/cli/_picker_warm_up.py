"""`modelplane picker warm-up`: sends requests to an engine before its pod is ready."""

import argparse
from collections.abc import Coroutine

_EPILOG = """\
examples:
  modelplane picker warm-up --engine-port 8000 --prompts 3
  modelplane picker warm-up --request '/v1/embeddings={"model": "bge", "input": "warm up"}' --timeout 60

Runs until SIGTERM. GET /ready answers 200 when all requests were answered; ends with an error where they are not in
time.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    from modelplane.epp.sidecar.warm_up_flags import add_arguments

    parser.description = "Sends requests to the engine of the same pod, and is ready when they were answered."
    parser.epilog = _EPILOG
    parser.add_argument("--host", default="", help="address to listen on (default: all)")
    add_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    import asyncio
    import logging

    from modelplane.epp.sidecar.warm_up import WarmUpServer, plan_of
    from modelplane.reconcile.log_lines import log_to_stderr

    log_to_stderr(None, logging.INFO)
    server = WarmUpServer(f"127.0.0.1:{arguments.engine_port}", plan_of(arguments))
    return asyncio.run(_serve(server.run(arguments.host or "0.0.0.0", arguments.port)))  # noqa: S104  kubelets probe it


async def _serve(work: Coroutine[object, object, None]) -> int:
    import asyncio
    import signal

    task = asyncio.ensure_future(work)
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    try:
        await task
    except asyncio.CancelledError:
        return 0
    return 0
