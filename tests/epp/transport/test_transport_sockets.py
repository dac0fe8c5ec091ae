"""Servers that listen on every address answer at those of both families."""

import asyncio
import socket

import aiohttp
import grpc
import pytest

from modelplane.epp.config.config import load
from modelplane.epp.datalayer.endpoints import StaticEndpoints
from modelplane.epp.server.health import CHECK
from modelplane.epp.server.runner import PickerRunner, RunnerOptions
from modelplane.epp.server.server import PickerSettings
from modelplane.epp.sidecar.sidecar import RoutingSidecar, SidecarSettings
from modelplane.epp.transport.sockets import ANY_ADDRESS, listen_any_address, listen_at


def has_ipv6():
    try:
        with socket.create_server(("::1", 0), family=socket.AF_INET6):
            return True
    except OSError:
        return False


HOSTS = ["127.0.0.1", *(["[::1]"] if has_ipv6() else [])]


def test_a_picker_answers_at_every_address(make_server, run):
    async def scenario():
        settings = PickerSettings(port=0, health_port=0, drain_s=1.0)
        assert settings.host == ANY_ADDRESS
        wishes = RunnerOptions(metrics_port=0, scrapes=False, make_server=make_server)
        program = PickerRunner(StaticEndpoints([]), load(""), settings, wishes)
        await program.start()
        health = [
            await ask_health(f"{host}:{port}")
            for host in HOSTS
            for port in (program.server.port, program.server.health_port)
        ]
        ready = [await status(f"http://{host}:{program.metrics_port}/readyz") for host in HOSTS]
        await program.stop()
        return health, ready

    health, ready = run(scenario())
    assert set(health) == {b"\x08\x01"}
    assert set(ready) == {200}


async def ask_health(address):
    async with grpc.aio.insecure_channel(address) as channel:
        return await channel.unary_unary(CHECK)(b"", timeout=30)


async def status(url):
    async with aiohttp.ClientSession() as client, client.get(url) as answer:
        return answer.status


def test_a_sidecar_answers_at_every_address():
    async def scenario():
        sidecar = RoutingSidecar(SidecarSettings(decoder="127.0.0.1:9"))
        _, port = await sidecar.start(ANY_ADDRESS)
        found = [await status(f"http://{host}:{port}/health") for host in HOSTS]
        await sidecar.stop()
        return found

    assert set(asyncio.run(scenario())) == {502}


def test_a_port_that_is_taken_is_an_error():
    with listen_any_address(0) as taken, pytest.raises(OSError, match="in use"):
        listen_any_address(taken.getsockname()[1])


@pytest.mark.parametrize("host", [ANY_ADDRESS, "127.0.0.1", "localhost"])
def test_the_sockets_of_a_host_have_one_port_and_do_not_block(host):
    sockets = asyncio.run(listen_at(host, 0))
    try:
        assert len({sock.getsockname()[1] for sock in sockets}) == 1
        assert not any(sock.getblocking() for sock in sockets)
        with socket.create_connection(("127.0.0.1", sockets[0].getsockname()[1]), 30):
            pass
    finally:
        for sock in sockets:
            sock.close()
