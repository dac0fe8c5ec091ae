"""Our own containers in pods, the picker and the routing sidecar: KWOK runs nothing in a pod, so the lab does.

What runs is what was rendered: our program with the arguments of the container, files from the ConfigMaps that the pod
mounts, as the pod's ServiceAccount, on the pod's own address. Three things differ because pods share one machine here:
the address to listen on is given, mounted files are elsewhere, and what is next door in the pod is at its address.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lab.client import Access, Api, ApiError, Manifest, items, name_of, namespace_of, text, value
from lab.cluster import ADMIN, answers
from lab.mirror import Mirror
from lab.supervisor import Program, ProgramError
from modelplane.api.labels import REPLICA
from modelplane.api.labels import ROUTING_SIDECAR_CONTAINER as SIDECAR
from modelplane.compose.picker import METRICS_PORT, PICKER

if TYPE_CHECKING:
    from pathlib import Path

    from lab.cluster import Cluster
    from lab.supervisor import Supervisor

_LOOK_S = 2.0
_TOKEN_S = 24 * 3600
_SERVE, _SIDECAR = "serve", "sidecar"
_PROGRAMS = {PICKER: _SERVE, SIDECAR: _SIDECAR, "llm-d-routing-sidecar": _SIDECAR}
"""Ours, and those of KServe: ours take the flags that its presets give to llm-d's."""
_KSERVE_PICKER, _KSERVE_PICKER_POD = "main", "llminferenceservice-router-scheduler"
_COMPONENT = "app.kubernetes.io/component"
_NEXT_DOOR = "--vllm-port="


@dataclass(frozen=True, slots=True)
class _Seat:
    """One container in one pod's life at one address."""

    uid: str
    address: str
    container: str
    program: str


