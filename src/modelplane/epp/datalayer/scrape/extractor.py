"""Reads a few numbers off a metrics page without parsing the rest.

A metrics page of a model server has some 32 KB, of which five or six lines matter, and few of them change between
scrapes. So each family is searched at the beginning of a line, near its last position; if its lines are the same bytes,
the old values are reused. A family that was absent is searched less and less often. All lines of a family are adjacent,
as the format requires.

Pages come from servers that may be broken: what cannot be read is left out, what is not finite or below zero counts as
not there, and of a family only so many lines are read. What a page does not show keeps the value that it had.
"""

import re
from collections.abc import Sequence
from math import isfinite
from typing import Final

from modelplane.epp.datalayer.scrape.engines import EngineMetricNames, MetricFamily
from modelplane.epp.datalayer.scrape.scraped_values import LABEL, NO_VALUES, ScrapedValues, Series, label_text
from modelplane.epp.scheduling.metrics import Adapters

_LINES_MOST: Final = 4096
_LINE_MOST: Final = 65_536
_DRIFT: Final = 512
"""The distance from its last position within which a family is searched before the whole page is."""
_SKIPS_MOST: Final = 16
_NAMES_MOST: Final = 10_000
_DIGITS_MOST: Final = 15

# Possessive repeats: a hostile line is given up after one pass over it.
_REST: Final = re.compile(rb'(?:\{((?:[^"}\n]++|"(?:[^"\\\n]++|\\[^\n])*+")*+)\})?[ \t]+([^ \t\n]+)')


class MetricsExtractor:
    """Reads page after page of one server."""

    def __init__(self, engine: EngineMetricNames) -> None:
        self.engine = engine
        self._ranks = tuple(label.encode() for label in engine.ranks)
        self._families = {name: _Family(name) for name in sorted({metric.name for metric in engine.metrics})}
        cache = (engine.cache_info, engine.block_size, engine.blocks)
        self._cache_names = frozenset(metric.name for metric in cache if metric is not None)
        self._seen = NO_VALUES

    def read(self, page: bytes) -> ScrapedValues:
        """The same object as the last time, if no value has changed."""
        if page[:1] != b"#" or page[-1:] != b"\n":
            page = b"\n%b\n" % page
        changed = [name for name, family in self._families.items() if family.find(page)]
        if changed:
            self._seen = self._values(changed)
        return self._seen

    def _values(self, changed: Sequence[str]) -> ScrapedValues:
        """Computes what changes with every request; the rest only if it changed."""
        engine, before = self.engine, self._seen
        cache = (before.block_size, before.blocks)
        if not self._cache_names.isdisjoint(changed):
            cache = self._cache()
        adapters = before.adapters
        if engine.adapters is not None and engine.adapters.name in changed:
            adapters = _adapters(self._series(engine.adapters))
        others = ((key, self._sum(metric)) for key, metric in engine.others) if engine.others else ()
        return ScrapedValues(
            self._sum(engine.waiting),
            self._sum(engine.running),
            _share(self._series(engine.kv_use)),
            *cache,
            adapters,
            tuple((key, value) for key, value in others if value is not None),
        )

    def _cache(self) -> tuple[int | None, int | None]:
        """Block size and blocks, from series of their own or from the labels of one."""
        engine = self.engine
        info = self._series(engine.cache_info)
        size, blocks = self._series(engine.block_size), self._sum(engine.blocks)
        return (
            _whole(_largest(size)) if size else _labelled_most(info, engine.block_size_label),
            self._blocks(info) if blocks is None else _whole(blocks),
        )

    def _series(self, metric: MetricFamily | None) -> Sequence[Series]:
        if metric is None:
            return ()
        series = self._families[metric.name].series
        for name, value in metric.labels if series else ():
            series = [one for one in series if one.label(name.encode()) == value]
        return series

    def _sum(self, metric: MetricFamily | None) -> float | None:
        """Over the ranks; what a rank shows more than once counts once."""
        series = self._series(metric)
        if len(series) <= 1:
            return series[0].value if series else None
        ranks: dict[tuple[str | None, ...], float] = {}
        for one in series:
            rank = tuple(one.label(name) for name in self._ranks)
            ranks[rank] = max(ranks.get(rank, 0.0), one.value)
        return sum(ranks.values())

    def _blocks(self, info: Sequence[Series]) -> int | None:
        label = self.engine.blocks_label.encode()
        ranks = {tuple(one.label(name) for name in self._ranks): _number(one.label(label)) for one in info}
        reported = [count for count in ranks.values() if count is not None]
        return sum(reported) if reported else None


