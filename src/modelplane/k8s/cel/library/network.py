"""IP addresses and CIDR blocks. Zones and IPv4 addresses dressed as IPv6 are refused."""

import ipaddress
import re
from dataclasses import dataclass
from typing import TypeAlias

from modelplane.k8s.cel import types as t
from modelplane.k8s.cel.declarations import Overload, overload
from modelplane.k8s.cel.errors import EvaluationError
from modelplane.k8s.cel.values import register

_Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address
_BITS = re.compile(r"0|[1-9][0-9]{0,2}", re.ASCII)
_SHOWN = 64
_IPV4 = 4
# The leading bits of 224.0.0.0/24, ff02::/16, 169.254.0.0/16 and fe80::/10.
_MULTICAST_V4, _MULTICAST_V6, _UNICAST_V4, _UNICAST_V6 = 0xE00000, 0xFF02, 0xA9FE, 0xFE80 >> 6


@dataclass(frozen=True, slots=True)
class IP:
    """An address."""

    address: _Address

    def cel_size(self) -> int:
        """The number of bytes, for the cost model."""
        return self.address.max_prefixlen // 8


@dataclass(frozen=True, slots=True)
class CIDR:
    """A block: an address, whose host bits may be set, and the length of its prefix."""

    address: _Address
    bits: int

    def cel_size(self) -> int:
        """The number of bytes of the prefix, for the cost model."""
        return -(-self.bits // 8)


register(IP, t.IP)
register(CIDR, t.CIDR)


def parse_address(text: str) -> _Address:
    """An address in its textual form, or EvaluationError."""
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        raise EvaluationError(f"{text[:_SHOWN]!r} is not an IP address") from None
    if "%" in text:
        raise EvaluationError(f"IP address {text[:_SHOWN]!r} with a zone is not allowed")
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        raise EvaluationError(f"IPv4-mapped IPv6 address {text[:_SHOWN]!r} is not allowed")
    return address


def to_ip(text: str) -> IP:
    """`ip(text)`."""
    return IP(parse_address(text))


def to_cidr(text: str) -> CIDR:
    """`cidr(text)`."""
    host, slash, bits = text.rpartition("/")
    if not slash or not _BITS.fullmatch(bits):
        raise EvaluationError(f"{text[:_SHOWN]!r} is not a CIDR block")
    address = parse_address(host)
    if int(bits) > address.max_prefixlen:
        raise EvaluationError(f"{text[:_SHOWN]!r} is not a CIDR block: the prefix is too long")
    return CIDR(address, int(bits))


def is_ip(text: str) -> bool:
    """`isIP(text)`."""
    try:
        parse_address(text)
    except EvaluationError:
        return False
    return True


def is_cidr(text: str) -> bool:
    """`isCIDR(text)`."""
    try:
        to_cidr(text)
    except EvaluationError:
        return False
    return True


def _is_canonical(text: str) -> bool:
    return str(parse_address(text)) == text


def _family(ip: IP) -> int:
    return ip.address.version


def _is_unspecified(ip: IP) -> bool:
    return int(ip.address) == 0


def _is_loopback(ip: IP) -> bool:
    return ip.address.is_loopback


def _is_link_local_multicast(ip: IP) -> bool:
    number = int(ip.address)
    return number >> 8 == _MULTICAST_V4 if ip.address.version == _IPV4 else number >> 112 == _MULTICAST_V6


def _is_link_local_unicast(ip: IP) -> bool:
    number = int(ip.address)
    return number >> 16 == _UNICAST_V4 if ip.address.version == _IPV4 else number >> 118 == _UNICAST_V6


def _is_global_unicast(ip: IP) -> bool:
    broadcast = ip.address.version == _IPV4 and int(ip.address) == 2**32 - 1
    return not (
        broadcast or _is_unspecified(ip) or _is_loopback(ip) or ip.address.is_multicast or _is_link_local_unicast(ip)
    )


def _network(address: _Address, bits: int) -> int:
    return int(address) >> (address.max_prefixlen - bits)


def _contains_ip(block: CIDR, ip: IP) -> bool:
    same_family = block.address.version == ip.address.version
    return same_family and _network(block.address, block.bits) == _network(ip.address, block.bits)


def _contains_ip_text(block: CIDR, text: str) -> bool:
    return _contains_ip(block, to_ip(text))


def _contains_cidr(block: CIDR, other: CIDR) -> bool:
    return block.bits <= other.bits and _contains_ip(block, IP(other.address))


def _contains_cidr_text(block: CIDR, text: str) -> bool:
    return _contains_cidr(block, to_cidr(text))


def _masked(block: CIDR) -> CIDR:
    host_bits = block.address.max_prefixlen - block.bits
    return CIDR(type(block.address)(_network(block.address, block.bits) << host_bits), block.bits)


def _ip_text(ip: IP) -> str:
    return str(ip.address)


def _cidr_text(block: CIDR) -> str:
    return f"{block.address}/{block.bits}"


def _address_of(block: CIDR) -> IP:
    return IP(block.address)


def _prefix_length(block: CIDR) -> int:
    return block.bits


IP_FUNCTIONS: tuple[Overload, ...] = (
    overload("string_to_ip", "ip(string) -> IP", to_ip),
    overload("ip_family", "IP.family() -> int", _family),
    overload("ip_is_canonical", "ip.isCanonical(string) -> bool", _is_canonical),
    overload("ip_is_unspecified", "IP.isUnspecified() -> bool", _is_unspecified),
    overload("ip_is_loopback", "IP.isLoopback() -> bool", _is_loopback),
    overload("ip_is_link_local_multicast", "IP.isLinkLocalMulticast() -> bool", _is_link_local_multicast),
    overload("ip_is_link_local_unicast", "IP.isLinkLocalUnicast() -> bool", _is_link_local_unicast),
    overload("ip_is_global_unicast", "IP.isGlobalUnicast() -> bool", _is_global_unicast),
    overload("is_ip", "isIP(string) -> bool", is_ip),
    overload("ip_to_string", "string(IP) -> string", _ip_text),
)

CIDR_FUNCTIONS: tuple[Overload, ...] = (
    overload("string_to_cidr", "cidr(string) -> CIDR", to_cidr),
    overload("cidr_contains_ip_string", "CIDR.containsIP(string) -> bool", _contains_ip_text),
    overload("cidr_contains_ip_ip", "CIDR.containsIP(IP) -> bool", _contains_ip),
    overload("cidr_contains_cidr_string", "CIDR.containsCIDR(string) -> bool", _contains_cidr_text),
    overload("cidr_contains_cidr", "CIDR.containsCIDR(CIDR) -> bool", _contains_cidr),
    overload("cidr_ip", "CIDR.ip() -> IP", _address_of),
    overload("cidr_prefix_length", "CIDR.prefixLength() -> int", _prefix_length),
    overload("cidr_masked", "CIDR.masked() -> CIDR", _masked),
    overload("is_cidr", "isCIDR(string) -> bool", is_cidr),
    overload("cidr_to_string", "string(CIDR) -> string", _cidr_text),
)
