"""How endpoints are scraped, and how often they were."""

import msgspec

from modelplane.epp.datalayer.scrape.intervals import MetricsInUse, ScrapeIntervals


class ScrapeSettings(msgspec.Struct, frozen=True):
    """How endpoints are scraped."""

    intervals: ScrapeIntervals = ScrapeIntervals()
    uses: MetricsInUse = MetricsInUse()
    timeout_s: float = 1.0
    at_once: int = 32
    tick_s: float = 0.1


class ScrapeCounts(msgspec.Struct):
    """Since the start."""

    scrapes: int = 0
    failures: int = 0
    """No page."""
    unread: int = 0
    """A page without any of the numbers of its kind of server."""
