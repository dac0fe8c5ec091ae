"""Simulated clusters at fleet size: how fast pods come up, what they weigh, and that a fleet at rest does nothing.

Engines only count here: what an engine costs is measured elsewhere. Time is virtual, so that only work is measured.
Memory is measured in a process of its own, which no earlier figure has grown.
"""

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from modelplane.api.objects import manifest
from modelplane.apiserver.store.database import Database
from modelplane.sim.cluster import ClusterSettings, SimulatedCluster
from modelplane.testing.clock import VirtualClock, run_virtual
from modelplane.testing.cluster import TENANT_NAMESPACE, FakeEngines, claim_template, deployment, gpu_pool, service

CLUSTERS, PODS = 1_000, 10_000
SAMPLE = 100
"""Clusters for the figures that do not need all of them."""


def rows() -> list[dict[str, object]]:
    sample = measure(SAMPLE)
    memory = json.loads(subprocess.run([sys.executable, __file__], check=True, capture_output=True).stdout)  # noqa: S603  this file
    what = "pods a second that the store alone takes, created and given a status"
    written = {"what": what, "value": round(_store_rate()), "unit": "/s"}
    empty = {"what": "the same clusters before any pod", "value": memory["empty_mb"], "unit": "MB"}
    busy = {"what": "CPU of bringing the pods up", "value": round(sample["up_s"], 2), "unit": "s"}
    return [
        _row(
            "sim-pods-a-second",
            round(sample["rate"]),
            "/s",
            200,
            {**written, "value": round(_store_rate())},
            higher=True,
        ),
        _row("sim-10k-pods-1k-clusters", memory["mb"], "MB", 500, empty),
        _row("sim-idle-hour", round(sample["idle_s"] * 1000, 2), "ms", 10, busy),
    ]


def _row(
    name: str, value: float, unit: str, limit: float, baseline: Mapping[str, object], *, higher: bool = False
) -> dict[str, object]:
    ok = value >= limit if higher else value <= limit
    row = {"id": name, "value": value, "unit": unit, "limit": limit, "ok": ok, "baseline": baseline}
    return {**row, "better": "higher"} if higher else row


def measure(count: int) -> dict[str, float]:
    """Bring up ten pods with a device each on every cluster."""

    async def main(clock: VirtualClock) -> dict[str, float]:
        engines = FakeEngines(clock)
        clusters = await _clusters(clock, engines, count)
        empty = _resident_mb()
        started = time.process_time()
        for cluster in clusters:
            cluster.api.create(manifest("v1", "Namespace", TENANT_NAMESPACE))
            for item in (claim_template(), deployment(replicas=PODS // CLUSTERS), service()):
                cluster.api.create(item)
        await _at_rest(clusters)
        up = time.process_time() - started
        full, pods = _resident_mb(), len(engines.running)
        rested = time.process_time()
        await clock.sleep(3600)
        idle = time.process_time() - rested
        for cluster in clusters:
            await cluster.stop()
        return {"rate": pods / up, "up_s": up, "idle_s": idle, "pods": pods, "empty_mb": empty, "mb": full}

    return run_virtual(main)


async def _clusters(clock: VirtualClock, engines: FakeEngines, count: int) -> list[SimulatedCluster]:
    database = Database(None, clock=clock)
    found = []
    for number in range(count):
        store = database.store(f"cluster/{number}")
        store.log.disable()
        cluster = SimulatedCluster(f"c{number}", store, clock, engines, ClusterSettings())
        cluster.set_pools([gpu_pool(nodes=4)])
        await cluster.start()
        found.append(cluster)
    await _at_rest(found)
    return found


async def _at_rest(clusters: Sequence[SimulatedCluster]) -> None:
    settled = await asyncio.gather(*(cluster.settle(1000, quiet_s=60) for cluster in clusters))
    if not all(settled):
        raise SystemExit("a simulated cluster did not come to rest")


def _store_rate() -> float:
    clock = VirtualClock()
    store = Database(None, clock=clock).store("pods")
    store.log.disable()
    template = deployment()["spec"]
    started = time.process_time()
    for number in range(PODS // 10):
        made = store.create({**manifest("v1", "Pod", f"p{number}", namespace="team"), "spec": template})
        store.replace_status({**made, "status": {"phase": "Running"}})
    return PODS / 10 / (time.process_time() - started)


def _resident_mb() -> float:
    fields = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines() if ":" in line)
    return round(int(fields["VmRSS"].split()[0]) / 1024)


if __name__ == "__main__":
    print(json.dumps(measure(CLUSTERS)))
