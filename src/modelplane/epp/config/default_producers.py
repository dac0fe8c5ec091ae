"""Producers for the data that configured plugins consume.

What consumes data of the cycle needs a producer of it: where no configured plugin produces the data, the default
producer is added, and so on for what that one consumes. A producer comes after those whose data it consumes.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Protocol, runtime_checkable

import msgspec

from modelplane.epp.scheduling.units import convert
from modelplane.framework.registry import PluginEntry, Registry


@runtime_checkable
class NamesProducer(Protocol):
    """Parameters that name the producer that their plugin reads, and its settings."""

    def names_producer(self) -> tuple[str, Mapping[str, object]] | None:
        """Its type and its parameters; None: any producer of the data will do."""


def with_producers(entries: Sequence[PluginEntry], registry: Registry) -> tuple[list[PluginEntry], list[str]]:
    """The entries with a producer for all data that is consumed, in order; and the data that no type produces."""
    found = list(entries)
    missing: list[str] = []
    at = 0
    while at < len(found):
        found.extend(_named_producer(found[at].parameters, found, registry))
        for data in registry[found[at].type].consumes:
            if data in missing or any(registry[entry.type].produces == data for entry in found):
                continue
            producer = registry.producer_of(data)
            if producer:
                found.append(PluginEntry(producer, producer, registry[producer].parameters()))
            else:
                missing.append(data)
        at += 1
    return _in_order(found, registry), missing


def _named_producer(
    parameters: msgspec.Struct, found: Sequence[PluginEntry], registry: Registry
) -> Iterator[PluginEntry]:
    named = parameters.names_producer() if isinstance(parameters, NamesProducer) else None
    if named is not None and all(entry.type != named[0] for entry in found):
        type_name, given = named
        yield PluginEntry(type_name, type_name, convert(given, registry[type_name].parameters))


def _in_order(entries: Iterable[PluginEntry], registry: Registry) -> list[PluginEntry]:
    """A producer comes after the producers of what it consumes; else the order stays. Cycles stay as they are."""
    waiting = list(entries)
    placed: list[PluginEntry] = []
    while waiting:
        produced = {registry[entry.type].produces for entry in waiting} - {""}
        ready = [entry for entry in waiting if _is_ready(registry, entry, produced)] or waiting
        placed.extend(ready)
        waiting = [entry for entry in waiting if entry not in ready]
    return placed


def _is_ready(registry: Registry, entry: PluginEntry, produced: set[str]) -> bool:
    kind = registry[entry.type]
    return not kind.produces or not produced.difference((kind.produces,)).intersection(kind.consumes)
