"""Simulated Kubernetes clusters: models of what real ones do with the objects that Modelplane renders.

    engines = LocalEngines()
    cluster = SimulatedCluster("east", database.store("cluster/east"), clock, engines, ClusterSettings())
    cluster.set_pools([PoolSpec(name="h200", nodes=2, devices=inference_class.spec.devices)])
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(cluster.run())

Others write objects through `cluster.api`, and read the results in their statuses.
"""

from modelplane.sim.cluster.cluster import SimulatedCluster
from modelplane.sim.cluster.controller import ClusterStore, WorkItem
from modelplane.sim.cluster.engines import EngineFactory, LocalEngines
from modelplane.sim.cluster.phases import Running
from modelplane.sim.cluster.pools import NodePoolSpec, pools_of
from modelplane.sim.cluster.settings import ClusterSettings

__all__ = [
    "ClusterSettings",
    "ClusterStore",
    "EngineFactory",
    "LocalEngines",
    "NodePoolSpec",
    "Running",
    "SimulatedCluster",
    "WorkItem",
    "pools_of",
]
