"""Names: what may be one, and how we make them.

A made name keeps a readable beginning and ends in 50 bits of a hash over length-prefixed parts, so ("a", "bc") and
("ab", "c") never meet and names of different tenants do not clash. It is a DNS-1035 label: a letter first, which
Services demand.
"""

import base64
import hashlib
import ipaddress
import re
from functools import lru_cache

MAX_LABEL = 63
MAX_LEADER_WORKER_SET = 51
"""A LeaderWorkerSet's pods are named after it with room for group and index."""

_HASH_LENGTH = 10  # base32 characters of 5 bits each
_NOT_IN_LABEL = re.compile(r"[^a-z0-9]+")
_DNS_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_DNS_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_MAX_SUBDOMAIN = 253


def is_dns_label(text: str) -> bool:
    """A DNS-1123 label: what namespaces and most of our names must be."""
    return _DNS_LABEL.fullmatch(text) is not None


def is_dns_subdomain(text: str) -> bool:
    return len(text) <= _MAX_SUBDOMAIN and _DNS_SUBDOMAIN.fullmatch(text) is not None


@lru_cache(maxsize=65_536)
def is_address(host: str) -> bool:
    """Whether it is an IPv4 or IPv6 address, and no host name."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


@lru_cache(maxsize=65_536)
def make_name(readable: str, *parts: str, limit: int = MAX_LABEL) -> str:
    """A stable name for what `parts` identify; `readable` is for people and does not make it unique."""
    room = limit - _HASH_LENGTH - 1
    stem = _NOT_IN_LABEL.sub("-", readable.lower()).strip("-")[:room].rstrip("-")
    if not stem or not stem[0].isalpha():
        stem = f"m-{stem}"[:room].rstrip("-")
    return f"{stem}-{_hash(parts)}"


def _hash(parts: tuple[str, ...]) -> str:
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode()
        digest.update(len(data).to_bytes(4, "big") + data)
    return base64.b32encode(digest.digest()[:_HASH_LENGTH]).decode().lower()[:_HASH_LENGTH]
