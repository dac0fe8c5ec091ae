"""Priorities and model rewrites from a file, for pools without these objects in an API.

The file holds the ecosystem's own objects, any number of each:

    apiVersion: llm-d.ai/v1alpha2
    kind: InferenceObjective
    metadata: {name: batch}
    spec: {priority: -1}
    ---
    apiVersion: llm-d.ai/v1alpha2
    kind: InferenceModelRewrite
    metadata: {name: canary}
    spec:
      rules:
      - matches: [{model: {value: llama}}]
        targets: [{modelRewrite: llama-v2, weight: 1}, {modelRewrite: llama-v1, weight: 9}]

There is one pool, so `poolRef` may be omitted. Rewrites of the file are ordered as if created in file order. The file
is read again when it changes. An invalid file is an error at start; later it changes nothing.
"""

import asyncio
import logging
from collections.abc import Mapping
from pathlib import Path

import msgspec

from modelplane.api.errors import InputError
from modelplane.epp.datalayer.discovery.files import documents_of, read_file
from modelplane.epp.datalayer.discovery.policies import (
    InferenceModelRewrite,
    InferenceObjective,
    PolicyDocument,
    Rewrite,
    RewriteRules,
    RewriteTable,
)
from modelplane.epp.datalayer.tasks import cancel_all
from modelplane.reconcile.log_lines import because
from modelplane.reconcile.log_reasons import LogReason

_log = logging.getLogger(__name__)

_GROUPS = frozenset({"llm-d.ai", "inference.networking.x-k8s.io"})


class _Head(msgspec.Struct, frozen=True):
    kind: str = ""
    api_version: str = msgspec.field(name="apiVersion", default="")


def read_policies(text: bytes, source: str) -> PolicyDocument:
    """InputError with the place where something is wrong."""
    priorities: dict[str, int] = {}
    rewrites: list[RewriteRules] = []
    for number, document in enumerate(documents_of(text, source)):
        place = f"{source}:{document.line_of(())}"
        try:
            found = _read(document.value)
        except (msgspec.ValidationError, ValueError) as broken:
            raise InputError(f"{place}: {broken}") from broken
        if isinstance(found, InferenceObjective):
            priorities[found.metadata.name] = found.priority
        else:
            _, name, rules = found.rules
            rewrites.append((f"{number:09}", name, rules))
    return PolicyDocument(priorities, tuple(rewrites))


def _read(value: object) -> InferenceObjective | InferenceModelRewrite:
    head = msgspec.convert(value, _Head)
    if head.api_version.partition("/")[0] not in _GROUPS:
        raise ValueError(f"apiVersion: {head.api_version or 'missing'}; it must be of {' or '.join(sorted(_GROUPS))}")
    match head.kind:
        case "InferenceObjective":
            return msgspec.convert(value, InferenceObjective)
        case "InferenceModelRewrite":
            return msgspec.convert(value, InferenceModelRewrite)
        case _:
            raise ValueError(f"kind: {head.kind or 'missing'}; it must be InferenceObjective or InferenceModelRewrite")


class PolicyFile:
    """The rules of a file, as the file is."""

    def __init__(self, path: Path, *, every_s: float = 1.0) -> None:
        self._path = path
        self._every_s = every_s
        self._table = RewriteTable()
        self._text: bytes | None = None
        self._task: asyncio.Task[None] | None = None
        self.problem = ""
        """The problem of the file in one sentence; empty: none."""

    async def start(self) -> None:
        """InputError where the file cannot be used."""
        self._take(await asyncio.to_thread(read_file, self._path))
        self._task = asyncio.create_task(self._poll())

    async def stop(self) -> None:
        task, self._task = self._task, None
        await cancel_all([task])

    @property
    def document(self) -> PolicyDocument:
        """All of it; another object after each change."""
        return self._table.document

    @property
    def priorities(self) -> Mapping[str, int]:
        """By the name of the objective."""
        return self._table.priorities

    def rewrite(self, model: str, chance: float) -> Rewrite | None:
        return self._table.rewrite(model, chance)

    def _take(self, text: bytes) -> None:
        if text == self._text:
            return
        written = read_policies(text, self._path.name)
        self._text = text
        self._table.replace(written)

    async def _poll(self) -> None:
        while True:
            await asyncio.sleep(self._every_s)
            try:
                self._take(await asyncio.to_thread(read_file, self._path))
                self.problem = ""
            except InputError as broken:
                if str(broken) != self.problem:
                    _log.warning("kept the previous policies: %s", broken, extra=because(LogReason.POLICIES_INVALID))
                self.problem = str(broken)
