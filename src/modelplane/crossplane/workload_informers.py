"""Informers of the workload clusters: their Nodes, ResourceSlices, ResourceClaims, queues, claims, and pods.

Of pods only those of replicas and of loaders are listed, and of each only what its cause depends on is kept, so a pod
in back-off changes nothing.

Each cluster is watched with the kubeconfig that it was adopted with. While one cannot be reached, nothing is known of
it: unknown is not absent, and its declared capacity counts. When a watch fails and the Secret holds another kubeconfig
by then, as after a rotation, the cluster is watched with that one.
"""

import asyncio
import base64
import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Protocol

import msgspec
import xxhash

from modelplane.api.codec import decode
from modelplane.api.errors import InputError
from modelplane.api.labels import ALLOW_INSECURE, CACHE, POOL, REPLICA, SYSTEM_NAMESPACE
from modelplane.api.meta import ClusterName
from modelplane.api.models import InferenceCluster
from modelplane.api.objects import Manifest, annotations_of, labels_of, namespace_of, text_at, value_at
from modelplane.compose.admission_causes import trimmed_workload
from modelplane.compose.caching.progress import trimmed_loader
from modelplane.compose.context import TENANT_PREFIX
from modelplane.compose.contract import Requirement
from modelplane.compose.pod_causes import trimmed
from modelplane.crossplane.access import access_of
from modelplane.crossplane.loader_logs import LoaderLogs
from modelplane.crossplane.pod_index import PodIndex
from modelplane.kube import (
    API_SERVERS,
    BadConfig,
    ChangeKind,
    GroupVersionResource,
    Informer,
    InformerEvent,
    KubeClient,
    KubeError,
    Listener,
    NamespacedName,
    Query,
    config_of,
)
from modelplane.reconcile.log_lines import about
from modelplane.reconcile.log_reasons import LogReason

if TYPE_CHECKING:
    from modelplane.kube.config import ClientConfig

_log = logging.getLogger(__name__)
_SECRETS = GroupVersionResource("", "v1", "secrets")
PODS = GroupVersionResource("", "v1", "pods")
_REPLICA_PODS, _LOADER_PODS = Query(PODS, labels=REPLICA), Query(PODS, labels=CACHE)
"""Most pods of a cluster are not ours."""
_WORKLOADS, _VOLUME_CLAIMS = "workloads", "persistentvolumeclaims"
_encode = msgspec.json.Encoder().encode


class _WatchedCluster(msgspec.Struct):
    secret: tuple[str, str]
    task: "asyncio.Task[None]"
    restart: asyncio.Event
    informers: dict[Query, Informer[bytes]]
    pods: dict[Query, PodIndex]


class WorkloadListener(Protocol):
    """Whom a change on a workload cluster concerns.

    Replicas and caches are named by their namespace there and their name; an empty name means any of the namespace.
    """

    def cluster_changed(self, cluster: ClusterName) -> None: ...
    def replicas_changed(self, cluster: ClusterName, replicas: Collection[NamespacedName]) -> None: ...
    def caches_changed(self, cluster: ClusterName, caches: Collection[NamespacedName]) -> None: ...


