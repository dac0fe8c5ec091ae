"""How soon to scrape an endpoint again.

Scrapes cost CPU on both sides, and most of them show nothing new. While the picker has requests in flight at an
endpoint, or its metrics just changed, it is scraped often; while it works for others, less often; when nothing happens,
rarely, but often enough not to be stale. An endpoint that does not answer is retried with a growing interval, and while
requests are in flight there, every second.

Old numbers age: once they are stale they halve every two seconds, so that an endpoint whose page hangs gets requests
again, and is judged by what was sent to it.

The whole pool has a limit of scrapes a second, shared among the endpoints that are scraped often: with many of them
each is scraped less often, and the picker's own counts of what it sent carry the decision in between.
"""

import math

import msgspec


class MetricsInUse(msgspec.Struct, frozen=True):
    """Which numbers of a server the configured plugins read at all."""

    load: bool = True
    """Queue, running requests, cache use or adapters: they change with every request."""
    cache: bool = True
    """Block size and count, which do not change while a server lives."""


class ScrapeIntervals(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds from one scrape to the next."""

    busy_s: float = 0.2
    """Requests sent in between are added to the last scrape, so the interval need not be shorter."""
    warm_s: float = 0.5
    """At a server that works, but not for us."""
    idle_s: float = 1.5
    """Below the two seconds after which numbers count as stale."""
    failing_s: float = 5.0
    slow_s: float = 10.0
    """The interval if no plugin reads the load."""
    scrapes_per_s: float = 200.0
    """For the whole pool."""
    jitter: float = 0.1
    """The most share by which a wait is shortened, so that servers found together do not stay together."""
    stale_s: float = 2.0
    retry_s: float = 1.0
    """At an endpoint that does not answer and has requests of ours."""
    half_life_s: float = 2.0
    """Of numbers that are stale."""

    def __post_init__(self) -> None:
        waits = (self.busy_s, self.warm_s, self.idle_s, self.failing_s, self.slow_s, self.retry_s)
        others = (self.stale_s, self.half_life_s, self.scrapes_per_s)
        if not all(wait > 0 for wait in (*waits, *others)) or not 0 <= self.jitter < 1:
            raise ValueError("scraping: every wait must be above 0 s, and the jitter in [0, 1)")


class ScrapeOutcome(msgspec.Struct, frozen=True):
    """The input of the next interval."""

    wait_s: float
    """Before the scrape that just ended."""
    failures: int = 0
    """In a row."""
    in_flight: bool = False
    changed: bool = False
    working: bool = False


def next_interval_s(
    intervals: ScrapeIntervals, uses: MetricsInUse, outcome: ScrapeOutcome, *, often: int, chance: float
) -> float:
    """The interval after a scrape. `often` endpoints are scraped as often as allowed; `chance` is in [0, 1)."""
    return _interval_s(intervals, uses, outcome, often) * (1 - intervals.jitter * chance)


def _interval_s(intervals: ScrapeIntervals, uses: MetricsInUse, outcome: ScrapeOutcome, often: int) -> float:
    if outcome.failures:
        return min(intervals.failing_s, intervals.busy_s * 2.0 ** min(outcome.failures, 16))
    if not uses.load:
        return intervals.slow_s
    least_s = busy_interval_s(intervals, often)
    if outcome.in_flight or outcome.changed:
        return least_s
    most_s = max(least_s, intervals.warm_s if outcome.working else intervals.idle_s)
    return min(most_s, max(least_s, 2 * outcome.wait_s))


def weight_left(intervals: ScrapeIntervals, scraped_s: float, since_s: float, now_s: float) -> float:
    """The share that the numbers of a scrape keep of the weight that they had at `since_s`."""
    stale_since_s = max(scraped_s + intervals.stale_s, since_s)
    return math.pow(0.5, max(0.0, now_s - stale_since_s) / intervals.half_life_s)


def busy_interval_s(intervals: ScrapeIntervals, often: int) -> float:
    """Between scrapes of an endpoint with traffic, when this many have some."""
    return max(intervals.busy_s, often / intervals.scrapes_per_s)
