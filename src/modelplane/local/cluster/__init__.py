"""Simulated Kubernetes clusters: small honest models of what a real one does with the objects Modelplane renders.

    engines = LocalEngines()
    cluster = SimulatedCluster("east", database.store("cluster/east"), clock, engines, ClusterSettings())
    cluster.set_pools([PoolSpec(name="h200", nodes=2, devices=inference_class.spec.devices)])
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(cluster.run())

Others write objects through `cluster.api`; what became of them is in their statuses.
"""

from modelplane.local.cluster.cluster import SimulatedCluster
from modelplane.local.cluster.controller import ClusterStore, Work
from modelplane.local.cluster.engines import EngineFactory, LocalEngines
from modelplane.local.cluster.phases import Running
from modelplane.local.cluster.pools import PoolSpec, pools_of
from modelplane.local.cluster.settings import ClusterSettings

__all__ = [
    "ClusterSettings",
    "ClusterStore",
    "EngineFactory",
    "LocalEngines",
    "PoolSpec",
    "Running",
    "SimulatedCluster",
    "Work",
    "pools_of",
]
