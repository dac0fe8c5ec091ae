"""Instances from the entries of a configuration.

An instance may refer to others, which are made first; a ring of references is an error. What reads data of the cycle
needs a producer of it: where no configured plugin produces the data, the default producer is added, and so on for what
that one reads. Producers come after those whose data they read.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Protocol, runtime_checkable

import msgspec

from modelplane.api.errors import InputError
from modelplane.epp.scheduling.catalogue import Catalogue
from modelplane.epp.scheduling.units import convert


class PluginEntry(msgspec.Struct, frozen=True):
    """One plugin of a configuration."""

    name: str
    type: str
    parameters: msgspec.Struct
    at: int = -1
    """Its place in the list of plugins; -1: added by default."""


@runtime_checkable
class NamesProducer(Protocol):
    """Parameters that say which producer their plugin reads, and how it is to be made."""

    def names_producer(self) -> tuple[str, Mapping[str, object]] | None:
        """Its type and its parameters; None: any producer of the data will do."""


class Built(msgspec.Struct, frozen=True):
    instances: Mapping[str, object]
    referred: frozenset[str]
    """Names of instances that others refer to."""


def build(
    entries: Sequence[PluginEntry],
    catalogue: Catalogue,
    wrong: Callable[[PluginEntry, str], None],
    kept: Mapping[str, object] | None = None,
) -> Built:
    """All instances in the order of the entries. `wrong` hears of each that cannot be made; `kept` are made already."""
    workshop = _Workshop(entries, catalogue)
    workshop.made.update(kept or {})
    for entry in entries:
        try:
            workshop.find(entry.name)
        except (InputError, ValueError) as error:
            wrong(entry, str(error))
    made = workshop.made
    return Built(
        {entry.name: made[entry.name] for entry in entries if entry.name in made}, frozenset(workshop.referred)
    )


class _Workshop:
    """Makes each instance once, those it refers to before it."""

    def __init__(self, entries: Sequence[PluginEntry], catalogue: Catalogue) -> None:
        self._entries = {entry.name: entry for entry in entries}
        self._catalogue = catalogue
        self._making: list[str] = []
        self.made: dict[str, object] = {}
        self.referred: set[str] = set()

    def find(self, name: str, /) -> object:
        if self._making:
            self.referred.add(name)
        if name in self.made:
            return self.made[name]
        if name in self._making:
            raise InputError(f"plugins refer to each other in a ring: {' -> '.join((*self._making, name))}")
        entry = self._entries.get(name)
        if entry is None:
            raise InputError(f"refers to plugin {name}, which is not listed")
        self._making.append(name)
        try:
            self.made[name] = self._catalogue[entry.type].make(name, entry.parameters, self)
        finally:
            self._making.pop()
        return self.made[name]


def with_producers(entries: Sequence[PluginEntry], catalogue: Catalogue) -> tuple[list[PluginEntry], list[str]]:
    """The entries with a producer for everything that is read, in order; and the data that nobody can produce."""
    found = list(entries)
    missing: list[str] = []
    at = 0
    while at < len(found):
        found.extend(_named_producer(found[at].parameters, found, catalogue))
        for data in catalogue[found[at].type].reads:
            if data in missing or any(catalogue[entry.type].gives == data for entry in found):
                continue
            producer = catalogue.producer_of(data)
            if producer:
                found.append(PluginEntry(producer, producer, catalogue[producer].parameters()))
            else:
                missing.append(data)
        at += 1
    return _in_order(found, catalogue), missing


def _named_producer(
    parameters: msgspec.Struct, found: Sequence[PluginEntry], catalogue: Catalogue
) -> Iterator[PluginEntry]:
    named = parameters.names_producer() if isinstance(parameters, NamesProducer) else None
    if named is not None and all(entry.type != named[0] for entry in found):
        kind, given = named
        yield PluginEntry(kind, kind, convert(given, catalogue[kind].parameters))


def _in_order(entries: Iterable[PluginEntry], catalogue: Catalogue) -> list[PluginEntry]:
    """A producer comes after the producers of what it reads; else the order stays. Rings of data stay as they are."""
    waiting = list(entries)
    placed: list[PluginEntry] = []
    while waiting:
        offered = {catalogue[entry.type].gives for entry in waiting} - {""}
        ready = [entry for entry in waiting if _is_ready(catalogue, entry, offered)] or waiting
        placed.extend(ready)
        waiting = [entry for entry in waiting if entry not in ready]
    return placed


def _is_ready(catalogue: Catalogue, entry: PluginEntry, offered: set[str]) -> bool:
    kind = catalogue[entry.type]
    return not kind.gives or not offered.difference((kind.gives,)).intersection(kind.reads)
