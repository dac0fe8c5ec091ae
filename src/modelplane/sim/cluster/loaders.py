"""Pods that stage caches: the real loader, as a process, with the folders of its volumes.

The arguments are those of the container. Paths that it mounts are replaced by folders of this machine: a claim's, or
one with the keys of a Secret or a ConfigMap. Its last line is the pod's progress, and its last words when it ends.

Simulated sources: `slow=N` lets the process run one Nth of the time, `broken=REASON` ends it as the loader ends there.
"""

import asyncio
import base64
import os
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec

from modelplane.api.loader_exits import exit_code
from modelplane.api.objects import Manifest, items_at, mapping_at, namespace_of, text_at, value_at
from modelplane.api.reasons import Reason
from modelplane.envoy import die_with_parent
from modelplane.reconcile.store import ObjectRef
from modelplane.sim.cluster.controller import ClusterStore
from modelplane.sim.cluster.volume_folders import VolumeFolders

LOADER = "loader"
_TERMINATION_LOG = "/dev/termination-log"
_TURN_S = 0.2
_GRACE_S = 2.0
_INTERVAL = ("--progress-interval", "0.5")
BROKEN: Mapping[str, tuple[Reason, str]] = {
    each.value: (each, message)
    for each, message in (
        (Reason.SOURCE_NOT_FOUND, "the source answers 404 Not Found"),
        (Reason.UNAUTHORIZED, "the source answers 401 Unauthorized"),
        (Reason.DIGEST_MISMATCH, "a file has another digest than its source says"),
        (Reason.NO_SPACE, "the artifact needs more bytes than the volume has free"),
        (Reason.SOURCE_UNREACHABLE, "the source does not answer: connection refused"),
    )
}
"""How the loader ends with a source that is broken so: reason and message, by the word of the reason."""


@dataclass(frozen=True, slots=True)
class LoaderEnd:
    code: int
    message: str


@dataclass(frozen=True, slots=True)
class SourceFaults:
    """What is wrong with the sources that a cluster fetches from."""

    slow: int = 1
    broken: str = ""

    @classmethod
    def read(cls, text: str) -> "SourceFaults":
        """Unreadable entries are ignored."""
        given = dict(entry.partition("=")[::2] for entry in text.split(",") if entry)
        slow = given.get("slow", "")
        broken = given.get("broken", "")
        return cls(int(slow) if slow.isdecimal() and int(slow) > 0 else 1, broken if broken in BROKEN else "")


def loader_container(pod: Manifest) -> Manifest | None:
    return next((entry for entry in items_at(pod, "spec", "containers") if entry.get("name") == LOADER), None)


