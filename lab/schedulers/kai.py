"""KAI: the scheduler, the binder, the grouper of pods, and the two controllers behind what its queues report.

KAI's operator would start these as Deployments. Its webhooks are left out: they check queues and PodGroups, and serve
shares of GPUs, on a port of their own choice that another program of the lab has.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from lab.cluster import LOOPBACK, listens
from lab.components import KAI
from lab.schedulers.parts import define, may_allocate, namespace, port, program
from lab.workload import bound_roles

if TYPE_CHECKING:
    from lab.client import Api
    from lab.cluster import Cluster
    from lab.manifests import Sources
    from lab.supervisor import Program, Supervisor

_CHART = "deployments/kai-scheduler"
_NAMESPACES = ("kai-scheduler", "kai-resource-reservation")
_ROLES = {
    "kai-scheduler": "scheduler",
    "kai-binder": "binder",
    "kai-podgrouper": "podgrouper",
    "kai-podgroupcontroller": "podgroupcontroller",
    "kai-queuecontroller": "queuecontroller",
}


async def bring_up(supervisor: Supervisor, cluster: Cluster, api: Api, sources: Sources) -> None:
    await define(api, sources.read(KAI, f"{_CHART}/crds"))
    await api.apply_all(namespace(name) for name in _NAMESPACES)
    await api.apply_all(sources.read(KAI, f"{_CHART}/templates/priorityclasses"))
    await api.apply_all(sources.read(KAI, "docs/quickstart/default-queues.yaml"))
    for user, file in _ROLES.items():
        await api.apply_all(bound_roles(sources.read(KAI, f"{_CHART}/templates/rbac/{file}.yaml"), user))
    await api.apply_all(may_allocate("kai-binder"))
    async with asyncio.TaskGroup() as group:
        for each in _programs(cluster):
            group.create_task(supervisor.start(each))


def _programs(cluster: Cluster) -> list[Program]:
    scheduler, plugins, queues = (port(cluster, number) for number in (0, 1, 2))
    made = [
        program(
            cluster,
            "kai-scheduler",
            (f"--listen-address={LOOPBACK}:{scheduler}", f"--plugin-server-port={plugins}", "--schedule-period=1s"),
            listens(scheduler),
        ),
        program(
            cluster,
            "kai-queuecontroller",
            (f"--metrics-listen-address={LOOPBACK}:{queues}", "--enable-webhook=false"),
            listens(queues),
        ),
    ]
    controllers = {
        "kai-binder": (),
        "kai-podgrouper": (),
        "kai-podgroupcontroller": ("--enable-podgroup-webhook=false",),
    }
    for number, (name, flags) in enumerate(controllers.items()):
        health = port(cluster, 3 + number)
        common = ("--metrics-bind-address=0", f"--health-probe-bind-address={LOOPBACK}:{health}")
        # Not all of them have anything to answer there.
        made.append(program(cluster, name, (*common, *flags), listens(health)))
    return made
