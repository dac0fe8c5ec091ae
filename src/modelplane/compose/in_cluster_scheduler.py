"""The scheduler that `spec.scheduling.type: Auto` of an InferenceCluster stands for, and why.

What the software of the cluster includes comes first, then the APIs that the cluster serves. The order of several is
that of the table of software: those that place gangs are before those that admit by quota.

The choice is in every pod, so it stays while replicas run on the cluster, and while the cluster cannot be read.
"""

from collections.abc import Collection, Iterable
from functools import cache

import msgspec

from modelplane.api.models import InClusterScheduler, InferenceCluster
from modelplane.catalog.stack import StackComponent, load_stack
from modelplane.compose.gang import SCHEDULERS


def choose_scheduler(
    cluster: InferenceCluster,
    installed: Iterable[StackComponent],
    served: Collection[str] | None,
    *,
    has_replicas: bool,
) -> InClusterScheduler | None:
    """None where it is not known yet. `served` has the names of the APIServices of the cluster."""
    if cluster.spec.scheduling.type_ != "Auto":
        return None
    known = cluster.status.in_cluster_scheduler
    found = _of_software(installed) or _of_cluster(served)
    if known is None or known.type_ is None:
        return found
    if found is None or found.type_ == known.type_:
        return known if found is None else found
    if has_replicas:
        message = f"{_name(known.type_)} stays while replicas run on the cluster; without them: {found.message}"
        return _chosen(known.type_, message)
    return found


def _name(scheduler: str | None) -> str:
    return "kube-scheduler alone" if scheduler == "None" else str(scheduler)


def _of_software(installed: Iterable[StackComponent]) -> InClusterScheduler | None:
    found = {scheduler: component.name for component in installed for scheduler in component.used_by}
    for scheduler in _groups():
        if scheduler in found:
            return _chosen(scheduler, f"{found[scheduler]} is part of the cluster's software")
    return None


def _of_cluster(served: Collection[str] | None) -> InClusterScheduler | None:
    if served is None:
        return None
    groups = {name.partition(".")[2] for name in served}
    found = [scheduler for scheduler, own in _groups().items() if not groups.isdisjoint(own)]
    if not found:
        return _chosen("None", f"the cluster serves no API of {', '.join(_groups())}")
    others = f", and of {', '.join(found[1:])}, which come after it" if found[1:] else ""
    return _chosen(found[0], f"the cluster serves APIs of {found[0]}{others}")


def _chosen(scheduler: str, message: str) -> InClusterScheduler:
    return msgspec.convert({"type": scheduler, "message": message}, InClusterScheduler)


@cache
def _groups() -> dict[str, frozenset[str]]:
    """The API groups of each scheduler, whatever their versions, in the order of the table."""
    found: dict[str, frozenset[str]] = {}
    for component in load_stack().components:
        for scheduler in SCHEDULERS.keys() & set(component.used_by):
            found[scheduler] = frozenset(api.rpartition("/")[0] for api in component.provides.apis)
    return found
