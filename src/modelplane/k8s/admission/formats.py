"""The string formats of custom resources, as the API server of Kubernetes reads them.

Kubernetes ignores unknown formats. It also has some that no schema in this field uses (hostname, email, mac, password,
colours, book and card numbers, BSON identifiers); those are ignored here only.
"""

import re
from collections.abc import Callable, Mapping
from datetime import date
from ipaddress import AddressValueError, IPv6Address
from typing import Final

from modelplane.api.names import is_dns_label, is_dns_subdomain

_LARGEST_OCTET: Final = 255
_IPV4_BITS: Final = 32
_IPV6_BITS: Final = 128

_DATE: Final = re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})")
_TIME: Final = re.compile(r"([0-9]{2}):([0-9]{2}):([0-9]{2})(?:.[0-9]+)?(?:[zZ]|[+-][0-9]{2}:[0-9]{2})")
_OCTETS: Final = re.compile(r"[0-9]{1,9}(?:\.[0-9]{1,9}){3}")
_BASE64: Final = re.compile(r"(?:[A-Za-z0-9+/]{4})*+(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?")
_GO_DURATION: Final = re.compile(r"[-+]?(?:0|(?:(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:ns|us|µs|μs|ms|s|m|h))+)")
_WORDED_DURATION: Final = re.compile(
    r"[0-9]+\s*(?:(?:ns|us|µs|ms|s|m|h|hr|d|w|wk)(?![A-Za-zµ])|(?:nano|micro|milli|sec|min|hour|day|week))",
    re.IGNORECASE,
)
_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
_AUTHORITY: Final = re.compile(
    r"(?:[A-Za-z0-9._~!$&'()*+,;=:%@-]*@)?(?:\[([^\[\]]+)\]|[^\x00-\x20\x7f<>\"{}|\\^`\[@:/#%]*)(?::[0-9]*)?"
)
_BAD_PERCENT: Final = re.compile(r"%(?![0-9A-Fa-f]{2})")
_URI_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")


def is_formatted(text: str, name: str) -> bool:
    """Whether the text has the named format. Names are compared without dashes, as Kubernetes does."""
    rule = _FORMATS.get(name.replace("-", ""))
    return rule is None or rule(text)


def _is_date(text: str) -> bool:
    match = _DATE.fullmatch(text)
    if match is None:
        return False
    # Kubernetes counts a year 0 that Python lacks; it was a leap year, as 2000 was.
    year = int(match[1]) or 2000
    try:
        date(year, int(match[2]), int(match[3]))
    except ValueError:
        return False
    return True


def _is_datetime(text: str) -> bool:
    day, separator, clock = text.replace("t", "T").partition("T")
    match = _TIME.fullmatch(clock)
    if not separator or match is None or not _is_date(day):
        return False
    return match[1] <= "23" and match[2] <= "59" and match[3] <= "59"


def _is_ipv4(text: str) -> bool:
    """Leading zeros count as decimal; an IPv6 address that ends in an IPv4 one passes too."""
    if _OCTETS.fullmatch(text):
        return all(int(octet) <= _LARGEST_OCTET for octet in text.split("."))
    return "." in text and _is_ipv6(text)


def _is_ipv6(text: str) -> bool:
    if "%" in text or ":" not in text:
        return False
    try:
        IPv6Address(text)
    except AddressValueError:
        return False
    return True


def _is_cidr(text: str) -> bool:
    address, slash, bits = text.partition("/")
    if not slash or not bits.isascii() or not bits.isdigit():
        return False
    if ":" in address:
        return _is_ipv6(address) and int(bits) <= _IPV6_BITS
    return _is_ipv4(address) and int(bits) <= _IPV4_BITS


def _is_uri(text: str) -> bool:
    """A URI with a scheme, or an absolute path."""
    if not text or _URI_CONTROL.search(text) or text.startswith(":"):
        return False
    scheme = _SCHEME.match(text)
    rest = (text[scheme.end() :] if scheme else text).partition("?")[0]
    if not rest.startswith("/"):
        return scheme is not None or text == "*"
    if scheme and rest.startswith("//"):
        authority, _, rest = rest[2:].partition("/")
        if not _is_authority(authority):
            return False
    return _BAD_PERCENT.search(rest) is None


def _is_authority(text: str) -> bool:
    match = _AUTHORITY.fullmatch(text)
    return match is not None and _BAD_PERCENT.search(text) is None and (match[1] is None or _is_ipv6(match[1]))


def _is_duration(text: str) -> bool:
    return _GO_DURATION.fullmatch(text) is not None or _WORDED_DURATION.search(text) is not None


def _is_uuid_of(version: str) -> Callable[[str], bool]:
    pattern = re.compile(rf"[0-9a-f]{{8}}-?[0-9a-f]{{4}}-?{version}-?[0-9a-f]{{12}}", re.IGNORECASE | re.ASCII)
    return lambda text: pattern.fullmatch(text) is not None


_FORMATS: Final[Mapping[str, Callable[[str], bool]]] = {
    "byte": lambda text: bool(text) and _BASE64.fullmatch(text) is not None,
    "date": _is_date,
    "datetime": _is_datetime,
    "duration": _is_duration,
    "uri": _is_uri,
    "ipv4": _is_ipv4,
    "ipv6": _is_ipv6,
    "cidr": _is_cidr,
    "uuid": _is_uuid_of("[0-9a-f]{4}-?[0-9a-f]{4}"),
    "uuid3": _is_uuid_of("3[0-9a-f]{3}-?[0-9a-f]{4}"),
    "uuid4": _is_uuid_of("4[0-9a-f]{3}-?[89ab][0-9a-f]{3}"),
    "uuid5": _is_uuid_of("5[0-9a-f]{3}-?[89ab][0-9a-f]{3}"),
    "k8sshortname": is_dns_label,
    "k8slongname": is_dns_subdomain,
}
