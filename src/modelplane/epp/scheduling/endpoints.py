"""An address that serves requests, with its metrics as last scraped and as expected.

The identity never changes. The metrics are a frozen value that each scrape replaces as a whole. Requests and tokens in
flight are the picker's own, and those of pickers that share: sent to the endpoint and not seen to complete.

Many requests are scheduled between two scrapes, and by the last scrape alone all would go to the endpoint that was best
then. So scorers read `expected`: the last scrape, plus what this picker sent since, minus what completed since.
Requests sent since count as waiting and as running. An endpoint that was never scraped is expected to have what was
sent to it. What other pickers of the pool have in flight is added where they share it (`datalayer.peers`), else the
next scrape shows it.

The uncached tokens of a prompt count towards the KV cache until its response is received: engines allocate blocks as
they compute, so a scrape shows next to nothing of a long prompt that was just sent. What a scrape shows of it by then
counts twice, on the endpoint that is busy with it. Where the proxy does not send response headers, they count until the
next scrape.

Code that keeps a value computed from an endpoint calls `watch`, and is notified of the next change.
"""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from modelplane.epp.scheduling.metrics import NEVER_SCRAPED, EndpointMetrics

NOTHING: Mapping[str, str] = MappingProxyType({})
_NO_NUMBERS: Mapping[str, float] = MappingProxyType({})
_MAX_WATCHERS: Final = 16

ROLE_LABEL: Final = "llm-d.ai/role"


class Role(StrEnum):
    """The role of an endpoint in disaggregated serving, from its role label.

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
        "_gets_response_headers", "_kv_usage", "_metrics", "_requests", "_requests_then", "_tokens", "_tokens_then",
        "_waiting", "_watchers", "address", "attributes", "block_size", "cache_tokens", "expected", "failures",
        "labels", "name", "refused_scrapes",
    )  # fmt: skip

    def __init__(  # noqa: PLR0913, PLR0917  a record, written with names where it is long
        self,
        name: str,
        address: str,
        labels: Mapping[str, str] = NOTHING,
        attributes: Mapping[str, float] = _NO_NUMBERS,
        metrics: EndpointMetrics = NEVER_SCRAPED,
        requests_in_flight: int = 0,
        tokens_in_flight: int = 0,
        failures: int = 0,
    ) -> None:
        self.name = name
        """`namespace/pod` and, where a pod has several ports, `:port`: unique in the pool."""
        self.address = address
        """`ip:port`, with brackets around an IPv6 address, as the proxy gets it."""
        self.labels = labels
        self.attributes = attributes
        """Numbers from discovery: price per hour, prefill tokens per second, …"""
        self.failures = failures
        """Responses in a row that failed at the endpoint; the first success clears it."""
        self.refused_scrapes = metrics.refused_scrapes
        """That of `metrics`: a filter reads it of all endpoints for each request."""
        self._show(metrics)
        self._requests = requests_in_flight
        self._tokens = tokens_in_flight
        self._gets_response_headers = True
        """Until a response completes that was not received before."""

        self.expected: EndpointMetrics | None = None
        """None: something changed, and `expect` computes it."""

        self._watchers: list[list[Endpoint]] = []

    @property
    def metrics(self) -> EndpointMetrics:
        """As last scraped."""
        return self._metrics

    @metrics.setter
    def metrics(self, metrics: EndpointMetrics) -> None:
        self._show(metrics)
        if self.refused_scrapes and not metrics.refused_scrapes:
            # It was away and is another process now: what the one before failed at says nothing.
            self.failures = 0
        self.refused_scrapes = metrics.refused_scrapes
        self._change()

    def _show(self, metrics: EndpointMetrics) -> None:
        """Each request reads some of the metrics, and only a scrape sets them: they are kept beside the rest."""
        self._metrics = metrics
        self._waiting = metrics.waiting
        self._kv_usage = metrics.kv_cache_usage
        self.block_size = metrics.block_size
        self.cache_tokens = metrics.block_size * metrics.blocks
        self._requests_then = metrics.requests_at_scrape
        self._tokens_then = metrics.tokens_at_scrape

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
        """Changes what is in flight.

        Tokens that are removed alone belong to a response that was received; with a request, to one that was not.
        """
        self._requests += requests
        self._tokens += tokens
        if tokens < 0:
            self._gets_response_headers = not requests
        self._change()

    def count_others(self, requests: int, tokens: int) -> None:
        """Changes what is in flight by what other processes sent there."""
        self._requests += requests
        self._tokens += tokens
        self._change()

    @property
    def tokens_shown(self) -> int:
        """Tokens in flight that a scrape at this moment includes, as far as is known.

        0 while response headers come: tokens in flight are then not computed yet. Else some of them are of prompts
        that were computed long ago, and it is unknown which.
        """
        return 0 if self._gets_response_headers else self._tokens

    @property
    def waiting(self) -> float:
        """Requests that wait there, as expected."""
        return max(0.0, self._waiting + (self._requests - self._requests_then))

    @property
    def running(self) -> float:
        """Requests that run there, as expected."""
        metrics = self._metrics
        return max(0.0, metrics.running + (self._requests - metrics.requests_at_scrape))

    @property
    def kv_cache_usage(self) -> float:
        """The share of its KV cache in use, as expected."""
        tokens = self._tokens - self._tokens_then
        if tokens > 0 and self.cache_tokens:
            return min(1.0, self._kv_usage + tokens / self.cache_tokens)
        return self._kv_usage

    @property
    def kv_free(self) -> float:
        """The share of its KV cache that is free, as expected."""
        return 1.0 - self.kv_cache_usage

    def expect(self) -> EndpointMetrics:
        """Computes `expected`: the last scrape itself where nothing changed since."""
        metrics = self._metrics
        if self._requests != self._requests_then or self._tokens > self._tokens_then:
            metrics = EndpointMetrics(
                self.waiting, self.running, self.kv_cache_usage, metrics.block_size, metrics.blocks, metrics.adapters,
                metrics.models, metrics.scraped_s, self._requests, self._tokens,
            )  # fmt: skip
        self.expected = metrics
        return metrics

    def watch(self, changed: "list[Endpoint]") -> None:
        """Append itself to the list at the next change of its metrics or of what is in flight, once.

        At most 16 lists are kept; one more notifies all of them, which does no harm.
        """
        if len(self._watchers) >= _MAX_WATCHERS:
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
