"""How long allocation takes: on one node, and over a thousand of them.

Each figure is the best of several rounds, so that a busy machine does not decide it.
"""

import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass

from modelplane.k8s.dra import (
    Allocated,
    AllocationPlan,
    Allocator,
    DeviceId,
    DeviceUsage,
    Features,
    Inventory,
    Node,
    NodeAllocation,
    NoFit,
    decode_claims,
    decode_classes,
    decode_node,
    decode_slices,
    prepare_claims,
)

_NODES = 1_000
_GPUS = 8
_DRIVER = "gpu.nvidia.com"
_CLASS_SELECTOR = f"device.driver == '{_DRIVER}' && device.attributes['{_DRIVER}'].type == 'gpu'"
_REQUEST_SELECTOR = (
    f'device.attributes["{_DRIVER}"].architecture == "Hopper" && '
    f'device.capacity["{_DRIVER}"].memory.compareTo(quantity("79Gi")) >= 0'
)


@dataclass(frozen=True, slots=True)
class Row:
    """One figure; `ok` says that it is within its limit."""

    id: str
    value: float
    unit: str
    limit: float
    ok: bool
    baseline: float | None = None


def rows() -> list[dict[str, object]]:
    """The figures of allocation."""
    inventory = Inventory(decode_slices(_slice(f"node-{index}") for index in range(_NODES)))
    nodes = [decode_node({"metadata": {"name": f"node-{index}"}}) for index in range(_NODES)]
    return [asdict(row) for row in (*_one_node(inventory, nodes[0]), *_many_nodes(inventory, nodes))]


def _one_node(inventory: Inventory, node: Node) -> Iterable[Row]:
    allocator = Allocator(inventory)
    warm = _plan(_GPUS)
    _require(allocator.allocate(warm, node), Allocated)
    yield _row("dra.allocate.8_of_8", _best_us(lambda: allocator.allocate(warm, node), 200), "µs", 200)
    yield _row(
        "dra.allocate.8_of_8.new_claim", _best_us(lambda: allocator.allocate(_plan(_GPUS), node), 50), "µs", 1_000
    )


def _many_nodes(inventory: Inventory, nodes: list[Node]) -> Iterable[Row]:
    taken = (DeviceId(_DRIVER, f"node-{node}", f"gpu-{gpu}") for node in range(_NODES - 1) for gpu in range(_GPUS))
    busy = Allocator(inventory, DeviceUsage(frozenset(taken)))
    _require(busy.allocate_first(_plan(1), nodes), NodeAllocation)
    yield _row("dra.allocate.1_of_1000x8", _best_us(lambda: busy.allocate_first(_plan(1), nodes), 10) / 1e3, "ms", 20)
    idle = Allocator(inventory)
    refused = _plan(1, 'device.attributes["gpu.nvidia.com"].architecture == "Blackwell"')
    _require(idle.allocate_first(refused, nodes), NoFit)
    yield _row("dra.allocate.none_of_1000x8", _best_us(lambda: idle.allocate_first(refused, nodes), 10) / 1e3, "ms", 40)


def _require(outcome: object, kind: type) -> None:
    if not isinstance(outcome, kind):
        raise TypeError(f"the benchmark is broken: expected {kind.__name__}, got {outcome}")


def _row(identity: str, value: float, unit: str, limit: float) -> Row:
    return Row(identity, round(value, 2), unit, limit, value <= limit)


def _best_us(action: Callable[[], object], rounds: int) -> float:
    best = float("inf")
    for _ in range(rounds):
        start = time.perf_counter()
        action()
        best = min(best, time.perf_counter() - start)
    return best * 1e6


def _plan(count: int, selector: str = _REQUEST_SELECTOR) -> AllocationPlan:
    classes = [
        {"metadata": {"name": "gpu.nvidia.com"}, "spec": {"selectors": [{"cel": {"expression": _CLASS_SELECTOR}}]}}
    ]
    exactly = {"deviceClassName": "gpu.nvidia.com", "count": count, "selectors": [{"cel": {"expression": selector}}]}
    claim = {"metadata": {"name": "gpus"}, "spec": {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}}
    return prepare_claims(decode_claims([claim]), decode_classes(classes), Features())


def _slice(node: str) -> dict[str, object]:
    return {
        "metadata": {"name": f"{node}-gpus"},
        "spec": {
            "driver": _DRIVER,
            "nodeName": node,
            "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
            "devices": [_gpu(node, index) for index in range(_GPUS)],
        },
    }


def _gpu(node: str, index: int) -> dict[str, object]:
    return {
        "name": f"gpu-{index}",
        "attributes": {
            "type": {"string": "gpu"},
            "uuid": {"string": f"GPU-{node}-{index}"},
            "architecture": {"string": "Hopper"},
            "productName": {"string": "NVIDIA H100 80GB HBM3"},
            "driverVersion": {"version": "580.65.6"},
        },
        "capacity": {"memory": {"value": "81559Mi"}},
    }


if __name__ == "__main__":
    for figure in rows():
        print(figure)
