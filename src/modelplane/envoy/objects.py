"""The parts of Kubernetes objects that routing reads.

Unknown fields are rejected where they could change routing: a match or filter that is silently dropped would send
traffic to the wrong backend. Elsewhere unknown fields are skipped.

Values are held to what HTTP and Envoy accept, because Envoy refuses a whole update for one bad value in it: a route
that slipped through would stop every later change of every other route.
"""

import re
from ipaddress import ip_address
from typing import Annotated, Literal, TypeVar

import msgspec
from msgspec import Meta, Struct

from modelplane.envoy.view import KubernetesObject

SERVICE_NAME_LABEL = "kubernetes.io/service-name"

# Letters of a path as RFC 3986 has them; anything else arrives percent-encoded.
_Path = Annotated[str, Meta(pattern=r"\A/([-A-Za-z0-9/._~!$&'()*+,;=:@]|%[0-9a-fA-F]{2})*\Z")]
# A token of RFC 9110. Envoy routes by Host, so it cannot be changed here.
_HeaderName = Annotated[str, Meta(pattern=r"\A(?![Hh][Oo][Ss][Tt]\Z)[-A-Za-z0-9!#$%&'*+.^_`|~]+\Z", max_length=256)]
_HeaderText = Annotated[str, Meta(pattern=r"\A[\t\x20-\x7e]+\Z", max_length=4096)]
_Name = Annotated[str, Meta(pattern=r"\A[a-z0-9]([-a-z0-9.]*[a-z0-9])?\Z", max_length=253)]
_Port = Annotated[int, Meta(ge=1, le=65_535)]


class GatewayObjectMeta(Struct, frozen=True, rename="camel"):
    name: _Name
    namespace: _Name = "default"
    labels: dict[str, str] = {}
    creation_timestamp: str | None = None


class Located(Struct, frozen=True):
    """Anything with a namespace and a name."""

    metadata: GatewayObjectMeta


Object = TypeVar("Object", bound=Located)

_FOUND_AT = re.compile(r"(?P<what>.*) - at `\$\.?(?P<field>[^`]*)`", re.DOTALL)


class UnsupportedError(Exception):
    """An object uses a feature that is not supported; the message names the field."""


class PathMatch(Struct, frozen=True, forbid_unknown_fields=True):
    type: Literal["PathPrefix", "Exact"] = "PathPrefix"
    value: _Path = "/"


class HeaderMatch(Struct, frozen=True, forbid_unknown_fields=True):
    name: _HeaderName
    value: _HeaderText
    type: Literal["Exact"] = "Exact"


class RouteMatch(Struct, frozen=True, forbid_unknown_fields=True):
    path: PathMatch = PathMatch()
    headers: tuple[HeaderMatch, ...] = ()


class HeaderValue(Struct, frozen=True, forbid_unknown_fields=True):
    name: _HeaderName
    value: _HeaderText


class HeaderChange(Struct, frozen=True, forbid_unknown_fields=True):
    set: tuple[HeaderValue, ...] = ()
    add: tuple[HeaderValue, ...] = ()
    remove: tuple[_HeaderName, ...] = ()


class HeaderFilter(Struct, frozen=True, forbid_unknown_fields=True, rename="camel", tag="RequestHeaderModifier"):
    request_header_modifier: HeaderChange


