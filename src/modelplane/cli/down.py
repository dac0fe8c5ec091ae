"""`modelplane down`: stops a running plane and waits until its processes ended."""

import argparse
import os
import signal
import time

from modelplane.api.errors import NotFoundError, UnavailableError
from modelplane.cli.running import add_data_argument, no_plane, process_of

_EPILOG = """\
examples:
  modelplane down
  modelplane down --data ./plane

The data folder is kept: the next `modelplane up` with it continues from there.
"""
_POLL_S = 0.05
_TIMEOUT_S = 30.0


def configure(parser: argparse.ArgumentParser) -> None:
    parser.description = "Stops the running plane of a data folder, and every process that it started."
    parser.epilog = _EPILOG
    add_data_argument(parser)


def run(arguments: argparse.Namespace) -> int:
    process = process_of(arguments.data)
    if process is None:
        raise NotFoundError(no_plane(arguments.data))
    os.kill(process, signal.SIGTERM)
    deadline = time.monotonic() + _TIMEOUT_S
    while process_of(arguments.data) is not None:
        if time.monotonic() > deadline:
            raise UnavailableError(f"the plane (process {process}) still runs after {_TIMEOUT_S:g} s")
        time.sleep(_POLL_S)
    print(f"stopped the plane of {arguments.data} (process {process})")
    return 0
