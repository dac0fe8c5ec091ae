"""Simulation settings of a cluster, from the annotations of its InferenceCluster. Unreadable values are ignored."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from modelplane.api.objects import Manifest
from modelplane.sim.cluster.images import ImageRule, rules_of
from modelplane.sim.cluster.loaders import SourceFaults
from modelplane.sim.cluster.objects import annotation
from modelplane.sim.cluster.pools import NodePoolSpec
from modelplane.sim.cluster.settings import (
    ENGINE_FLAGS,
    FAILED,
    FAULTS,
    IMAGES,
    LOAD_SECONDS,
    PULL_SECONDS,
    QUOTA,
    SOURCES,
    STOCK,
)
from modelplane.sim.engine.known_flags import FlagRules, flag_rules_of


@dataclass(frozen=True, slots=True, kw_only=True)
class SimSettings:
    """Simulation settings of one cluster.

    failed: the cluster is down. stock: nodes that the provider has, by pool. quota: devices of the scheduler's queue.
    images: the images that its registries have besides the known ones, and those they do not have. flags: the same
    of the options of its engines. sources: what is wrong with where its caches come from.
    pull_s, load_s, faults: image pull time, model load time and engine faults, for pods without such annotations.
    """

    failed: bool = False
    pull_s: float | None = None
    load_s: float | None = None
    faults: str = ""
    stock: Mapping[str, int] = field(default_factory=dict)
    quota: int | None = None
    images: tuple[ImageRule, ...] = ()
    flags: FlagRules = field(default_factory=FlagRules)
    sources: SourceFaults = field(default_factory=SourceFaults)

    def limited(self, pools: Iterable[NodePoolSpec]) -> tuple[NodePoolSpec, ...]:
        """The pools, limited to the stock of nodes."""
        return tuple(replace(pool, nodes=min(pool.nodes, self.stock.get(pool.name, pool.nodes))) for pool in pools)


def sim_settings_of(cluster: Manifest) -> SimSettings:
    quota = annotation(cluster, QUOTA)
    return SimSettings(
        failed=annotation(cluster, FAILED).lower() == "true",
        pull_s=seconds(annotation(cluster, PULL_SECONDS)),
        load_s=seconds(annotation(cluster, LOAD_SECONDS)),
        faults=annotation(cluster, FAULTS),
        stock=stock_of(cluster),
        quota=int(quota) if quota.isdecimal() else None,
        images=rules_of(annotation(cluster, IMAGES)),
        flags=flag_rules_of(annotation(cluster, ENGINE_FLAGS)),
        sources=SourceFaults.read(annotation(cluster, SOURCES)),
    )


def stock_of(cluster: Manifest) -> dict[str, int]:
    entries = (entry.partition("=") for entry in annotation(cluster, STOCK).split(",") if entry)
    return {name.strip(): int(nodes) for name, _, nodes in entries if nodes.strip().isdecimal()}


def stock_text(stock: Mapping[str, int]) -> str | None:
    """The value of the annotation; None removes it."""
    return ",".join(f"{name}={nodes}" for name, nodes in sorted(stock.items())) or None


def seconds(text: str) -> float | None:
    """A number of seconds; None for anything else."""
    try:
        found = float(text)
    except ValueError:
        return None
    return found if 0 <= found < math.inf else None
