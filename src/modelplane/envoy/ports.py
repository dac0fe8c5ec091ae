"""Fixed ports for listeners.

Ports are taken from below the kernel's ephemeral range. A port stays reserved by a socket that is bound to it and never
listens: Envoy may bind it much later, when other programs and other planes have searched for free ports as well.
Sockets with SO_REUSEADDR, such as Envoy's and aiohttp's, can listen on it.
"""

import atexit
import os
import socket
from collections.abc import Iterator
from itertools import count

from modelplane.api.errors import UnavailableError

_FIRST, _LAST = 20_000, 32_000

# Each process begins elsewhere and never offers a port twice.
_offers: Iterator[int] = count(os.getpid() * 97)
_reserved: dict[tuple[str, int], socket.socket] = {}


@atexit.register
def _release_all() -> None:
    while _reserved:
        _reserved.popitem()[1].close()


def free_port(host: str = "127.0.0.1") -> int:
    """A port without a listener, reserved until it is released or this process ends."""
    for _ in range(_FIRST, _LAST):
        port = _FIRST + next(_offers) % (_LAST - _FIRST)
        if _is_reserved(host, port):
            return port
    raise UnavailableError(f"no port between {_FIRST} and {_LAST} is free on {host}")


def release_port(port: int, host: str = "127.0.0.1") -> None:
    """Let others have a port that was offered."""
    holder = _reserved.pop((host, port), None)
    if holder is not None:
        holder.close()


def _is_reserved(host: str, port: int) -> bool:
    """Try to reserve it. Only an exclusive bind detects a port that another process reserved."""
    holder = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
    try:
        holder.bind((host, port))
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    except OSError:
        holder.close()
        return False
    _reserved[host, port] = holder
    return True
