"""How soon to look at a server again.

Looks cost CPU on both sides, and most of them would tell nothing new. While the picker has requests under way at a
server, or its numbers just changed, it is looked at often; as long as it works for others, now and then; when nothing
happens at all, rarely, but often enough to count as known. A server that does not answer is tried less and less.

The whole pool has an allowance of looks a second, shared among servers that are looked at often: with many of them each
is looked at less often, and the picker's own counts of what it sent carry the decision in between.
"""

import msgspec


class MetricsInUse(msgspec.Struct, frozen=True):
    """Which numbers of a server the configured plugins read at all."""

    load: bool = True
    """Queue, running requests, cache use or adapters: they change with every request."""
    cache: bool = True
    """Block size and count, which do not change while a server lives."""


class Pace(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds from one look to the next."""

    busy_s: float = 0.2
    """What is sent in between is added to what was seen, so that it need not be less."""
    warm_s: float = 0.5
    """At a server that works, but not for us."""
    idle_s: float = 1.5
    """Below the two seconds after which numbers count as stale."""
    failing_s: float = 5.0
    slow_s: float = 10.0
    """Where no plugin reads the load."""
    looks_per_s: float = 200.0
    """For the whole pool."""
    jitter: float = 0.1
    """The most share by which a wait is shortened, so that servers found together do not stay together."""
    stale_s: float = 2.0

    def __post_init__(self) -> None:
        waits = (self.busy_s, self.warm_s, self.idle_s, self.failing_s, self.slow_s, self.stale_s, self.looks_per_s)
        if not all(wait > 0 for wait in waits) or not 0 <= self.jitter < 1:
            raise ValueError("scraping: every wait must be above 0 s, and the jitter in [0, 1)")


class Look(msgspec.Struct, frozen=True):
    """What is known when the next look is planned."""

    wait_s: float
    """Before the look that just ended."""
    failures: int = 0
    """In a row."""
    in_flight: bool = False
    changed: bool = False
    working: bool = False


def next_wait_s(pace: Pace, uses: MetricsInUse, look: Look, *, often: int, chance: float) -> float:
    """The wait after a look. `often` servers are looked at as often as can be; `chance` is in [0, 1)."""
    return _wait_s(pace, uses, look, often) * (1 - pace.jitter * chance)


def _wait_s(pace: Pace, uses: MetricsInUse, look: Look, often: int) -> float:
    if look.failures:
        return min(pace.failing_s, pace.busy_s * 2.0 ** min(look.failures, 16))
    if not uses.load:
        return pace.slow_s
    least_s = busy_wait_s(pace, often)
    if look.in_flight or look.changed:
        return least_s
    most_s = max(least_s, pace.warm_s if look.working else pace.idle_s)
    return min(most_s, max(least_s, 2 * look.wait_s))


def busy_wait_s(pace: Pace, often: int) -> float:
    """Between looks at a server with traffic, when this many have some."""
    return max(pace.busy_s, often / pace.looks_per_s)
