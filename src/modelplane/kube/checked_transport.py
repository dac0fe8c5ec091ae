"""Connects to the API of a kubeconfig from a Secret: to addresses that the outbound rule permits, never to its name.

The name may resolve to another address a moment after it was checked. It stays what the certificate must prove, and
what the Host header says. Addresses count for 30 s; those of before count on while the name does not resolve.
"""

import asyncio
import time
from collections.abc import Callable
from typing import Final

import httpx2

from modelplane.api.outbound import OutboundRule
from modelplane.reconcile.resolver import look_up

_LIFETIME_S: Final = 30.0


class CheckedTransport(httpx2.AsyncBaseTransport):
    """For requests to one host; `inner` makes the connections."""

    def __init__(
        self, inner: httpx2.AsyncBaseTransport, rule: OutboundRule, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._inner = inner
        self._rule = rule
        self._clock = clock
        self._addresses: tuple[str, ...] = ()
        self._until_s = 0.0

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        failure = httpx2.ConnectError("no address", request=request)
        for address in await self._resolved(request):
            try:
                return await self._inner.handle_async_request(_pinned(request, address))
            except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
                failure = httpx2.ConnectError(f"{address}: {error}", request=request)
        raise failure

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def _resolved(self, request: httpx2.Request) -> tuple[str, ...]:
        if self._addresses and self._clock() < self._until_s:
            return self._addresses
        host = request.url.host
        found = await asyncio.to_thread(look_up, host)
        judged = self._rule.judge(host, found)
        refusal = self._rule.refuse_host(host) or (judged.refusal if not judged.permitted else None)
        if refusal:
            self._addresses = ()
            raise httpx2.ConnectError(f"the outbound rule refuses {host}: {refusal}", request=request)
        if found:
            self._addresses, self._until_s = judged.permitted, self._clock() + _LIFETIME_S
        elif not self._addresses:
            raise httpx2.ConnectError(f"{host} does not resolve", request=request)
        return self._addresses


def _pinned(request: httpx2.Request, address: str) -> httpx2.Request:
    return httpx2.Request(
        request.method,
        request.url.copy_with(host=address),
        headers=request.headers,
        stream=request.stream,
        extensions={**request.extensions, "sni_hostname": request.url.host},
    )
