"""Helps replicas that are being deleted to leave soon.

What a replica composed goes in order: its route before its workload, its workload before what pods use. Usages keep
the order, and each lets go once the one before is gone. Crossplane looks at a Usage that waits only every 30 seconds,
or when it changes; so while a replica leaves, its Usages are touched every few seconds. Nothing depends on it: without
the right to touch them a replica only takes longer.
"""

import asyncio
import time
from collections.abc import AsyncIterator

import structlog

from modelplane.api.objects import Manifest, name_of, text_at
from modelplane.kube import GroupVersionResource, KubeClient, KubeError, KubeStatusError, NamespacedName, Query

_log = structlog.get_logger()
USAGES = GroupVersionResource("protection.crossplane.io", "v1beta1", "usages")
LOOK_ANNOTATION = "modelplane.ai/look-again"
COMPOSED_BY = "crossplane.io/composite"
"""Names the outermost composite: of what a replica composed, the deployment that composed the replica."""
_PAGE = 500
_AT_ONCE = 200
"""Usages that are touched in one pass; with more of them each waits for its turn."""
_NO_RIGHT = frozenset({401, 403})
_OVERTAKEN = frozenset({404, 409})


class Departures:
    def __init__(self, client: KubeClient, *, pause_s: float) -> None:
        self._client = client
        self._pause_s = pause_s
        self._leaving: dict[NamespacedName, NamespacedName] = {}
        self._some = asyncio.Event()

    def leaving(self, replica: NamespacedName, manifest: Manifest) -> None:
        """It was told to go."""
        # Crossplane takes its own label off what a composite lets go, so the deployment is found by our reference.
        outermost = text_at(manifest, "spec", "deployment", "name") or replica.name
        self._leaving[replica] = NamespacedName(replica.namespace, outermost)
        self._some.set()

    def gone(self, replica: NamespacedName) -> None:
        self._leaving.pop(replica, None)

    async def run(self) -> None:
        """Until cancelled, or until it turns out that Usages may not be touched."""
        while True:
            await self._some.wait()
            await asyncio.sleep(self._pause_s)
            if not self._leaving:
                self._some.clear()
                continue
            try:
                await self._help()
            except KubeStatusError as refused:
                _log.warning("usages not touched; replicas leave later", why=str(refused))
                if refused.status in _NO_RIGHT:
                    return
            except KubeError as problem:
                _log.warning("usages not touched", why=str(problem))

    async def _help(self) -> None:
        touched = 0
        for outermost in dict.fromkeys(self._leaving.values()):
            async for name in self._waiting(outermost):
                await self._touch(outermost.namespace, name)
                touched += 1
                if touched == _AT_ONCE:
                    return

    async def _waiting(self, outermost: NamespacedName) -> AsyncIterator[str]:
        query = Query(USAGES, namespace=outermost.namespace, labels=f"{COMPOSED_BY}={outermost.name}")
        after = ""
        while True:
            page = await self._client.page(query, limit=_PAGE, after=after)
            for usage in page.items:
                if text_at(usage, "metadata", "deletionTimestamp"):
                    yield name_of(usage)
            after = page.metadata.continue_
            if not after:
                return

    async def _touch(self, namespace: str, name: str) -> None:
        try:
            await self._client.annotate(USAGES, name, namespace, {LOOK_ANNOTATION: str(time.time_ns())})
        except KubeStatusError as refused:
            if refused.status not in _OVERTAKEN:
                raise
