"""What the schedulers' modules share: ports, programs under identities of their own, and waiting for kinds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lab.client import items, text, until
from lab.supervisor import Program
from lab.workload import bound_roles

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lab.client import Api, Manifest
    from lab.cluster import Cluster
    from lab.supervisor import Probe

FIRST_PORT = 30
"""Counted from a cluster's base. Nothing else of a workload cluster goes that far."""
READY_WITHIN_S = 240.0
"""Kueue looks for its certificates at growing intervals, and any of them may start on a crowded machine."""


def port(cluster: Cluster, number: int) -> int:
    return cluster.ports.base + FIRST_PORT + number


def program(cluster: Cluster, name: str, flags: Iterable[str], ready: Probe) -> Program:
    """One that finds its identity in the environment."""
    kubeconfig = cluster.write_kubeconfig(name, cluster.access(name))
    command = (str(cluster.binary(name)), *flags)
    environment = {"KUBECONFIG": str(kubeconfig)}
    return Program(cluster.program(name), command, ready, environment, ready_within_s=READY_WITHIN_S)


def may_allocate(user: str) -> list[Manifest]:
    """The right to allocate claims, which Kubernetes asks for since 1.36 and upstream's older roles do not have."""
    rule = {"apiGroups": ["resource.k8s.io"], "resources": ["resourceclaims/binding"], "verbs": ["update", "patch"]}
    role: Manifest = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": "allocates-claims"},
        "rules": [rule],
    }
    return bound_roles([role], user)


def namespace(name: str) -> Manifest:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


async def define(api: Api, definitions: Iterable[Manifest]) -> None:
    """Apply definitions; returns when their kinds are served."""
    made = [item for item in definitions if item["kind"] == "CustomResourceDefinition"]
    await api.apply_all(made)
    for item in made:
        group, kind = text(item, "spec", "group"), text(item, "spec", "names", "kind")
        for version in items(item, "spec", "versions"):
            if version.get("served"):
                await until(f"{kind} served", _served(api, f"{group}/{text(version, 'name')}", kind))


def _served(api: Api, api_version: str, kind: str) -> Probe:
    async def holds() -> bool:
        await api.kind(api_version, kind)
        return True

    return holds
