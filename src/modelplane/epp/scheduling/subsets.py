"""Which endpoints the proxy allows for one request.

The hint is a list of `ip:port`, or one comma-separated string of them. An IPv6 address with a port is in brackets. An
entry without a port allows every port of its address. An empty hint allows no endpoint; a missing hint allows all.
"""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from ipaddress import IPv6Address, ip_address

from modelplane.api.identity import IdentityMemo
from modelplane.epp.scheduling.endpoints import Endpoint

_MAX_HINTS = 256


def parse(hint: object) -> tuple[str, ...] | None:
    """The value of `Request.subset` for what the proxy sent: a string, a list of strings, or nothing (None)."""
    match hint:
        case None:
            return None
        case str():
            parts: Iterable[str] = hint.split(",")
        case list() | tuple():
            parts = (part for entry in hint if isinstance(entry, str) for part in entry.split(","))
        case _:
            return ()
    return tuple(part.strip() for part in parts if part.strip())


def filter_by_subset(endpoints: Sequence[Endpoint], subset: tuple[str, ...] | None) -> Sequence[Endpoint]:
    """The endpoints that the hint allows, in their order; the same object where all are."""
    if subset is None:
        return endpoints
    addresses, hosts = _allowed(subset)
    kept = tuple(
        endpoint
        for endpoint in endpoints
        if endpoint.address in addresses or (hosts and split(endpoint.address)[0] in hosts)
    )
    return endpoints if len(kept) == len(endpoints) else kept


class SubsetFilter:
    """`filter_by_subset` for one pool, with a memo: the same hint over the same endpoints gives the same tuple."""

    __slots__ = ("_by_hint",)

    def __init__(self) -> None:
        self._by_hint: IdentityMemo[Sequence[Endpoint], dict[tuple[str, ...], Sequence[Endpoint]]]
        self._by_hint = IdentityMemo(_no_hints, 1)

    def of(self, endpoints: Sequence[Endpoint], subset: tuple[str, ...] | None) -> Sequence[Endpoint]:
        if subset is None or type(endpoints) is not tuple:
            return filter_by_subset(endpoints, subset)
        by_hint = self._by_hint(endpoints)
        kept = by_hint.get(subset)
        if kept is None:
            if len(by_hint) > _MAX_HINTS:
                by_hint.clear()
            kept = by_hint[subset] = filter_by_subset(endpoints, subset)
        return kept


def _no_hints(_endpoints: Sequence[Endpoint]) -> dict[tuple[str, ...], Sequence[Endpoint]]:
    return {}


def split(address: str) -> tuple[str, str]:
    """Host and port of `ip:port`, `[ip]:port`, `ip` or a bare IPv6 address; the port may be empty.

    A host has one spelling: those of `[2001:db8::0:1]:80` and `[2001:DB8::1]:80` are the same.
    """
    if address.startswith("["):
        host, _, rest = address[1:].partition("]")
        return _spelled(host), rest.removeprefix(":")
    if address.count(":") > 1:
        return _spelled(address), ""
    host, _, port = address.partition(":")
    return host, port


def join(host: str, port: str) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _spelled(host: str) -> str:
    try:
        found = ip_address(host)
    except ValueError:
        return host
    return found.compressed if isinstance(found, IPv6Address) else host


@lru_cache(maxsize=1024)
def _allowed(subset: tuple[str, ...]) -> tuple[frozenset[str], frozenset[str]]:
    """Addresses in one spelling, and hosts of entries without a port."""
    split_up = [split(entry) for entry in subset]
    spelled = {join(host, port) for host, port in split_up if port}
    return frozenset(spelled.union(subset)), frozenset(host for host, port in split_up if not port)
