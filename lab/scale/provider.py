"""Plays provider-kubernetes: says of every Object that its cluster took the manifest and that it is well.

It watches Objects as the provider does and writes their status through the same subresource, once for each generation.
What it leaves out are the workload clusters themselves.
"""

from __future__ import annotations

import asyncio
import contextlib
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

import aiohttp

from lab.client import ApiError, Manifest, text, value
from modelplane.kube import ChangeKind, GroupVersionResource, Informer, KubeClient, Query, load_config

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from lab.client import Api
    from modelplane.kube import InformerEvent, NamespacedName

_OBJECTS = GroupVersionResource("kubernetes.m.crossplane.io", "v1alpha1", "objects")
_WRITERS = 4
_WHEN = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class _Asked(NamedTuple):
    generation: int
    manifest: Mapping[str, object]


class Provider:
    """Runs until it is cancelled."""

    def __init__(self, api: Api, kubeconfig: Path) -> None:
        """Writes through `api`, watches by the kubeconfig."""
        self._api = api
        self._kubeconfig = kubeconfig
        self._written: dict[NamespacedName, int] = {}
        self._waiting: asyncio.Queue[NamespacedName] = asyncio.Queue()
        self._asked: dict[NamespacedName, _Asked] = {}
        self.writes = 0

    async def run(self) -> None:
        client = KubeClient(load_config(self._kubeconfig))
        informer: Informer[_Asked] = Informer(client, Query(_OBJECTS), _read)
        informer.listen(self._heard)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(informer.run())
                for _ in range(_WRITERS):
                    group.create_task(self._write())
        finally:
            await client.close()

    def _heard(self, events: Sequence[InformerEvent[_Asked]]) -> None:
        for event in events:
            if event.change is ChangeKind.DELETED:
                self._asked.pop(event.key, None)
                self._written.pop(event.key, None)
            elif self._written.get(event.key) != event.value.generation:
                self._asked[event.key] = event.value
                self._waiting.put_nowait(event.key)

    async def _write(self) -> None:
        while True:
            key = await self._waiting.get()
            asked = self._asked.get(key)
            if asked is None or self._written.get(key) == asked.generation:
                continue
            item: Manifest = {
                "apiVersion": f"{_OBJECTS.group}/{_OBJECTS.version}",
                "kind": "Object",
                "metadata": {"name": key.name, "namespace": key.namespace},
            }
            status = {"atProvider": {"manifest": there(asked.manifest)}, "conditions": _conditions()}
            try:
                await self._api.patch(item, {"status": status}, subresource="status")
            except (ApiError, aiohttp.ClientError, OSError, TimeoutError) as error:
                if isinstance(error, ApiError) and error.reason == "NotFound":
                    continue
                await asyncio.sleep(1.0)
                self._waiting.put_nowait(key)
                continue
            self._written[key] = asked.generation
            self.writes += 1


def _read(raw: Mapping[str, object]) -> _Asked | None:
    manifest = value(raw, "spec", "forProvider", "manifest")
    generation = value(raw, "metadata", "generation")
    if not isinstance(manifest, dict) or not isinstance(generation, int):
        return None
    return _Asked(generation, manifest)


def _conditions() -> list[Manifest]:
    return [
        {"type": kind, "status": "True", "reason": reason, "lastTransitionTime": _WHEN}
        for kind, reason in (("Synced", "ReconcileSuccess"), ("Ready", "Available"))
    ]


def there(manifest: Mapping[str, object]) -> Manifest:
    """The object as its cluster would show it once all is well with it."""
    statuses: dict[str, Manifest] = {
        "Gateway": {"addresses": [{"type": "IPAddress", "value": "192.0.2.1"}]},
        "HTTPRoute": {"parents": [{"conditions": _held("Accepted", "ResolvedRefs")}]},
        "Deployment": {
            "conditions": _held("Available"),
            **dict.fromkeys(("replicas", "updatedReplicas", "readyReplicas", "availableReplicas"), 1),
            "observedGeneration": 1,
        },
    }
    metadata = value(manifest, "metadata")
    known = metadata if isinstance(metadata, dict) else {}
    shown: Manifest = {**manifest, "metadata": {**known, "generation": 1, "uid": f"played-{text(known, 'name')}"}}
    status = statuses.get(text(manifest, "kind"))
    return {**shown, "status": status} if status else shown


def _held(*kinds: str) -> list[Manifest]:
    return [{"type": kind, "status": "True", "reason": kind, "lastTransitionTime": _WHEN} for kind in kinds]


async def cancelled(task: asyncio.Task[None]) -> None:
    """End a task and wait for its end."""
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
