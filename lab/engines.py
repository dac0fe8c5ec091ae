"""Simulated engines behind KWOK's pods: each listens on the pod's own address, so that Services have live endpoints.

KWOK gives a pod an address and calls it ready; nothing runs there. Inside the lab's network namespace every pod address
is local, so one event loop can serve all of them. What an engine answers to follows from the pod's command line, as on
a simulated cluster.
"""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

import aiohttp

from lab.client import Api, ApiError, Manifest, name_of, text
from lab.cluster import ADMIN
from modelplane.api.errors import InputError
from modelplane.api.labels import REPLICA
from modelplane.sim.cluster.engines import engine_config
from modelplane.sim.cluster.pod_servers import serving_port
from modelplane.sim.cluster.pod_status import engine_container
from modelplane.sim.engine import LLAMA_8B_H200, EngineRegistry, SimulatedEngine

if TYPE_CHECKING:
    from lab.cluster import Cluster

_LOOK_S = 0.5
_SPEED = 20.0


@dataclass(frozen=True, slots=True)
class _Seat:
    """One pod's life at one address."""

    uid: str
    host: str
    port: int


class Engines:
    """The engines of one cluster, following its pods until it is cancelled."""

    def __init__(self, cluster: Cluster) -> None:
        """Reads the cluster as its administrator."""
        self._cluster = cluster
        self._exchange = EngineRegistry()
        self._running: dict[_Seat, SimulatedEngine] = {}

    def __len__(self) -> int:
        """How many listen."""
        return len(self._running)

    async def run(self) -> None:
        try:
            async with Api(self._cluster.access(*ADMIN)) as api:
                while True:
                    with contextlib.suppress(ApiError, aiohttp.ClientError, OSError):
                        await self._follow(await api.list("v1", "Pod", labels=REPLICA))
                    await asyncio.sleep(_LOOK_S)
        finally:
            await self._follow([])

    async def _follow(self, pods: list[Manifest]) -> None:
        wanted = {seat: pod for pod in pods if (seat := _seat(pod)) is not None}
        for seat in [seat for seat in self._running if seat not in wanted]:
            await self._running.pop(seat).stop(grace_s=0)
        for seat, pod in wanted.items():
            if seat not in self._running:
                await self._start(seat, pod)

    async def _start(self, seat: _Seat, pod: Manifest) -> None:
        try:
            config = engine_config(pod, self._cluster.name, speed=_SPEED, timing=LLAMA_8B_H200)
        except InputError as error:
            print(f"{self._cluster.name}: no engine for {name_of(pod)}: {error}", flush=True)
            return
        engine = SimulatedEngine(config, exchange=self._exchange)
        await engine.start(seat.host, seat.port)
        self._running[seat] = engine


def _seat(pod: Manifest) -> _Seat | None:
    address = text(pod, "status", "podIP")
    if text(pod, "status", "phase") != "Running" or not address or text(pod, "metadata", "deletionTimestamp"):
        return None
    if engine_container(pod) is None:
        return None
    return _Seat(text(pod, "metadata", "uid"), address, serving_port(pod))
