"""An address that serves requests: its load as last seen, and as it is expected to be.

The identity never changes; the load is a frozen value that whoever watches the endpoint replaces as a whole, so a cycle
never sees half of a scrape. In-flight numbers are the picker's own: what it sent there and has not seen end.

Between two looks at a server many requests are decided, and by the last look alone they would all go to whichever
server looked best then. So decisions go by `expected`: the load as last seen, and on top of it what this picker has
itself sent since and what it has seen end since. A request that was sent since counts as waiting and as running, one
that ended counts as neither. A server never looked at is expected to hold what was sent to it. Several pickers before
one pool each know their own part of it; the next look tells the rest.

What is new of a prompt takes its share of the KV cache from when it is sent: engines take blocks piece by piece as they
compute, so a look shows next to nothing of a long prompt that was sent a moment ago, and the server would look free for
as long as it takes to compute. So it counts until its response begins, however many looks come in between. What a look
shows of it by then counts twice, on the server that is busy with it. Where the proxy does not tell when responses
begin, it counts until the next look.

Whoever keeps something that was made of an endpoint's load or counts asks to be told of the next change (`watch`), so
that what did not change costs nothing.
"""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType

from modelplane.epp.scheduling.loads import UNSEEN, Load

NOTHING: Mapping[str, str] = MappingProxyType({})
_NO_NUMBERS: Mapping[str, float] = MappingProxyType({})
_MOST_WATCHERS = 16

ROLE_LABEL = "llm-d.ai/role"


class Role(StrEnum):
    """What an endpoint does in disaggregated serving; written in its role label.

    An endpoint without the label serves whole requests and counts as one that can decode.
    """

    DECODE = "decode"
    PREFILL = "prefill"
    PREFILL_DECODE = "prefill-decode"
    BOTH = "both"
    ENCODE = "encode"
    ENCODE_PREFILL = "encode-prefill"
    ENCODE_PREFILL_DECODE = "encode-prefill-decode"


class Endpoint:
    """One `ip:port` of one pod. Two endpoints are the same only if they are the same object."""

    __slots__ = (
        "_hears_beginnings", "_load", "_requests", "_tokens", "_watchers",
        "address", "attributes", "expected", "failures", "labels", "name",
    )  # fmt: skip

    def __init__(  # noqa: PLR0913, PLR0917  a record, written with names where it is long
        self,
        name: str,
        address: str,
        labels: Mapping[str, str] = NOTHING,
        attributes: Mapping[str, float] = _NO_NUMBERS,
        load: Load = UNSEEN,
        requests_in_flight: int = 0,
        tokens_in_flight: int = 0,
        failures: int = 0,
    ) -> None:
        self.name = name
        """`namespace/pod` and, where a pod has several ports, `:port`: unique in the pool."""
        self.address = address
        """`ip:port`, with brackets around an IPv6 address: what the proxy is told."""
        self.labels = labels
        self.attributes = attributes
        """Numbers that discovery knows of it: price an hour, prefill tokens a second, …"""
        self.failures = failures
        """Responses in a row that failed at the endpoint; the first success clears it."""
        self._load = load
        self._requests = requests_in_flight
        self._tokens = tokens_in_flight
        self._hears_beginnings = True
        """Until a request ends of whose beginning nobody told."""

        self.expected: Load | None = None
        """The load as it is expected to be; None: something changed, and `expect` finds it anew."""

        self._watchers: list[list[Endpoint]] = []

    @property
    def load(self) -> Load:
        """As last seen."""
        return self._load

    @load.setter
    def load(self, load: Load) -> None:
        self._load = load
        self._change()

    @property
    def requests_in_flight(self) -> int:
        return self._requests

    @requests_in_flight.setter
    def requests_in_flight(self, count: int) -> None:
        self._requests = count
        self._change()

    @property
    def tokens_in_flight(self) -> int:
        return self._tokens

    @tokens_in_flight.setter
    def tokens_in_flight(self, count: int) -> None:
        self._tokens = count
        self._change()

    def count(self, requests: int, tokens: int) -> None:
        """So many more are in flight.

        Tokens that go without a request are those of one that begins, and those that go with it of one that did not.
        """
        self._requests += requests
        self._tokens += tokens
        if tokens < 0:
            self._hears_beginnings = not requests
        self._change()

    @property
    def tokens_shown(self) -> int:
        """Tokens in flight that a look at this moment tells of, as far as is known.

        None while beginnings are heard of, for what is in flight then is not computed. Else some are in flight whose
        prompts were computed long ago, and nobody knows which.
        """
        return 0 if self._hears_beginnings else self._tokens

    @property
    def waiting(self) -> float:
        """Requests that wait there, as expected."""
        load = self._load
        return max(0.0, load.waiting + (self._requests - load.requests_then))

    @property
    def running(self) -> float:
        """Requests that run there, as expected."""
        load = self._load
        return max(0.0, load.running + (self._requests - load.requests_then))

    @property
    def kv_use(self) -> float:
        """The share of its KV cache in use, as expected."""
        load = self._load
        tokens = self._tokens - load.tokens_then
        if tokens > 0 and (room := load.block_size * load.blocks):
            return min(1.0, load.kv_use + tokens / room)
        return load.kv_use

    @property
    def kv_free(self) -> float:
        """The share of its KV cache that is free, as expected."""
        return 1.0 - self.kv_use

    def expect(self) -> Load:
        """The load as it is expected to be, and kept in `expected`: the last look itself where nothing came since."""
        load = self._load
        if self._requests != load.requests_then or self._tokens > load.tokens_then:
            load = Load(
                self.waiting, self.running, self.kv_use, load.block_size, load.blocks, load.adapters, load.models,
                load.seen_s, self._requests, self._tokens,
            )  # fmt: skip
        self.expected = load
        return load

    def watch(self, changed: "list[Endpoint]") -> None:
        """Append itself to the list at the next change of its load or of what is in flight, and then no more.

        Lists of those who ask no more are let go by the next change. Where none comes, and ever new ones ask, those who
        asked are told of a change that is none, which does no harm.
        """
        if len(self._watchers) >= _MOST_WATCHERS:
            self._change()
        self._watchers.append(changed)

    def _change(self) -> None:
        self.expected = None
        if self._watchers:
            for changed in self._watchers:
                changed.append(self)
            self._watchers.clear()

    def __repr__(self) -> str:
        return f"Endpoint({self.name} at {self.address})"
