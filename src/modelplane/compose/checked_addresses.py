"""Which addresses the requests of an endpoint go to: those that its host name has, as far as the outbound rule permits.

A gateway that resolved the name by itself could get another address than the one that was checked. So the control plane
resolves and checks, and gateways get addresses. An answer that is late or empty leaves the addresses of before, which
are checked again: the rule may have changed. Of the two families IPv4 is used where there is any, since a gateway
without IPv6 would lose a part of the requests.
"""

import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass

from modelplane.api.outbound import OutboundRule

MOST_ADDRESSES = 16
_IPV4 = 4


@dataclass(frozen=True, slots=True)
class CheckedAddresses:
    """Without any, `refusal` says why; where that is empty too, the name is not resolved yet or has no address."""

    called: tuple[str, ...] = ()
    refusal: str = ""
    """The addresses that are left out, and why."""
    late: bool = False
    """They are those of before, since the name does not resolve."""


def check_addresses(
    rule: OutboundRule, host: str, resolved: tuple[str, ...] | None, before: tuple[str, ...]
) -> CheckedAddresses:
    """`resolved` is None while the name is looked up, and empty where it has no address."""
    judged = rule.judge(host, resolved or before)
    refusal = f"{host} resolves to {judged.refusal}" if judged.refusal else ""
    return CheckedAddresses(_of_one_family(judged.permitted), refusal, late=not resolved and bool(judged.permitted))


def _of_one_family(addresses: Iterable[str]) -> tuple[str, ...]:
    found = sorted({ipaddress.ip_address(each) for each in addresses}, key=lambda each: (each.version, int(each)))
    short = [each for each in found if each.version == _IPV4] or found
    return tuple(str(each) for each in short[:MOST_ADDRESSES])
