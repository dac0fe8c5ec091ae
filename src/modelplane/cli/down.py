"""`modelplane down`: ends a running plane and waits until everything it started is gone."""

import argparse
import os
import signal
import time

from modelplane.api.errors import NotFoundError, UnavailableError
from modelplane.cli.running import add_data_argument, process_of

_EPILOG = """\
examples:
  modelplane down
  modelplane down --data ./plane

The state stays: the next `modelplane up` on the folder goes on from there.
"""
_LOOK_S = 0.05
_PATIENCE_S = 30.0


def configure(parser: argparse.ArgumentParser) -> None:
    parser.description = "Stops the plane that runs on a folder, and everything that it started."
    parser.epilog = _EPILOG
    add_data_argument(parser)


def run(arguments: argparse.Namespace) -> int:
    process = process_of(arguments.data)
    if process is None:
        raise NotFoundError(f"no plane runs on {arguments.data}")
    os.kill(process, signal.SIGTERM)
    deadline = time.monotonic() + _PATIENCE_S
    while process_of(arguments.data) is not None:
        if time.monotonic() > deadline:
            raise UnavailableError(f"the plane (process {process}) still runs after {_PATIENCE_S:g} s")
        time.sleep(_LOOK_S)
    print(f"stopped the plane on {arguments.data} (process {process})")
    return 0
