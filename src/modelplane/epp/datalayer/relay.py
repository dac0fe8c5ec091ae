"""What one process reads of a pool, for the workers of its picker: endpoints, metrics, policies, loads and prompts.

The process that starts the workers watches the pool and scrapes the engines, once for all. `PoolRelay` keeps, for each
worker, what it was sent, and makes of that the next update: only what changed, or everything for a worker that is new.
So an update that is late, because a worker did not read, has the state of when it is sent.

A worker reports what it has in flight and the prompts that it sent. The relay adds the former up on the endpoints of
its own process, which is what the scraper and other pickers (`peers`) are to see, and sends each worker what all others
have in flight. `RelayedPool` is the worker's end: an endpoint source like any other.
"""

from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Final, Generic, Protocol, TypeVar

import msgspec

from modelplane.epp.datalayer.discovery.datastore import Datastore, DiscoveredEndpoint
from modelplane.epp.datalayer.discovery.policies import PolicyDocument, Rewrite, RewriteTable
from modelplane.epp.datalayer.endpoints import Endpoints, EndpointSource
from modelplane.epp.datalayer.shared_state import NO_LOAD, EncodedPrompt, Load, SentPrompt, SharedState
from modelplane.epp.scheduling.endpoints import Endpoint
from modelplane.epp.scheduling.metrics import NEVER_SCRAPED, EndpointMetrics

_MOST_PROMPTS: Final = 10_000
_OTHERS: Final = "others"
P = TypeVar("P", bound=EncodedPrompt)


class ScrapedEndpoint(msgspec.Struct, frozen=True, array_like=True):
    """What a scrape left on an endpoint."""

    metrics: EndpointMetrics
    attributes: Mapping[str, float]


class PoolUpdate(msgspec.Struct, Generic[P], frozen=True, omit_defaults=True):
    """What changed since the update before. Its prompts are encoded for who passes them on."""

    endpoints: tuple[DiscoveredEndpoint, ...] | None = None
    """All of the pool; None: the same as before."""
    known: bool = False
    scraped: dict[str, ScrapedEndpoint] = {}
    """By the name of the endpoint."""
    loads: dict[str, Load] = {}
    """What all other workers, and other pickers, have in flight there."""
    prompts: tuple[P, ...] = ()
    """What they sent."""
    policies: PolicyDocument | None = None


class PolicyReader(Protocol):
    @property
    def document(self) -> PolicyDocument:
        """All policies; another object after each change."""


class _Sent:
    """What one worker knows."""

    def __init__(self, pool: Collection[Endpoint]) -> None:
        self.endpoints: Endpoints | None = None
        self.known = False
        self.policies: PolicyDocument | None = None
        self.metrics: dict[Endpoint, EndpointMetrics] = {}
        self.loads: dict[str, Load] = {}
        self.changed = set(pool)
        """Endpoints that it may know something old of."""
        self.prompts: list[EncodedPrompt] = []


