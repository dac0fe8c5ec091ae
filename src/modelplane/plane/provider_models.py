"""Which models providers have, by their own lists: fetched when an endpoint is new, and every few minutes.

One fact has one home: `status.models` of a ModelEndpoint. It is written when it changes, and plans are made anew from
it. A list that cannot be fetched leaves the one before: a provider that is down has not lost its models.

Requests go out by the checked connections of `hydrate`, so the outbound rule of InferenceGateway default holds for
every address, and the endpoint's credential never leaves for another origin.
"""

import asyncio
import logging
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

import msgspec

from modelplane.api.codec import decode, encode
from modelplane.api.errors import InputError, ModelplaneError
from modelplane.api.labels import DEFAULT_GATEWAY
from modelplane.api.models import InferenceGateway, ListedModels, ModelEndpoint
from modelplane.api.objects import GROUP, Manifest, mapping_at, value_at
from modelplane.api.outbound import OutboundRule
from modelplane.compose.endpoint_target import credential_of, endpoint_target
from modelplane.compose.observed_route import decode_endpoint
from modelplane.hydrate.errors import HydrateError
from modelplane.hydrate.transport import TransferTimeouts, WebClient
from modelplane.plane.provider_credentials import credential_value
from modelplane.reconcile.clock import Clock
from modelplane.reconcile.store import ObjectRef, Store

REFRESH_S: Final = 300.0
_RETRY_S: Final = 30.0
_POLL_S: Final = 2.0
_MOST_AT_ONCE: Final = 4
_MOST_NAMES: Final = 256
_LONGEST_NAME: Final = 253
_LARGEST: Final = 4 << 20
_TIMEOUTS: Final = TransferTimeouts(connect_s=5.0, read_s=10.0)
_LOG = logging.getLogger(__name__)


class _ListedModel(msgspec.Struct):
    id: str


class _ProviderList(msgspec.Struct):
    data: list[_ListedModel]


@dataclass(frozen=True, slots=True)
class ListRequest:
    """What is fetched for one endpoint. A change of any of it is a reason to fetch again."""

    url: str
    header: str = ""
    value: str = field(default="", repr=False)
    model: str | None = None


class ProviderModels:
    """Of all ModelEndpoints of a store that are no replicas."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._due: dict[ObjectRef, tuple[ListRequest, float]] = {}
        """When the list of an endpoint is to be fetched next."""

    async def run(self) -> None:
        """Refresh until cancelled."""
        while True:
            await self.refresh()
            await self._clock.sleep(_POLL_S)

    async def refresh(self) -> None:
        """Fetch the lists that are not known or old."""
        wanted = dict(self._wanted())
        now = self._clock.monotonic()
        self._due = {ref: self._due[ref] for ref, request in wanted.items() if self._knows(ref, request)}
        due = [(ref, request) for ref, request in wanted.items() if self._due.get(ref, (request, now))[1] <= now]
        if not due:
            return
        client, limit = WebClient(self._rule(), _TIMEOUTS), asyncio.Semaphore(_MOST_AT_ONCE)
        try:
            await asyncio.gather(*(self._fetch(client, limit, ref, request) for ref, request in due))
        finally:
            client.abort()

    def _knows(self, ref: ObjectRef, request: ListRequest) -> bool:
        return ref in self._due and self._due[ref][0] == request

    def _wanted(self) -> Iterable[tuple[ObjectRef, ListRequest]]:
        for item in self._store.list(GROUP, "ModelEndpoint"):
            endpoint = decode_endpoint(item) if not value_at(item, "spec", "replica") else None
            request = self._request(endpoint) if endpoint is not None else None
            if endpoint is not None and request is not None:
                yield ObjectRef(GROUP, "ModelEndpoint", endpoint.metadata.namespace, endpoint.metadata.name), request

    def _request(self, endpoint: ModelEndpoint) -> ListRequest | None:
        """None for what has no address, or no credential yet."""
        target, wanted = endpoint_target(endpoint), credential_of(endpoint)
        if target is None:
            return None
        if wanted is None:
            return ListRequest(target.models_url, model=endpoint.spec.model)
        value = credential_value(endpoint.metadata.namespace, wanted, self._store)
        return None if value is None else ListRequest(target.models_url, wanted.header, value, endpoint.spec.model)

    async def _fetch(self, client: WebClient, limit: asyncio.Semaphore, ref: ObjectRef, request: ListRequest) -> None:
        async with limit:
            try:
                names = await asyncio.to_thread(fetch_models, client, request)
            except (HydrateError, ModelplaneError, msgspec.DecodeError, OSError) as error:
                _LOG.info("%s %s/%s: its models are not known: %s", ref.kind, ref.namespace, ref.name, error)
                names = None
        after_s = REFRESH_S if names is not None else _RETRY_S
        self._due[ref] = request, self._clock.monotonic() + after_s
        if names is not None:
            self._write(ref, listed_models(names, request))

    def _write(self, ref: ObjectRef, listed: ListedModels) -> None:
        endpoint = self._store.get(ref)
        if endpoint is None or value_at(endpoint, "status", "models") == encode(listed):
            return
        status = {**mapping_at(endpoint, "status"), "models": encode(listed)}
        self._store.replace_status({**endpoint, "status": status})

    def _rule(self) -> OutboundRule:
        """That of the default gateway; one that cannot be read allows nothing of the platform's own network."""
        found: Manifest | None = self._store.get(ObjectRef(GROUP, "InferenceGateway", "", DEFAULT_GATEWAY))
        try:
            outbound = decode(InferenceGateway, {**found, "status": {}}).spec.outbound if found is not None else None
            return OutboundRule.read(outbound.allow if outbound is not None else ())
        except (InputError, ValueError):
            return OutboundRule()


def fetch_models(client: WebClient, request: ListRequest) -> list[str]:
    """The names of a provider's list. Errors of the connection, and msgspec.DecodeError for what is no list."""
    headers = {"Accept": "application/json", **({request.header: request.value} if request.header else {})}
    if request.header.lower() == "x-api-key":
        headers["anthropic-version"] = "2023-06-01"
    body = client.get(request.url, headers, secret=request.header).small(_LARGEST)
    return [each.id for each in msgspec.json.decode(body, type=_ProviderList).data]


def listed_models(names: Iterable[str], request: ListRequest) -> ListedModels:
    """The wanted model first where it is listed, then the others in order. Names that cannot be kept are left out."""
    found = {name for name in names if 0 < len(name) <= _LONGEST_NAME}
    first = [request.model] if request.model is not None and request.model in found else []
    kept = [*first, *sorted(found - {*first})][:_MOST_NAMES]
    return ListedModels(url=request.url, total=len(found), names=tuple(kept))
