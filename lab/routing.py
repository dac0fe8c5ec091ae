"""What a Gateway controller makes of routes: Envoy's listeners, routes and clusters. Pure.

A backend is a Service (its ready endpoints), a Backend of Envoy Gateway (its addresses) or an InferencePool. A request
for a pool is shown to the pool's picker, over TLS that nobody checks, as gateways do; it goes to the pod that the
picker names. Without an answer from the picker the pool's failureMode decides: the request goes to any pod of the pool,
or it ends with an error.

Each Gateway has its own listeners and its own table, of the routes that name it as a parent. All listen at one address,
so of two that want a port the older has it.

Matched are path prefixes and headers; honoured are a rewritten prefix, headers that are set, weights. That is what the
product renders, TLS towards the fleet's gateways too (`listener_tls`). Hostnames and the rest of the API are for a
genuine gateway.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lab.client import Manifest, condition, items, name_of, namespace_of, text, value
from lab.envoy_resources import (
    PICKER,
    TYPES,
    Json,
    Place,
    as_picked,
    http_listener,
    picker_cluster,
    picker_overrides,
    static_cluster,
)
from lab.listener_tls import transport_socket

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

Key = tuple[str, str]

POOLS = "inference.networking.k8s.io"
NO_BACKEND = "no backend of this route is usable\n"
_FAILS_OPEN = "FailOpen"
# Before anybody saw the request; a generation must not run twice.
_RETRY: Json = {"retry_on": "connect-failure,refused-stream,reset-before-request", "num_retries": 3}


@dataclass(frozen=True, slots=True)
class Seen:
    """What the API server holds that routing reads."""

    gateways: tuple[Manifest, ...] = ()
    routes: tuple[Manifest, ...] = ()
    backends: tuple[Manifest, ...] = ()
    services: tuple[Manifest, ...] = ()
    slices: tuple[Manifest, ...] = ()
    pools: tuple[Manifest, ...] = ()
    pods: tuple[Manifest, ...] = ()
    secrets: tuple[Manifest, ...] = ()
    config_maps: tuple[Manifest, ...] = ()
    client_policies: tuple[Manifest, ...] = ()


@dataclass(frozen=True, slots=True)
class Tables:
    """Envoy's configuration; `problems` are sentences about routes that lead nowhere, by namespace and name."""

    listeners: tuple[Json, ...]
    routes: dict[str, Json]
    """By name, for each Gateway that listens (`table_of`)."""
    clusters: dict[str, Json]
    problems: dict[Key, str]


@dataclass(frozen=True, slots=True)
class Target:
    """Where a reference leads: a cluster of that name, and what the processing filter does on the way."""

    name: str
    clusters: tuple[Json, ...]
    picking: Json | None = None


def tables(seen: Seen, place: Place) -> Tables:
    directory = _Directory(seen)
    made: dict[int, Json] = {}
    routes: dict[str, Json] = {}
    for gateway in sorted(seen.gateways, key=_age):
        own = {port: each for port, each in _listeners(gateway, seen, place).items() if port not in made}
        made |= own
        attached = [route for route in seen.routes if is_parent(gateway, route)]
        entries = sorted(_entries(attached, directory), key=lambda entry: entry.rank)
        if own:
            routes[table_of(gateway)] = _table(table_of(gateway), [entry.route for entry in entries])
    return Tables(tuple(made[port] for port in sorted(made)), routes, directory.clusters, directory.problems)


def _age(item: Manifest) -> tuple[str, str, str]:
    return text(item, "metadata", "creationTimestamp"), namespace_of(item), name_of(item)


def table_of(gateway: Manifest) -> str:
    return f"routes-{namespace_of(gateway)}-{name_of(gateway)}"


def is_parent(gateway: Manifest, route: Manifest) -> bool:
    return any(
        (text(ref, "namespace") or namespace_of(route), text(ref, "name")) == (namespace_of(gateway), name_of(gateway))
        for ref in items(route, "spec", "parentRefs")
    )


def _table(name: str, routes: Sequence[Json]) -> Json:
    return {
        "@type": f"{TYPES}.config.route.v3.RouteConfiguration",
        "name": name,
        "virtual_hosts": [{"name": "all", "domains": ["*"], "routes": list(routes)}],
    }


def _listeners(gateway: Manifest, seen: Seen, place: Place) -> dict[int, Json]:
    """By port. A listener for HTTPS that cannot serve is left out."""
    made: dict[int, Json] = {}
    table = table_of(gateway)
    for each in items(gateway, "spec", "listeners"):
        port = int(text(each, "port"))
        if text(each, "protocol") != "HTTPS":
            made[port] = http_listener(place, port, table)
            continue
        tls = transport_socket(gateway, each, seen.secrets, (seen.client_policies, seen.config_maps))
        if tls is not None:
            made[port] = http_listener(place, port, table, tls)
    return made


