"""Names of Services, as a cluster's DNS would answer them."""

import asyncio
import socket
import struct

import pytest

from lab.routing import ready_addresses
from lab.service_names import Server, answer

_A, _AAAA = 1, 28


def _query(name, kind):
    labels = b"".join(bytes([len(each)]) + each.encode() for each in name.split("."))
    return b"\x12\x34" + struct.pack("!HHHHH", 0x0100, 1, 0, 0, 0) + labels + b"\0" + struct.pack("!HH", kind, 1)


def _slice(service, *addresses, ready=True):
    labels = {"kubernetes.io/service-name": service}
    endpoints = [{"addresses": [each], "conditions": {"ready": ready}} for each in addresses]
    return {"metadata": {"namespace": "team", "labels": labels}, "endpoints": endpoints}


_SLICES = [_slice("picker", "10.1.0.2", "10.1.0.1"), _slice("picker", "10.1.0.3", ready=False), _slice("empty")]


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        (("team", "picker"), ["10.1.0.1", "10.1.0.2"]),
        (("team", "empty"), []),
        (("team", "other"), None),
        (("else", "picker"), None),
    ],
)
def test_a_service_is_its_ready_pods(key, expected):
    assert ready_addresses(_SLICES, key) == expected


def _flags_and_records(name, kind, found):
    query = _query(name, kind)
    said = answer(query, {"picker.team.svc": found}.get)
    assert said[:2] == query[:2]
    flags, questions, records, *_ = struct.unpack_from("!HHHHH", said, 2)
    assert questions == 1
    assert said[12 : len(query)] == query[12:]
    return flags, [said[len(query) + 16 * at + 12 : len(query) + 16 * at + 16] for at in range(records)]


@pytest.mark.parametrize(
    ("name", "kind", "found", "expected"),
    [
        ("picker.team.svc", _A, ["10.1.0.1", "10.1.0.2"], (0x8180, [b"\x0a\x01\0\x01", b"\x0a\x01\0\x02"])),
        ("PICKER.team.svc", _A, ["10.1.0.1"], (0x8180, [b"\x0a\x01\0\x01"])),
        ("picker.team.svc", _AAAA, ["10.1.0.1"], (0x8180, [])),
        ("picker.team.svc", _A, [], (0x8180, [])),
        ("other.team.svc", _A, ["10.1.0.1"], (0x8183, [])),
    ],
)
def test_a_question_is_answered(name, kind, found, expected):
    assert _flags_and_records(name, kind, found) == expected


def test_a_question_over_udp_is_answered():
    async def resolve():
        loop = asyncio.get_running_loop()
        server, _ = await loop.create_datagram_endpoint(
            lambda: Server({"picker.team.svc": ["10.1.0.1"]}.get), local_addr=("127.0.0.1", 0)
        )
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
            client.setblocking(False)
            await loop.sock_connect(client, server.get_extra_info("sockname"))
            await loop.sock_sendall(client, _query("picker.team.svc", _A))
            async with asyncio.timeout(5):
                said = await loop.sock_recv(client, 512)
        server.close()
        return said

    assert asyncio.run(resolve()) == answer(_query("picker.team.svc", _A), {"picker.team.svc": ["10.1.0.1"]}.get)
