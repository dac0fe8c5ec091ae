"""Faults of plugins: counted by plugin, and logged with a traceback once an interval.

A plugin that raises for each request would fill the log. The first fault of a plugin is logged at once; those that
follow within the interval are counted, and the next line says how many they were.
"""

import logging
from collections.abc import Callable
from typing import Final

from modelplane.framework import PluginFault
from modelplane.reconcile.log_lines import because
from modelplane.reconcile.log_reasons import LogReason

_LOG = logging.getLogger(__name__)
_EVERY_S: Final = 60.0


class PluginFaults:
    """One event loop. The counts outlive reloads of the configuration."""

    __slots__ = ("_clock", "_every_s", "_logged", "counts")

    def __init__(self, clock: Callable[[], float], every_s: float = _EVERY_S) -> None:
        self._clock = clock
        self._every_s = every_s
        self._logged: dict[str, tuple[float, int]] = {}
        """When a plugin was logged last, and its count then."""
        self.counts: dict[str, int] = {}

    def report(self, fault: PluginFault) -> None:
        count = self.counts[fault.plugin] = self.counts.get(fault.plugin, 0) + 1
        now = self._clock()
        last_s, last_count = self._logged.get(fault.plugin, (None, 0))
        if last_s is not None and now - last_s < self._every_s:
            return
        self._logged[fault.plugin] = (now, count)
        since = "" if last_s is None else f" ({count - last_count} faults since {now - last_s:.0f} s ago)"
        extra = because(LogReason.PLUGIN_FAULT, plugin=fault.plugin)
        _LOG.error("%s%s", fault, since, exc_info=fault.__cause__ or fault, extra=extra)
