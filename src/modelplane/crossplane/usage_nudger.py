"""Shortens the deletion of replicas by nudging Crossplane's Usages.

The objects of a replica are deleted in order: its route before its workload, its workload before what pods use. Usages
keep the order. Crossplane reconciles a Usage that waits every 30 s, or when it changes; so while a replica is being
deleted, its Usages are annotated every few seconds. Without the right to annotate them a deletion only takes longer.
"""

import asyncio
import logging
import time
from collections.abc import AsyncIterator

from modelplane.api.objects import Manifest, name_of, text_at
from modelplane.kube import (
    ChangeKind,
    GroupVersionResource,
    KubeClient,
    KubeError,
    KubeStatusError,
    NamespacedName,
    Query,
)
from modelplane.reconcile.log_lines import because
from modelplane.reconcile.log_reasons import LogReason

_log = logging.getLogger(__name__)
USAGES = GroupVersionResource("protection.crossplane.io", "v1beta1", "usages")
NUDGE_ANNOTATION = "modelplane.ai/look-again"
COMPOSITE_LABEL = "crossplane.io/composite"
"""Names the outermost composite: of what a replica composed, the deployment that composed the replica."""
_PAGE = 500
_MOST_NUDGES = 200
"""Usages that are annotated in one pass."""
_NO_RIGHT = frozenset({401, 403})
_OVERTAKEN = frozenset({404, 409})


class UsageNudger:
    def __init__(self, client: KubeClient, *, pause_s: float) -> None:
        self._client = client
        self._pause_s = pause_s
        self._deleting: dict[NamespacedName, NamespacedName] = {}
        """The outermost composite of each replica that is being deleted."""
        self._has_deleting = asyncio.Event()

    def on_event(self, change: ChangeKind, replica: NamespacedName, manifest: Manifest) -> None:
        if change is ChangeKind.DELETED:
            self._deleting.pop(replica, None)
        elif text_at(manifest, "metadata", "deletionTimestamp"):
            # Crossplane takes its own label off an object that a composite drops, so the spec names the deployment.
            outermost = text_at(manifest, "spec", "deployment", "name") or replica.name
            self._deleting[replica] = NamespacedName(replica.namespace, outermost)
            self._has_deleting.set()

    async def run(self) -> None:
        """Until cancelled, or until annotating Usages is forbidden."""
        while True:
            await self._has_deleting.wait()
            await asyncio.sleep(self._pause_s)
            if not self._deleting:
                self._has_deleting.clear()
                continue
            try:
                await self._nudge_all()
            except KubeError as problem:
                extra = because(LogReason.NOT_NUDGED, error=str(problem))
                _log.warning("Usages not nudged; replicas are deleted later", extra=extra)
                if isinstance(problem, KubeStatusError) and problem.status in _NO_RIGHT:
                    return

    async def _nudge_all(self) -> None:
        nudged = 0
        for outermost in dict.fromkeys(self._deleting.values()):
            async for name in self._deleting_usages(outermost):
                await self._nudge(outermost.namespace, name)
                nudged += 1
                if nudged == _MOST_NUDGES:
                    return

    async def _deleting_usages(self, outermost: NamespacedName) -> AsyncIterator[str]:
        query = Query(USAGES, namespace=outermost.namespace, labels=f"{COMPOSITE_LABEL}={outermost.name}")
        after = ""
        while True:
            page = await self._client.page(query, limit=_PAGE, after=after)
            for usage in page.items:
                if text_at(usage, "metadata", "deletionTimestamp"):
                    yield name_of(usage)
            after = page.metadata.continue_
            if not after:
                return

    async def _nudge(self, namespace: str, name: str) -> None:
        try:
            await self._client.annotate(USAGES, name, namespace, {NUDGE_ANNOTATION: str(time.time_ns())})
        except KubeStatusError as refused:
            if refused.status not in _OVERTAKEN:
                raise
