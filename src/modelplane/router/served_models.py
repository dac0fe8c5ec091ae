"""Which models a replica serves, by its own list: the model it was started with, and adapters that it holds.

Replicas list their models at `/v1/models`, the adapters after the model. The list is fetched when a replica is new and
every quarter of a minute. Providers are left out: their credential is the gateway's, and the router has none.
"""

import asyncio
import ssl
from typing import Final, NamedTuple, TypedDict

import aiohttp
import msgspec

from modelplane.api.labels import REPLICA_HEADER
from modelplane.compose.hop_certificates import hop_hostname
from modelplane.compose.service_plan import PlanEndpoint
from modelplane.epp.transport.held_bodies import BodyRefused, read_at_most
from modelplane.router.addressing import upstream_path
from modelplane.router.catalog import FleetEndpoint, ServiceCatalog

REFRESH_S: Final = 15.0
_POLL_S: Final = 1.0
_MOST_AT_ONCE: Final = 16
_MOST_MODELS: Final = 256
_LARGEST: Final = 1 << 20


class _Listed(msgspec.Struct):
    id: str


class _ModelList(msgspec.Struct):
    data: list[_Listed] = msgspec.field(default_factory=list)


class HopContext(NamedTuple):
    """How gateways of clusters are called that let in only whom they know."""

    context: ssl.SSLContext
    server_name: str = ""
    """What all of them are called; empty: each by its cluster, where the plan says that it is called by HTTPS."""

    def options(self, plan: PlanEndpoint) -> "HopOptions":
        if self.server_name:
            return {"ssl": self.context, "server_hostname": self.server_name}
        return {"ssl": self.context, "server_hostname": hop_hostname(plan.cluster or "")} if plan.secure else {}


class HopOptions(TypedDict, total=False):
    """Of a request."""

    ssl: ssl.SSLContext
    server_hostname: str


class ServedModels:
    """Fetches the lists of a catalog's replicas between `start` and `stop`."""

    def __init__(self, catalog: ServiceCatalog, hop: HopContext | None = None) -> None:
        self._catalog = catalog
        self.hop = hop
        self._task: asyncio.Task[None] | None = None
        self._fetched_s: dict[FleetEndpoint, float] = {}

    async def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name="list models of replicas")

    async def stop(self) -> None:
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _run(self) -> None:
        timeout = aiohttp.ClientTimeout(total=2.0)
        async with aiohttp.ClientSession(timeout=timeout) as session:
            while True:
                await self.refresh(session, asyncio.get_running_loop().time())
                await asyncio.sleep(_POLL_S)

    async def refresh(self, session: aiohttp.ClientSession, now_s: float) -> None:
        """Fetch the lists that are not known or old."""
        replicas = [each for each in self._catalog.endpoints.values() if each.plan.serves and self._lists_models(each)]
        self._fetched_s = {each: self._fetched_s.get(each, -REFRESH_S) for each in replicas}
        due = [each for each, fetched_s in self._fetched_s.items() if not each.served or now_s - fetched_s >= REFRESH_S]
        for first in range(0, len(due), _MOST_AT_ONCE):
            await asyncio.gather(*(self._fetch(session, each, now_s) for each in due[first : first + _MOST_AT_ONCE]))

    async def _fetch(self, session: aiohttp.ClientSession, endpoint: FleetEndpoint, now_s: float) -> None:
        plan = endpoint.plan
        tls: HopOptions = {} if self.hop is None else self.hop.options(plan)
        scheme = "https" if tls else "http"
        url = f"{scheme}://{endpoint.candidate.address}{upstream_path('/v1/models', plan.prefix)}"
        headers = {REPLICA_HEADER: plan.replica or ""}
        try:
            async with session.get(url, headers=headers, **tls) as response:
                body = await read_at_most(response.content.iter_any(), _LARGEST, response.content_length)
                listed = msgspec.json.decode(body, type=_ModelList) if response.ok else None
        except (aiohttp.ClientError, TimeoutError, msgspec.DecodeError, RecursionError, BodyRefused):
            return
        if listed is not None:
            self._fetched_s[endpoint] = now_s
            self._catalog.learned(endpoint, tuple(each.id for each in listed.data[:_MOST_MODELS]))

    def _lists_models(self, endpoint: FleetEndpoint) -> bool:
        """Whether it is a replica that the router may call."""
        return endpoint.plan.replica is not None and (self.hop is not None or not endpoint.plan.secure)
