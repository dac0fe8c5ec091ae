"""Where a ModelEndpoint is called: its origin, the path that takes the place of `/v1`, and its credential.

`origin` and `api.prefix` say it apart. A base `url` says it in one, as clients take it: a path that has a version
segment (`/v1`, `/openai/v1`, `/v1beta/openai`) is used as it is, and any other gets `/v1`. So the address of a server,
with and without `/v1`, is the same endpoint.
"""

import re
from dataclasses import dataclass

from modelplane.api.models import ModelEndpoint
from modelplane.compose.external import ExternalAddress, target_of

DEFAULT_PREFIX = "/v1"
_VERSION = re.compile(r"v[0-9][a-z0-9]*")


@dataclass(frozen=True, slots=True)
class CredentialRef:
    """A key of a Secret in the endpoint's namespace, and the header that carries it."""

    secret: str
    key: str
    header: str = "Authorization"
    scheme: str = "Bearer"
    """Bearer puts the word before the key; Raw does not."""


@dataclass(frozen=True, slots=True)
class EndpointTarget:
    """Where requests of one endpoint go."""

    address: ExternalAddress
    prefix: str = DEFAULT_PREFIX
    """Without a slash at its end; empty for the root."""

    @property
    def origin(self) -> str:
        return f"{'https' if self.address.secure else 'http'}://{self.authority}"

    @property
    def models_url(self) -> str:
        """Where it lists its models."""
        return f"{self.origin}{self.prefix}/models"

    @property
    def authority(self) -> str:
        """The host that requests name, with its port where it is not the scheme's."""
        host = f"[{self.address.host}]" if ":" in self.address.host else self.address.host
        return host if self.address.port == (443 if self.address.secure else 80) else f"{host}:{self.address.port}"


def endpoint_target(endpoint: ModelEndpoint) -> EndpointTarget | None:
    """None for what is no http or https URL."""
    spec = endpoint.spec
    address = target_of(address_of(endpoint))
    if address is None:
        return None
    if spec.api.prefix is not None:
        return EndpointTarget(address, spec.api.prefix.rstrip("/"))
    if spec.rewrite_path is not None:
        return EndpointTarget(address, spec.rewrite_path.rstrip("/").removesuffix(DEFAULT_PREFIX) + DEFAULT_PREFIX)
    return EndpointTarget(address, versioned_path(address.path))


def versioned_path(path: str) -> str:
    """The path of a base URL, with `/v1` where it has no version."""
    base = path.rstrip("/")
    return base if any(map(_VERSION.fullmatch, base.split("/"))) else base + DEFAULT_PREFIX


def credential_of(endpoint: ModelEndpoint) -> CredentialRef | None:
    """Anthropic's providers take a key in a header of its own."""
    earlier, given = endpoint.spec.auth, endpoint.spec.credential
    if earlier is not None:
        return CredentialRef(earlier.secret_ref.name, earlier.secret_ref.key, earlier.header, earlier.scheme)
    if given is None or given.api_key is None:
        return None
    ref = given.api_key.secret_ref
    if endpoint.spec.api.schema == "Anthropic":
        return CredentialRef(ref.name, ref.key, "x-api-key", "Raw")
    return CredentialRef(ref.name, ref.key)


def address_of(endpoint: ModelEndpoint) -> str:
    """As the user wrote it."""
    return endpoint.spec.origin or endpoint.spec.url or ""


def field_of_address(endpoint: ModelEndpoint) -> str:
    """The field that holds the address, for messages."""
    return "spec.origin" if endpoint.spec.origin is not None else "spec.url"
