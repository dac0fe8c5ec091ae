"""From HTTPRoutes to Envoy's ordered list of routes.

Gateway API has no order of rules across routes; it ranks matches. Envoy takes the first entry that matches, so the
ranking becomes the order: exact paths, then longer prefixes, then more headers, then older routes, then by name, then
as written. Each match of a rule is an entry of its own.

A request that one backend of a rule did not serve is sent to another (see `merge` and `retries`), unless an engine
received it.

Deliberate differences from Gateway API: traffic of a backend that cannot serve (missing, refused, nothing ready) goes
to the other backends of its rule instead of failing in proportion, and a rule without a usable backend returns 503 and
not 500, so that clients retry. There is no request timeout by default: a generation may stream as long as it makes
progress.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from modelplane.envoy import objects
from modelplane.envoy.ext_proc import ext_proc_override
from modelplane.envoy.merge import Part, merge_backends, removed_headers
from modelplane.envoy.objects import BackendRef, HeaderChange, HeaderValue, HttpRoute, HTTPRouteRule, UnsupportedError
from modelplane.envoy.pools import EnvoyCluster, UnresolvedRef
from modelplane.envoy.retries import retry_policy
from modelplane.envoy.view import Resource

Resolve = Callable[[BackendRef, objects.GatewayObjectMeta], EnvoyCluster | UnresolvedRef]

_SECONDS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
_DURATION = re.compile(r"(\d+)(ms|h|m|s)")

NOT_FOUND: Resource = {
    "match": {"prefix": "/"},
    "direct_response": {"status": 404, "body": {"inline_string": "not found"}},
}


def other_hosts(hostname: str) -> Resource:
    """The entry that takes every request which calls the gateway by another name; it comes before all others."""
    first, star, rest = hostname.rpartition("*")
    labels = r"[^:]+" if star else ""
    named = {"safe_regex": {"regex": f"(?i){re.escape(first)}{labels}{re.escape(rest)}(:[0-9]+)?"}}
    host = {"name": ":authority", "string_match": named, "invert_match": True}
    return {**NOT_FOUND, "match": {"prefix": "/", "headers": [host]}}


@dataclass(frozen=True, slots=True)
class RankedRoute:
    """One Envoy route with its rank and its clusters; the lowest rank is matched first."""

    rank: tuple[bool, int, int, str, str, str, int]
    resource: Resource
    pools: tuple[EnvoyCluster, ...] = ()


def entries(route: HttpRoute, resolve: Resolve, gateway: str = "") -> Iterator[RankedRoute]:
    """Every match of every rule of one HTTPRoute, on the gateway of that name."""
    meta = route.metadata
    for number, rule in enumerate(route.spec.rules):
        replacement, hostname = _rewrite(rule, number)
        parts = [(ref, pool) for ref in rule.backend_refs if ref.weight > 0 for pool in _usable(resolve(ref, meta))]
        together = merge_backends(f"{gateway}/HTTPRoute/{meta.namespace}/{meta.name}/{number}", parts)
        action = _action(route, rule, parts, together, hostname)
        pools = (together,) if together is not None else tuple(pool for _, pool in parts)
        age = (meta.creation_timestamp or "", meta.namespace, meta.name, number)
        for match in rule.matches:
            for resource in _matched(match, replacement, action):
                yield RankedRoute((*_specificity(match), *age), resource, pools)


def _specificity(match: objects.RouteMatch) -> tuple[bool, int, int]:
    return match.path.type != "Exact", -len(match.path.value), -len(match.headers)


def _matched(match: objects.RouteMatch, replacement: str | None, action: Resource) -> Iterator[Resource]:
    for path, rewrite in _paths(match.path, replacement):
        headers = [{"name": one.name, "string_match": {"exact": one.value}} for one in match.headers]
        routed = action.get("route")
        if isinstance(routed, dict) and rewrite is not None:
            yield {"match": path | {"headers": headers}} | action | {"route": routed | {"prefix_rewrite": rewrite}}
        else:
            yield {"match": path | {"headers": headers}} | action


def _paths(path: objects.PathMatch, replacement: str | None) -> Iterator[tuple[Resource, str | None]]:
    """Envoy's path matches for one of ours, each with what replaces the matched part.

    A prefix matches whole segments only. When it is replaced by the root, the slash after it is removed as well, which
    takes two entries: `/a` alone, and `/a/` with the rest.
    """
    prefix = path.value.rstrip("/")
    target = None if replacement is None else replacement.rstrip("/")
    if path.type == "Exact":
        yield {"path": path.value}, None
    elif not prefix:
        yield {"prefix": "/"}, None if target is None else f"{target}/"
    elif target == "":
        yield {"path": prefix}, "/"
        yield {"prefix": f"{prefix}/"}, "/"
    else:
        yield {"path_separated_prefix": prefix}, target


def _rewrite(rule: HTTPRouteRule, number: int) -> tuple[str | None, str | None]:
    """The replacements of the path's prefix and of the host."""
    rewrites = [one.url_rewrite for one in rule.filters if isinstance(one, objects.RewriteFilter)]
    if not rewrites:
        return None, None
    path = rewrites[0].path
    if len(rewrites) > 1 or (path and any(match.path.type != "PathPrefix" for match in rule.matches)):
        raise UnsupportedError(f"spec.rules[{number}].filters: one URLRewrite, and only with PathPrefix matches")
    return (path.replace_prefix_match if path else None), rewrites[0].hostname


