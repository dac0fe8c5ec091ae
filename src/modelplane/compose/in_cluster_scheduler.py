"""The scheduler that `spec.scheduling.type: Auto` of an InferenceCluster stands for, and why.

What the software of the cluster includes comes first, then the APIs that the cluster serves. KAI and Volcano place
gangs, so they come before Kueue, which admits by quota.

The choice is in every pod, so it stays while replicas run on the cluster, and while the cluster cannot be read.
"""

from collections.abc import Collection, Iterable
from typing import Literal

from modelplane.api.models import InClusterScheduler, InferenceCluster
from modelplane.catalog.stack import StackComponent, load_stack

_PREFERRED: tuple[Literal["KAI", "Volcano", "Kueue"], ...] = ("KAI", "Volcano", "Kueue")


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
        return InClusterScheduler(type_=known.type_, message=message[:256])
    return found


def _name(scheduler: str | None) -> str:
    return "kube-scheduler alone" if scheduler == "None" else str(scheduler)


def _of_software(installed: Iterable[StackComponent]) -> InClusterScheduler | None:
    found = {scheduler: component.name for component in installed for scheduler in component.used_by}
    for scheduler in _PREFERRED:
        if scheduler in found:
            message = f"{found[scheduler]} is part of the cluster's software"
            return InClusterScheduler(type_=scheduler, message=message)
    return None


def _of_cluster(served: Collection[str] | None) -> InClusterScheduler | None:
    if served is None:
        return None
    groups = {name.partition(".")[2] for name in served}
    found = [scheduler for scheduler in _PREFERRED if not groups.isdisjoint(_groups(scheduler))]
    if not found:
        return InClusterScheduler(type_="None", message=f"the cluster serves no API of {', '.join(_PREFERRED)}")
    others = f", and of {', '.join(found[1:])}, which come after it" if found[1:] else ""
    return InClusterScheduler(type_=found[0], message=f"the cluster serves APIs of {found[0]}{others}")


def _groups(scheduler: str) -> set[str]:
    """API groups, whatever their version."""
    return {
        api.rpartition("/")[0]
        for component in load_stack().components
        if scheduler in component.used_by
        for api in component.provides.apis
    }
