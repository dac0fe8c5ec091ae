"""One scrape of a server's metrics."""

import msgspec

_MOST = 1e12


class Adapters(msgspec.Struct, frozen=True):
    """LoRA adapters of a server: which run, which wait, and how many may be active at once (0: unknown)."""

    running: frozenset[str] = frozenset()
    waiting: frozenset[str] = frozenset()
    most: int = 0


NO_ADAPTERS = Adapters()


class EndpointMetrics(msgspec.Struct, frozen=True):
    """One scrape of a server's metrics. `scraped_s` is its time; negative: never.

    Numbers are finite and clamped to their range, so no scorer has to check. A KV cache usage of NaN is 1, a count 0.
    """

    waiting: float = 0.0
    running: float = 0.0
    kv_cache_usage: float = 0.0
    """In [0, 1]."""
    block_size: int = 0
    """Tokens of one KV block; 0: unknown."""
    blocks: int = 0
    """KV blocks of the server; 0: unknown."""
    adapters: Adapters = NO_ADAPTERS
    models: frozenset[str] = frozenset()
    """Model names of the server; empty: unknown."""
    scraped_s: float = -1.0
    requests_at_scrape: int = 0
    """Requests of this picker that were in flight at the scrape, which includes them."""
    tokens_at_scrape: int = 0
    """Their tokens that `kv_cache_usage` is taken to include."""
    refused_scrapes: int = 0
    """Scrapes in a row whose connection was refused where requests are sent, too: nothing listens there."""

    def __post_init__(self) -> None:
        # max and min keep their first argument where the other is not a number.
        kv_cache_usage = max(0.0, min(1.0, self.kv_cache_usage))
        if kv_cache_usage != self.kv_cache_usage:
            msgspec.structs.force_setattr(self, "kv_cache_usage", kv_cache_usage)
        for field, count in (("waiting", self.waiting), ("running", self.running)):
            in_range = min(_MOST, max(0.0, count))
            if in_range != count:
                msgspec.structs.force_setattr(self, field, in_range)


NEVER_SCRAPED = EndpointMetrics()


def aged(metrics: EndpointMetrics, share: float) -> EndpointMetrics:
    """The load of an old scrape with a share of its weight, in [0, 1]. At 0 an endpoint has what was sent to it."""
    return msgspec.structs.replace(
        metrics,
        waiting=metrics.waiting * share,
        running=metrics.running * share,
        kv_cache_usage=metrics.kv_cache_usage * share,
        requests_at_scrape=int(metrics.requests_at_scrape * share),
        tokens_at_scrape=int(metrics.tokens_at_scrape * share),
    )