class WorkloadInformers:
    """Runs in one event loop."""

    def __init__(
        self,
        client: KubeClient,
        listener: WorkloadListener,
        *,
        retry_s: float = 30.0,
        progress_s: float = 10.0,
    ) -> None:
        """`progress_s`: how often the logs of loaders are read."""
        self._client = client
        self._listener = listener
        self._retry_s, self._progress_s = retry_s, progress_s
        self._watched: dict[ClusterName, _WatchedCluster] = {}
        self._queries: dict[ClusterName, set[Query]] = {}

    def on_event(self, change: ChangeKind, cluster: Manifest) -> None:
        """Starts, restarts or stops watching an InferenceCluster."""
        name = ClusterName(text_at(cluster, "metadata", "name"))
        if change is ChangeKind.DELETED:
            self._drop(name)
            return
        secret = _kubeconfig(cluster)
        if secret is None:
            return
        known = self._watched.get(name)
        if known is not None and known.secret == secret:
            return
        self._drop(name)
        restart = asyncio.Event()
        task = asyncio.get_running_loop().create_task(self._run(name, secret, restart))
        self._watched[name] = _WatchedCluster(secret, task, restart, {}, {})
        if self._queries.get(name):
            restart.set()

    def _drop(self, name: ClusterName) -> None:
        known = self._watched.pop(name, None)
        if known is not None:
            known.task.cancel()

    async def close(self) -> None:
        tasks = [watched.task for watched in self._watched.values()]
        for name in list(self._watched):
            self._drop(name)
        await asyncio.gather(*tasks, return_exceptions=True)

    def find(self, requirement: Requirement) -> tuple[Manifest, ...] | None:
        """The objects of a kind on a cluster; None until listed. The first call for a kind starts its watch."""
        name = requirement.cluster
        watched = self._watched.get(name) if name is not None else None
        if name is None or watched is None:
            return None
        query = _query(requirement)
        queries = self._queries.setdefault(name, set())
        if query not in queries:
            queries.add(query)
            watched.task.get_loop().call_soon_threadsafe(watched.restart.set)
        informer = watched.informers.get(query)
        if informer is None or not informer.synced or informer.problem:
            return None
        pods = watched.pods.get(query)
        if pods is not None:
            owner = NamespacedName(requirement.namespace or "", requirement.labels.get(query.labels, ""))
            return tuple(msgspec.json.decode(packed) for packed in pods.of(owner))
        found = [packed for key, packed in list(informer.snapshot.items()) if _is_required(requirement, key)]
        return tuple(msgspec.json.decode(packed) for packed in found)

    def digest(self, name: ClusterName) -> str:
        """A digest of what is watched on a cluster, less what matters to replicas and caches."""
        watched = self._watched.get(name)
        whole = xxhash.xxh3_64()
        for query, informer in sorted((watched.informers if watched else {}).items(), key=lambda item: str(item[0])):
            if query.kind == PODS or query.kind.plural in {_WORKLOADS, _VOLUME_CLAIMS}:
                continue
            whole.update(f"{query.kind} {informer.synced and not informer.problem}".encode())
            for key, packed in sorted(informer.snapshot.items()):
                whole.update(f"{key}".encode() + packed)
        return whole.hexdigest()

    async def _run(self, name: ClusterName, secret: tuple[str, str], restart: asyncio.Event) -> None:
        """Until cancelled. The kubeconfig is read again after each failure."""
        await restart.wait()
        while True:
            try:
                config = await self._credentials(secret)
            except (KubeError, BadConfig) as problem:
                extra = about(LogReason.NOT_WATCHED, "InferenceCluster", name, error=str(problem))
                _log.warning("cluster not watched", extra=extra)
                await asyncio.sleep(self._retry_s)
                continue
            client = KubeClient(config, outbound=API_SERVERS)
            rotated = asyncio.create_task(self._wait_rotated(name, secret, config))
            try:
                await self._watch(name, client, restart, rotated)
            finally:
                rotated.cancel()
                await client.close()

    async def _wait_rotated(self, name: ClusterName, secret: tuple[str, str], config: "ClientConfig") -> None:
        """Returns when a watch fails and the Secret holds another kubeconfig."""
        while True:
            await asyncio.sleep(self._retry_s)
            watched = self._watched.get(name)
            if watched is None or not any(informer.problem for informer in watched.informers.values()):
                continue
            with suppress(KubeError, BadConfig):
                if await self._credentials(secret) != config:
                    return

    async def _watch(
        self, name: ClusterName, client: KubeClient, restart: asyncio.Event, rotated: "asyncio.Task[None]"
    ) -> None:
        """Runs an informer for each kind, until `rotated`. A kind that is added restarts none of the others."""
        watched = self._watched[name]
        watched.informers, watched.pods = {}, {query: PodIndex(query.labels) for query in (_REPLICA_PODS, _LOADER_PODS)}
        loaders = watched.pods[_LOADER_PODS]
        logs = LoaderLogs(client, loaders, partial(self._listener.caches_changed, name), every_s=self._progress_s)
        tasks = [asyncio.create_task(logs.run())]
        try:
            while not rotated.done():
                restart.clear()
                for query in self._queries[name] - watched.informers.keys():
                    informer = Informer(client, query, _trim_of(query))
                    watched.informers[query] = informer
                    informer.listen(self._on_events(name, query, watched.pods))
                    tasks.append(asyncio.create_task(informer.run()))
                added = asyncio.create_task(restart.wait())
                try:
                    await asyncio.wait((added, rotated), return_when=asyncio.FIRST_COMPLETED)
                finally:
                    added.cancel()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _on_events(self, name: ClusterName, query: Query, pods: Mapping[Query, PodIndex]) -> Listener[bytes]:
        listener = self._listener
        if query == _REPLICA_PODS:
            return lambda events: listener.replicas_changed(name, pods[query].apply(events))
        if query == _LOADER_PODS:
            return lambda events: listener.caches_changed(name, pods[query].apply(events))
        if query.kind.plural == _WORKLOADS:
            return lambda events: listener.replicas_changed(name, _namespaces(events))
        if query.kind.plural == _VOLUME_CLAIMS:
            return lambda events: listener.caches_changed(name, _namespaces(events))
        return lambda _events: listener.cluster_changed(name)

    async def _credentials(self, secret: tuple[str, str]) -> "ClientConfig":
        name, key = secret
        found = await self._client.get(_SECRETS, name, SYSTEM_NAMESPACE)
        place = f"Secret {SYSTEM_NAMESPACE}/{name}, key {key}"
        try:
            text = base64.b64decode(text_at(found, "data", key), validate=True).decode()
        except ValueError as broken:
            raise BadConfig(f"{place}: {broken}") from broken
        return config_of(text, place, insecure=annotations_of(found).get(ALLOW_INSECURE) == "true")


