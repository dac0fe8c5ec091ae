"""What an object leads to: from what was declared over replicas and endpoints to services, each in its own words.

    ModelDeployment   its caches and its replicas
    ModelReplica      its cluster and its endpoints
    ModelEndpoint     the services that select it
    ModelService      its endpoints, each with its replica and that one's cluster; deployments that give it none yet
    ModelCache        the deployments that mount it
    InferenceCluster  the replicas on it

Pods are no objects of a control plane: a replica says what they wait for. An object that cannot be read, as one of
another release, is a row that says so where its plain fields put it, and hides no other.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeVar

import msgspec

from modelplane.api.codec import decode
from modelplane.api.errors import InvalidObject, NotFoundError
from modelplane.api.labels import DEPLOYMENT, selects
from modelplane.api.models import (
    InferenceCluster,
    ModelCache,
    ModelDeployment,
    ModelEndpoint,
    ModelReplica,
    ModelService,
)
from modelplane.api.objects import Manifest, items_at, labels_of, mapping_at, name_of, namespace_of, text_at
from modelplane.api.reasons import Reason
from modelplane.views.health import (
    ObjectHealth,
    cluster_health,
    object_health,
    reported_health,
    state_since,
    unreadable,
)
from modelplane.views.services import why_left_out
from modelplane.views.states import DELETING, UNKNOWN

TREE_KINDS: Final[Mapping[str, str]] = {
    "ModelDeployment": "deployment",
    "ModelReplica": "replica",
    "ModelEndpoint": "endpoint",
    "ModelService": "service",
    "ModelCache": "cache",
    "InferenceCluster": "cluster",
}
"""The kinds of a tree, each with a word of ours for it."""
_MISSING = "it does not exist"
_Place = tuple[str, str]
_Object = InferenceCluster | ModelCache | ModelDeployment | ModelEndpoint | ModelReplica | ModelService
_Kind = TypeVar("_Kind", InferenceCluster, ModelCache, ModelDeployment, ModelEndpoint, ModelReplica, ModelService)


class ObjectTree(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    kind: str
    namespace: str = ""
    name: str
    state: str
    since: str = ""
    why: str = ""
    children: tuple["ObjectTree", ...] = ()

    def rows(self, lead: str = "", mark: str = "") -> Iterator[tuple[str, "ObjectTree"]]:
        """Each object with the lines that lead to it, from the root down."""
        yield f"{lead}{mark}{self.kind}/{self.name}", self
        below = lead + {"": "", "├─ ": "│  ", "└─ ": "   "}[mark]
        for number, child in enumerate(self.children, 1):
            yield from child.rows(below, "└─ " if number == len(self.children) else "├─ ")


class UnreadObject(NamedTuple):
    """An object that could not be read, and why."""

    manifest: Manifest
    why: str

    def tree(self) -> ObjectTree:
        return ObjectTree(
            kind=text_at(self.manifest, "kind"),
            namespace=namespace_of(self.manifest),
            name=name_of(self.manifest),
            state=UNKNOWN,
            why=self.why,
        )


_Unread = dict[tuple[str, _Place], UnreadObject]
"""By kind and place."""


@dataclass(frozen=True, slots=True)
class TracedObjects:
    """Objects by namespace and name."""

    deployments: Mapping[_Place, ModelDeployment] = field(default_factory=dict)
    replicas: Mapping[_Place, ModelReplica] = field(default_factory=dict)
    endpoints: Mapping[_Place, ModelEndpoint] = field(default_factory=dict)
    services: Mapping[_Place, ModelService] = field(default_factory=dict)
    caches: Mapping[_Place, ModelCache] = field(default_factory=dict)
    clusters: Mapping[_Place, InferenceCluster] = field(default_factory=dict)
    endpoints_of: Mapping[_Place, list[_Place]] = field(default_factory=dict)
    """The endpoints of each replica."""
    unread: _Unread = field(default_factory=dict)

    @classmethod
    def of(cls, manifests: Iterable[Manifest]) -> "TracedObjects":
        """Objects of other kinds are left alone."""
        found = sorted(manifests, key=lambda item: (namespace_of(item), name_of(item)))
        unread: _Unread = {}
        endpoints = _decoded(found, ModelEndpoint, unread)
        of_replicas: defaultdict[_Place, list[_Place]] = defaultdict(list)
        for place, endpoint in endpoints.items():
            of_replicas[place[0], _replica_of(endpoint)].append(place)
        return cls(
            _decoded(found, ModelDeployment, unread),
            _decoded(found, ModelReplica, unread),
            endpoints,
            _decoded(found, ModelService, unread),
            _decoded(found, ModelCache, unread),
            _decoded(found, InferenceCluster, unread),
            of_replicas,
            unread,
        )

    def tree(self, kind: str, namespace: str, name: str) -> ObjectTree:
        place = (namespace, name)
        unread = self.unread.get((kind, place))
        if unread is not None:
            return unread.tree()
        if place not in self._of_kind(kind):
            raise NotFoundError(f"{kind} {f'{namespace}/' if namespace else ''}{name} does not exist")
        return _TREES[kind](self, place)

    def _of_kind(self, kind: str) -> Mapping[_Place, _Object]:
        held: tuple[Mapping[_Place, _Object], ...] = (
            self.deployments,
            self.replicas,
            self.endpoints,
            self.services,
            self.caches,
            self.clusters,
        )
        return dict(zip(TREE_KINDS, held, strict=True))[kind]

    def deployment(self, place: _Place) -> ObjectTree:
        mounted = [self._cache((place[0], name)) for name in _caches_of(self.deployments[place])]
        return self._deployment(place, mounted)

    def replica(self, place: _Place) -> ObjectTree:
        cluster = self._cluster(self.replicas[place].spec.cluster_name)
        return _replica(self.replicas[place], [cluster, *self._endpoints(place)])

    def endpoint(self, place: _Place) -> ObjectTree:
        return _tree(self.endpoints[place], children=self._services(place))

    def service(self, place: _Place) -> ObjectTree:
        item = self.services[place]
        chosen = [each for each, endpoint in self.endpoints.items() if _selects(item, endpoint)]
        sources = [self._source(each, _left_out(item, each[1])) for each in chosen]
        unread = self._unread_of("ModelEndpoint", place[0], lambda each: _selects_labels(item, labels_of(each)))
        return _tree(item, children=[*sources, *self._without_endpoint(item, chosen), *unread])

    def _without_endpoint(self, service: ModelService, chosen: Iterable[_Place]) -> list[ObjectTree]:
        """Deployments whose replicas it would select, and of which none has an endpoint there."""
        behind = (self.replicas.get((place[0], _replica_of(self.endpoints[place]))) for place in chosen)
        there = {_owner(replica) for replica in behind if replica is not None}
        return [
            _explained(self._deployment(place), item)
            for place, item in self.deployments.items()
            if place[0] == service.metadata.namespace and place not in there and _would_select(service, item)
        ]

    def cache(self, place: _Place) -> ObjectTree:
        using = [
            each for each, item in self.deployments.items() if each[0] == place[0] and place[1] in _caches_of(item)
        ]
        unread = self._unread_of("ModelDeployment", place[0], lambda each: _mounts(each, place[1]))
        return _tree(self.caches[place], children=[*(self._deployment(each) for each in using), *unread])

    def cluster(self, place: _Place) -> ObjectTree:
        item = self.clusters[place]
        there = [(each, replica) for each, replica in self.replicas.items() if replica.spec.cluster_name == place[1]]
        children = [_replica(replica, self._endpoints(each)) for each, replica in there]
        unread = self._unread_of("ModelReplica", None, lambda each: text_at(each, "spec", "clusterName") == place[1])
        return _tree(item, cluster_health(item), [*children, *unread])

    def _deployment(self, place: _Place, before: Iterable[ObjectTree] = ()) -> ObjectTree:
        item = self.deployments[place]
        owned = [self.replica(each) for each, replica in self.replicas.items() if _owner(replica) == place]
        unread = self._unread_of("ModelReplica", place[0], lambda each: _owner_name(each) == place[1])
        return _tree(item, reported_health(item.metadata, item.status), [*before, *owned, *unread])

    def _endpoints(self, replica: _Place) -> list[ObjectTree]:
        found = [self.endpoint(each) for each in self.endpoints_of.get(replica, ())]
        unread = self._unread_of(
            "ModelEndpoint", replica[0], lambda each: text_at(each, "spec", "replica", "name") == replica[1]
        )
        return [*found, *unread]

    def _services(self, endpoint: _Place) -> list[ObjectTree]:
        chosen = [item for item in self.services.values() if _selects(item, self.endpoints[endpoint])]
        labels = self.endpoints[endpoint].metadata.labels
        unread = self._unread_of("ModelService", endpoint[0], lambda each: _may_select(each, labels))
        return [*(_tree(item, why=_left_out(item, endpoint[1])) for item in chosen), *unread]

    def _source(self, endpoint: _Place, why: str) -> ObjectTree:
        """An endpoint of a service with what it comes from. An external one comes from elsewhere."""
        item = self.endpoints[endpoint]
        name = _replica_of(item)
        if not name:
            return _tree(item, why=why)
        replica = self.replicas.get((endpoint[0], name))
        if replica is None:
            return _tree(item, children=[self._absent("ModelReplica", name, endpoint[0])], why=why)
        cluster = self._cluster(replica.spec.cluster_name)
        return _tree(item, children=[_replica(replica, [cluster])], why=why)

    def _cache(self, place: _Place) -> ObjectTree:
        item = self.caches.get(place)
        return self._absent("ModelCache", place[1], place[0]) if item is None else _tree(item)

    def _cluster(self, name: str) -> ObjectTree:
        item = self.clusters.get(("", name))
        return self._absent("InferenceCluster", name) if item is None else _tree(item, cluster_health(item))

    def _absent(self, kind: str, name: str, namespace: str = "") -> ObjectTree:
        """Of an object that is not among those that were read."""
        unread = self.unread.get((kind, (namespace, name)))
        return _missing(kind, name, namespace) if unread is None else unread.tree()

    def _unread_of(self, kind: str, namespace: str | None, belongs: Callable[[Manifest], bool]) -> list[ObjectTree]:
        """Those of a kind that their plain fields put here. None: of every namespace."""
        return [
            each.tree()
            for (known, place), each in self.unread.items()
            if known == kind and namespace in {None, place[0]} and belongs(each.manifest)
        ]


_TREES: Final[Mapping[str, Callable[[TracedObjects, _Place], ObjectTree]]] = {
    "ModelDeployment": TracedObjects.deployment,
    "ModelReplica": TracedObjects.replica,
    "ModelEndpoint": TracedObjects.endpoint,
    "ModelService": TracedObjects.service,
    "ModelCache": TracedObjects.cache,
    "InferenceCluster": TracedObjects.cluster,
}


def _decoded(manifests: Iterable[Manifest], kind: type[_Kind], unread: _Unread) -> dict[_Place, _Kind]:
    """Those that can be read; the others are added to `unread`."""
    found: dict[_Place, _Kind] = {}
    for item in manifests:
        if item.get("kind") != kind.__name__:
            continue
        place = (namespace_of(item), name_of(item))
        try:
            found[place] = decode(kind, item)
        except InvalidObject as error:
            unread[kind.__name__, place] = UnreadObject(item, unreadable(error).why)
    return found


def _tree(
    item: _Object, health: ObjectHealth | None = None, children: Iterable[ObjectTree] = (), why: str = ""
) -> ObjectTree:
    """`why` is what another object says of it, which is nearer to the question than its own words."""
    known = health or object_health(item.metadata, item.status.conditions)
    return ObjectTree(
        kind=item.kind,
        namespace=item.metadata.namespace,
        name=item.metadata.name,
        state=known.state,
        since=state_since(item.metadata, item.status.conditions),
        why=why or known.why,
        children=tuple(children),
    )


def _replica(item: ModelReplica, children: Iterable[ObjectTree]) -> ObjectTree:
    """Its status has a time of its own: since when it has its reason."""
    found = _tree(item, reported_health(item.metadata, item.status), children)
    if found.state == DELETING or not item.status.since:
        return found
    return msgspec.structs.replace(found, since=item.status.since)


def _explained(tree: ObjectTree, deployment: ModelDeployment) -> ObjectTree:
    """Zero replicas are fine for a deployment, and why its service has no endpoint."""
    if deployment.spec.replicas:
        return tree
    return msgspec.structs.replace(tree, why=f"{Reason.SCALED_TO_ZERO}: spec.replicas is 0")


def _missing(kind: str, name: str, namespace: str = "") -> ObjectTree:
    return ObjectTree(kind=kind, namespace=namespace, name=name, state=UNKNOWN, why=_MISSING)


def _owner(replica: ModelReplica) -> _Place:
    return replica.metadata.namespace, replica.spec.deployment.name if replica.spec.deployment else ""


def _owner_name(replica: Manifest) -> str:
    return text_at(replica, "spec", "deployment", "name") or labels_of(replica).get(DEPLOYMENT, "")


def _replica_of(endpoint: ModelEndpoint) -> str:
    return endpoint.spec.replica.name if endpoint.spec.replica else ""


def _caches_of(deployment: ModelDeployment) -> list[str]:
    spec = deployment.spec
    named = spec.template.spec.model_cache_ref if spec.template else None
    return [*(cache.name for cache in spec.caches), *([named.name] if named else [])]


def _selects(service: ModelService, endpoint: ModelEndpoint) -> bool:
    same = service.metadata.namespace == endpoint.metadata.namespace
    return same and _selects_labels(service, endpoint.metadata.labels)


def _selects_labels(service: ModelService, labels: Mapping[str, str]) -> bool:
    return any(selects(group.selector, labels) for group in service.spec.endpoints)


def _would_select(service: ModelService, deployment: ModelDeployment) -> bool:
    """Labels that endpoints get from their cluster are not known of a deployment, so these do not count."""
    template = deployment.spec.template
    labels = {**deployment.spec.labels, **(template.metadata.labels if template and template.metadata else {})}
    wanted = (group.selector.match_labels for group in service.spec.endpoints)
    shared = ([(key, value) for key, value in each.items() if key in labels] for each in wanted)
    return any(pairs and all(labels[key] == value for key, value in pairs) for pairs in shared)


def _may_select(service: Manifest, labels: Mapping[str, str]) -> bool:
    """As far as a service that cannot be read says: by the labels that it names."""
    wanted = (mapping_at(group, "selector", "matchLabels") for group in items_at(service, "spec", "endpoints"))
    return any(each.items() <= labels.items() for each in wanted)


def _mounts(deployment: Manifest, cache: str) -> bool:
    return any(text_at(each, "name") == cache for each in items_at(deployment, "spec", "caches"))


def _left_out(service: ModelService, endpoint: str) -> str:
    entries = (entry for tier in service.status.tiers for entry in tier.endpoints if entry.name == endpoint)
    return next((why_left_out(entry.reason or "", entry.message or "") for entry in entries), "")
