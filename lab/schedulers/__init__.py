"""KAI, Kueue and Volcano on workload clusters, by option: upstream's programs with upstream's manifests, a module each.

A cluster whose InferenceCluster says which scheduler it has gets that one. A scheduler that was asked for and that no
cluster of the fleet names runs on all of them, beside kube-scheduler, for whoever wants to try manifests on it.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from lab.components import Set
from lab.schedulers import kai, kueue, volcano

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Mapping

    from lab.client import Api
    from lab.cluster import Cluster
    from lab.manifests import Sources
    from lab.supervisor import Supervisor

    BringUp = Callable[[Supervisor, Cluster, Api, Sources], Awaitable[None]]

SCHEDULERS: Mapping[Set, BringUp] = MappingProxyType(
    {Set.KAI: kai.bring_up, Set.KUEUE: kueue.bring_up, Set.VOLCANO: volcano.bring_up}
)
_NAMES = MappingProxyType({"KAI": Set.KAI, "Kueue": Set.KUEUE, "Volcano": Set.VOLCANO})


def schedulers_of(named: str, fleet: Collection[str], options: Collection[Set]) -> tuple[Set, ...]:
    """Which schedulers run on a cluster that names one, in a fleet whose clusters name these."""
    own = _NAMES.get(named)
    foreign = {_NAMES[each] for each in fleet if each in _NAMES}
    return tuple(each for each in SCHEDULERS if each in options and (each is own or each not in foreign))
