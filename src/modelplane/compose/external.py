"""Where a URL leads: its parts."""

import ipaddress
import re
from dataclasses import dataclass, field

from modelplane.api.names import is_dns_subdomain

_URL = re.compile(r"(https?)://(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9.-]+)(?::([0-9]{1,5}))?(/[A-Za-z0-9._~/-]*)?")
_MAX_PORT = 65535
_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class ExternalAddress:
    """Where a URL leads."""

    secure: bool
    host: str
    port: int
    path: str = "/"
    by_name: bool = field(kw_only=True)

    def address(self) -> dict[str, object]:
        """As a Backend writes it: addresses and names have different fields."""
        if self.by_name:
            return {"fqdn": {"hostname": self.host, "port": self.port}}
        return {"ip": {"address": self.host, "port": self.port}}


def target_of(url: str) -> ExternalAddress | None:
    """None for what is no http or https URL. Whether the host may be called is the outbound rule's to say."""
    found = _URL.fullmatch(url)
    if found is None:
        return None
    scheme, host, port_text, path = found.groups()
    port = int(port_text) if port_text else _PORTS[scheme]
    if not 0 < port <= _MAX_PORT:
        return None
    try:
        address = ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        named = host.lower()
        return (
            ExternalAddress(scheme == "https", named, port, path or "/", by_name=True)
            if is_dns_subdomain(named)
            else None
        )
    return ExternalAddress(scheme == "https", str(address), port, path or "/", by_name=False)
