"""The outbound rule: which hosts the product may connect to because a user named them.

A user's address must not lead into the platform's own network. Loopback, link-local, private, shared and reserved
ranges and the clouds' metadata services are refused in every spelling (mapped and translated IPv6; integer, octal and
hex IPv4), and so are names that only resolve there. The platform team allows networks and host names. A permitted name
may still resolve to such an address: `judge` says which of its addresses may be used, and whoever connects must connect
to one of those, not to the name, which may resolve to another a moment later.
"""

import ipaddress
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

from modelplane.api.names import is_dns_subdomain

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

_INTERNAL = ("localhost", "local", "internal", "intranet", "lan", "home", "corp", "svc", "home.arpa", "in-addr.arpa")
_METADATA = frozenset(
    map(
        ipaddress.ip_address,
        (
            *("169.254.169.254", "169.254.170.2", "169.254.170.23", "168.63.129.16", "100.100.100.200", "192.0.0.192"),
            *("fd00:ec2::254", "fd00:ec2::23", "fd20:ce::254"),
        ),
    )
)
_TRANSLATED = tuple(map(ipaddress.IPv6Network, ("64:ff9b::/96", "64:ff9b:1::/48", "::/96")))
_NUMBER = re.compile(r"0[xX][0-9a-fA-F]*|[0-9]+")
_EVERY = "*"
"""Every name. No user can write it."""
_PARTS = 4
_BYTE = 256


@dataclass(frozen=True, slots=True)
class JudgedAddresses:
    """The addresses of a host that may be connected to, and why the others may not."""

    permitted: tuple[str, ...] = ()
    refusals: tuple[str, ...] = ()

    @property
    def refusal(self) -> str:
        """In a few words; empty where none is refused."""
        more = len(self.refusals) - 1
        return "" if more < 0 else self.refusals[0] + (f" (and {more} more)" if more else "")


@dataclass(frozen=True, slots=True)
class OutboundRule:
    networks: tuple[Network, ...] = ()
    hosts: tuple[str, ...] = ()
    """Host names in lower case; `*.example.com` is every name below example.com."""

    @classmethod
    def read(cls, entries: Iterable[str]) -> Self:
        """The rule that allows these networks and host names. ValueError names an entry that is neither."""
        networks: list[Network] = []
        hosts: list[str] = []
        for entry in entries:
            try:
                networks.append(ipaddress.ip_network(entry, strict=False))
            except ValueError:
                name = entry.lower()
                if not is_dns_subdomain(name.removeprefix("*.")) or _as_ipv4(name) is not None:
                    raise ValueError(f"{entry!r} is neither a network nor a host name") from None
                hosts.append(name)
        return cls(tuple(networks), tuple(hosts))

    def refuse_host(self, host: str) -> str | None:
        """Why a host, an address or a name, may not be connected to."""
        address = _address(host)
        if address is not None:
            return self.refuse_address(address)
        name = host.lower().rstrip(".")
        if not is_dns_subdomain(name) or _NUMBER.fullmatch(name.rpartition(".")[2]):
            return f"{host} is not a host name"
        if self._allows_name(name):
            return None
        suffix = next((each for each in _INTERNAL if name == each or name.endswith(f".{each}")), None)
        if suffix is not None:
            return f"{name} is a name of an internal network (.{suffix})"
        return f"{name} is a name without a domain" if "." not in name else None

    def judge(self, host: str, addresses: Iterable[str]) -> JudgedAddresses:
        """Which of the addresses that a host resolves to may be connected to.

        A host that is allowed by its name may be anywhere but at link-local addresses and metadata services: whoever
        answers for the name would choose among them.
        """
        named = self._allows_name(host.lower().rstrip("."))
        found = [(each, self._refuse_text(each, named=named)) for each in addresses]
        return JudgedAddresses(
            tuple(each for each, refusal in found if refusal is None),
            tuple(refusal for _, refusal in found if refusal is not None),
        )

    def _refuse_text(self, text: str, *, named: bool) -> str | None:
        try:
            address = ipaddress.ip_address(text)
        except ValueError:
            return f"{text!r}, which is not an address"
        refusal = self.refuse_address(address)
        return None if named and not _is_never_named(address) else refusal

    def refuse_address(self, address: Address) -> str | None:
        for each in (address, *_embedded(address)):
            kind = _kind(each)
            if kind is not None and not any(_covers(network, each) for network in self.networks):
                return f"{address}, a {kind} address"
        return None

    def _allows_name(self, name: str) -> bool:
        return any(each in {name, _EVERY} or (each.startswith("*.") and name.endswith(each[1:])) for each in self.hosts)


CLUSTER_GATEWAYS = OutboundRule((ipaddress.IPv4Network("0.0.0.0/0"), ipaddress.IPv6Network("::/0")), (_EVERY,))
"""What clusters of the fleet report of themselves. They may be anywhere but where metadata services are."""


def _covers(network: Network, address: Address) -> bool:
    """A metadata service is allowed by its own address only, and link-local addresses by a network of just those."""
    if address not in network:
        return False
    if address in _METADATA:
        return network.num_addresses == 1
    return network.is_link_local or not address.is_link_local


def _is_never_named(address: Address) -> bool:
    return any(each in _METADATA or each.is_link_local for each in (address, *_embedded(address)))


def _kind(address: Address) -> str | None:
    """What makes an address internal; None for one of the public network."""
    if address in _METADATA:
        return "metadata service"
    if address.is_unspecified:
        return "unspecified"
    if address.is_loopback:
        return "loopback"
    if address.is_link_local:
        return "link-local"
    if address.is_multicast:
        return "multicast"
    if address.is_reserved:
        return "reserved"
    return None if address.is_global else "private"


def _embedded(address: Address) -> list[Address]:
    """The IPv4 addresses that an IPv6 address stands for."""
    if isinstance(address, ipaddress.IPv4Address):
        return []
    found = [address.ipv4_mapped, address.sixtofour, *(address.teredo or ())]
    if any(address in network for network in _TRANSLATED):
        found.append(ipaddress.IPv4Address(int(address) & 0xFFFFFFFF))
    return [each for each in found if each is not None]


def _address(host: str) -> Address | None:
    text = host.removeprefix("[").removesuffix("]")
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return _as_ipv4(text)


def _as_ipv4(text: str) -> ipaddress.IPv4Address | None:
    """As inet_aton reads it: one to four numbers, decimal, octal or hex, the last of which fills the rest."""
    parts = text.rstrip(".").split(".")
    if len(parts) > _PARTS or not all(_NUMBER.fullmatch(part) for part in parts):
        return None
    try:
        numbers = [_number(part) for part in parts]
    except ValueError:
        return None
    room = _BYTE ** (_PARTS + 1 - len(parts))
    if any(number >= _BYTE for number in numbers[:-1]) or numbers[-1] >= room:
        return None
    value = sum(number << (8 * (3 - at)) for at, number in enumerate(numbers[:-1]))
    return ipaddress.IPv4Address(value + numbers[-1])


def _number(text: str) -> int:
    if text[:2].lower() == "0x":
        return int(text[2:] or "0", 16)
    return int(text, 8) if text.startswith("0") and len(text) > 1 else int(text)
