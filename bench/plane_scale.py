"""A plane with a fleet: as many clusters with four pools each, and as many deployments with ten replicas each.

    python bench/plane_scale.py FOLDER CLUSTERS

It is the whole plane, with its API and its Envoy, but no engine is behind the pods: ten thousand HTTP servers are
another figure, measured elsewhere. Prints a line of JSON once the API answers, one once everything is ready, and one
more for each line that it is given, with its memory and its CPU time; progress goes to standard error. On a folder that
has a plane already it goes on with that. Ends with its standard input.
"""

import asyncio
import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import yaml

from modelplane.api.objects import Manifest, name_of
from modelplane.plane.apply import admitted
from modelplane.plane.plane import Plane, PlaneSettings
from modelplane.reconcile.collector import calm_collector
from modelplane.reconcile.store import StoreChange
from modelplane.sim.cluster.controller import ClusterStore
from modelplane.sim.cluster.engine_exit import EngineExit
from modelplane.sim.cluster.objects import condition_is
from modelplane.sim.cluster.phases import Running
from modelplane.sim.cluster.settings import ClusterSettings
from modelplane.sim.engine import Faults

POOLS, REPLICAS = 4, 10
GROUP, VERSION = "modelplane.ai", "modelplane.ai/v1alpha1"
EXAMPLES = Path(__file__).resolve().parent.parent / "examples" / "quickstart"


class NoEngines:
    """Counts the engines that there would be."""

    simulated = True

    def __init__(self) -> None:
        self._started = 0

    async def start(
        self,
        pod: Manifest,  # noqa: ARG002
        cluster: str,  # noqa: ARG002
        *,
        store: ClusterStore,  # noqa: ARG002
        crashed: Callable[[EngineExit | None], None],  # noqa: ARG002  none ever does
    ) -> Running:
        self._started += 1
        return Running("127.0.0.1", 1 + self._started % 65_000)

    async def start_picker(self, _pod: Manifest, _store: ClusterStore) -> Running:
        self._started += 1
        return Running("127.0.0.1", 1 + self._started % 65_000)

    async def healthy(self, _running: Running) -> bool:
        return True

    async def warm_up(self, running: Running, words: Sequence[str]) -> None:
        """It is warm."""

    def set_faults(self, running: Running, faults: Faults) -> None:
        """Nothing can go wrong."""

    async def stop(self, running: Running, *, grace_s: float) -> None:
        """Nothing runs."""


def fleet(clusters: int) -> Iterator[Manifest]:
    hardware, *platform = (each for name in ("1-hardware", "2-clusters") for each in _read(name))
    cluster, gateway = platform[0], platform[-1]
    yield from (hardware, gateway)
    pools = [{"name": f"pool-{pool}", "className": "h200-8x", "nodeCount": 1} for pool in range(POOLS)]
    for number in range(clusters):
        metadata = {"name": f"cluster-{number:04}", "labels": {"region": f"region-{number % 10}"}}
        yield {**cluster, "metadata": metadata, "spec": {**cluster["spec"], "nodePools": pools}}


def deployments(count: int) -> Iterator[Manifest]:
    model = next(_read("3-model"))
    for number in range(count):
        name = f"model-{number:04}"
        spec = {**model["spec"], "replicas": REPLICAS, "labels": {"app": name}}
        yield {**model, "metadata": {"name": name, "namespace": "default"}, "spec": spec}


def _read(name: str) -> Iterator[dict[str, dict[str, object]]]:
    path = next(EXAMPLES.glob(f"{name}*.yaml"))
    yield from yaml.safe_load_all(path.read_text())


class Ready:
    """Counts the objects of a few kinds that are ready, by listening: listing all of them would be the heavier part."""

    def __init__(self, plane: Plane, *kinds: str) -> None:
        self._found: dict[str, set[str]] = {kind: set() for kind in kinds}
        for kind in kinds:
            self._found[kind].update(name_of(each) for each in plane.store.list(GROUP, kind) if _is_ready(each))
        plane.store.subscribe(self._heard)

    def _heard(self, change: StoreChange) -> None:
        found = self._found.get(change.ref.kind)
        if found is not None:
            (found.add if _is_ready(change.manifest) else found.discard)(change.ref.name)

    async def wait(self, kind: str, count: int) -> None:
        while True:
            ready = len(self._found[kind])
            took = f"{time.process_time():.0f} s of CPU, {_resident_mb()} MB, Envoy {_envoy_mb()} MB"
            print(f"{ready} of {count} {kind}, {took}", file=sys.stderr, flush=True)
            if ready >= count:
                return
            await asyncio.sleep(5)


def _is_ready(item: Manifest) -> bool:
    return condition_is(item, "Ready")


async def main(folder: Path, clusters: int) -> None:
    settings = PlaneSettings(data=folder, cluster=ClusterSettings(pull_s=0.01, load_s=0.01))
    is_new, began = not (folder / "plane.db").exists(), time.perf_counter()
    async with Plane(settings, engines=NoEngines()) as plane:
        calm_collector()
        ready = Ready(plane, "InferenceCluster", "ModelReplica", "ModelDeployment")
        _tell(wall_s=time.perf_counter() - began)
        if is_new:
            await _create(plane, fleet(clusters))
        await ready.wait("InferenceCluster", clusters)
        if is_new:
            await _create(plane, deployments(clusters))
        await ready.wait("ModelReplica", clusters * REPLICAS)
        await ready.wait("ModelDeployment", clusters)
        await _rest()
        _tell(wall_s=time.perf_counter() - began)
        while await asyncio.to_thread(sys.stdin.readline):
            _tell()


async def _create(plane: Plane, manifests: Iterator[Manifest]) -> None:
    for manifest in manifests:
        plane.store.create(admitted(manifest))
        await asyncio.sleep(0)


async def _rest() -> None:
    """Until a second takes a tenth of a second of work."""
    while True:
        before = time.process_time()
        await asyncio.sleep(1)
        if time.process_time() - before < 0.1:  # noqa: PLR2004  said above
            return


def _tell(**more: float) -> None:
    found = {"mb": _resident_mb(), "envoy_mb": _envoy_mb(), "cpu_s": time.process_time(), **more}
    print(json.dumps(found), flush=True)


def _resident_mb(process: str = "self") -> int:
    """Its memory; 0 for one that has just ended."""
    try:
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
    except OSError:
        return 0
    fields = dict(line.split(":", 1) for line in lines if ":" in line)
    return int(fields.get("VmRSS", "0 kB").split()[0]) // 1024


def _envoy_mb() -> int:
    """What the processes take that this one started."""
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    return sum(map(_resident_mb, children))


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2])))