@dataclass(frozen=True, slots=True)
class _Entry:
    """One route of Envoy; the lowest rank is matched first."""

    rank: tuple[int, int, str, str]
    route: Json


@dataclass(slots=True)
class _Directory:
    """Everything that routes refer to, and the clusters made of what they do refer to."""

    seen: Seen
    clusters: dict[str, Json] = field(default_factory=dict)
    problems: dict[Key, str] = field(default_factory=dict)

    def target(self, route: Manifest, ref: Manifest) -> Target | None:
        """None, and a problem of the route, where the reference leads nowhere."""
        group, kind = text(ref, "group"), text(ref, "kind") or "Service"
        key = (text(ref, "namespace") or namespace_of(route), text(ref, "name"))
        found = {"Service": self._service, "Backend": self._backend, "InferencePool": self._pool}.get(kind)
        made = found(key, ref) if found is not None else f"{group} {kind} is no kind of backend here"
        if isinstance(made, str):
            self.problems[namespace_of(route), name_of(route)] = made
            return None
        self.clusters |= {str(cluster["name"]): cluster for cluster in made.clusters}
        return made

    def _service(self, key: Key, ref: Manifest) -> Target | str:
        addresses = self.endpoints(key, text(ref, "port"))
        if addresses is None:
            return f"Service {'/'.join(key)} is not there, or has no port {text(ref, 'port')}"
        name = f"Service/{'/'.join(key)}/{text(ref, 'port')}"
        return Target(name, (static_cluster(name, addresses),))

    def endpoints(self, key: Key, number: str) -> list[str] | None:
        """Ready addresses behind a port of a Service; None where there is no such port."""
        service = _named(self.seen.services, key)
        port = next((each for each in items(service, "spec", "ports") if text(each, "port") == number), None)
        if port is None:
            return None
        pieces = [each for each in self.seen.slices if _service_of(each) == key]
        return sorted({address for piece in pieces for address in _ready(piece, text(port, "name"))})

    def _backend(self, key: Key, _: Manifest) -> Target | str:
        backend = _named(self.seen.backends, key)
        if backend is None:
            return f"Backend {'/'.join(key)} is not there"
        places = [each.get("ip") or each.get("fqdn") for each in items(backend, "spec", "endpoints")]
        hosts = [f"{text(each, 'address') or text(each, 'hostname')}:{text(each, 'port')}" for each in places]
        name = f"Backend/{'/'.join(key)}"
        by_name = any(isinstance(each.get("fqdn"), dict) for each in items(backend, "spec", "endpoints"))
        return Target(name, (static_cluster(name, hosts) | ({"type": "STRICT_DNS"} if by_name else {}),))

    def _pool(self, key: Key, _: Manifest) -> Target | str:
        pool = _named(self.seen.pools, key)
        if pool is None:
            return f"InferencePool {'/'.join(key)} is not there"
        named = (key[0], text(pool, "spec", "endpointPickerRef", "name"))
        picker = self.endpoints(named, text(pool, "spec", "endpointPickerRef", "port", "number"))
        if picker is None:
            return f"the picker of InferencePool {'/'.join(key)} is no Service with such a port"
        name = f"InferencePool/{'/'.join(key)}"
        chosen = static_cluster(name, pool_members(pool, self.seen.pods)) | {"load_balancing_policy": as_picked()}
        asked = picker_cluster(f"picker/{'/'.join(key)}", picker)
        fails_open = text(pool, "spec", "endpointPickerRef", "failureMode") == _FAILS_OPEN
        return Target(name, (chosen, asked), picker_overrides(str(asked["name"]), fails_open=fails_open))


def pool_members(pool: Manifest, pods: Iterable[Manifest]) -> list[str]:
    """Every port of the pool on every ready pod of it."""
    labels = value(pool, "spec", "selector", "matchLabels")
    wanted = labels.items() if isinstance(labels, dict) else ()
    ports = [text(each, "number") for each in items(pool, "spec", "targetPorts")]
    members = [
        pod
        for pod in pods
        if namespace_of(pod) == namespace_of(pool)
        and all(value(pod, "metadata", "labels", name) == content for name, content in wanted)
        and condition(pod, "Ready") == "True"
        and not text(pod, "metadata", "deletionTimestamp")
    ]
    return sorted(f"{text(pod, 'status', 'podIP')}:{port}" for pod in members for port in ports)


def _named(found: Iterable[Manifest], key: Key) -> Manifest | None:
    return next((item for item in found if (namespace_of(item), name_of(item)) == key), None)