class PoolRelay:
    """The end of the process that reads the pool. Workers are known by any object. One event loop."""

    def __init__(self, source: EndpointSource, policies: PolicyReader | None = None) -> None:
        self._source = source
        self._policies = policies
        self.state = SharedState(source)
        self._sent: dict[object, _Sent] = {}
        self._changed: list[Endpoint] = []
        self._watched: set[Endpoint] = set()
        self._uids: dict[Endpoint, str] = {}
        self._made = 0

    def start(self) -> None:
        """Once the source has started."""
        self.state.follow()
        self._source.on_change(self._follow)
        self._follow(self._source.current)

    def join(self, worker: object) -> None:
        """A worker that knows nothing yet."""
        self._sent[worker] = _Sent(self._watched)

    def leave(self, worker: object) -> None:
        """Nothing of it is in flight any more."""
        self._sent.pop(worker, None)
        self.state.loads.forget(worker)

    def receive(self, worker: object, loads: dict[str, Load], prompts: Sequence[msgspec.Raw]) -> None:
        """What a worker has in flight where that changed, and the prompts that it sent."""
        self.state.loads.receive(worker, loads)
        self.pass_on(prompts, worker)

    def pass_on(self, prompts: Sequence[EncodedPrompt], sender: object = None) -> None:
        """Prompts of a worker, or of other pickers, for every worker but the sender."""
        for worker, sent in self._sent.items():
            if worker is not sender:
                sent.prompts += prompts
                del sent.prompts[_MOST_PROMPTS:]

    def collect_changes(self) -> None:
        """Before `update_for` of each worker."""
        changed = set(self._changed) & self._watched
        self._changed.clear()
        for endpoint in changed:
            endpoint.watch(self._changed)
        for sent in self._sent.values():
            sent.changed |= changed

    def update_for(self, worker: object) -> PoolUpdate[EncodedPrompt] | None:
        """What it does not know yet; None: nothing."""
        sent, current, known = self._sent[worker], self._source.current, self._source.known
        policies = self._policies.document if self._policies is not None else None
        is_new_pool = current is not sent.endpoints or known != sent.known
        update = PoolUpdate[EncodedPrompt](
            endpoints=tuple(self._described(each) for each in current) if is_new_pool else None,
            known=known,
            scraped=self._scraped(sent),
            loads=self._loads(worker, sent),
            prompts=tuple(sent.prompts),
            policies=policies if policies is not sent.policies else None,
        )
        sent.endpoints, sent.known, sent.policies = current, known, policies
        sent.changed.clear()
        sent.prompts.clear()
        is_news = is_new_pool or update.scraped or update.loads or update.prompts or update.policies is not None
        return update if is_news else None

    def _follow(self, endpoints: Endpoints) -> None:
        new = set(endpoints)
        for endpoint in new - self._watched:
            endpoint.watch(self._changed)
        self._watched = new
        self._uids = {endpoint: self._uids.get(endpoint) or self._uid() for endpoint in endpoints}
        for sent in self._sent.values():
            sent.metrics = {each: metrics for each, metrics in sent.metrics.items() if each in new}
            sent.changed |= new

    def _uid(self) -> str:
        """So that an endpoint that was replaced by another of its name is another for the workers, too."""
        self._made += 1
        return str(self._made)

    def _described(self, endpoint: Endpoint) -> DiscoveredEndpoint:
        return DiscoveredEndpoint(
            endpoint.name, endpoint.address, self._uids[endpoint], dict(endpoint.labels), dict(endpoint.attributes)
        )

    def _scraped(self, sent: _Sent) -> dict[str, ScrapedEndpoint]:
        found = {}
        for endpoint in sent.changed & self._watched:
            metrics = endpoint.metrics
            if sent.metrics.get(endpoint, NEVER_SCRAPED) is not metrics:
                sent.metrics[endpoint] = metrics
                found[endpoint.name] = ScrapedEndpoint(metrics, dict(endpoint.attributes))
        return found

    def _loads(self, worker: object, sent: _Sent) -> dict[str, Load]:
        """On each changed endpoint, all that is in flight but what this worker has there."""
        own = self.state.loads.received(worker)
        found = {name: NO_LOAD for name in sent.loads if self.state.loads.endpoint(name) is None}
        for endpoint in sent.changed & self._watched:
            requests, tokens = own.get(endpoint.name, NO_LOAD)
            load = endpoint.requests_in_flight - requests, endpoint.tokens_in_flight - tokens
            if sent.loads.get(endpoint.name, NO_LOAD) != load:
                found[endpoint.name] = load
        sent.loads = {name: load for name, load in (sent.loads | found).items() if load != NO_LOAD}
        return found


class RelayedPool(Datastore):
    """The pool as a worker is sent it (`EndpointSource`)."""

    def __init__(self) -> None:
        super().__init__()
        self.known = False
        self.state = SharedState(self)
        self._by_name: Mapping[str, Endpoint] = {}

    async def start(self) -> None:
        """Updates come from outside."""

    async def stop(self) -> None:
        """Nothing runs."""

    def apply(self, update: PoolUpdate[SentPrompt]) -> None:
        if update.endpoints is not None:
            self.known = update.known
            self.replace(update.endpoints)
            self._by_name = {endpoint.name: endpoint for endpoint in self.current}
        for name, scraped in update.scraped.items():
            if name in self._by_name:
                _take(self._by_name[name], scraped)
        self.state.receive(_OTHERS, update.loads, update.prompts)


def _take(endpoint: Endpoint, scraped: ScrapedEndpoint) -> None:
    # Which tokens a scrape includes depends on the responses that this worker sees.
    endpoint.metrics = msgspec.structs.replace(scraped.metrics, tokens_at_scrape=endpoint.tokens_shown)
    if scraped.attributes != endpoint.attributes:
        endpoint.attributes = MappingProxyType(dict(scraped.attributes))


class RelayedPolicies:
    """The policies as a worker is sent them (`PolicySource`)."""

    def __init__(self) -> None:
        self._table = RewriteTable()

    async def start(self) -> None:
        """Updates come from outside."""

    async def stop(self) -> None:
        """Nothing runs."""

    @property
    def document(self) -> PolicyDocument:
        return self._table.document

    @property
    def priorities(self) -> Mapping[str, int]:
        return self._table.priorities

    def rewrite(self, model: str, chance: float) -> Rewrite | None:
        return self._table.rewrite(model, chance)

    def apply(self, document: PolicyDocument) -> None:
        self._table.replace(document)
