"""Why Kueue does not admit what makes the pods: a gate on a pod says only that it waits.

Its Workloads say why, but for one case: while the ClusterQueue does not exist, Kueue writes nothing on them. The
LocalQueue says that.
"""

from collections.abc import Collection, Iterable

from modelplane.api.meta import Timestamp
from modelplane.api.objects import Manifest, items_at, mapping_at, name_of, text_at
from modelplane.api.reasons import Reason
from modelplane.compose.causes import Cause, in_words, worst
from modelplane.compose.pod_causes import scheduling_reason

_RESERVED, _ACTIVE = "QuotaReserved", "Active"


def admission_cause(workloads: Iterable[Manifest], owners: Collection[str]) -> Cause | None:
    """The worst cause of the Workloads that belong to pods or workloads of these names; None: none of them waits."""
    return worst(cause for item in workloads if _owners(item) & set(owners) and (cause := _cause(item)) is not None)


def _owners(item: Manifest) -> set[str]:
    return {text_at(owner, "name") for owner in items_at(item, "metadata", "ownerReferences")}


def _cause(item: Manifest) -> Cause | None:
    for condition in items_at(item, "status", "conditions"):
        if condition.get("type") == _RESERVED and condition.get("status") == "False":
            message, since = text_at(condition, "message"), text_at(condition, "lastTransitionTime")
            reason = scheduling_reason(message)
            gated = Reason.SCHEDULING_GATED if reason is Reason.UNSCHEDULABLE else reason
            return Cause(gated, f"Kueue: {in_words(message)}", Timestamp(since) if since else None)
    return None


def queue_cause(queue: Manifest) -> Cause | None:
    """That a LocalQueue admits nothing, in Kueue's words; None while it does, or has not said."""
    for condition in items_at(queue, "status", "conditions"):
        if condition.get("type") == _ACTIVE and condition.get("status") == "False":
            behind, since = text_at(queue, "spec", "clusterQueue"), text_at(condition, "lastTransitionTime")
            words = f"{text_at(condition, 'reason')}: {text_at(condition, 'message')}"
            message = f"Kueue: LocalQueue {name_of(queue)} of ClusterQueue {behind} is not active: {in_words(words)}"
            return Cause(Reason.QUEUE_MISSING, message, Timestamp(since) if since else None)
    return None


def trimmed_workload(item: Manifest) -> dict[str, object]:
    """What of a Workload its cause depends on."""
    metadata = {name: text for name in ("name", "namespace") if (text := text_at(item, "metadata", name))}
    owners = [{"name": name} for name in sorted(_owners(item))]
    reserved = [found for found in items_at(item, "status", "conditions") if found.get("type") == _RESERVED]
    names = ("type", "status", "message", "lastTransitionTime")
    conditions = [{name: mapping_at(found)[name] for name in names if name in found} for found in reserved]
    return {"metadata": {**metadata, "ownerReferences": owners}, "status": {"conditions": conditions}}
