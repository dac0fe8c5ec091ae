"""What is read off a metrics page."""

import re
from typing import Final

import msgspec

from modelplane.epp.scheduling.metrics import Adapters, EndpointMetrics

LABEL: Final = re.compile(rb'([A-Za-z_][A-Za-z0-9_]*)[ \t]*=[ \t]*"((?:[^"\\]++|\\.)*+)"')
_ESCAPES = re.compile(rb"\\(.)")


class Series(msgspec.Struct):
    """One line of a family: its labels as written, and its value."""

    written: bytes
    value: float

    def label(self, name: bytes) -> str | None:
        for found, value in LABEL.findall(self.written):
            if found == name:
                return label_text(value)
        return None


class ScrapedValues(msgspec.Struct, frozen=True):
    """The values of one page; None: absent."""

    waiting: float | None = None
    running: float | None = None
    kv_use: float | None = None
    block_size: int | None = None
    blocks: int | None = None
    adapters: Adapters | None = None
    others: tuple[tuple[str, float], ...] = ()

    @property
    def has_load(self) -> bool:
        return self.waiting is not None or self.running is not None or self.kv_use is not None

    def after(self, before: EndpointMetrics, at_s: float, then: tuple[int, int] = (0, 0)) -> EndpointMetrics:
        """The load with this page's numbers in place of older ones; `then` are requests and tokens that were ours."""
        if not self.has_load:
            at_s, then = before.scraped_s, (before.requests_at_scrape, before.tokens_at_scrape)
        return EndpointMetrics(
            waiting=before.waiting if self.waiting is None else self.waiting,
            running=before.running if self.running is None else self.running,
            kv_cache_usage=before.kv_cache_usage if self.kv_use is None else self.kv_use,
            block_size=before.block_size if self.block_size is None else self.block_size,
            blocks=before.blocks if self.blocks is None else self.blocks,
            adapters=before.adapters if self.adapters is None else self.adapters,
            models=before.models,
            scraped_s=at_s,
            requests_at_scrape=then[0],
            tokens_at_scrape=then[1],
        )


NO_VALUES: Final = ScrapedValues()


def label_text(written: bytes) -> str:
    if b"\\" in written:
        written = _ESCAPES.sub(lambda found: b"\n" if found[1] == b"n" else found[1], written)
    return written.decode(errors="replace")
