"""Makes Crossplane call for composites whose dependencies changed.

Crossplane calls the function when an annotation of a composite changes, so the dependency digest is written there when
it differs. Such events count towards the circuit breaker that Crossplane has for each composite, so changes within
`pause_s` become one write.
"""

import asyncio
import logging
from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter

from modelplane.crossplane.packaging import DIGEST_ANNOTATION
from modelplane.kube import GroupVersionResource, KubeClient, KubeError, KubeStatusError, NamespacedName
from modelplane.reconcile.log_lines import about
from modelplane.reconcile.log_reasons import LogReason

_log = logging.getLogger(__name__)
_GONE = 404
CompositeKey = tuple[GroupVersionResource, NamespacedName]


class Requeuer:
    """`digest` computes the dependency digest of a composite; None: it is gone, or not known yet."""

    def __init__(
        self,
        client: KubeClient,
        digest: Callable[[CompositeKey], str | None],
        registry: CollectorRegistry,
        *,
        pause_s: float = 2.0,
    ) -> None:
        self._client = client
        self._digest = digest
        self._pause_s = pause_s
        self._written: dict[CompositeKey, str] = {}
        self._queued: dict[CompositeKey, None] = {}
        self._has_queued = asyncio.Event()
        self.requeues = Counter(
            "modelplane_function_wakes", "Composites requeued by annotation, by kind.", ["kind"], registry=registry
        )

    def observe(self, composite: CompositeKey, digest: str) -> None:
        """The digest that a composite carries. One that carries none was composed with today's dependencies."""
        known = digest or self._written.get(composite) or self._digest(composite)
        if known is None:
            return
        self._written[composite] = known
        if digest:
            self.enqueue(composite)

    def forget(self, composite: CompositeKey) -> None:
        self._written.pop(composite, None)
        self._queued.pop(composite, None)

    def enqueue(self, composite: CompositeKey) -> None:
        """One of its dependencies changed."""
        if composite in self._written:
            self._queued[composite] = None
            self._has_queued.set()

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await self._has_queued.wait()
            await asyncio.sleep(self._pause_s)
            self._has_queued.clear()
            queued, self._queued = self._queued, {}
            for composite in queued:
                await self._write(composite)

    async def _write(self, composite: CompositeKey) -> None:
        digest = self._digest(composite)
        if digest is None or digest == self._written.get(composite):
            return
        kind, key = composite
        try:
            await self._client.annotate(kind, key.name, key.namespace or None, {DIGEST_ANNOTATION: digest})
        except KubeError as problem:
            if not isinstance(problem, KubeStatusError) or problem.status != _GONE:
                extra = about(LogReason.NOT_REQUEUED, kind.kind, key.name, key.namespace, error=str(problem))
                _log.warning("composite not requeued", extra=extra)
                self.enqueue(composite)
            return
        self._written[composite] = digest
        self.requeues.labels(kind.plural).inc()
