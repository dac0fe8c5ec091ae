"""What a pod may request of its node's CPU and memory: as much of it as of the node's devices.

A pod that claims two of eight GPUs may request a quarter of what the node's class says that a node has, less a quarter
of that: the kubelet and the system reserve a part, and agents run on every node. Pods that take all devices of a node
together therefore always fit there, and placement, which counts devices, need not count CPU and memory as well.

The share is written on the ModelReplica when it is placed. A replica that has none, or another one because its class
says something else by now, keeps what it has until something else of it changes: see `rolling_update`.

Nothing is guessed: no share without the class's word, without claims, or on nodes whose devices are divided, where a
device is no fixed part of the node.
"""

from collections import Counter
from fractions import Fraction

from modelplane.api.models import NodeResources
from modelplane.k8s.quantity import QuantityError, quantity_from_json
from modelplane.placement.hardware import Hardware, count_in
from modelplane.placement.matching import Claim
from modelplane.placement.values import Pool

_FOR_PODS = Fraction(3, 4)
_NANOS = 10**9
_MEBI = 2**20


def node_share(pool: Pool | None, claims: tuple[Claim, ...]) -> NodeResources | None:
    """None where there is nothing to go by."""
    if pool is None or pool.node_resources is None:
        return None
    part = _part(pool.hardware, claims) * _FOR_PODS
    node = pool.node_resources
    found = NodeResources(cpu=_cpu(node.cpu, part), memory=_memory(node.memory, part))
    return found if found != NodeResources() else None


def _part(hardware: Hardware, claims: tuple[Claim, ...]) -> Fraction:
    """Of the DeviceClass that it claims most of."""
    if hardware.is_divided:
        return Fraction(0)
    claimed: Counter[str] = Counter()
    for claim in claims:
        if claim.device_class is not None:
            claimed[claim.device_class] += claim.count
    there = {name: count_in(hardware.counts, hardware.mask(name)) for name in claimed}
    return max(
        (min(Fraction(claimed[name], there[name]), Fraction(1)) for name in there if there[name]), default=Fraction(0)
    )


def _cpu(text: str | None, part: Fraction) -> str | None:
    return cpu_text(int(_nanos(text) * part * 1000 / _NANOS))


def _memory(text: str | None, part: Fraction) -> str | None:
    return memory_text(int(_nanos(text) * part / _NANOS))


def _nanos(text: str | None) -> int:
    try:
        return quantity_from_json(text).nanos or 0 if text is not None else 0
    except QuantityError:
        return 0


def cpu_text(millis: int) -> str | None:
    """As a quantity; None for nothing."""
    if millis <= 0:
        return None
    return str(millis // 1000) if millis % 1000 == 0 else f"{millis}m"


def memory_text(size: int) -> str | None:
    mebis = size // _MEBI
    return f"{mebis}Mi" if mebis > 0 else None


def cpu_millis(value: object) -> int:
    """Of a quantity as it is written in a container; rounded up, as kubelets count."""
    return -(-_written(value) * 1000 // _NANOS)


def memory_bytes(value: object) -> int:
    return -(-_written(value) // _NANOS)


def _written(value: object) -> int:
    return _nanos(str(value)) if value is not None else 0