class Pickers:
    """Those of one cluster, following its pods until it is cancelled."""

    def __init__(self, supervisor: Supervisor, cluster: Cluster) -> None:
        """Reads the cluster as its administrator; what it runs does not."""
        self._supervisor = supervisor
        self._cluster = cluster
        self._api = Api(cluster.access(*ADMIN))
        self._pods = Mirror(self._api, "v1", "Pod", REPLICA)
        self._running: dict[_Seat, str] = {}
        self._changed = asyncio.Event()

    def __len__(self) -> int:
        """How many run."""
        return len(self._running)

    async def run(self) -> None:
        async with self._api, asyncio.TaskGroup() as group:
            group.create_task(self._pods.run(self._changed))
            while True:
                await self._follow(group)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(_LOOK_S):
                        await self._changed.wait()
                self._changed.clear()

    async def _follow(self, group: asyncio.TaskGroup) -> None:
        wanted = {seat: pod for pod in self._pods.all for seat in seats(pod)}
        for seat in [seat for seat in self._running if seat not in wanted]:
            name = self._running.pop(seat)
            if name in self._supervisor.runs:
                await self._supervisor.forget(name)
        for seat, pod in wanted.items():
            if seat not in self._running:
                self._running[seat] = self._cluster.program(f"{seat.container}-{name_of(pod)}")
                group.create_task(self._start(seat, pod))

    async def _start(self, seat: _Seat, pod: Manifest) -> None:
        try:
            program = await self._program(self._running[seat], seat, pod)
            await self._supervisor.start(program)
        except ApiError as error:
            self._running.pop(seat, None)
            print(f"{self._cluster.name}: {name_of(pod)} does not run yet: {error}", flush=True)
        except ProgramError as error:
            # It stays under supervision.
            print(f"{self._cluster.name}: {error}", flush=True)

    async def _program(self, name: str, seat: _Seat, pod: Manifest) -> Program:
        folder = self._cluster.folder / "pickers" / seat.uid
        folder.mkdir(parents=True, exist_ok=True)
        container = next(each for each in _containers(pod) if text(each, "name") == seat.container)
        own = self.arguments(container, await self._mounted(pod, folder), seat.address)
        kubeconfig = folder / "kubeconfig"
        kubeconfig.write_text((await self._access(pod)).kubeconfig())
        program = (sys.executable, "-m", "modelplane", "picker", seat.program)
        environment = {"KUBECONFIG": str(kubeconfig), "PYTHONUNBUFFERED": "1"}
        return Program(name, (*program, *own, f"--host={seat.address}"), answers(_health(seat, container)), environment)

    @staticmethod
    def arguments(container: Manifest, places: dict[str, str], address: str) -> list[str]:
        """The container's own, with mounted files and the pod's other container where they are.

        `places` are those of volumes by their names.
        """
        arguments = [each for each in (*_words(container, "command")[1:], *_words(container, "args")) if each]
        arguments = [each.replace(_NEXT_DOOR, f"--decoder={address}:") for each in arguments]
        mounts = {text(each, "mountPath"): text(each, "name") for each in items(container, "volumeMounts")}
        for path, volume in mounts.items():
            if volume in places:
                arguments = [each.replace(f"{path}/", f"{places[volume]}/") for each in arguments]
        return arguments

    async def _mounted(self, pod: Manifest, folder: Path) -> dict[str, str]:
        """The ConfigMaps that the pod mounts, as files; where each volume is."""
        found = {}
        for volume in items(pod, "spec", "volumes"):
            if name := text(volume, "configMap", "name"):
                # One that is not there yet is waited for, as a kubelet does: the caller tries again.
                path = f"/api/v1/namespaces/{namespace_of(pod)}/configmaps/{name}"
                content = await self._api.call("GET", path)
                place = folder / text(volume, "name")
                place.mkdir(parents=True, exist_ok=True)
                data = value(content, "data")
                for key, each in data.items() if isinstance(data, dict) else ():
                    (place / str(key)).write_text(str(each))
                found[text(volume, "name")] = str(place)
        return found

    async def _access(self, pod: Manifest) -> Access:
        """As the pod's ServiceAccount, by a token such as a kubelet would mount."""
        asked = {"kind": "TokenRequest", "apiVersion": "authentication.k8s.io/v1"}
        account = text(pod, "spec", "serviceAccountName")
        path = f"/api/v1/namespaces/{namespace_of(pod)}/serviceaccounts/{account}/token"
        answer = await self._api.call("POST", path, body={**asked, "spec": {"expirationSeconds": _TOKEN_S}})
        certificate = self._cluster.keys.authority.pair.certificate
        return Access(self._cluster.server, certificate, token=text(answer, "status", "token"))


def seats(pod: Manifest) -> list[_Seat]:
    """Our containers of a pod that runs and is to stay."""
    address = text(pod, "status", "podIP")
    if text(pod, "status", "phase") != "Running" or not address or text(pod, "metadata", "deletionTimestamp"):
        return []
    uid = text(pod, "metadata", "uid")
    named = {name: _program_of(pod, name) for name in (text(each, "name") for each in _containers(pod))}
    return [_Seat(uid, address, name, program) for name, program in named.items() if program]


def _containers(pod: Manifest) -> list[Manifest]:
    """Those that run as long as the pod does."""
    initial = [each for each in items(pod, "spec", "initContainers") if text(each, "restartPolicy") == "Always"]
    return [*items(pod, "spec", "containers"), *initial]


def _program_of(pod: Manifest, container: str) -> str:
    if container == _KSERVE_PICKER and value(pod, "metadata", "labels", _COMPONENT) == _KSERVE_PICKER_POD:
        return _SERVE
    return _PROGRAMS.get(container, "")


def _words(container: Manifest, field: str) -> list[str]:
    found = container.get(field)
    return [str(each) for each in found] if isinstance(found, list) else []


def _health(seat: _Seat, container: Manifest) -> str:
    if seat.program == _SERVE:
        return f"http://{seat.address}:{METRICS_PORT}/readyz"
    port = next(text(each, "containerPort") for each in items(container, "ports"))
    return f"http://{seat.address}:{port}/health"
