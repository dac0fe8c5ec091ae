"""Where an endpoint is: the parts of its URL, and what a gateway has to change about a request to get it there."""

import ipaddress
import re
from dataclasses import dataclass

from modelplane.api.models import ModelEndpoint
from modelplane.api.names import is_dns_subdomain

_URL = re.compile(r"(https?)://(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9.-]+)(?::([0-9]{1,5}))?(/[A-Za-z0-9._~/-]*)?")
_MAX_PORT = 65535
_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class EndpointRewrite:
    """What requests must look like for an endpoint: the host that they name, where it has a name, and their path."""

    hostname: str | None = None
    path: str = "/"


@dataclass(frozen=True, slots=True)
class ExternalAddress:
    """Where a URL leads."""

    secure: bool
    host: str
    port: int
    path: str
    by_name: bool

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


def form_of(endpoint: ModelEndpoint) -> EndpointRewrite:
    """That of a replica is plain: its cluster's gateway takes any host, and the path as it is."""
    target = target_of(endpoint.spec.url)
    if endpoint.spec.replica is not None or target is None:
        return EndpointRewrite()
    path = endpoint.spec.rewrite_path or target.path
    return EndpointRewrite(target.host if target.by_name else None, path.rstrip("/") or "/")
