"""Trees of objects, as `modelplane trace` shows them, made from those that belong to one: a fleet has too many."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress

from modelplane.api.codec import decode
from modelplane.api.errors import InputError, NotFoundError
from modelplane.api.models import BoundPod, InferenceCluster, ModelReplica
from modelplane.api.objects import Manifest, items_at, text_at
from modelplane.compose.placed_replica import placed_replica
from modelplane.views.object_tree import ObjectTree, TracedObjects
from modelplane.web.snapshot import DashboardSnapshot, ObjectPlace

MAX_BRANCHES = 100
"""Replicas or endpoints of a tree. The rest is counted."""
_Manifests = Iterator[Manifest]


def object_tree(snapshot: DashboardSnapshot, kind: str, place: ObjectPlace) -> tuple[ObjectTree, int]:
    """The tree, and how many branches are not in it. NotFoundError where the object does not exist."""
    if place not in snapshot.objects[kind]:
        raise NotFoundError(f"{kind} {f'{place[0]}/' if place[0] else ''}{place[1]} does not exist")
    branches, related = _RELATED[kind](snapshot, place)
    shown = branches[:MAX_BRANCHES]
    traced = TracedObjects.of([snapshot.objects[kind][place], *related(shown)])
    return traced.tree(kind, *place), len(branches) - len(shown)


_Related = tuple[Sequence[ObjectPlace], Callable[[Sequence[ObjectPlace]], _Manifests]]


def _of_deployment(snapshot: DashboardSnapshot, place: ObjectPlace) -> _Related:
    def related(replicas: Sequence[ObjectPlace]) -> _Manifests:
        yield from _with_endpoints(snapshot, replicas)
        yield from _clusters(snapshot, replicas)
        yield from _in_namespaces(snapshot, "ModelCache", {place[0]})

    return worst_first(snapshot, snapshot.replicas_of.get(place, ())), related


def _of_cluster(snapshot: DashboardSnapshot, place: ObjectPlace) -> _Related:
    def related(replicas: Sequence[ObjectPlace]) -> _Manifests:
        yield from _with_endpoints(snapshot, replicas)

    return worst_first(snapshot, snapshot.replicas_on.get(place, ())), related


def _of_service(snapshot: DashboardSnapshot, place: ObjectPlace) -> _Related:
    tiers = items_at(snapshot.objects["ModelService"][place], "status", "tiers")
    endpoints = [(place[0], text_at(entry, "name")) for tier in tiers for entry in items_at(tier, "endpoints")]

    def related(shown: Sequence[ObjectPlace]) -> _Manifests:
        found = [item for each in shown if (item := snapshot.objects["ModelEndpoint"].get(each)) is not None]
        replicas = {(place[0], text_at(item, "spec", "replica", "name")) for item in found}
        yield from found
        yield from _named(snapshot, "ModelReplica", replicas)
        yield from _clusters(snapshot, replicas)

    return endpoints, related


_RELATED = {"ModelDeployment": _of_deployment, "InferenceCluster": _of_cluster, "ModelService": _of_service}


def worst_first(snapshot: DashboardSnapshot, replicas: Sequence[ObjectPlace]) -> Sequence[ObjectPlace]:
    """Those that are not ready first, where not all can be shown."""
    if len(replicas) <= MAX_BRANCHES:
        return replicas
    return sorted(replicas, key=lambda place: place in snapshot.ready_replicas)


def _with_endpoints(snapshot: DashboardSnapshot, replicas: Sequence[ObjectPlace]) -> _Manifests:
    """Replicas with their endpoints, and the services that have these or say nothing yet."""
    endpoints = [each for replica in replicas for each in snapshot.endpoints_of.get(replica, ())]
    new = {(namespace, "") for namespace, _ in replicas}
    services = {each for key in (*endpoints, *new) for each in snapshot.services_of.get(key, ())}
    yield from _named(snapshot, "ModelReplica", replicas)
    yield from _named(snapshot, "ModelEndpoint", endpoints)
    yield from _named(snapshot, "ModelService", services)


def _clusters(snapshot: DashboardSnapshot, replicas: Iterable[ObjectPlace]) -> _Manifests:
    items = _named(snapshot, "ModelReplica", replicas)
    yield from _named(snapshot, "InferenceCluster", {("", text_at(item, "spec", "clusterName")) for item in items})


def _named(snapshot: DashboardSnapshot, kind: str, places: Iterable[ObjectPlace]) -> _Manifests:
    known = snapshot.objects[kind]
    return (known[place] for place in places if place in known)


def _in_namespaces(snapshot: DashboardSnapshot, kind: str, namespaces: set[str]) -> _Manifests:
    return (item for place, item in snapshot.objects[kind].items() if place[0] in namespaces)


def digests_of(snapshot: DashboardSnapshot, replicas: Iterable[ObjectPlace]) -> dict[str, ObjectPlace]:
    """Replicas by the digest that `status.boundPods` of a cluster names them by."""
    found: dict[str, ObjectPlace] = {}
    for place in replicas:
        with suppress(InputError, KeyError):
            found[placed_replica(decode(ModelReplica, snapshot.objects["ModelReplica"][place])).digest] = place
    return found


def bound_pods_of(snapshot: DashboardSnapshot, cluster: str) -> tuple[BoundPod, ...]:
    item = snapshot.objects["InferenceCluster"].get(("", cluster))
    return decode(InferenceCluster, item).status.bound_pods if item is not None else ()
