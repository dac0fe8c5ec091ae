import socket

import pytest

from modelplane.envoy import free_port
from modelplane.envoy.ports import release_port


def reusing():
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    return listener


def test_a_free_port_can_be_listened_on_and_is_offered_once():
    ports = [free_port() for _ in range(50)]
    assert len(set(ports)) == 50
    with reusing() as listener:
        listener.bind(("127.0.0.1", ports[0]))
        listener.listen()
        with socket.create_connection(("127.0.0.1", ports[0])):
            pass


def test_an_offered_port_is_reserved_until_it_is_released():
    port = free_port()
    with socket.socket() as other, pytest.raises(OSError, match="in use"):
        other.bind(("127.0.0.1", port))
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port))
    release_port(port)
    with socket.socket() as other:
        other.bind(("127.0.0.1", port))


def test_a_port_in_use_is_not_offered():
    with reusing() as listener:
        taken = free_port()
        following = 20_000 + (taken + 1 - 20_000) % 12_000
        listener.bind(("127.0.0.1", following))
        listener.listen()
        assert free_port() != following
