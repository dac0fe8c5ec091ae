"""Volcano: the scheduler, and the controllers that open queues and make groups for pods that have none.

The scheduler is configured as upstream does it, and reads claims of devices beside: that is off by default. Its
admission webhooks are left out; they default and check Volcano's own Jobs, which nothing here makes.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import yaml

from lab.client import name_of, text
from lab.cluster import LOOPBACK, answers
from lab.components import VOLCANO
from lab.schedulers.parts import define, may_allocate, namespace, port, program
from lab.workload import bound_roles

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lab.client import Api, Manifest
    from lab.cluster import Cluster
    from lab.manifests import Sources
    from lab.supervisor import Program, Supervisor

_INSTALLER = "installer/volcano-development.yaml"
_ROLES = {"vc-scheduler": "volcano-scheduler", "vc-controller-manager": "volcano-controllers"}
_DEVICES = {"predicate.DynamicResourceAllocationEnable": True}


async def bring_up(supervisor: Supervisor, cluster: Cluster, api: Api, sources: Sources) -> None:
    manifests = sources.read(VOLCANO, _INSTALLER)
    await define(api, manifests)
    await api.apply(namespace("volcano-system"))
    for user, role in _ROLES.items():
        found = [item for item in manifests if item["kind"] == "ClusterRole" and name_of(item) == role]
        await api.apply_all(bound_roles(found, user))
    await api.apply_all(may_allocate("vc-scheduler"))
    config = cluster.folder / "volcano-scheduler.yaml"
    config.write_text(scheduler_config(manifests))
    async with asyncio.TaskGroup() as group:
        for each in _programs(cluster, str(config)):
            group.create_task(supervisor.start(each))


def scheduler_config(manifests: Iterable[Manifest]) -> str:
    """Upstream's, with claims of devices."""
    found = next(item for item in manifests if name_of(item) == "volcano-scheduler-configmap")
    data = found["data"]
    config = yaml.safe_load(text(data, "volcano-scheduler.conf"))
    for plugin in (plugin for tier in config["tiers"] for plugin in tier["plugins"]):
        if plugin["name"] == "predicates":
            plugin["arguments"] = {**plugin.get("arguments", {}), **_DEVICES}
    return yaml.safe_dump(config, sort_keys=False)


def _programs(cluster: Cluster, config: str) -> list[Program]:
    flags = {
        "vc-scheduler": (f"--scheduler-conf={config}", "--plugins-dir=", "--cache-dumper=false"),
        "vc-controller-manager": (),
    }
    made = []
    for number, (name, own) in enumerate(flags.items()):
        health, listen = port(cluster, 2 * number), port(cluster, 2 * number + 1)
        common = (
            "--leader-elect=false",
            "--enable-healthz=true",
            f"--healthz-address={LOOPBACK}:{health}",
            f"--listen-address={LOOPBACK}:{listen}",
            f"--kubeconfig={cluster.folder / name}.kubeconfig",
        )
        made.append(program(cluster, name, (*common, *own), answers(f"http://{LOOPBACK}:{health}/healthz")))
    return made
