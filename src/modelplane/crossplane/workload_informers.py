"""What workload clusters say of themselves: nodes, published devices, claims and queues, looked at directly.

A cluster is looked at with the kubeconfig that it was adopted with. One that cannot be reached keeps what was last seen
of it out of the answers: not known is not absent, and what was declared counts meanwhile.
"""

import asyncio
import base64
import binascii
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import msgspec
import structlog
import xxhash

from modelplane.api.labels import POOL, SYSTEM_NAMESPACE
from modelplane.api.meta import ClusterName
from modelplane.api.objects import Manifest, text_at, value_at
from modelplane.compose.contract import Requirement
from modelplane.kube import BadConfig, GroupVersionResource, Informer, KubeClient, KubeError, Query, config_of

if TYPE_CHECKING:
    from lightkube.config.kubeconfig import SingleConfig

_log = structlog.get_logger()
_SECRETS = GroupVersionResource("", "v1", "secrets")
_AGAIN_S = 30.0
_encode = msgspec.json.Encoder().encode


class _Watched(msgspec.Struct):
    """One cluster that is looked at."""

    secret: tuple[str, str]
    task: "asyncio.Task[None]"
    wanted: asyncio.Event
    informers: dict[GroupVersionResource, Informer[bytes]]


class Observatory:
    """`changed` hears the name of a cluster that shows something else. Runs in one event loop."""

    def __init__(self, client: KubeClient, changed: Callable[[ClusterName], None]) -> None:
        self._client = client
        self._changed = changed
        self._watched: dict[ClusterName, _Watched] = {}
        self._kinds: dict[ClusterName, set[GroupVersionResource]] = {}

    def follow(self, cluster: Manifest) -> None:
        """A cluster is there, or changed."""
        name = ClusterName(text_at(cluster, "metadata", "name"))
        reference = value_at(cluster, "spec", "cluster", "existing", "secretRef")
        if not isinstance(reference, Mapping):
            return
        secret = (str(reference.get("name")), str(reference.get("key") or "kubeconfig"))
        known = self._watched.get(name)
        if known is not None and known.secret == secret:
            return
        self.drop(name)
        wanted = asyncio.Event()
        task = asyncio.get_running_loop().create_task(self._look(name, secret, wanted))
        self._watched[name] = _Watched(secret, task, wanted, {})
        if self._kinds.get(name):
            wanted.set()

    def drop(self, name: ClusterName) -> None:
        known = self._watched.pop(name, None)
        if known is not None:
            known.task.cancel()

    async def close(self) -> None:
        tasks = [watched.task for watched in self._watched.values()]
        for name in list(self._watched):
            self.drop(name)
        await asyncio.gather(*tasks, return_exceptions=True)

    def find(self, requirement: Requirement) -> tuple[Manifest, ...] | None:
        """What is asked for of a cluster; None while it was not all seen. Asking for a kind starts the looking."""
        name = requirement.cluster
        watched = self._watched.get(name) if name is not None else None
        if name is None or watched is None:
            return None
        kind = _kind(requirement)
        kinds = self._kinds.setdefault(name, set())
        if kind not in kinds:
            kinds.add(kind)
            watched.task.get_loop().call_soon_threadsafe(watched.wanted.set)
        informer = watched.informers.get(kind)
        if informer is None or not informer.synced or informer.problem:
            return None
        return tuple(msgspec.json.decode(packed) for packed in list(informer.snapshot.values()))

    def digest(self, name: ClusterName) -> str:
        """What is seen of a cluster as one short text."""
        watched = self._watched.get(name)
        whole = xxhash.xxh3_64()
        for kind, informer in sorted((watched.informers if watched else {}).items(), key=lambda item: str(item[0])):
            whole.update(f"{kind} {informer.synced and not informer.problem}".encode())
            for key, packed in sorted(informer.snapshot.items()):
                whole.update(f"{key}".encode() + packed)
        return whole.hexdigest()

    async def _look(self, name: ClusterName, secret: tuple[str, str], wanted: asyncio.Event) -> None:
        """Until cancelled. Credentials are read anew whenever looking failed."""
        while True:
            await wanted.wait()
            try:
                client = KubeClient(await self._credentials(secret))
            except (KubeError, BadConfig) as problem:
                _log.warning("cluster not looked at", cluster=name, why=str(problem))
                await asyncio.sleep(_AGAIN_S)
                continue
            try:
                await self._watch(name, client, wanted)
            finally:
                await client.close()

    async def _watch(self, name: ClusterName, client: KubeClient, wanted: asyncio.Event) -> None:
        """Runs an informer for each kind that was asked for; starts over when one more is."""
        wanted.clear()
        watched = self._watched[name]
        watched.informers = {
            kind: Informer(client, Query(kind), _KEEP.get(kind.plural, _keep)) for kind in self._kinds[name]
        }
        for informer in watched.informers.values():
            informer.listen(lambda _events: self._changed(name))
        tasks = [asyncio.create_task(informer.run()) for informer in watched.informers.values()]
        try:
            await wanted.wait()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _credentials(self, secret: tuple[str, str]) -> "SingleConfig":
        name, key = secret
        found = await self._client.get(_SECRETS, name, SYSTEM_NAMESPACE)
        place = f"Secret {SYSTEM_NAMESPACE}/{name}, key {key}"
        try:
            text = base64.b64decode(text_at(found, "data", key), validate=True).decode()
        except (binascii.Error, UnicodeDecodeError) as broken:
            raise BadConfig(f"{place}: {broken}") from broken
        return config_of(text, place)


def _kind(requirement: Requirement) -> GroupVersionResource:
    group, _, version = requirement.api_version.rpartition("/")
    return GroupVersionResource(group, version, f"{requirement.kind.lower()}s")


def _keep(raw: Manifest) -> bytes:
    return _encode({"metadata": _metadata(raw, ("name", "namespace", "labels")), **_parts(raw, ("spec", "status"))})


def _keep_node(raw: Manifest) -> bytes:
    """Whether it takes pods, and its pool: a node reports much else, every few seconds."""
    labels = {POOL: text_at(raw, "metadata", "labels", POOL)}
    conditions = value_at(raw, "status", "conditions")
    ready = [
        {"type": "Ready", "status": item.get("status")}
        for item in (conditions if isinstance(conditions, list) else ())
        if isinstance(item, Mapping) and item.get("type") == "Ready"
    ]
    spec = {"unschedulable": value_at(raw, "spec", "unschedulable") is True}
    name = text_at(raw, "metadata", "name")
    return _encode({"metadata": {"name": name, "labels": labels}, "spec": spec, "status": {"conditions": ready}})


def _keep_claim(raw: Manifest) -> bytes:
    results = value_at(raw, "status", "allocation", "devices", "results")
    allocation = {"devices": {"results": results}} if results else None
    metadata = _metadata(raw, ("name", "namespace", "labels"))
    return _encode({"metadata": metadata, "status": {"allocation": allocation}})


_KEEP: Mapping[str, Callable[[Manifest], bytes]] = {"nodes": _keep_node, "resourceclaims": _keep_claim}


def _metadata(raw: Manifest, names: tuple[str, ...]) -> dict[str, object]:
    found = raw.get("metadata")
    return {name: found[name] for name in names if name in found} if isinstance(found, Mapping) else {}


def _parts(raw: Manifest, names: tuple[str, ...]) -> dict[str, object]:
    return {name: raw[name] for name in names if name in raw}
