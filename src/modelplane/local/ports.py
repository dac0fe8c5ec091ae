"""Ports for listeners that another process opens."""

import socket

_given: set[int] = set()  # two calls in a row must not give the same port before it is taken


def free_port(host: str) -> int:
    """A port that nobody listens on and that this process did not give out before."""
    while True:
        with socket.socket() as probe:
            probe.bind((host, 0))
            port = int(probe.getsockname()[1])
        if port not in _given:
            _given.add(port)
            return port
