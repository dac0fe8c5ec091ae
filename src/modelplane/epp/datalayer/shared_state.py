"""What pickers of one pool, and workers of one picker, share: requests in flight, and which prompts went where.

Each process counts its own requests on its own endpoint objects. What others have in flight is added to these counts,
and their prompts to the prefix index, so plugins need not know. How messages travel is decided elsewhere: by `peers`
between pickers, by `relay` between the workers of one.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Annotated, Final

import msgspec

from modelplane.epp.datalayer.endpoints import EndpointSource
from modelplane.epp.scheduling.endpoints import Endpoint
from modelplane.epp.scheduling.producers.approx_producer import ApproxPrefixProducer
from modelplane.epp.scheduling.producers.matches import PrefixMatch

SYNC_S: Final = 0.01
"""Between two messages of a process."""
_MOST_PROMPTS: Final = 1_000
"""Kept between two messages: a process that sends more prompts than that in `SYNC_S` shares the first of them."""

_Natural = Annotated[int, msgspec.Meta(ge=0)]
Load = tuple[int, int]
"""Requests and tokens in flight."""
NO_LOAD: Final[Load] = (0, 0)
_NOWHERE: Final[Mapping[str, Load]] = MappingProxyType({})


class SentPrompt(msgspec.Struct, frozen=True, array_like=True):
    endpoint: str
    block_tokens: Annotated[int, msgspec.Meta(gt=0)]
    chains: tuple[tuple[_Natural, ...], ...]
    lengths: tuple[_Natural, ...]


EncodedPrompt = SentPrompt | msgspec.Raw
"""A prompt that is only passed on stays encoded."""


class SharedState:
    """What this process shares of itself, and knows of the others. One event loop."""

    def __init__(self, source: EndpointSource) -> None:
        self.loads = SharedLoads()
        self.on_prompts: Callable[[Sequence[SentPrompt]], None] | None = None
        """Called with the prompts of others, where this process passes them on."""
        self._source = source
        self._producer: ApproxPrefixProducer | None = None
        self._prompts: list[EncodedPrompt] = []
        self._published: dict[str, Load] = {}

    def follow(self) -> None:
        """The pool is that of the source, now and after each change."""
        self._source.on_change(self.loads.follow)
        self.loads.follow(self._source.current)

    def share_prompts(self, producer: ApproxPrefixProducer | None) -> None:
        """Of this producer, instead of the one before."""
        if self._producer is not None:
            self._producer.on_record = None
        self._producer = producer
        if producer is not None:
            producer.on_record = self._sent

    def add_prompts(self, prompts: Iterable[EncodedPrompt]) -> None:
        """Prompts to be sent to the others with the next message."""
        self._prompts += prompts
        del self._prompts[_MOST_PROMPTS:]

    def own_loads(self) -> dict[str, Load]:
        return self.loads.own(self._source.current)

    def changed_loads(self, own: dict[str, Load]) -> dict[str, Load]:
        """What is in flight where that changed since the last call, `own` being what is in flight at all."""
        published, self._published = self._published, own
        changed = {name: load for name, load in own.items() if published.get(name, NO_LOAD) != load}
        return changed | {name: NO_LOAD for name in published if name not in own}

    def take_prompts(self) -> tuple[EncodedPrompt, ...]:
        """The prompts since the last call."""
        taken = tuple(self._prompts)
        self._prompts.clear()
        return taken

    def receive(self, peer: object, loads: dict[str, Load], prompts: Sequence[SentPrompt]) -> None:
        self.loads.receive(peer, loads)
        for prompt in prompts:
            self._learn(prompt)
        if prompts and self.on_prompts is not None:
            self.on_prompts(prompts)

    def _sent(self, endpoints: Iterable[Endpoint], match: PrefixMatch) -> None:
        if len(self._prompts) < _MOST_PROMPTS:
            chains = tuple(tuple(chain) for chain in match.chains)
            self._prompts += [
                SentPrompt(endpoint.name, match.block_size, chains, tuple(match.lengths)) for endpoint in endpoints
            ]

    def _learn(self, prompt: SentPrompt) -> None:
        endpoint = self.loads.endpoint(prompt.endpoint)
        if endpoint is not None and self._producer is not None and len(prompt.chains) == len(prompt.lengths):
            self._producer.index.record_chains(endpoint, prompt.block_tokens, prompt.chains)


class SharedLoads:
    """What other pickers have in flight, added to the counts of the endpoints."""

    def __init__(self) -> None:
        self._received: dict[object, dict[str, Load]] = {}
        self._totals: dict[str, Load] = {}
        """Of all peers together."""
        self._added: dict[Endpoint, Load] = {}
        self._endpoints: dict[str, Endpoint] = {}
        self._is_on = True

    @property
    def peers(self) -> int:
        return len(self._received)

    def switch(self, *, on: bool) -> None:
        """Off, endpoints have this picker's own counts, and it says nothing of them."""
        self._is_on = on
        self._add(self._endpoints)

    def endpoint(self, name: str) -> Endpoint | None:
        return self._endpoints.get(name)

    def received(self, peer: object) -> Mapping[str, Load]:
        """What this one has in flight, by the name of the endpoint."""
        return self._received.get(peer, _NOWHERE)

    def knows(self, peer: object) -> bool:
        return peer in self._received

    def own(self, endpoints: Sequence[Endpoint]) -> dict[str, Load]:
        """What this picker has in flight itself, where there is something."""
        found: dict[str, Load] = {}
        for endpoint in endpoints if self._is_on else ():
            requests, tokens = self._added.get(endpoint, (0, 0))
            own = endpoint.requests_in_flight - requests, endpoint.tokens_in_flight - tokens
            if own != (0, 0):
                found[endpoint.name] = own
        return found

    def follow(self, endpoints: Sequence[Endpoint]) -> None:
        """The pool is these. An endpoint that is new may be one of which a peer spoke before."""
        self._endpoints = {endpoint.name: endpoint for endpoint in endpoints}
        kept = set(endpoints)
        self._added = {endpoint: load for endpoint, load in self._added.items() if endpoint in kept}
        self._add(self._endpoints)

    def receive(self, peer: object, loads: dict[str, Load]) -> None:
        """Kept while it is off, too: a peer repeats nothing that did not change."""
        held, totals = self._received.setdefault(peer, {}), self._totals
        for name, (requests, tokens) in loads.items():
            before, total = held.pop(name, NO_LOAD), totals.pop(name, NO_LOAD)
            if requests or tokens:
                held[name] = requests, tokens
            total = total[0] + requests - before[0], total[1] + tokens - before[1]
            if total != NO_LOAD:
                totals[name] = total
        self._add(loads)

    def forget(self, peer: object) -> None:
        if peer in self._received:
            self.receive(peer, dict.fromkeys(self._received[peer], NO_LOAD))
            del self._received[peer]

    def _add(self, names: Iterable[str]) -> None:
        """Brings these endpoints to what all peers have in flight there."""
        for name in names:
            endpoint = self._endpoints.get(name)
            if endpoint is None:
                continue
            total = self._totals.get(name, NO_LOAD) if self._is_on else NO_LOAD
            before = self._added.get(endpoint, NO_LOAD)
            if total != before:
                self._added[endpoint] = total
                endpoint.count_others(total[0] - before[0], total[1] - before[1])
