"""What the annotations of an InferenceCluster ask of its simulation. Values that make no sense ask for nothing."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from modelplane.api.objects import Manifest
from modelplane.sim.cluster.objects import annotation
from modelplane.sim.cluster.pools import NodePoolSpec
from modelplane.sim.cluster.settings import FAILED, FAULTS, LOAD_SECONDS, PULL_SECONDS, QUOTA, STOCK


@dataclass(frozen=True, slots=True, kw_only=True)
class Knobs:
    """What a cluster is asked for.

    failed: it is dark. stock: nodes to be had. quota: the devices that its scheduler's queue may give away.
    pull_s, load_s, faults: how long images take to arrive and engines to load, and what goes wrong with engines; for
        pods that do not say it themselves.
    """

    failed: bool = False
    pull_s: float | None = None
    load_s: float | None = None
    faults: str = ""
    stock: Mapping[str, int] = field(default_factory=dict)
    quota: int | None = None

    def limited(self, pools: Iterable[NodePoolSpec]) -> tuple[NodePoolSpec, ...]:
        """The pools with no more nodes than there are to be had."""
        return tuple(replace(pool, nodes=min(pool.nodes, self.stock.get(pool.name, pool.nodes))) for pool in pools)


def knobs_of(cluster: Manifest) -> Knobs:
    quota = annotation(cluster, QUOTA)
    return Knobs(
        failed=annotation(cluster, FAILED).lower() == "true",
        pull_s=seconds(annotation(cluster, PULL_SECONDS)),
        load_s=seconds(annotation(cluster, LOAD_SECONDS)),
        faults=annotation(cluster, FAULTS),
        stock=stock_of(cluster),
        quota=int(quota) if quota.isdecimal() else None,
    )


def stock_of(cluster: Manifest) -> dict[str, int]:
    entries = (entry.partition("=") for entry in annotation(cluster, STOCK).split(",") if entry)
    return {name.strip(): int(nodes) for name, _, nodes in entries if nodes.strip().isdecimal()}


def stock_text(stock: Mapping[str, int]) -> str | None:
    """What the annotation says; None where there is nothing to say."""
    return ",".join(f"{name}={nodes}" for name, nodes in sorted(stock.items())) or None


def seconds(text: str) -> float | None:
    """A time that something takes, or None for what is no such time."""
    try:
        found = float(text)
    except ValueError:
        return None
    return found if 0 <= found < math.inf else None
