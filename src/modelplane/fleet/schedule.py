"""Where each replica of a deployment goes: a pure function of what was observed.

Identity. A replica is (cluster, index) under its deployment's key; it is never moved.
1. Retain: a replica keeps its place while its cluster exists.
2. Scale down: the highest index on the cluster that has most goes first.
3. Fill: one replica at a time on the cluster with the fewest of ours, then the most free nodes, then by name.

Coarse on purpose: a pod is charged a whole node, so nothing can be overcommitted however the cluster packs its pods.
The cluster is authoritative about what actually fits.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from modelplane.api.labels import selects
from modelplane.api.meta import ClusterName, PoolName
from modelplane.fleet.ask import Ask, EngineAsk
from modelplane.fleet.matching import Unmatched, match
from modelplane.fleet.snapshot import Cluster, Fleet, Holding, Pool


class Verdict(StrEnum):
    CHOSEN = "Chosen"
    ELIGIBLE = "Eligible"
    REFUSED = "Refused"


@dataclass(frozen=True, slots=True)
class Candidate:
    """What was found of a cluster, or of one pool of it."""

    cluster: ClusterName
    verdict: Verdict
    filter: str = ""
    reason: str = ""
    pool: PoolName | None = None


@dataclass(frozen=True, slots=True)
class Schedule:
    placements: tuple[Holding, ...]
    """Every replica that should be, kept or new."""
    dropped: tuple[Holding, ...]
    pending: int
    """Replicas that found no place."""
    trace: tuple[Candidate, ...]


def schedule(ask: Ask, fleet: Fleet) -> Schedule:
    ours = [holding for holding in fleet.holdings if holding.deployment == ask.deployment]
    others = tuple(holding for holding in fleet.holdings if holding.deployment != ask.deployment)
    kept, gone = _retain(ours, fleet)
    kept, surplus = _scale_down(kept, ask.replicas)
    placements = list(kept)
    trace: dict[tuple[ClusterName, PoolName | None], Candidate] = {}
    while len(placements) < ask.replicas:
        view = replace(fleet, holdings=(*others, *placements))
        placed = _place_one(ask, view, placements, trace)
        if placed is None:
            break
        placements.append(placed)
    for holding in placements:
        trace[holding.cluster, None] = Candidate(holding.cluster, Verdict.CHOSEN, reason="holds replicas")
    return Schedule(
        tuple(sorted(placements, key=lambda h: (h.cluster, h.index))),
        tuple(gone + surplus),
        ask.replicas - len(placements),
        tuple(trace[key] for key in sorted(trace, key=lambda k: (k[0], k[1] or ""))),
    )


def _retain(ours: list[Holding], fleet: Fleet) -> tuple[list[Holding], list[Holding]]:
    kept = [holding for holding in ours if holding.cluster in fleet.clusters]
    return kept, [holding for holding in ours if holding.cluster not in fleet.clusters]


def _scale_down(kept: list[Holding], replicas: int) -> tuple[list[Holding], list[Holding]]:
    remaining, surplus = list(kept), []
    while len(remaining) > replicas:
        load = Counter(holding.cluster for holding in remaining)
        loser = max(remaining, key=lambda h: (load[h.cluster], h.cluster, h.index))
        remaining.remove(loser)
        surplus.append(loser)
    return remaining, surplus


def _place_one(
    ask: Ask, fleet: Fleet, placed: list[Holding], trace: dict[tuple[ClusterName, PoolName | None], Candidate]
) -> Holding | None:
    load = Counter(holding.cluster for holding in placed)
    best: tuple[tuple[int, int, str], Holding] | None = None
    for cluster in fleet.clusters.values():
        found = _fit(ask, cluster, fleet.free_nodes(cluster), trace)
        if found is None:
            continue
        index = _lowest_free_index(h.index for h in placed if h.cluster == cluster.name)
        rank = (load[cluster.name], -sum(fleet.free_nodes(cluster).values()), cluster.name)
        if best is None or rank < best[0]:
            best = rank, Holding(ask.deployment, cluster.name, index, *found)
    return best[1] if best else None


def _lowest_free_index(taken: Iterable[int]) -> int:
    used = set(taken)
    return next(index for index in range(len(used) + 1) if index not in used)


Found = tuple[Mapping[str, PoolName], Mapping[PoolName, int]]


def _fit(
    ask: Ask,
    cluster: Cluster,
    free: dict[PoolName, int],
    trace: dict[tuple[ClusterName, PoolName | None], Candidate],
) -> Found | None:
    refusal = _refuse_cluster(ask, cluster)
    if refusal is not None:
        trace[cluster.name, None] = refusal
        return None
    pools: dict[str, PoolName] = {}
    nodes: Counter[PoolName] = Counter()
    for engine in ask.engines:
        pool = next((p for p in cluster.pools if _engine_fits(engine, p, cluster, free, trace)), None)
        if pool is None:
            return None
        pools[engine.name] = pool.name
        nodes[pool.name] += _nodes(engine)
        free[pool.name] -= _nodes(engine)
    trace[cluster.name, None] = Candidate(cluster.name, Verdict.ELIGIBLE)
    return pools, dict(nodes)


def _refuse_cluster(ask: Ask, cluster: Cluster) -> Candidate | None:
    if not selects(ask.cluster_selector, cluster.labels):
        return Candidate(
            cluster.name, Verdict.REFUSED, "ClusterSelector", "its labels do not match the clusterSelector"
        )
    if cluster.cordoned:
        return Candidate(cluster.name, Verdict.REFUSED, "Cordoned", "the cluster takes no new replicas")
    if not cluster.ready:
        return Candidate(cluster.name, Verdict.REFUSED, "ClusterReady", "the cluster is not ready")
    return None


def _engine_fits(
    engine: EngineAsk,
    pool: Pool,
    cluster: Cluster,
    free: Mapping[PoolName, int],
    trace: dict[tuple[ClusterName, PoolName | None], Candidate],
) -> bool:
    refusal = _refuse_pool(engine, pool, free[pool.name])
    if refusal is None:
        return True
    filter_name, reason = refusal
    trace[cluster.name, pool.name] = Candidate(cluster.name, Verdict.REFUSED, filter_name, reason, pool.name)
    return False


def _refuse_pool(engine: EngineAsk, pool: Pool, free: int) -> tuple[str, str] | None:
    for member in engine.members:
        found = match(member.requests, pool.kinds)
        if isinstance(found, Unmatched):
            return "Devices", f"request {found.request} needs {found.wanted} devices of a node, {found.suitable} suit"
        if member.requests and not found.claims:
            return "Devices", "no device that matches can be claimed"
    if free < _nodes(engine):
        return "Capacity", f"needs {_nodes(engine)} free nodes, {max(free, 0)} of {pool.nodes} are free"
    return None


def _nodes(engine: EngineAsk) -> int:
    return engine.copies * sum(member.nodes for member in engine.members)