def _service_of(piece: Manifest) -> Key:
    return namespace_of(piece), text(piece, "metadata", "labels", "kubernetes.io/service-name")


def ready_addresses(slices: Iterable[Manifest], key: Key) -> list[str] | None:
    """Those behind a Service, without a port; None where there is no such Service."""
    pieces = [each for each in slices if _service_of(each) == key]
    return sorted({address for piece in pieces for address in _hosts(piece)}) if pieces else None


def _ready(piece: Manifest, port_name: str) -> Iterator[str]:
    numbers = [text(each, "port") for each in items(piece, "ports") if text(each, "name") == port_name]
    yield from (f"{host}:{number}" for host in _hosts(piece) for number in numbers)


def _hosts(piece: Manifest) -> Iterator[str]:
    for endpoint in items(piece, "endpoints"):
        addresses = endpoint.get("addresses")
        if value(endpoint, "conditions", "ready") is not False and isinstance(addresses, list):
            yield str(addresses[0])


def _entries(routes: Iterable[Manifest], directory: _Directory) -> Iterator[_Entry]:
    for route in routes:
        for rule in items(route, "spec", "rules"):
            action = _action(route, rule, directory)
            for match in items(rule, "matches"):
                headers = [_header(each) for each in items(match, "headers")]
                prefix = text(match, "path", "value").rstrip("/")
                rank = (-len(prefix), -len(headers), namespace_of(route), name_of(route))
                for path, rewrite in paths(prefix, _replacement(rule)):
                    yield _Entry(rank, {"match": {**path, "headers": headers}, **_rewritten(action, rewrite)})


def _header(match: Manifest) -> Json:
    content = text(match, "value")
    is_pattern = text(match, "type") == "RegularExpression"
    return {
        "name": text(match, "name"),
        "string_match": {"safe_regex": {"regex": content}} if is_pattern else {"exact": content},
    }


def paths(prefix: str, replacement: str | None) -> Iterator[tuple[Json, str | None]]:
    """Envoy's matches for a prefix of whole elements, each with what replaces it.

    A prefix that the root replaces takes the slash after it along, hence two matches.
    """
    target = None if replacement is None else replacement.rstrip("/")
    if not prefix:
        yield {"prefix": "/"}, None if target is None else f"{target}/"
    elif target == "":
        yield {"path": prefix}, "/"
        yield {"prefix": f"{prefix}/"}, "/"
    else:
        yield {"path_separated_prefix": prefix}, target


def _replacement(rule: Manifest) -> str | None:
    found = (value(each, "urlRewrite", "path", "replacePrefixMatch") for each in items(rule, "filters"))
    return next((str(each) for each in found if each is not None), None)


def _rewritten(action: Json, rewrite: str | None) -> Json:
    routed = action.get("route")
    if rewrite is None or not isinstance(routed, dict):
        return action
    return {**action, "route": {**routed, "prefix_rewrite": rewrite}}


def _action(route: Manifest, rule: Manifest, directory: _Directory) -> Json:
    weighted, picked = [], False
    for ref in items(rule, "backendRefs"):
        weight = int(text(ref, "weight") or "1")
        target = directory.target(route, ref)
        if target is not None and weight:
            weighted.append(_weighted(ref, target, weight))
            picked = picked or target.picking is not None
    if not weighted:
        return {"direct_response": {"status": 503, "body": {"inline_string": NO_BACKEND}}}
    # Another try would go to another pod than the picker named, which may be one that cannot answer.
    retries = {} if picked else {"retry_policy": _RETRY}
    return {"route": {"weighted_clusters": {"clusters": weighted}, "timeout": "0s", **retries}, **_headers(rule)}


def _headers(holder: Manifest) -> Json:
    """What the filters of a rule or of a reference make of a request's headers."""
    headers = [
        {"header": {"key": text(each, "name"), "value": text(each, "value").replace("%", "%%")}}
        | {"append_action": "OVERWRITE_IF_EXISTS_OR_ADD"}
        for filters in items(holder, "filters")
        for each in items(filters, "requestHeaderModifier", "set")
    ]
    named = [value(filters, "requestHeaderModifier", "remove") for filters in items(holder, "filters")]
    removed = [name for names in named if isinstance(names, list) for name in names]
    return {"request_headers_to_add": headers, **({"request_headers_to_remove": removed} if removed else {})}


def _weighted(ref: Manifest, target: Target, weight: int) -> Json:
    made: Json = {"name": target.name, "weight": weight, **_headers(ref)}
    return made if target.picking is None else {**made, "typed_per_filter_config": {PICKER: target.picking}}