def _usable(found: EnvoyCluster | UnresolvedRef) -> tuple[EnvoyCluster, ...]:
    """The cluster, if it has members and its picker can be called."""
    if not isinstance(found, EnvoyCluster) or not found.members:
        return ()
    return () if found.picker is not None and not found.picker.members else (found,)


def _action(
    route: HttpRoute, rule: HTTPRouteRule, parts: Sequence[Part], together: EnvoyCluster | None, hostname: str | None
) -> Resource:
    if not parts:
        sentence = f"No backend of {route.metadata.namespace}/{route.metadata.name} is ready to answer."
        return {"direct_response": {"status": 503, "body": {"inline_string": sentence}}}
    common: Resource = {"timeout": _timeout(rule), **({"host_rewrite_literal": hostname} if hostname else {})}
    retries = retry_policy((together,) if together is not None else [pool for _, pool in parts])
    if retries is not None:
        common["retry_policy"] = retries
    if together is None:
        usable = [_weighted(rule, ref, pool) for ref, pool in parts]
        return {"route": {"weighted_clusters": {"clusters": usable}, **common}}
    changes = [one.request_header_modifier for one in rule.filters if isinstance(one, objects.HeaderFilter)]
    changes.append(HeaderChange(remove=removed_headers(parts[0][0])))
    return {"route": {"cluster": together.name, **common}, **_header_changes(changes)}


def _weighted(rule: HTTPRouteRule, ref: BackendRef, pool: EnvoyCluster) -> Resource:
    changes = [one.request_header_modifier for one in rule.filters if isinstance(one, objects.HeaderFilter)]
    changes += ref.header_changes()
    for name, value, overwrite in pool.added:
        given = (HeaderValue(name, value),)
        changes.append(HeaderChange(set=given) if overwrite else HeaderChange(add=given))
    picked: Resource = {"typed_per_filter_config": ext_proc_override(pool.picker)} if pool.picker is not None else {}
    return {"name": pool.name, "weight": ref.weight, **picked} | _header_changes(changes)


def _header_changes(changes: list[HeaderChange]) -> Resource:
    """All changes in one place, the backend's after its rule's.

    Envoy would run a route's own changes after those of the chosen backend, and every removal before every addition,
    so the order is kept here: a removal undoes what came before it.
    """
    added: list[tuple[HeaderValue, str]] = []
    removed: list[str] = []
    for change in changes:
        dropped = {name.lower() for name in change.remove}
        added = [(one, action) for one, action in added if one.name.lower() not in dropped]
        added += [(one, "OVERWRITE_IF_EXISTS_OR_ADD") for one in change.set]
        added += [(one, "APPEND_IF_EXISTS_OR_ADD") for one in change.add]
        removed += change.remove
    return {
        "request_headers_to_add": [_header(one, action) for one, action in added],
        "request_headers_to_remove": removed,
    }


def _header(value: HeaderValue, action: str) -> Resource:
    # A percent sign begins a variable in Envoy.
    return {"header": {"key": value.name, "value": value.value.replace("%", "%%")}, "append_action": action}


def _timeout(rule: HTTPRouteRule) -> str:
    text = (rule.timeouts.request if rule.timeouts else None) or "0s"
    seconds = sum(int(number) * _SECONDS[unit] for number, unit in _DURATION.findall(text))
    return f"{seconds:.3f}s"
