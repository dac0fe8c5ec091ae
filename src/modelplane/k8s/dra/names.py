"""The name formats of the Kubernetes API that device objects use. ASCII only; a length is in bytes."""

import re

_MAX_LABEL = 63
_MAX_SUBDOMAIN = 253
_MAX_DRIVER = 63
_MAX_IDENTIFIER = 32
_QUALIFIED_PARTS = 2
_QUOTA_PREFIX = "requests."

_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_LABEL_PART = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
_C_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def is_dns_label(name: str) -> bool:
    """RFC 1123 label: requests, devices, counters."""
    return len(name) <= _MAX_LABEL and _LABEL.fullmatch(name) is not None


def is_dns_subdomain(name: str) -> bool:
    """RFC 1123 subdomain: nodes, classes, slices."""
    return len(name) <= _MAX_SUBDOMAIN and _SUBDOMAIN.fullmatch(name) is not None


def is_driver_name(name: str) -> bool:
    """A subdomain of at most 63 bytes in which upper case is forgiven."""
    return len(name) <= _MAX_DRIVER and name.isascii() and is_dns_subdomain(name.lower())


def is_pool_name(name: str) -> bool:
    """Subdomains separated by slashes."""
    return len(name) <= _MAX_SUBDOMAIN and all(is_dns_subdomain(part) for part in name.split("/"))


def is_label_key(key: str) -> bool:
    """A label or taint key: an optional subdomain prefix and a name."""
    prefix, slash, name = key.rpartition("/")
    if slash and not is_dns_subdomain(prefix):
        return False
    return len(name) <= _MAX_LABEL and _LABEL_PART.fullmatch(name) is not None


def is_label_value(value: str) -> bool:
    """A label or taint value: empty, or like the name of a key."""
    return len(value) <= _MAX_LABEL and (not value or _LABEL_PART.fullmatch(value) is not None)


def is_qualified_name(name: str) -> bool:
    """An attribute or capacity name. Upstream checks nothing at all once there are two slashes or more."""
    parts = name.split("/")
    if len(parts) == 1:
        return _is_identifier(parts[0])
    if len(parts) == _QUALIFIED_PARTS:
        return is_driver_name(parts[0]) and _is_identifier(parts[1])
    return True


def is_fully_qualified_name(name: str) -> bool:
    """A qualified name that does have a domain."""
    return "/" in name and is_qualified_name(name)


def is_extended_resource_name(name: str) -> bool:
    """A name in a domain outside kubernetes.io, short enough to become a quota key."""
    if "/" not in name or "kubernetes.io/" in name or name.startswith(_QUOTA_PREFIX):
        return False
    return is_label_key(_QUOTA_PREFIX + name)


def _is_identifier(name: str) -> bool:
    return len(name) <= _MAX_IDENTIFIER and _C_IDENTIFIER.fullmatch(name) is not None
