"""The plainest scheduler that does the same job: what the figures of `fleet` are compared with.

It charges a whole node for each pod, looks at every cluster for every replica, evaluates selectors each time it meets a
device, and counts what is held by going through all replicas.
"""

from collections import Counter
from collections.abc import Sequence

from modelplane.k8s.cel import SelectorOutcome, compile_selector
from modelplane.placement.request import EngineRequest, PlacementRequest
from modelplane.placement.values import Cluster, PlacedReplica, Pool


def place(
    ask: PlacementRequest, clusters: Sequence[Cluster], holdings: Sequence[PlacedReplica]
) -> list[tuple[str, str]]:
    """Cluster and pool of each replica that finds a place."""
    placed: list[tuple[str, str]] = []
    taken: Counter[tuple[str, str]] = Counter()
    while len(placed) < ask.replicas:
        best: tuple[tuple[int, int, str], str] | None = None
        for cluster in clusters:
            free = _free_nodes(cluster, holdings, taken)
            pool = next((pool for pool in cluster.pools if _fits(ask.engines[0], pool, free[pool.name])), None)
            if pool is None or not cluster.ready:
                continue
            load = sum(1 for name, _ in placed if name == cluster.name)
            rank = (load, -sum(free.values()), cluster.name)
            if best is None or rank < best[0]:
                best = rank, pool.name
        if best is None:
            break
        place = best[0][2], best[1]
        placed.append(place)
        taken[place] += _pods(ask.engines[0])
    return placed


def _free_nodes(cluster: Cluster, holdings: Sequence[PlacedReplica], taken: Counter[tuple[str, str]]) -> dict[str, int]:
    free = {str(pool.name): pool.nodes - taken[cluster.name, pool.name] for pool in cluster.pools}
    for holding in holdings:
        if holding.cluster == cluster.name:
            for seat in holding.assignments:
                free[seat.pool] = free.get(seat.pool, 0) - sum(member.pods for member in seat.members)
    return free


def _fits(engine: EngineRequest, pool: Pool, free: int) -> bool:
    if free < _pods(engine):
        return False
    return all(
        sum(kind.count for kind in pool.hardware.kinds if _suits(request.selectors, kind.device)) >= request.count
        for member in engine.members
        for request in member.requests
    )


def _pods(engine: EngineRequest) -> int:
    return engine.copies * sum(member.nodes for member in engine.members)


def _suits(selectors: Sequence[str], device: object) -> bool:
    return all(
        compile_selector(text, stored=True).evaluate(device).outcome is SelectorOutcome.TRUE  # type: ignore[arg-type]  # a Device
        for text in selectors
    )
