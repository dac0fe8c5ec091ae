"""Fetches metrics from the addresses that the platform names.

A name that resolves to several addresses, as that of a headless Service does, is that many targets: each process counts
for itself. Behind one address that leads to another process each time, counters would jump, so such an address must
not be named. An https:// address is one target, since its certificate has the name.
"""

import asyncio
import socket
from collections.abc import Sequence
from types import TracebackType
from typing import Self
from urllib.parse import SplitResult, urlsplit

import aiohttp

from modelplane.crossplane.traffic_metrics import MetricsUnreadable

_TIMEOUT_S = 5.0
_MOST_BYTES = 64 * 1024 * 1024
_OK = 200
_HTTP = 80


class TrafficTargets:
    """Serves inside `async with`."""

    def __init__(self, urls: Sequence[str]) -> None:
        self._urls = [urlsplit(url) for url in urls]
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=_TIMEOUT_S), trust_env=False)
        return self

    async def __aexit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        if self._session is not None:
            await self._session.close()

    async def fetch(self) -> dict[str, str]:
        """The text of each target. One that does not answer spoils all: what it counted would be missing."""
        targets = [target for url in self._urls for target in await _addresses(url)]
        texts = await asyncio.gather(*(self._get(at, name) for at, name in targets))
        return {at: text for (at, _), text in zip(targets, texts, strict=True)}

    async def _get(self, at: str, name: str) -> str:
        assert self._session is not None  # noqa: S101  inside `async with`
        try:
            async with self._session.get(at, headers={"Host": name}, allow_redirects=False) as response:
                if response.status != _OK:
                    raise MetricsUnreadable(f"{at}: status {response.status}")
                body = await response.content.read(_MOST_BYTES + 1)
                while len(body) <= _MOST_BYTES and (more := await response.content.readany()):
                    body += more
        except (aiohttp.ClientError, OSError, TimeoutError) as broken:
            raise MetricsUnreadable(f"{at}: {type(broken).__name__}: {broken}") from broken
        if len(body) > _MOST_BYTES:
            raise MetricsUnreadable(f"{at}: more than {_MOST_BYTES} bytes")
        return body.decode(errors="replace")


async def _addresses(url: SplitResult) -> list[tuple[str, str]]:
    """Each with the Host header to send."""
    user, at, name = url.netloc.rpartition("@")
    if url.scheme != "http":
        return [(url.geturl(), name)]
    port = url.port or _HTTP
    try:
        found = await asyncio.get_running_loop().getaddrinfo(url.hostname, port, type=socket.SOCK_STREAM)
    except OSError as broken:
        raise MetricsUnreadable(f"{url.geturl()}: {broken}") from broken
    hosts = sorted({str(each[4][0]) for each in found})
    netlocs = [f"{user}{at}{f'[{host}]' if ':' in host else host}:{port}" for host in hosts]
    return [(url._replace(netloc=netloc).geturl(), name) for netloc in netlocs]
