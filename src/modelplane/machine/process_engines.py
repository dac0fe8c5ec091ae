"""Engines that are processes of this machine: they really load, answer, crash and stop.

Each listens on a free port of loopback and sees the GPUs of its pod's claims alone. What it prints is in a file a
container. A process ends with the plane: it is told to stop, and killed when its pod's grace period is over. What a
plane left that was killed itself is ended by the next one.
"""

import asyncio
import os
import re
import shutil
import signal
import socket
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from modelplane.api.objects import Manifest, items_at, labels_of, name_of, namespace_of, text_at
from modelplane.epp.sidecar.warm_up import parse_plan, warm_up
from modelplane.machine.container_process import ContainerProcess, NoProgramError, container_process
from modelplane.machine.gpus import LocalGpu
from modelplane.sim.cluster.claims import allocated_devices
from modelplane.sim.cluster.controller import ClusterStore
from modelplane.sim.cluster.engine_exit import EngineExit, EngineExitedError
from modelplane.sim.cluster.phases import Running
from modelplane.sim.cluster.pickers import Pickers
from modelplane.sim.cluster.pod_status import engine_container
from modelplane.sim.cluster.probes import HEALTH, is_healthy
from modelplane.sim.cluster.volume_folders import VolumeFolders
from modelplane.sim.engine import Faults

_HOST = "127.0.0.1"
_PROBE_TIMEOUT_S = 5.0
_NOT_FOUND, _FAILED = 127, 1
_LAST_WORDS = 2048
_OWNER = "MODELPLANE_MACHINE"
"""In the variables of every process: whose it is."""
_NUMBER = re.compile(r"-(\d+)$")
_MEMORY = "/dev/shm"  # noqa: S108  shared memory is this machine's own


class ProcessEngines:
    """`root` is where files of pods and what they print are kept, `volumes` where the cluster's volumes are."""

    simulated = False

    def __init__(self, gpus: Sequence[LocalGpu], root: Path, volumes: Path) -> None:
        self._gpus = {gpu.index: gpu for gpu in gpus}
        self._root = root
        self._volumes = volumes
        self._pickers = Pickers()
        self._processes: dict[Running, asyncio.subprocess.Process] = {}
        self._watchers: dict[Running, asyncio.Task[None]] = {}
        self._paths: dict[Running, str] = {}
        _end_leftovers(root)

    async def start(
        self, pod: Manifest, cluster: str, *, store: ClusterStore, crashed: Callable[[EngineExit | None], None]
    ) -> Running:
        container = engine_container(pod) or {}
        port = _free_port()
        try:
            process = container_process(pod, container, port, self._folders(pod, cluster, store), store)
        except NoProgramError as error:
            raise EngineExitedError(EngineExit(_NOT_FOUND, str(error))) from None
        log = self.log_of(pod, str(container.get("name")))
        log.parent.mkdir(parents=True, exist_ok=True)
        devices = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": self._visible(pod, store)}
        ours = {**devices, _OWNER: str(self._root)}
        started = await _spawn(process, ours, log)
        running = Running(_HOST, port)
        self._processes[running] = started
        self._paths[running] = text_at(container, "readinessProbe", "httpGet", "path") or HEALTH
        watch = _watch(started, log, crashed)
        self._watchers[running] = asyncio.create_task(watch, name=f"process {started.pid} of pod {name_of(pod)}")
        return running

    def log_of(self, pod: Manifest, container: str) -> Path:
        return self._root / "logs" / namespace_of(pod) / name_of(pod) / f"{container}.log"

    async def start_picker(self, pod: Manifest, store: ClusterStore) -> Running:
        return await self._pickers.start(pod, store)

    async def healthy(self, running: Running) -> bool:
        return await is_healthy(running, self._paths.get(running, HEALTH), timeout_s=_PROBE_TIMEOUT_S)

    async def warm_up(self, running: Running, words: Sequence[str]) -> None:
        await warm_up(f"{running.host}:{running.port}", parse_plan(words))

    def set_faults(self, running: Running, faults: Faults) -> None:
        """A real engine has the faults that it has."""

    async def stop(self, running: Running, *, grace_s: float) -> None:
        await self._pickers.stop(running)
        process = self._processes.pop(running, None)
        watcher = self._watchers.pop(running, None)
        self._paths.pop(running, None)
        if watcher is not None:
            watcher.cancel()
        if process is not None:
            await _end(process, grace_s)

    def _visible(self, pod: Manifest, store: ClusterStore) -> str:
        """The GPUs of the pod's claims, by number: vLLM reads no UUIDs. An engine sees what it holds and no more."""
        named = (_NUMBER.search(text_at(device, "device")) for device in allocated_devices(pod, store))
        held = (int(found[1]) for found in named if found)
        return ",".join(str(index) for index in held if index in self._gpus)

    def _folders(self, pod: Manifest, cluster: str, store: ClusterStore) -> dict[str, Path]:
        """The folders of the engine's mounts, by their paths in the container."""
        volumes = {text_at(each, "name"): each for each in items_at(pod, "spec", "volumes")}
        claims = VolumeFolders(self._volumes, cluster, store)
        found: dict[str, Path] = {}
        for mount in items_at(engine_container(pod) or {}, "volumeMounts"):
            path, name = text_at(mount, "mountPath"), text_at(mount, "name")
            folder = self._folder(pod, volumes.get(name, {}), claims)
            if path != _MEMORY and folder is not None:
                folder.mkdir(parents=True, exist_ok=True)
                found[path] = folder / text_at(mount, "subPath")
        return found

    def _folder(self, pod: Manifest, volume: Mapping[str, object], claims: VolumeFolders) -> Path | None:
        claim = text_at(volume, "persistentVolumeClaim", "claimName")
        if claim:
            return claims.folder(namespace_of(pod), claim)
        if not isinstance(volume.get("emptyDir"), Mapping):
            return None
        # What was downloaded serves every later pod of the deployment.
        owner = labels_of(pod).get("modelplane.ai/deployment") or name_of(pod)
        return self._root / "volumes" / namespace_of(pod) / owner / text_at(volume, "name")


