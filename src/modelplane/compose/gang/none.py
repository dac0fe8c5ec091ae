"""No gang scheduler: kube-scheduler places each pod by itself. What the cluster asks for on every pod still holds."""

from modelplane.api.models import Scheduling
from modelplane.compose.contract import Remote
from modelplane.compose.gang.gang_metadata import GangMetadata, GangRequest, GangScheduler

_GANG_SCHEDULERS = {"kai-scheduler": "KAI", "volcano": "Volcano"}


def gang_metadata(_gang: GangRequest) -> GangMetadata:
    return GangMetadata()


def objects(_gang: GangRequest) -> dict[str, Remote]:
    return {}


def domain_fault(scheduling: Scheduling) -> str | None:
    """Pods may be sent to a gang scheduler all the same, which would wait for workers that wait for their leader."""
    name = scheduling.scheduler_name or ""
    known = _GANG_SCHEDULERS.get(name)
    if known is None:
        return None
    return f"spec.scheduling.type: {name} keeps an engine in one domain of a fabric only where the type is {known}"


SCHEDULER = GangScheduler(gang_metadata, objects, companion=gang_metadata, domain_fault=domain_fault)
