"""What must not go before something else: Usages, which Crossplane's webhook enforces even when nobody is called.

A Usage costs Crossplane a look at it every half minute, so there are few: for what a route leads requests to, which
must not go before the route when the whole composite goes. The rest may then go in any order. A Usage is asked for only
when both of its objects are there, since it fails while one is missing. What a composer stops asking for while its
composite lives needs no Usage: it is held in the desired state until what it outlives, and what is not asked for any
longer either, is gone.

A Usage in a namespace cannot protect an object of the whole cluster unless it names a user, and one that names its own
composite waits for itself. So a cluster that replicas run on protects itself, for as long as it knows of any.
"""

from collections.abc import Collection, Container, Iterable, Iterator, Mapping

from modelplane.api.objects import Manifest
from modelplane.compose.contract import Desired, Use
from modelplane.crossplane.provider_objects import Carried, Composite

PREFIX = "usage-"
_ITSELF = f"{PREFIX}of-itself"
_API = "protection.crossplane.io/v1beta1"
_ROUTE = "HTTPRoute"


def usages(
    composite: Composite, desired: Mapping[str, Desired], seen: Mapping[str, Carried], uses: Iterable[Use]
) -> dict[str, Manifest]:
    """By composition key."""
    found = {f"{PREFIX}{key}-by-{by}": _between(composite, key, by, seen) for key, by in _pairs(desired, seen)}
    for use in uses:
        if use.namespace == composite.namespace:
            key = f"{PREFIX}{use.kind}-{use.namespace}-{use.name}".lower()
            found[key] = _of_another(composite, key, use)
    return found


def of_itself(composite: Composite, users: Collection[object] | None, composed: Container[str]) -> dict[str, Manifest]:
    """A composite of the whole cluster that others use. While it is not known who does, what is held stays held."""
    if not users and not (users is None and _ITSELF in composed):
        return {}
    of = _reference((composite.api_version, composite.kind, composite.name))
    return {_ITSELF: _usage("ClusterUsage", composite.name_for(_ITSELF), "", of, None, "replicas run on it")}


def _pairs(desired: Mapping[str, Desired], seen: Mapping[str, Carried]) -> Iterator[tuple[str, str]]:
    for key, item in desired.items():
        for by in item.outlives:
            if key in seen and by in seen and seen[by].observed.manifest.get("kind") == _ROUTE:
                yield key, by


def held_back(desired: Mapping[str, Desired], seen: Mapping[str, Carried]) -> dict[str, Desired]:
    """What is no longer asked for and must wait: something that it outlives is going, and still there."""
    return {
        key: Desired(carried.observed.target, carried.observed.ready, carried.outlives)
        for key, carried in seen.items()
        if key not in desired and any(by in seen and by not in desired for by in carried.outlives)
    }


def _between(composite: Composite, key: str, by: str, seen: Mapping[str, Carried]) -> Manifest:
    of, user = seen[key].reference, seen[by].reference
    name = composite.name_for(f"{key}-by-{by}")
    return _usage("Usage", name, composite.home, _reference(of), _reference(user), f"{by} goes before {key}")


def _of_another(composite: Composite, key: str, use: Use) -> Manifest:
    """Names no `by`: it goes with its composite.

    Crossplane deletes what a composite composed before the composite itself, so a Usage that waits for its own
    composite to go would wait for ever.
    """
    of = _reference((use.api_version, use.kind, use.name))
    reason = f"{composite.kind} {composite.name}: {use.reason}" if use.reason else f"{composite.kind} {composite.name}"
    kind = "Usage" if composite.namespace else "ClusterUsage"
    return _usage(kind, composite.name_for(key), composite.namespace, of, None, reason)


def _reference(item: tuple[str, str, str]) -> dict[str, object]:
    api_version, kind, name = item
    return {"apiVersion": api_version, "kind": kind, "resourceRef": {"name": name}}


def _usage(kind: str, name: str, namespace: str, of: object, by: object, reason: str) -> Manifest:
    metadata = {"name": name, "namespace": namespace} if namespace else {"name": name}
    spec = {"of": of, **({"by": by} if by else {}), "reason": reason, "replayDeletion": True}
    return {"apiVersion": _API, "kind": kind, "metadata": metadata, "spec": spec}
