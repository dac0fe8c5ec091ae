"""Grows a fleet step by step on a lab's control cluster, and measures each size.

At each size: how long until everything is Ready, what the calls cost, whether anything goes on afterwards that nobody
asked for, and how many calls one small change causes. A size that is not reached in time ends the run with what was
measured before it.
"""

from __future__ import annotations

import asyncio
import os
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

from lab.client import Manifest, WaitedTooLongError, condition, items, text, until, value
from lab.e2e.world import enter
from lab.scale import fleet
from lab.scale.calls import Account, Cost, Entry, by_kind, costs, starts
from lab.scale.provider import Provider, cancelled
from modelplane.crossplane.calls import RESYNC_S
from modelplane.kube import GroupVersionResource, Informer, KubeClient, Query, load_config

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from lab.e2e.world import World
    from lab.places import Places

_SETTLED_S = 30.0
_SETTLED_WITHIN_S = 900.0
_QUIET_S = 60.0
_ROUND_S = RESYNC_S * 1.1
"""In which the clock asks for every composite once: it is spread by a tenth."""
_AT_ONCE = 4
_TELL_S = 15.0


@dataclass(frozen=True, slots=True)
class Size:
    """`replicas` in deployments of ten."""

    clusters: int
    replicas: int

    @property
    def deployments(self) -> int:
        return self.replicas // fleet.REPLICAS_EACH

    def __str__(self) -> str:
        """As the reports spell it."""
        return f"{self.clusters} clusters, {self.replicas} replicas"


@dataclass(frozen=True, slots=True)
class Measured:
    """One size."""

    size: Size
    added_replicas: int
    ready_after_s: float
    settled_after_s: float
    calls: int
    growing: Mapping[str, Cost]
    """While the machine is full of work for the other programs."""
    at_rest: Mapping[str, Cost]
    """At this size: when the clock asks, and after the changes."""
    quiet_s: float
    quiet_due: int
    """Calls of a quiet time that the clock asked for."""
    quiet_caused: int
    """And those that nothing explains."""
    per_change: Mapping[str, Mapping[str, int]]
    memory_mib: Mapping[str, int]
    processor_s: Mapping[str, float]
    load: float


@dataclass(slots=True)
class Outcome:
    """What was reached."""

    measured: list[Measured] = field(default_factory=list)
    ended: str = ""
    """Why the run stopped early; empty: it did not."""
    starts: int = 1
    """How often the function server was started: one that was killed knows nothing at first."""


async def run(places: Places, sizes: Sequence[Size], patience_s: float, say: Callable[[str], None]) -> Outcome:
    """Needs a lab that is up and has nothing of ours on it yet."""
    outcome = Outcome()
    async with enter(places, say, "lean") as world:
        say("installing; the workload clusters and their provider are put to rest")
        await asyncio.to_thread(world.tell, "install", mode="lean")
        await _rest(world)
        provider = Provider(world.control, world.kubeconfigs["control"])
        async with _Watching(world.kubeconfigs["control"]) as watching:
            work = asyncio.create_task(provider.run())
            try:
                await _grow(_Bench(world, watching, Account(places.logs / "function.log"), patience_s), sizes, outcome)
            finally:
                await cancelled(work)
    outcome.starts = starts(places.logs / "function.log")
    return outcome


async def _rest(world: World) -> None:
    state = await asyncio.to_thread(world.tell, "status")
    sites = tuple(f"{site}-" for site in world.sites)
    for program in items(state, "programs"):
        name = text(program, "name")
        if name.startswith(sites) or name == "provider-kubernetes":
            await asyncio.to_thread(world.tell, "hold", name=name)


class _Watching:
    """Which clusters and deployments are Ready, without asking for all of them again and again."""

    def __init__(self, kubeconfig: Path) -> None:
        self._client = KubeClient(load_config(kubeconfig))
        self._informers = {
            plural: Informer(self._client, Query(GroupVersionResource("modelplane.ai", "v1alpha1", plural)), _readiness)
            for plural in ("inferenceclusters", "modeldeployments", "modelreplicas")
        }
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        self._tasks = [asyncio.create_task(informer.run()) for informer in self._informers.values()]
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            await cancelled(task)
        await self._client.close()

    def count(self, plural: str) -> int:
        return len(self._informers[plural].snapshot)

    def ready(self, plural: str) -> int:
        return sum(self._informers[plural].snapshot.values())


def _readiness(raw: Mapping[str, object]) -> bool:
    return condition(dict(raw), "Ready") == "True"


@dataclass(slots=True)
class _Bench:
    world: World
    watching: _Watching
    account: Account
    patience_s: float
    said_at: float = 0.0

    def tell(self, line: str) -> None:
        """Not more often than one cares to read."""
        if time.monotonic() - self.said_at >= _TELL_S:
            self.said_at = time.monotonic()
            self.world.say(line)

    async def reached(self, plural: str, count: int) -> None:
        async def holds() -> bool:
            ready = self.watching.ready(plural)
            self.account.read()
            self.tell(f"{plural}: {ready} of {count} Ready, {len(self.account.entries)} calls")
            return ready >= count

        await until(f"{count} {plural} Ready", holds, within_s=self.patience_s)

    async def settled(self) -> list[Entry]:
        """The caused calls until there was none for a while."""
        found: list[Entry] = []
        last = time.monotonic()
        deadline = last + _SETTLED_WITHIN_S
        while time.monotonic() - last < _SETTLED_S:
            if time.monotonic() > deadline:
                raise WaitedTooLongError(f"calls go on: {by_kind(found[-200:])}")
            caused = [entry for entry in self.account.read() if entry.caused]
            found += caused
            last = time.monotonic() if caused else last
            self.tell(f"settling, {len(found)} calls so far")
            await asyncio.sleep(0.5)
        return found


