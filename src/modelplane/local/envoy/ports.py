"""Ports for listeners that want a fixed number.

Taken from below the range that the kernel hands to outgoing connections, so that a port which is free when it is
chosen is still free when Envoy binds it; another program may take it all the same, and then Envoy says so.
"""

import os
import socket
from collections.abc import Iterator
from itertools import count

from modelplane.api.errors import UnavailableError

_FIRST, _LAST = 20_000, 32_000

# Each process begins elsewhere and never offers a port twice.
_offers: Iterator[int] = count(os.getpid() * 97)


def free_port(host: str = "127.0.0.1") -> int:
    """A port on which nobody listens."""
    for _ in range(_FIRST, _LAST):
        port = _FIRST + next(_offers) % (_LAST - _FIRST)
        if _is_free(host, port):
            return port
    raise UnavailableError(f"no port between {_FIRST} and {_LAST} is free on {host}")


def _is_free(host: str, port: int) -> bool:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
    return True