class _Family:
    """The series of one name, where they stood, and the bytes that they were read from."""

    __slots__ = ("_at", "_misses", "_needle", "_needles", "_only", "_skips", "_text", "series")

    def __init__(self, name: str) -> None:
        self._needles = (f"\n{name}{{".encode(), f"\n{name} ".encode())
        self._needle = self._needles[0]
        self._at = -1
        self._text = b""
        self._only = b""
        """With one series: its line up to the value; usually only the value changes."""
        self._misses = self._skips = 0
        self.series: Sequence[Series] = ()

    def find(self, page: bytes) -> bool:
        """Whether a line differs from the last time. A line break precedes and follows each line of interest."""
        at = self._place(page)
        if at < 0:
            changed = bool(self._text)
            self._at, self._text, self._only, self.series = -1, b"", b"", ()
            return changed
        self._at = at
        text = self._text
        if text and page.startswith(text, at) and not page.startswith(self._needle, at + len(text) - 1):
            return False
        if not self._read_value(page, at):
            self._read(page, at)
        return True

    def _read_value(self, page: bytes, at: int) -> bool:
        """The short way: a series alone, with the labels that it had."""
        if not self._only or not page.startswith(self._only, at):
            return False
        start = at + len(self._only)
        end = page.find(b"\n", start)
        value = _value(page[start:end])
        if value is None or page.startswith(self._needle, end):
            return False
        self._text = page[at : end + 1]
        self.series = (Series(self.series[0].written, value),)
        return True

    def _place(self, page: bytes) -> int:
        if self._at >= 0:
            at = page.find(self._needle, max(0, self._at - _DRIFT), self._at + _DRIFT)
            if at == 0 or (at > 0 and not page.startswith(self._needle, page.rfind(b"\n", 0, at))):
                return at
        elif self._skips:
            self._skips -= 1
            return -1
        return self._search(page)

    def _search(self, page: bytes) -> int:
        for needle in self._needles:
            at = page.find(needle)
            if at >= 0:
                self._needle, self._misses = needle, 0
                return at
        self._misses = min(2 * self._misses + 1, _SKIPS_MOST)
        self._skips = self._misses - 1
        return -1

    def _read(self, page: bytes, at: int) -> None:
        series, end = [], at
        name = len(self._needle) - 1
        for _ in range(_LINES_MOST):
            start = end + name
            end = page.find(b"\n", start)
            one = _series(page, start, end)
            if one is not None:
                series.append(one)
            if not page.startswith(self._needle, end):
                break
        self._text = page[at : end + 1]
        self._only = _up_to_value(page, at, at + name) if len(series) == 1 else b""
        self.series = series


def _series(page: bytes, start: int, end: int) -> Series | None:
    """The rest of a line after the name."""
    found = _REST.match(page, start, end) if end - start <= _LINE_MOST else None
    value = None if found is None else _value(found[2])
    return None if found is None or value is None else Series(found[1] or b"", value)


def _up_to_value(page: bytes, at: int, start: int) -> bytes:
    """The line that begins at `at`, without its value; empty where more than a value follows the labels."""
    end = page.find(b"\n", start)
    found = _REST.match(page, start, end)
    return page[at : found.start(2)] if found is not None and found.end() == end else b""


def _value(written: bytes) -> float | None:
    try:
        value = float(written)
    except ValueError:
        return None
    return value if isfinite(value) and value >= 0 else None


def _largest(series: Sequence[Series]) -> float | None:
    if len(series) == 1:
        return series[0].value
    return max((one.value for one in series), default=None)


def _share(series: Sequence[Series]) -> float | None:
    fullest = _largest(series)
    return None if fullest is None else min(fullest, 1.0)


def _whole(value: float | None) -> int | None:
    return None if value is None else int(value)


def _labelled_most(info: Sequence[Series], label: str) -> int | None:
    name = label.encode()
    return max((count for one in info if (count := _number(one.label(name))) is not None), default=None)


def _number(text: str | None) -> int | None:
    return int(text) if text and text.isascii() and text.isdecimal() and len(text) <= _DIGITS_MOST else None


def _adapters(series: Sequence[Series]) -> Adapters | None:
    """The adapters of the newest series: each set of adapters leaves one, and its value is its time."""
    if not series:
        return None
    newest = max(series, key=lambda one: one.value)
    labels: dict[bytes, bytes] = dict(LABEL.findall(newest.written))
    running, waiting, most = (
        label_text(labels.get(name, b"")) for name in (b"running_lora_adapters", b"waiting_lora_adapters", b"max_lora")
    )
    return Adapters(_names(running), _names(waiting), _number(most) or 0)


def _names(listed: str) -> frozenset[str]:
    parts = listed.split(",", _NAMES_MOST)[:_NAMES_MOST]
    return frozenset(name for part in parts if (name := part.strip()))
