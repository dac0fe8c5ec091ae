"""What placement costs: cold and live decisions, a whole fleet's worth of them, a pass with nothing to do, memory.

Processor time, the best of several runs, since the machine is shared; `limits_fleet.json` has mean and spread. The
baseline of a time is the plain scheduler of `fleet_reference` on the same fleet in the same run, or, where growth is
the point, the same figure on a fleet of a tenth of the size.
"""

import gc
import json
import statistics
import time
import tracemalloc
from collections.abc import Callable
from functools import cache
from pathlib import Path

import fleet_reference
import msgspec

from modelplane.api.meta import Key, Uid
from modelplane.api.models import InferenceCluster
from modelplane.compose.fleet_snapshot import cluster_of
from modelplane.placement.request import EngineRequest, MemberRequest, NodeDeviceRequest, PlacementRequest
from modelplane.placement.schedule import schedule
from modelplane.placement.snapshot import Fleet

HARDWARE = (
    ("H200", "141Gi", 8, "84.80"),
    ("H100", "80Gi", 8, "55.04"),
    ("A100", "40Gi", 4, "14.69"),
    ("L4", "24Gi", 1, "0.81"),
)
MIX = ((1, "20Gi", 1), (4, "80Gi", 1), (8, "80Gi", 2), (2, "40Gi", 1), (1, "100Gi", 1))
"""Devices, memory and nodes of the deployments of a busy fleet."""
STATUS_CANDIDATES = 32
LIMITS_FILE = Path(__file__).resolve().parent / "limits_fleet.json"


def rows() -> list[dict[str, object]]:
    busy, throughput = _busy(1000)
    plain_100, plain_1000, plain_5000 = (_plain_ms(size) for size in (100, 1000, 5000))
    live_1000, live_5000, live_500 = (_live_ms(size) for size in (1000, 5000, 500))
    steady, steady_small, steady_wide = _steady_ms(busy), _steady_ms(_busy(100)[0]), _steady_ms(_widened(busy, 9000))
    return [
        _row("fleet/cold-1000x4-10-replicas", _cold_ms(1000), "ms", 20.0, plain_1000),
        _row("fleet/cold-5000x4-10-replicas", _cold_ms(5000), "ms", 80.0, plain_5000),
        _row("fleet/live-1000x4-10-replicas", live_1000, "ms", 3.0, plain_1000),
        _row("fleet/live-5000x4-10-replicas", live_5000, "ms", 5.0, plain_5000),
        _row("fleet/live-growth-10x-fleet", live_5000 / live_500, "ratio", 10.0, 10.0),
        _row("fleet/placements-per-second-traces-on", throughput, "1/s", 10_000.0, 10 / plain_1000 * 1000, higher=True),
        _row("fleet/steady-10000-replicas", steady, "ms", 1.0, steady_small),
        _row("fleet/steady-growth-10x-fleet", steady_wide / steady, "ratio", 1.5, 1.0),
        _row("fleet/steady-1000-replicas-of-one", _steady_one_ms(), "ms", 4.0, steady),
        _row("fleet/memory-1000-clusters-10000-replicas", _memory_mb(), "MB", 150.0, None),
        _row("fleet/p99-100x4-1000-replicas-10-to-place", _p99_ms(), "ms", 50.0, plain_100),
    ]


def _row(
    name: str, value: float, unit: str, limit: float, baseline: float | None, *, higher: bool = False
) -> dict[str, object]:
    ok = value >= limit if higher else value <= limit
    row: dict[str, object] = {"id": name, "value": round(value, 3), "unit": unit, "limit": limit, "ok": ok}
    row["baseline"] = round(baseline, 3) if baseline is not None else None
    return {**row, "better": "higher"} if higher else row


def ask(number: int, *, replicas: int = 10, devices: int = 1, memory: str = "40Gi", nodes: int = 1) -> PlacementRequest:
    cel = (
        'device.driver == "gpu.nvidia.com" && '
        f'device.capacity["gpu.nvidia.com"].memory.compareTo(quantity("{memory}")) >= 0'
    )
    member = MemberRequest(nodes, (NodeDeviceRequest("gpu", devices, (cel,)),))
    key = Key(f"team-{number % 20}", f"model-{number}", Uid(f"uid-{number}"))
    return PlacementRequest(deployment=key, replicas=replicas, engines=(EngineRequest("main", 1, (member,)),))


def objects(size: int) -> list[InferenceCluster]:
    """Clusters as they come from a store: each decoded by itself, sharing nothing."""
    return [msgspec.json.decode(_text(number), type=InferenceCluster) for number in range(size)]


