"""Hosts that a free text names, so that the outbound rule can judge settings whose meaning is not ours to know.

An exporter's settings have addresses in many forms: URLs, `host:port`, lists of either, a bare host in a field that is
called `endpoint`. A text that surely has an address, and not one that can be read here, gives `None`: a user or a
variable in a URL, a resolver's own syntax, a variable where an address belongs.
"""

import ipaddress
import re
from collections.abc import Iterator
from typing import Final

_PIECES: Final = re.compile(r"[,;\s]+")
_URL: Final = re.compile(r"[a-z][a-z0-9+.-]*://([^/?#]*)", re.IGNORECASE)
_RESOLVER: Final = re.compile(r"(dns|ipv4|ipv6|passthrough|unix|unix-abstract|vsock|xds):", re.IGNORECASE)
_AUTHORITY: Final = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::([0-9]{1,5}))?")
_HOST_PORT: Final = re.compile(
    r"(?<![\w.:\[-])(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9_][A-Za-z0-9._-]*):[0-9]{1,5}(?![\w.:-])", re.ASCII
)
_ADDRESS_FIELD: Final = re.compile(r"(?:.*_)?(?:addr|address(?:es)?|(?:broker|endpoint|host|server|ur[il])s?|dsn)")
_NUMBER: Final = re.compile(r"0[xX][0-9a-fA-F]+|[0-9]{8,}")
_MAX_PORT: Final = 65535


def is_address_field(name: str) -> bool:
    """Whether a field of this name has an address, as exporters call theirs."""
    return _ADDRESS_FIELD.fullmatch(name.lower()) is not None


def named_hosts(text: str, *, is_address: bool = False) -> tuple[str, ...] | None:
    """The hosts of a text. `is_address`: it is all address, so that a bare word is a host."""
    found: list[str] = []
    for piece in filter(None, _PIECES.split(text)):
        hosts = list(_hosts(piece, is_address=is_address))
        if is_address and not hosts:
            return None
        for host in hosts:
            if host is None:
                return None
            found.append(host)
    return tuple(found)


def host_of(authority: str) -> str | None:
    """The host of `host` or `host:port`; None for anything else."""
    found = _AUTHORITY.fullmatch(authority)
    if found is None or (found[2] is not None and not 0 < int(found[2]) <= _MAX_PORT):
        return None
    return found[1]


def _hosts(piece: str, *, is_address: bool) -> Iterator[str | None]:
    """None for an address that cannot be read."""
    if "://" in piece:
        yield from (host_of(each[1]) for each in _URL.finditer(piece))
    elif _RESOLVER.match(piece) or (is_address and "$" in piece):
        yield None
    elif _is_ip(piece) or (is_address and host_of(piece) is not None):
        yield piece if _is_ip(piece) else host_of(piece)
    else:
        yield from (each[1] for each in _HOST_PORT.finditer(piece) if is_address or _is_host(each[1]))


def _is_ip(text: str) -> bool:
    try:
        ipaddress.ip_address(text.removeprefix("[").removesuffix("]"))
    except ValueError:
        return False
    return True


def _is_host(word: str) -> bool:
    """Not `team` of `team:42`, which may be anything."""
    return "." in word or word.startswith("[") or word.lower() == "localhost" or _NUMBER.fullmatch(word) is not None
