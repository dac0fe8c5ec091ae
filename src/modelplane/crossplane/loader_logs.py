"""How far the loaders of a workload cluster are, by the last line of their logs.

A loader has no credentials for the cluster's API, and what it says before it ends is in its log alone.
"""

import asyncio
import logging
from collections.abc import Callable, Collection

import msgspec

from modelplane.api.labels import PROGRESS
from modelplane.api.objects import annotations_of, text_at
from modelplane.compose.caching.progress import with_progress
from modelplane.crossplane.pod_index import PodIndex
from modelplane.kube import ChangeKind, InformerEvent, KubeClient, KubeError, NamespacedName
from modelplane.reconcile.log_lines import about
from modelplane.reconcile.log_reasons import LogReason

_log = logging.getLogger(__name__)
_encode = msgspec.json.Encoder().encode


class LoaderLogs:
    """Writes the last line of each running loader into its pod of the index."""

    def __init__(
        self,
        client: KubeClient,
        pods: PodIndex,
        changed: Callable[[Collection[NamespacedName]], None],
        *,
        every_s: float,
    ) -> None:
        """`changed` gets the caches whose loaders said something new."""
        self._client, self._pods, self._changed, self._every_s = client, pods, changed, every_s
        self._is_refused = False

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await asyncio.sleep(self._every_s)
            for key, packed in self._pods.pods().items():
                await self._read(key, packed)

    async def _read(self, key: NamespacedName, packed: bytes) -> None:
        pod = msgspec.json.decode(packed)
        if text_at(pod, "status", "phase") != "Running":
            return
        try:
            line = await self._client.last_log_line(key.name, key.namespace)
        except KubeError as problem:
            # A kubeconfig of an earlier release may not read logs: bytes are not known then, and all else is.
            if not self._is_refused:
                extra = about(LogReason.LOG_NOT_READ, "Pod", key.name, key.namespace, error=str(problem))
                _log.warning("log of a loader not read", extra=extra)
            self._is_refused = True
            return
        self._is_refused = False
        # The pod may have ended, or be gone, since it was listed.
        is_current = self._pods.pods().get(key) == packed
        if line and line != annotations_of(pod).get(PROGRESS) and is_current:
            event = InformerEvent(ChangeKind.CHANGED, key, _encode(with_progress(pod, line)))
            self._changed(self._pods.apply([event]))
