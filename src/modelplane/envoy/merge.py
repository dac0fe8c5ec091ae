"""Merges the backends of one rule into one cluster, so that a retry can reach another backend.

Envoy chooses among weighted clusters once per request, and retries only within the chosen one. Within a cluster it
chooses for each try. So backends that differ only in their addresses and the headers that they set become members of
one cluster, each with its weight and its headers; Envoy sets those on every try.

The cluster has the name of the rule, not of its members: a request between two tries when a backend is removed finds
the remaining ones. A Service is already one cluster, so a rule with a single backend is not merged.

Headers that all of them remove are removed by the route.

Not merged, and served as weighted clusters: names that Envoy resolves, backends with TLS, credentials or a picker, and
those that add headers, or do not all set and remove the same ones.
"""

from collections.abc import Sequence
from dataclasses import replace
from math import lcm

from modelplane.envoy.objects import BackendRef
from modelplane.envoy.pools import EnvoyCluster, PoolMember

_MOST = 2**31
"""The maximum sum of the weights in one cluster."""

Part = tuple[BackendRef, EnvoyCluster]


def merge_backends(name: str, parts: Sequence[Part]) -> EnvoyCluster | None:
    """One cluster of all backends, or None if they cannot be merged."""
    if not parts or any(map(_is_apart, parts)) or (len(parts) == 1 and parts[0][0].kind == "Service"):
        return None
    headers = [_headers(ref) for ref, _ in parts]
    first = headers[0]
    if first is None or any(found is None or found.keys() != first.keys() for found in headers):
        return None
    removed = {removed_headers(ref) for ref, _ in parts}
    if len(removed) > 1 or not first.keys().isdisjoint(*removed):
        return None
    scale = lcm(*(len(pool.members) for _, pool in parts))
    if sum(ref.weight for ref, _ in parts) * scale >= _MOST:
        return None
    members = [
        _member(member, ref.weight * scale // len(pool.members), found or {})
        for (ref, pool), found in zip(parts, headers, strict=True)
        for member in pool.members
    ]
    return EnvoyCluster(name, tuple(members))


def _is_apart(part: Part) -> bool:
    _, pool = part
    return pool.tls is not None or pool.picker is not None or bool(pool.added)


def _member(member: PoolMember, weight: int, headers: dict[str, str]) -> PoolMember:
    return replace(member, weight=weight, headers=tuple(sorted(headers.items())))


def _headers(ref: BackendRef) -> dict[str, str] | None:
    """The headers that the backend sets; None when it adds to them."""
    changes = ref.header_changes()
    if any(change.add for change in changes):
        return None
    return {value.name.lower(): value.value for change in changes for value in change.set}


def removed_headers(ref: BackendRef) -> tuple[str, ...]:
    return tuple(sorted({name.lower() for change in ref.header_changes() for name in change.remove}))