class Loaders:
    """Runs the loaders of one cluster."""

    def __init__(self, folders: VolumeFolders, store: ClusterStore) -> None:
        self._folders = folders
        self._store = store
        self.faults = SourceFaults()

    def can_run(self, pod: Manifest) -> bool:
        """Whether its volumes are folders here; otherwise only its time is simulated."""
        return loader_container(pod) is not None and any(folder for _, folder in self._claims(pod))

    async def run(self, pod: Manifest, progress: Callable[[str], None]) -> LoaderEnd:
        """Run the loader to its end. Cancelled, it stops the process."""
        if self.faults.broken:
            return _broken(self.faults.broken)
        with tempfile.TemporaryDirectory(prefix="modelplane-loader-") as place:
            arguments = self._arguments(pod, Path(place))
            process = await _start(arguments)
            throttle = asyncio.create_task(self._throttle(process))
            try:
                last = await _read(process, progress)
                code = await process.wait()
            finally:
                throttle.cancel()
                await _stop(process)
        return LoaderEnd(code if code >= 0 else 128 - code, last)

    def _arguments(self, pod: Manifest, place: Path) -> list[str]:
        paths = dict(self._paths(pod, place))
        words = value_at(loader_container(pod) or {}, "args")
        given = [str(word) for word in words] if isinstance(words, list) else []
        return [*(_replaced(word, paths) for word in given), *_INTERVAL]

    def _paths(self, pod: Manifest, place: Path) -> Iterator[tuple[str, str]]:
        """Each mount path with the folder that stands for it."""
        yield _TERMINATION_LOG, str(place / "termination-log")
        folders = {name: folder for name, folder in self._claims(pod) if folder is not None}
        for mount in items_at(loader_container(pod) or {}, "volumeMounts"):
            name = text_at(mount, "name")
            folder = folders.get(name) or self._keys(pod, name, place)
            folder.mkdir(parents=True, exist_ok=True)
            yield text_at(mount, "mountPath"), str(folder)

    def _claims(self, pod: Manifest) -> list[tuple[str, Path | None]]:
        return [
            (text_at(each, "name"), self._folders.folder(namespace_of(pod), claim))
            for each in items_at(pod, "spec", "volumes")
            if (claim := text_at(each, "persistentVolumeClaim", "claimName"))
        ]

    def _keys(self, pod: Manifest, name: str, place: Path) -> Path:
        """A folder with a file for each key of a Secret or ConfigMap."""
        folder = place / name
        folder.mkdir(mode=0o700)
        volume = next((each for each in items_at(pod, "spec", "volumes") if each.get("name") == name), {})
        for kind, path in (("Secret", ("secret", "secretName")), ("ConfigMap", ("configMap", "name"))):
            found = self._store.get(ObjectRef("", kind, namespace_of(pod), text_at(volume, *path)))
            for key, content in _contents(kind, found or {}):
                (folder / key).write_bytes(content)
        return folder

    async def _throttle(self, process: asyncio.subprocess.Process) -> None:
        """A slow source: the process is stopped for most of the time."""
        while process.returncode is None:
            slow = self.faults.slow
            with suppress(ProcessLookupError):
                if slow > 1:
                    process.send_signal(signal.SIGSTOP)
                    await asyncio.sleep(_TURN_S * (slow - 1) / slow)
                process.send_signal(signal.SIGCONT)
            await asyncio.sleep(_TURN_S / slow)


def _replaced(word: str, paths: Mapping[str, str]) -> str:
    for path, folder in paths.items():
        if word == path or word.startswith(f"{path}/"):
            return folder + word[len(path) :]
    return word


def _contents(kind: str, item: Manifest) -> Iterator[tuple[str, bytes]]:
    for field in ("data", "binaryData"):
        for key, value in mapping_at(item, field).items():
            if isinstance(value, str) and "/" not in key:
                plain = kind == "ConfigMap" and field == "data"
                yield key, value.encode() if plain else base64.b64decode(value)


def _broken(word: str) -> LoaderEnd:
    reason, message = BROKEN[word]
    said = {"phase": "Failed", "bytes": 0, "total": 0, "rate": 0, "reason": word, "message": message}
    return LoaderEnd(exit_code(reason), msgspec.json.encode(said).decode())


async def _start(arguments: list[str]) -> asyncio.subprocess.Process:
    """As a child that ends with this process."""
    return await asyncio.create_subprocess_exec(
        sys.executable,
        die_with_parent.__file__,
        str(os.getpid()),
        sys.executable,
        *("-m", "modelplane", "hydrate", *arguments),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        start_new_session=True,
    )


async def _read(process: asyncio.subprocess.Process, progress: Callable[[str], None]) -> str:
    last = ""
    while process.stdout is not None and (line := await process.stdout.readline()):
        last = line.decode(errors="replace").strip() or last
        progress(last)
    return last


async def _stop(process: asyncio.subprocess.Process) -> None:
    if process.returncode is not None:
        return
    for name in (signal.SIGCONT, signal.SIGTERM):
        with suppress(ProcessLookupError):
            process.send_signal(name)
    try:
        await asyncio.wait_for(process.wait(), _GRACE_S)
    except TimeoutError:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()
