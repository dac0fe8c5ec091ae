import socket

from modelplane.local.envoy import free_port


def test_a_free_port_can_be_bound_and_is_offered_once():
    ports = [free_port() for _ in range(50)]
    assert len(set(ports)) == 50
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", ports[0]))


def test_a_port_in_use_is_not_offered():
    with socket.socket() as listener:
        taken = free_port()
        following = 20_000 + (taken + 1 - 20_000) % 12_000
        listener.bind(("127.0.0.1", following))
        listener.listen()
        assert free_port() != following
