"""What a case works with: the proxy, the servers behind it, an HTTP client, and what of the picker may be changed."""

import base64
import json
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import NamedTuple

import aiohttp
import msgspec

from modelplane.conformance.epp.controls import KitEndpoint, PickerUnderTest, ProcessControl
from modelplane.conformance.epp.proxy import SUBSET_VALUE, Proxy
from modelplane.conformance.epp.upstreams import Reached, Upstreams

CHAT = "/v1/chat/completions"
SOON_S = 15.0
OK, MALFORMED, SATURATED, UNAVAILABLE = 200, 400, 429, 503
_SEVEN_BITS = 0x7F


class Failure(Exception):  # noqa: N818  a finding, not a defect of the kit
    """The picker does not conform; the message says what it did."""


class HttpResponse(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def reached(self) -> Reached:
        """The request that the upstream server received."""
        expect(self.status == OK, f"status {self.status}: {self.body[:200]!r}")
        return msgspec.json.decode(self.body, type=Reached)


def expect(held: object, otherwise: str) -> None:
    if not held:
        raise Failure(otherwise)


class Bench:
    """The proxy, the upstream servers and an HTTP client."""

    def __init__(
        self,
        proxy: Proxy,
        upstreams: Upstreams,
        session: aiohttp.ClientSession,
        picker: PickerUnderTest,
        *,
        soon_s: float = SOON_S,
    ) -> None:
        self.proxy = proxy
        self.upstreams = upstreams
        self.picker = picker
        self.soon_s = soon_s
        """How long a picker may take to follow a change."""
        self._session = session

    @property
    def pool(self) -> tuple[str, ...]:
        return self.upstreams.addresses

    @property
    def pods(self) -> tuple[tuple[str, ...], ...]:
        """The addresses of each pod: those that differ by their port alone."""
        hosts: dict[str, list[str]] = {}
        for address in self.pool:
            hosts.setdefault(KitEndpoint(address).host, []).append(address)
        return tuple(tuple(each) for each in hosts.values())

    @property
    def process(self) -> ProcessControl:
        if self.picker.process is None:
            raise Failure("the kit cannot stop the picker")
        return self.picker.process

    @asynccontextmanager
    async def pool_of(self, members: Iterable[KitEndpoint]) -> AsyncIterator[None]:
        """The pool has these members for a while."""
        control = self.picker.pool
        if control is None:
            raise Failure("the kit cannot change the pool")
        control.replace(tuple(members))
        try:
            yield
        finally:
            control.replace([KitEndpoint(address) for address in self.pool])

    async def send(
        self,
        body: object = None,
        *,
        mode: str = "full",
        path: str = CHAT,
        method: str = "POST",
        headers: dict[str, str] | None = None,
    ) -> HttpResponse:
        """Send bytes unchanged and other bodies as JSON. The default is a chat request."""
        content = body if isinstance(body, bytes) else json.dumps(chat() if body is None else body).encode()
        sent = {"content-type": "application/json", **(headers or {})}
        data = content if method == "POST" else None
        async with self._session.request(method, self.proxy.url(mode, path), data=data, headers=sent) as response:
            found = {name.lower(): text for name, text in response.headers.items()}
            return HttpResponse(response.status, found, await response.read())

    def stream(self, mode: str, headers: dict[str, str] | None = None) -> "aiohttp.client._RequestContextManager":
        body = json.dumps({**chat(), "stream": True}).encode()
        headers = {"content-type": "application/json", **(headers or {})}
        return self._session.post(self.proxy.url(mode, CHAT), data=body, headers=headers)


def chat(words: str = "hello") -> dict[str, object]:
    return {"model": "kit", "messages": [{"role": "user", "content": words}]}


def subset_of(addresses: Sequence[str]) -> dict[str, str]:
    """The headers that make the proxy hint at these endpoints: a list value as protobuf, in base64."""
    items = b"".join(_field(1, _field(3, address.encode())) for address in addresses)
    return {SUBSET_VALUE: base64.b64encode(_field(6, items)).decode()}


def _field(number: int, content: bytes) -> bytes:
    return bytes([number << 3 | 2]) + _varint(len(content)) + content


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > _SEVEN_BITS:
        out.append(value & _SEVEN_BITS | 0x80)
        value >>= 7
    return bytes([*out, value])
