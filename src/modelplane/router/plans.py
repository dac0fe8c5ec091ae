"""Where plans come from: documents in a folder, as a mounted ConfigMap or the embedded plane writes them.

    SERVICE.json      a plan (`plan_document`), one a file
    callers.json      the callers (`CallerDocument`)

The folder is read again when a file changes. A document that cannot be read is logged once and keeps the plan before
it; a document that is gone takes its service away, but never all of them at once: an empty folder is taken for one that
is being replaced, until it stays empty.
"""

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

from modelplane.compose.caller_document import CallerDocument
from modelplane.compose.service_plan import ServicePlan, read_plan
from modelplane.reconcile.log_lines import Extra, about, because
from modelplane.reconcile.log_reasons import LogReason

_LOG = logging.getLogger(__name__)
CALLERS_FILE: Final = "callers.json"
_LARGEST: Final = 8 << 20
_PATIENCE: Final = 3
"""Reads of an empty folder before it counts."""


class PlanFolder:
    """Reads the folder; `read` is called every second."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._known: dict[str, tuple[tuple[int, int], ServicePlan]] = {}
        self._refused: dict[str, tuple[int, int]] = {}
        self._callers: tuple[int, int] | None = None
        self._empty_reads = 0

    def read(self) -> tuple[ServicePlan, ...] | None:
        """The plans, where they changed since the last call; else None."""
        found = self._files()
        if not found and self._known:
            self._empty_reads += 1
            if self._empty_reads < _PATIENCE:
                return None
        self._empty_reads = 0
        before = dict(self._known)
        self._known = {name: self._plan(name, stamp) for name, stamp in found.items() if self._has(name, stamp)}
        changed = self._known != before or not before
        return tuple(plan for _, plan in self._known.values()) if changed else None

    def read_callers(self) -> CallerDocument | None:
        """The callers, where they changed since the last call; else None."""
        path = self._folder / CALLERS_FILE
        stamp = _stamp(path)
        if stamp is None or stamp == self._callers:
            return None
        self._callers = stamp
        try:
            return msgspec.json.decode(path.read_bytes(), type=CallerDocument)
        except (OSError, msgspec.DecodeError) as error:
            _LOG.error("kept the previous callers: %s: %s", path.name, error, extra=because(LogReason.CALLERS_INVALID))
            return None

    def _files(self) -> Mapping[str, tuple[int, int]]:
        try:
            names = sorted(path.name for path in self._folder.iterdir() if path.suffix == ".json")
        except OSError:
            return {}
        stamps = {name: _stamp(self._folder / name) for name in names if name != CALLERS_FILE}
        return {name: stamp for name, stamp in stamps.items() if stamp is not None}

    def _has(self, name: str, stamp: tuple[int, int]) -> bool:
        """Whether there is a plan for the file, read now or before."""
        known = self._known.get(name)
        if known is not None and known[0] == stamp:
            return True
        if self._refused.get(name) == stamp:
            return known is not None
        try:
            data = (self._folder / name).read_bytes()
            if len(data) > _LARGEST:
                raise msgspec.ValidationError(f"it has {len(data)} bytes; {_LARGEST} are accepted")
            self._known[name] = (stamp, read_plan(data))
        except (OSError, msgspec.DecodeError, RecursionError) as error:
            self._refused[name] = stamp
            _LOG.error("kept the previous plan: %s: %s", name, error, extra=_about(name, known))
            return known is not None
        return True

    def _plan(self, name: str, _stamp: tuple[int, int]) -> tuple[tuple[int, int], ServicePlan]:
        return self._known[name]


def _stamp(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size


def _about(file: str, known: tuple[tuple[int, int], ServicePlan] | None) -> Extra:
    """The service, where a plan before this one had its name."""
    if known is None:
        return because(LogReason.PLAN_INVALID, file=file)
    return about(LogReason.PLAN_INVALID, "ModelService", known[1].name, known[1].namespace, file=file)