@cache
def _text(number: int) -> bytes:
    pools = [
        {
            "name": f"pool-{at}",
            "className": product.lower(),
            "nodes": 8,
            "pricePerNodeHour": price,
            "currency": "USD",
            "devices": [_device(product, memory, count)],
        }
        for at, (product, memory, count, price) in enumerate(HARDWARE)
    ]
    ready = {"type": "Ready", "status": "True", "reason": "Available", "observedGeneration": 1}
    document = {
        "metadata": {
            "name": f"cluster-{number:05}",
            "generation": 1,
            "labels": {"region": f"region-{number % 12}", "kubernetes.io/name": f"cluster-{number}"},
        },
        "spec": {
            "cluster": {"source": "Existing", "existing": {"secretRef": {"name": f"kubeconfig-{number}"}}},
            "nodePools": [{"name": pool["name"], "className": pool["className"], "nodeCount": 8} for pool in pools],
        },
        "status": {"conditions": [ready], "gateway": {"address": "192.0.2.1"}, "gpuPools": pools},
    }
    return json.dumps(document).encode()


def _device(product: str, memory: str, count: int) -> dict[str, object]:
    return {
        "name": "gpu",
        "claim": "DRA",
        "driver": "gpu.nvidia.com",
        "deviceClassName": "gpu.nvidia.com",
        "count": count,
        "attributes": {
            "type": {"string": "gpu"},
            "productName": {"string": product},
            "cudaComputeCapability": {"version": "9.0.0"},
        },
        "capacity": {"memory": {"value": memory}},
    }


def fleet(size: int) -> Fleet:
    return Fleet.of([cluster_of(found) for found in objects(size)])


def _best_ms(run: Callable[[], object], times: int) -> float:
    return min(_samples_ms(run, times))


def _samples_ms(run: Callable[[], object], times: int) -> list[float]:
    samples: list[float] = []
    for _ in range(times):
        gc.collect()
        start = time.process_time()
        run()
        samples.append((time.process_time() - start) * 1000)
    return samples


def _cold_ms(size: int) -> float:
    found = objects(size)
    return _best_ms(lambda: schedule(ask(1), Fleet.of([cluster_of(one) for one in found])), 7)


def _live_ms(size: int) -> float:
    live = fleet(size)
    return _best_ms(lambda: schedule(ask(1), live), 15)


def _plain_ms(size: int) -> float:
    clusters = [cluster_of(found) for found in objects(size)]
    return _best_ms(lambda: fleet_reference.place(ask(1), clusters, ()), 3)


@cache
def _busy(size: int) -> tuple[Fleet, float]:
    """A fleet with `size` deployments of 10 replicas each, and how many were placed a second, best of three runs."""
    best, full = 0.0, Fleet.of()
    for _ in range(3):
        full, rate = _fill(fleet(size), size)
        best = max(best, rate)
    return full, best


def _fill(live: Fleet, deployments: int) -> tuple[Fleet, float]:
    placed = 0
    gc.collect()
    start = time.process_time()
    for number in range(deployments):
        devices, memory, nodes = MIX[number % len(MIX)]
        decided = schedule(ask(number, devices=devices, memory=memory, nodes=nodes), live)
        decided.trace.shown(STATUS_CANDIDATES)
        live = live.with_replicas([placement.replica for placement in decided.placements])
        placed += len(decided.placements)
    return live, placed / (time.process_time() - start)


def _widened(live: Fleet, more: int) -> Fleet:
    """The same replicas in a fleet that has many more clusters."""
    clusters = [cluster_of(found) for found in objects(1000 + more)]
    return Fleet.of(clusters, live.replicas)


def _steady_ms(live: Fleet) -> float:
    """A pass over each of a hundred deployments that have all they ask for; the mean of one."""

    def passes() -> None:
        for number in range(100):
            devices, memory, nodes = MIX[number % len(MIX)]
            decided = schedule(ask(number, devices=devices, memory=memory, nodes=nodes), live)
            if decided.pending or decided.dropped:
                raise RuntimeError("a steady pass has nothing to do")

    return _best_ms(passes, 12) / 100


def _steady_one_ms() -> float:
    """A pass over one deployment that has a thousand replicas, on a fleet that was read from objects."""
    live = fleet(1000)
    wanted = ask(1, replicas=1000)
    placed = [placement.replica for placement in schedule(wanted, live).placements]
    seen = Fleet.of([cluster_of(found) for found in objects(1000)], placed)
    return _best_ms(lambda: schedule(wanted, seen), 12)


def _memory_mb() -> float:
    """What a fleet of a thousand clusters and ten thousand replicas holds on to, with what was remembered for it."""
    gc.collect()
    tracemalloc.start()
    try:
        kept = _fill(fleet(1000), 1000)
        gc.collect()
        size, _ = tracemalloc.get_traced_memory()
        del kept
    finally:
        tracemalloc.stop()
    return size / 1e6


def _p99_ms() -> float:
    live, _ = _fill(fleet(100), 100)
    samples = _samples_ms(lambda: schedule(ask(100_000), live), 100)
    return statistics.quantiles(samples, n=100)[98]


if __name__ == "__main__":
    for row in rows():
        print(row)
