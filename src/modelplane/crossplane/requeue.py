"""Touches composites that a change concerns, once a while each, and never for facts that they were told already.

Crossplane calls the function when an annotation of a composite changes. Such events count towards the breaker that it
has for each composite, so a burst of changes becomes one touch after a pause.
"""

import asyncio
from collections.abc import Callable

import structlog
from prometheus_client import CollectorRegistry, Counter

from modelplane.crossplane.packaging import WAKE_ANNOTATION
from modelplane.kube import GroupVersionResource, KubeClient, KubeError, KubeStatusError, NamespacedName

_log = structlog.get_logger()
_GONE = 404
Subject = tuple[GroupVersionResource, NamespacedName]


class Waker:
    """`facts` works out what a composite should have been told; None means that it is of no concern any more."""

    def __init__(
        self,
        client: KubeClient,
        facts: Callable[[Subject], str | None],
        registry: CollectorRegistry,
        *,
        pause_s: float = 2.0,
    ) -> None:
        self._client = client
        self._facts = facts
        self._pause_s = pause_s
        self._told: dict[Subject, str] = {}
        self._due: dict[Subject, None] = {}
        self._some = asyncio.Event()
        self.touches = Counter("modelplane_function_wakes", "Composites touched, by kind.", ["kind"], registry=registry)

    def seen(self, subject: Subject, told: str) -> None:
        """What a composite carries. One that carries nothing was composed with what was known when it came up."""
        known = told or self._told.get(subject) or self._facts(subject)
        if known is None:
            return
        self._told[subject] = known
        if told:
            self.concerns(subject)

    def gone(self, subject: Subject) -> None:
        self._told.pop(subject, None)
        self._due.pop(subject, None)

    def concerns(self, subject: Subject) -> None:
        """Something that may matter to it changed."""
        if subject in self._told:
            self._due[subject] = None
            self._some.set()

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await self._some.wait()
            await asyncio.sleep(self._pause_s)
            self._some.clear()
            due, self._due = self._due, {}
            for subject in due:
                await self._touch(subject)

    async def _touch(self, subject: Subject) -> None:
        facts = self._facts(subject)
        if facts is None or facts == self._told.get(subject):
            return
        kind, key = subject
        try:
            await self._client.annotate(kind, key.name, key.namespace or None, {WAKE_ANNOTATION: facts})
        except KubeStatusError as refused:
            if refused.status != _GONE:
                _log.warning("not touched", kind=str(kind), name=key.name, why=str(refused))
                self.concerns(subject)
            return
        except KubeError as problem:
            _log.warning("not touched", kind=str(kind), name=key.name, why=str(problem))
            self.concerns(subject)
            return
        self._told[subject] = facts
        self.touches.labels(kind.plural).inc()
