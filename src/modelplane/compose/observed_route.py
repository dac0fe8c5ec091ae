"""The observed route of a ModelService as input: which backends it has, and which of those are in doubt.

A ModelEndpoint that the route leads to and that is missing from the list of endpoints may exist all the same. It is
required by name; only when no object of that name exists does its backend leave. A backend also stays when its
ModelEndpoint cannot be read, or has no Ready condition that is True or False.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from modelplane.api.codec import decode
from modelplane.api.errors import InputError
from modelplane.api.labels import LEAVING, REPLICA_HEADER
from modelplane.api.models import ListedModels, ModelEndpoint
from modelplane.api.names import is_address
from modelplane.api.objects import API_VERSION, Manifest, annotations_of, as_mapping, name_of, text_at, value_at
from modelplane.compose.contract import Requirement
from modelplane.compose.endpoint_target import address_of
from modelplane.compose.readiness import has_condition, is_denied

PREFIX = "endpoint-"
LEAVING_REASON = "Leaving"
"""Of an endpoint that is deleted when gateways had time to drop it."""


@dataclass(frozen=True, slots=True)
class ObservedRoute:
    """The rewrite and the backends of an observed HTTPRoute, by name."""

    rewrite: Manifest = field(default_factory=dict)
    backends: Mapping[str, Manifest] = field(default_factory=dict)
    joined: tuple[str, ...] = ()
    """The replicas that its rule lists for all its backends."""


def read_route(route: Manifest) -> ObservedRoute:
    rules = list(_mappings(value_at(route, "spec", "rules")))
    backends = {name_of_backend(item): item for rule in rules for item in _mappings(rule.get("backendRefs"))}
    filters = [item for rule in rules for item in _mappings(rule.get("filters"))]
    rewrites = [as_mapping(item.get("urlRewrite")) for item in filters if item.get("type") == "URLRewrite"]
    backends.pop("", None)
    return ObservedRoute(rewrites[0] if rewrites else {}, backends, _joined(filters))


def _joined(filters: Iterable[Manifest]) -> tuple[str, ...]:
    headers = (each for item in filters for each in _mappings(value_at(item, "requestHeaderModifier", "set")))
    listed = next((text_at(each, "value") for each in headers if text_at(each, "name") == REPLICA_HEADER), "")
    return tuple(filter(None, listed.split(",")))


def name_of_backend(backend: Manifest) -> str:
    return text_at(backend, "name")


@dataclass(frozen=True, slots=True)
class ReadEndpoint:
    """A ModelEndpoint of the list, and whether requests may go to it."""

    endpoint: ModelEndpoint
    ready: bool
    kept: bool = False
    """It does not say whether it is ready, and the observed route leads to it."""
    reason: str = ""
    """Of its Ready condition, where it is not ready."""
    message: str = ""
    models: ListedModels | None = None
    """What a provider lists; None: not known."""
    origin: str = ""
    """That of its status, which `addresses` belong to."""
    addresses: tuple[str, ...] = ()
    """What the name of that origin resolved to and was permitted."""


@dataclass(frozen=True, slots=True)
class ReadEndpoints:
    found: Sequence[ReadEndpoint] = ()
    """Each once, in the order of the list."""
    doubted: Sequence[str] = ()
    """Names of backends of the observed route whose ModelEndpoint is neither read nor known to be absent."""


def requirements(listed: Iterable[Manifest], route: ObservedRoute, namespace: str) -> dict[str, Requirement]:
    """The backends of the route that are not listed, by name."""
    names = {name_of(item) for item in listed}
    return {
        PREFIX + name: Requirement(API_VERSION, "ModelEndpoint", name=name, namespace=namespace)
        for name in sorted(route.backends.keys() - names)
    }


def decode_endpoint(item: Manifest) -> ModelEndpoint | None:
    """Without its status: of that only the conditions count, and those may be garbled. None: it cannot be read."""
    try:
        return decode(ModelEndpoint, {**item, "status": {}})
    except InputError:
        return None


def read_endpoints(
    listed: Iterable[Manifest],
    route: ObservedRoute,
    required: Mapping[str, tuple[Manifest, ...]],
    decode_item: Callable[[Manifest], ModelEndpoint | None] = decode_endpoint,
) -> ReadEndpoints:
    """A host that shows an unchanged object again may cache `decode_item` by identity."""
    items = {name_of(item): item for item in sorted(listed, key=_is_ready)}
    unread = [name for name in route.backends if name not in items and required.get(PREFIX + name) is None]
    items |= {name: required[PREFIX + name][0] for name in route.backends if required.get(PREFIX + name)}
    read = {name: _read(item, route, decode_item(item)) for name, item in items.items()}
    unreadable = [name for name, found in read.items() if found is None and name in route.backends]
    return ReadEndpoints([found for found in read.values() if found is not None], sorted({*unread, *unreadable}))


def _read(item: Manifest, route: ObservedRoute, endpoint: ModelEndpoint | None) -> ReadEndpoint | None:
    """None for what cannot be read. The API refuses an endpoint without an address: such a one was not read whole."""
    if endpoint is None or not address_of(endpoint):
        return None
    if LEAVING in annotations_of(item):
        return ReadEndpoint(endpoint, ready=False, reason=LEAVING_REASON, message="its replica is being removed")
    ready = _is_ready(item)
    kept = not ready and name_of(item) in route.backends and not is_denied(item, {"Ready"})
    reason, message = ("", "") if ready else _why_not(item)
    origin = text_at(item, "status", "origin")
    return ReadEndpoint(endpoint, ready, kept, reason, message, _models(item), origin, _addresses(item))


def _models(item: Manifest) -> ListedModels | None:
    """What cannot be read is not known."""
    found = value_at(item, "status", "models")
    try:
        return msgspec.convert(found, ListedModels) if found is not None else None
    except msgspec.ValidationError:
        return None


def _addresses(item: Manifest) -> tuple[str, ...]:
    found = value_at(item, "status", "addresses")
    return tuple(each for each in found if is_address(str(each))) if isinstance(found, list | tuple) else ()


def _why_not(item: Manifest) -> tuple[str, str]:
    """The worst condition that says more than Ready does."""
    conditions = list(_mappings(value_at(item, "status", "conditions")))
    denied = [each for each in conditions if each.get("status") == "False"]
    found = next((each for each in denied if each.get("type") != "Ready"), denied[0] if denied else {})
    return str(found.get("reason") or "")[:63], str(found.get("message") or "")[:1024]


def _is_ready(item: Manifest) -> bool:
    return has_condition(item, "Ready")


def _mappings(value: object) -> Iterable[Manifest]:
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list | tuple) else ()
