"""Endpoints that stay the same objects while what is known of them changes.

The in-flight counts and the last scrape of an endpoint live in the Endpoint object. So the object is kept as long as
its name, address and uid are the same; a pod that was recreated under its name is a new endpoint. Endpoints are ordered
by name, the same in every picker of the pool.
"""

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from ipaddress import IPv6Address, ip_address
from types import MappingProxyType

import msgspec

from modelplane.epp.datalayer.endpoints import Endpoints, EndpointsCallback
from modelplane.epp.scheduling.endpoints import NOTHING, Endpoint

_NUMBERS = re.compile(r"(\d+)")
_NO_NUMBERS: Mapping[str, float] = MappingProxyType({})


class DiscoveredEndpoint(msgspec.Struct, frozen=True):
    """One discovered endpoint. `uid` distinguishes objects that had the same name at different times."""

    name: str
    address: str
    uid: str = ""
    labels: Mapping[str, str] = NOTHING
    attributes: Mapping[str, float] = _NO_NUMBERS


class Datastore:
    """The endpoints of the pool, and callbacks for when they change: the shared part of every `EndpointSource`."""

    def __init__(self) -> None:
        self._held: dict[tuple[str, str, str], tuple[DiscoveredEndpoint, Endpoint]] = {}
        self._current: Endpoints = ()
        self._callbacks: list[EndpointsCallback] = []

    @property
    def current(self) -> Endpoints:
        return self._current

    def on_change(self, callback: EndpointsCallback, /) -> None:
        self._callbacks.append(callback)

    def replace(self, found: Iterable[DiscoveredEndpoint]) -> None:
        """The pool is these. Of two with one name the later counts."""
        named = {one.name: one for one in found}
        held: dict[tuple[str, str, str], tuple[DiscoveredEndpoint, Endpoint]] = {}
        for name in sorted(named, key=_natural):
            one = named[name]
            key = (one.name, one.address, one.uid)
            before = self._held.get(key)
            held[key] = (one, _endpoint(one, before))
        same = list(held) == list(self._held) and all(held[key][0] == self._held[key][0] for key in held)
        self._held = held
        if not same:
            self._current = tuple(endpoint for _, endpoint in held.values())
            for callback in list(self._callbacks):
                callback(self._current)


def _endpoint(one: DiscoveredEndpoint, before: tuple[DiscoveredEndpoint, Endpoint] | None) -> Endpoint:
    if before is None:
        return Endpoint(one.name, one.address, one.labels, one.attributes)
    known, endpoint = before
    if one.labels != known.labels:
        endpoint.labels = one.labels
    if one.attributes != known.attributes:
        # Numbers that were read off the endpoint's own page stay.
        read = {name: value for name, value in endpoint.attributes.items() if name not in known.attributes}
        endpoint.attributes = MappingProxyType({**read, **one.attributes})
    return endpoint


@lru_cache(maxsize=10_000)
def _natural(name: str) -> tuple[tuple[int, int, str], ...]:
    """pod-2 before pod-10."""
    return tuple((1, int(part), part) if part.isdecimal() else (0, 0, part) for part in _NUMBERS.split(name[:512]))


def address_of(host: str, port: int) -> str:
    """`host:port`, with brackets around an IPv6 address."""
    try:
        is_six = isinstance(ip_address(host), IPv6Address)
    except ValueError:
        is_six = False
    return f"[{host}]:{port}" if is_six else f"{host}:{port}"
