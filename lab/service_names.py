"""The names of a cluster's Services, as its DNS would answer them: `<service>.<namespace>.svc` is its ready pods.

A real one answers with the cluster's address of a Service; nothing routes those here.
"""

from __future__ import annotations

import asyncio
import struct
from ipaddress import IPv4Address
from typing import TYPE_CHECKING, cast

from lab.mirror import Mirror
from lab.routing import ready_addresses

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lab.client import Api

_PORT = 53
_HEADER, _A, _INTERNET = 12, 1, 1
_ANSWERED, _UNKNOWN = 0x8180, 0x8183
_TTL_S = 1
_QUESTION = 0xC00C
"""A name that is written where the question's is."""


class ServiceNames:
    """Those of one cluster, answered at an address until it is cancelled."""

    def __init__(self, api: Api, address: str) -> None:
        self._address = address
        self._slices = Mirror(api, "discovery.k8s.io/v1", "EndpointSlice")

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        transport, _ = await loop.create_datagram_endpoint(
            lambda: Server(self._find), local_addr=(self._address, _PORT)
        )
        try:
            await self._slices.run(asyncio.Event())
        finally:
            transport.close()

    def _find(self, name: str) -> Sequence[str] | None:
        service, _, rest = name.partition(".")
        namespace, _, domain = rest.partition(".")
        if domain.partition(".")[0] != "svc":
            return None
        return ready_addresses(self._slices.all, (namespace, service))


class Server(asyncio.DatagramProtocol):
    """Answers every question that it gets."""

    def __init__(self, find: Callable[[str], Sequence[str] | None]) -> None:
        self._find = find
        self._transport: asyncio.DatagramTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # Before Python 3.12 that of asyncio is none by its class.
        self._transport = cast("asyncio.DatagramTransport", transport)

    def datagram_received(self, data: bytes, addr: tuple[str | int, ...]) -> None:
        if self._transport is not None:
            self._transport.sendto(answer(data, self._find), addr)


def answer(query: bytes, find: Callable[[str], Sequence[str] | None]) -> bytes:
    """To one question. There are IPv4 addresses only; a name that is not known is said to be none."""
    name, end = _name(query)
    (kind,) = struct.unpack_from("!H", query, end)
    found = find(name)
    addresses = (found or ()) if kind == _A else ()
    records = b"".join(
        struct.pack("!HHHIH4s", _QUESTION, _A, _INTERNET, _TTL_S, 4, IPv4Address(each).packed) for each in addresses
    )
    flags = _UNKNOWN if found is None else _ANSWERED
    head = query[:2] + struct.pack("!HHHHH", flags, 1, len(addresses), 0, 0)
    return head + query[_HEADER : end + 4] + records


def _name(query: bytes) -> tuple[str, int]:
    """The name in a question, and where it ends."""
    labels, at = [], _HEADER
    while length := query[at]:
        labels.append(query[at + 1 : at + 1 + length].decode())
        at += 1 + length
    return ".".join(labels).lower(), at + 1
