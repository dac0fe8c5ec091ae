"""A GPU and its network card on one PCIe root, where the network is what an engine works with.

An engine over several nodes and one of two phases send from the GPU's memory by a card, and a card on another root
halves the rate. So the claim of such an engine demands one root for its devices of different classes, if the class of
the pool says that devices share roots and as many as are claimed are on one. More devices than one root has would fit
no node: who claims those writes pairs as `matchAttributes`, and what is written there wins.

Which requests these are is written on the ModelReplica when it is placed, as the share of the node is. A replica that
runs without keeps its devices.
"""

from collections import Counter
from collections.abc import Iterable

from modelplane.placement.hardware import Hardware
from modelplane.placement.matching import Claim
from modelplane.placement.request import AttributeMatch
from modelplane.placement.values import Pool

PCIE_ROOT = "resource.kubernetes.io/pcieRoot"


def root_requests(
    pool: Pool | None, claims: tuple[Claim, ...], matches: Iterable[AttributeMatch], *, networked: bool
) -> tuple[str, ...]:
    """The names of the requests whose devices are to be on one root; none where nothing demands it."""
    written = any(each.attribute == PCIE_ROOT for each in matches)
    if not networked or written or pool is None or pool.hardware.is_divided:
        return ()
    claimed = [(claim, claim.device_class) for claim in claims if claim.device_class is not None]
    counts: Counter[str] = Counter()
    for claim, name in claimed:
        counts[name] += claim.count
    fits = all(count <= _on_one_root(pool.hardware, name) for name, count in counts.items())
    return tuple(claim.name for claim, _ in claimed) if len(counts) > 1 and fits else ()


def _on_one_root(hardware: Hardware, device_class: str) -> int:
    """Devices of a class that share a root, as the worst kind of them does; 0 where it is not said."""
    shared = [dict(kind.per_value).get(PCIE_ROOT, 0) for kind in hardware.kinds if kind.device_class == device_class]
    return min(shared, default=0)