async def _spawn(process: ContainerProcess, ours: Mapping[str, str], log: Path) -> asyncio.subprocess.Process:
    program = process.words[0]
    if shutil.which(program, path=process.variables.get("PATH")) is None:
        raise EngineExitedError(EngineExit(_NOT_FOUND, f"{program}: not found on this machine"))
    with log.open("ab") as output:
        try:
            return await asyncio.create_subprocess_exec(
                *process.words,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env={**process.variables, **ours},
                cwd=process.folder,
                start_new_session=True,  # so that what the engine starts ends with it
            )
        except OSError as error:
            raise EngineExitedError(EngineExit(_FAILED, f"{program}: {error.strerror or error}")) from None


async def _watch(process: asyncio.subprocess.Process, log: Path, crashed: Callable[[EngineExit | None], None]) -> None:
    code = await process.wait()
    crashed(EngineExit(code if code >= 0 else 128 - code, _last_words(log)))


def _last_words(log: Path) -> str:
    with log.open("rb") as file:
        file.seek(max(0, os.fstat(file.fileno()).st_size - _LAST_WORDS))
        lines = file.read().decode(errors="replace").strip().splitlines()
    return lines[-1] if lines else ""


async def _end(process: asyncio.subprocess.Process, grace_s: float) -> None:
    if process.returncode is None and grace_s > 0:
        _signal(process, signal.SIGTERM)
        with suppress(TimeoutError):
            async with asyncio.timeout(grace_s):
                await process.wait()
    _signal(process, signal.SIGKILL)
    await process.wait()


def _signal(process: asyncio.subprocess.Process, number: signal.Signals) -> None:
    """To the whole group: the workers of an engine may outlive it."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, number)


def _end_leftovers(root: Path) -> None:
    """Kill the processes of an earlier plane with this root. Linux tells the variables of a process to its user."""
    mark = f"{_OWNER}={root}".encode()
    for variables in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):
            if mark in variables.read_bytes().split(b"\0"):
                os.kill(int(variables.parent.name), signal.SIGKILL)


def _free_port() -> int:
    with socket.socket() as bound:
        bound.bind((_HOST, 0))
        port: int = bound.getsockname()[1]
        return port
