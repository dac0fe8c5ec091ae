"""How long plugins take: a histogram for each, by llm-d's labels.

Plugins are timed while somebody reads the page: from the first scrape on, until five minutes after the last. A picker
that nobody scrapes pays nothing for it. To time every call would cost a third of a decision, so it is every 67th: a
scheduler is called in turns for a request and for its response, and an even number would meet one of them only.
"""

from collections.abc import Callable, Mapping
from typing import Final

from modelplane.epp.scheduling.plugin_timer import PluginTimer
from modelplane.epp.scheduling.scheduler import Scheduler
from modelplane.epp.server.observe.metrics import DECIDE_S, Histogram

EVERY: Final = 67
AFTER_SCRAPE_S: Final = 300.0


class PluginDurations:
    """One event loop. The histograms outlive reloads of the configuration."""

    __slots__ = ("_clock", "_left", "_scheduler", "_timed", "_timer", "_types", "_until_s", "histograms")

    def __init__(self, scheduler: Scheduler, clock: Callable[[], float]) -> None:
        self._scheduler = scheduler
        self._clock = clock
        self._until_s = clock()
        self._left = EVERY
        self._types: Mapping[str, str] = {}
        self._timer = PluginTimer(self._observe, clock)
        self._timed: Scheduler | None = None
        self.histograms: dict[tuple[str, str, str], Histogram] = {}
        """By extension point, type and name of the plugin."""

    def scraped(self) -> None:
        """The page is read."""
        self._until_s = self._clock() + AFTER_SCRAPE_S
        self._timer.flush()
        if self._timed is None:
            self._begin()

    def follow(self, scheduler: Scheduler) -> None:
        """Called with each scheduler that takes over."""
        self._scheduler.sampler, self._scheduler = None, scheduler
        if self._timed is not None:
            self._timer.flush()
            self._begin()

    def _begin(self) -> None:
        scheduler = self._scheduler
        self._types = {name: made_from[0] for name, made_from in scheduler.assembly.made_from.items()}
        self._timed = Scheduler(self._timer.assembly(scheduler.assembly))
        self._timed.on_fault = scheduler.count_fault
        scheduler.sampler = self._sample

    def _sample(self) -> Scheduler | None:
        self._left -= 1
        if self._left > 1:
            return None
        if self._left == 1:
            self._prepare()
            return None
        self._left = EVERY
        return self._timed

    def _prepare(self) -> None:
        """Before the call that is timed: it is to find the work of one call, and not of all since the last one."""
        self._timer.flush()
        if self._timed is not None and self._clock() < self._until_s:
            self._timed.catch_up()
            self._timer.reset()
        else:
            self._timed = self._scheduler.sampler = None

    def _observe(self, point: str, plugin: str, seconds: float) -> None:
        key = (point, self._types.get(plugin, plugin), plugin)
        found = self.histograms.get(key)
        if found is None:
            found = self.histograms[key] = Histogram(DECIDE_S)
        found.add(seconds)