def _kubeconfig(cluster: Manifest) -> tuple[str, str] | None:
    """The Secret that suffices to reach a cluster. One that needs an identity besides is not watched."""
    try:
        access = access_of(decode(InferenceCluster, cluster))
    except InputError:
        return None
    if access is None or access.identity is not None:
        return None
    return access.kubeconfig.name, access.kubeconfig.key


def _query(requirement: Requirement) -> Query:
    group, _, version = requirement.api_version.rpartition("/")
    singular = requirement.kind.lower()
    kind = GroupVersionResource(group, version, f"{singular}es" if singular.endswith("s") else f"{singular}s")
    if kind != PODS:
        return Query(kind)
    return _LOADER_PODS if CACHE in requirement.labels else _REPLICA_PODS


def _is_required(requirement: Requirement, key: NamespacedName) -> bool:
    return requirement.namespace in {None, key.namespace} and requirement.name in {None, key.name}


def _namespaces(events: Iterable[InformerEvent[bytes]]) -> set[NamespacedName]:
    return {NamespacedName(event.key.namespace, "") for event in events}


def _trim_of(query: Query) -> Callable[[Manifest], bytes | None]:
    return _trim_loader if query == _LOADER_PODS else _TRIM.get(query.kind.plural, _trim)


def _trim(raw: Manifest) -> bytes:
    return _encode({"metadata": _metadata(raw, ("name", "namespace", "labels")), **_parts(raw, ("spec", "status"))})


def _trim_node(raw: Manifest) -> bytes:
    """Its labels, its kubelet and whether it takes pods: a Node changes in other fields every few seconds.

    Of a node in a pool all labels are kept, since the cluster says which one names its domain.
    """
    labels = labels_of(raw) if POOL in labels_of(raw) else {}
    conditions = value_at(raw, "status", "conditions")
    ready = [
        {"type": "Ready", "status": item.get("status")}
        for item in (conditions if isinstance(conditions, list) else ())
        if isinstance(item, Mapping) and item.get("type") == "Ready"
    ]
    spec = {"unschedulable": value_at(raw, "spec", "unschedulable") is True}
    name = text_at(raw, "metadata", "name")
    status = {"conditions": ready, "nodeInfo": {"kubeletVersion": text_at(raw, "status", "nodeInfo", "kubeletVersion")}}
    return _encode({"metadata": {"name": name, "labels": labels}, "spec": spec, "status": status})


def _trim_claim(raw: Manifest) -> bytes:
    results = value_at(raw, "status", "allocation", "devices", "results")
    allocation = {"devices": {"results": results}} if results else None
    metadata = _metadata(raw, ("name", "namespace", "labels"))
    return _encode({"metadata": metadata, "status": {"allocation": allocation}})


def _trim_pod(raw: Manifest) -> bytes:
    return _encode(trimmed(raw))


def _trim_loader(raw: Manifest) -> bytes:
    return _encode(trimmed_loader(raw))


def _trim_volume_claim(raw: Manifest) -> bytes | None:
    """Those of tenants, with their phase: sizes and annotations change for reasons of others."""
    if not namespace_of(raw).startswith(TENANT_PREFIX):
        return None
    phase = {"phase": text_at(raw, "status", "phase")}
    return _encode({"metadata": _metadata(raw, ("name", "namespace")), "status": phase})


def _trim_workload(raw: Manifest) -> bytes | None:
    """Of Kueue's Workloads those of tenants: a cluster may have thousands for batch jobs."""
    return _encode(trimmed_workload(raw)) if namespace_of(raw).startswith(TENANT_PREFIX) else None


_TRIM: Mapping[str, Callable[[Manifest], bytes | None]] = {
    "nodes": _trim_node,
    "resourceclaims": _trim_claim,
    "pods": _trim_pod,
    _WORKLOADS: _trim_workload,
    _VOLUME_CLAIMS: _trim_volume_claim,
}


def _metadata(raw: Manifest, names: tuple[str, ...]) -> dict[str, object]:
    found = raw.get("metadata")
    return {name: found[name] for name in names if name in found} if isinstance(found, Mapping) else {}


def _parts(raw: Manifest, names: tuple[str, ...]) -> dict[str, object]:
    return {name: raw[name] for name in names if name in raw}