async def _grow(bench: _Bench, sizes: Sequence[Size], outcome: Outcome) -> None:
    await bench.world.control.apply_all(fleet.platform())
    before = Size(0, 0)
    for size in sizes:
        bench.world.say(f"growing to {size}")
        try:
            outcome.measured.append(await _measure(bench, before, size, is_last=size is sizes[-1]))
        except WaitedTooLongError as error:
            outcome.ended = f"{size}: {error}"
            bench.world.say(outcome.ended)
            return
        before = size
        bench.world.say(f"measured {size}")


async def _measure(bench: _Bench, before: Size, size: Size, *, is_last: bool) -> Measured:
    first, used = len(bench.account.entries), await _programs(bench.world, "cpu_s")
    began = time.monotonic()
    new_clusters = [fleet.cluster(number) for number in range(before.clusters, size.clusters)]
    await bench.world.control.apply_all(new_clusters, at_once=_AT_ONCE)
    await bench.reached("inferenceclusters", size.clusters)
    new = [fleet.deployment(number) for number in range(before.deployments, size.deployments)]
    await bench.world.control.apply_all(new, at_once=_AT_ONCE)
    await bench.reached("modelreplicas", size.replicas)
    await bench.reached("modeldeployments", size.deployments)
    ready_after_s = time.monotonic() - began
    await bench.settled()
    settled_after_s = time.monotonic() - began - _SETTLED_S
    entries = bench.account.entries[first:]
    spent = {name: seconds - used.get(name, 0.0) for name, seconds in (await _programs(bench.world, "cpu_s")).items()}
    bench.world.say(f"{size}: Ready after {ready_after_s:.0f} s with {len(entries)} calls; nothing changes for a while")
    if is_last:
        # What changed while it grew is read once more when the clock asks; after a round of that the fleet is at rest.
        await asyncio.sleep(_ROUND_S)
        bench.account.read()
    quiet_s, resting = _ROUND_S if is_last else _QUIET_S, len(bench.account.entries)
    await asyncio.sleep(quiet_s)
    quiet = bench.account.read()
    per_change = {name: by_kind(await _changed(bench, change, size)) for name, change in _CHANGES.items()}
    return Measured(
        size=size,
        added_replicas=size.replicas - before.replicas,
        ready_after_s=ready_after_s,
        settled_after_s=settled_after_s,
        calls=len(entries),
        growing=costs(entries),
        at_rest=costs(bench.account.entries[resting:]),
        quiet_s=quiet_s,
        quiet_due=sum(not entry.caused for entry in quiet),
        quiet_caused=sum(entry.caused for entry in quiet),
        per_change=per_change,
        memory_mib={name: int(mib) for name, mib in (await _programs(bench.world, "rss_mib")).items()},
        processor_s={name: round(seconds, 1) for name, seconds in spent.items() if seconds >= 1},
        load=os.getloadavg()[0],
    )


async def _changed(bench: _Bench, change: _Change, size: Size) -> list[Entry]:
    """The calls that one change causes. A busy Crossplane comes to a new replica late, so the effect is awaited."""
    first = len(bench.account.entries)
    await bench.world.control.patch(_target(change.target), change.patch)
    replicas = size.replicas + change.replicas

    async def shows() -> bool:
        found, ready = bench.watching.count("modelreplicas"), bench.watching.ready("modelreplicas")
        bench.account.read()
        bench.tell(f"{found} replicas, {ready} Ready; {replicas} should be")
        return found == ready == replicas

    await until(f"{replicas} replicas after a change", shows, within_s=bench.patience_s)
    await bench.settled()
    return [entry for entry in bench.account.entries[first:] if entry.caused]


@dataclass(frozen=True, slots=True)
class _Change:
    target: Manifest
    patch: Manifest
    replicas: int = 0
    """How many more there are afterwards than the size has."""


def _target(manifest: Manifest) -> Manifest:
    return {key: manifest[key] for key in ("apiVersion", "kind", "metadata")}


_CHANGES: Mapping[str, _Change] = {
    "a replica more": _Change(fleet.deployment(0), {"spec": {"replicas": fleet.REPLICAS_EACH + 1}}, replicas=1),
    "a replica less": _Change(fleet.deployment(0), {"spec": {"replicas": fleet.REPLICAS_EACH}}),
    "a cluster cordoned": _Change(fleet.cluster(0), {"spec": {"cordoned": True}}),
    "a cluster uncordoned": _Change(fleet.cluster(0), {"spec": {"cordoned": False}}),
}


async def _programs(world: World, figure: str) -> dict[str, float]:
    state = await asyncio.to_thread(world.tell, "status")
    return {
        text(program, "name"): float(str(value(program, figure) or 0))
        for program in items(state, "programs")
        if text(program, "phase") == "ready"
    }