class PrefixReplacement(Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    type: Literal["ReplacePrefixMatch"]
    replace_prefix_match: _Path


class UrlRewrite(Struct, frozen=True, forbid_unknown_fields=True):
    path: PrefixReplacement | None = None
    hostname: _Name | None = None


class RewriteFilter(Struct, frozen=True, forbid_unknown_fields=True, rename="camel", tag="URLRewrite"):
    url_rewrite: UrlRewrite


class ExtensionRef(Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    group: Literal["gateway.envoyproxy.io"]
    kind: Literal["HTTPRouteFilter"]


class ExtensionFilter(Struct, frozen=True, forbid_unknown_fields=True, rename="camel", tag="ExtensionRef"):
    extension_ref: ExtensionRef


class BackendRef(Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    group: str = ""
    kind: str = "Service"
    namespace: str | None = None
    port: int | None = None
    weight: Annotated[int, Meta(ge=0, le=1_000_000)] = 1
    filters: tuple[HeaderFilter | ExtensionFilter, ...] = ()

    def header_changes(self) -> list[HeaderChange]:
        return [one.request_header_modifier for one in self.filters if isinstance(one, HeaderFilter)]

    def extensions(self) -> list[str]:
        return [one.extension_ref.name for one in self.filters if isinstance(one, ExtensionFilter)]


class Timeouts(Struct, frozen=True, forbid_unknown_fields=True):
    request: Annotated[str, Meta(pattern=r"\A([0-9]{1,5}(h|m|s|ms)){1,4}\Z")] | None = None


class HTTPRouteRule(Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    name: str | None = None
    matches: tuple[RouteMatch, ...] = (RouteMatch(),)
    filters: tuple[HeaderFilter | RewriteFilter, ...] = ()
    backend_refs: tuple[BackendRef, ...] = ()
    timeouts: Timeouts | None = None


class RouteSpec(Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    parent_refs: tuple[object, ...] = ()
    rules: tuple[HTTPRouteRule, ...] = (HTTPRouteRule(),)


class HttpRoute(Located, frozen=True):
    spec: RouteSpec


class IpAddress(Struct, frozen=True):
    address: str
    port: _Port

    def __post_init__(self) -> None:
        ip_address(self.address)


class BackendEndpoint(Struct, frozen=True, forbid_unknown_fields=True):
    """Addresses only: the control plane resolves names, and checks what they resolve to."""

    ip: IpAddress
    hostname: str | None = None
    zone: str | None = None


class BackendTls(Struct, frozen=True, forbid_unknown_fields=True, rename={"authorities": "wellKnownCACertificates"}):
    authorities: Literal["System"]
    sni: _Name | None = None


class BackendSpec(Struct, frozen=True, forbid_unknown_fields=True):
    type: Literal["Endpoints"] = "Endpoints"
    endpoints: tuple[BackendEndpoint, ...] = ()
    tls: BackendTls | None = None


class EnvoyBackend(Located, frozen=True):
    spec: BackendSpec


class SecretName(Struct, frozen=True):
    name: str


class CredentialSource(Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    value_ref: SecretName


class CredentialInjection(Struct, frozen=True, forbid_unknown_fields=True):
    credential: CredentialSource
    header: _HeaderName = "Authorization"
    overwrite: bool = False


class RouteFilterSpec(Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    credential_injection: CredentialInjection


class HTTPRouteFilter(Located, frozen=True):
    """Adds a credential to requests."""

    spec: RouteFilterSpec


class Secret(Located, frozen=True):
    """The credential of a Secret, and the header that carries it."""

    data: dict[str, bytes] = {}

    def credential(self) -> str | None:
        text = self.data.get("credential", b"").decode(errors="replace")
        return text if re.fullmatch(r"[\t\x20-\x7e]{1,4096}", text) else None


class ServicePort(Struct, frozen=True):
    port: int
    name: str | None = None


class PickerRef(Struct, frozen=True, rename="camel"):
    """The Service of the endpoint picker, and its failure mode."""

    name: str
    port: int
    fails_open: bool


class ServiceSpec(Struct, frozen=True):
    """Only the Service of an InferencePool has a `picker`."""

    ports: tuple[ServicePort, ...] = ()
    picker: PickerRef | None = None


class CoreService(Located, frozen=True):
    spec: ServiceSpec


class EndpointConditions(Struct, frozen=True):
    ready: bool | None = None


class SliceEndpoint(Struct, frozen=True):
    addresses: Annotated[tuple[str, ...], Meta(min_length=1)]
    conditions: EndpointConditions = EndpointConditions()

    def __post_init__(self) -> None:
        ip_address(self.addresses[0])


class EndpointPort(Struct, frozen=True):
    port: _Port | None = None
    name: str | None = None


class EndpointSlice(Located, frozen=True):
    endpoints: tuple[SliceEndpoint, ...] = ()
    ports: tuple[EndpointPort, ...] = ()


class GrantFrom(Struct, frozen=True):
    group: str
    kind: str
    namespace: str


class GrantTo(Struct, frozen=True):
    group: str
    kind: str
    name: str | None = None


class GrantSpec(Struct, frozen=True, rename={"sources": "from", "targets": "to"}):
    sources: tuple[GrantFrom, ...]
    targets: tuple[GrantTo, ...]

    def allows(self, source: GrantFrom, target: GrantTo) -> bool:
        any_name = GrantTo(target.group, target.kind)
        return source in self.sources and (target in self.targets or any_name in self.targets)


class ReferenceGrant(Located, frozen=True):
    spec: GrantSpec


def read(manifest: KubernetesObject, kind: type[Object]) -> Object:
    """The typed form of a manifest."""
    try:
        return msgspec.convert(manifest, kind)
    except msgspec.ValidationError as error:
        found = _FOUND_AT.fullmatch(str(error))
        what, field = (found["what"], found["field"]) if found else (str(error), "the object")
        raise UnsupportedError(f"{field}: {what[:1].lower()}{what[1:]}") from None


def name_of(manifest: KubernetesObject) -> tuple[str, str]:
    """Namespace and name of a manifest that may be broken."""
    metadata = manifest.get("metadata")
    if not isinstance(metadata, dict):
        return "default", "(without a name)"
    return str(metadata.get("namespace", "default")), str(metadata.get("name", "(without a name)"))
