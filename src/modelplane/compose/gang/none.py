"""No gang scheduler: kube-scheduler places each pod by itself. What the cluster asks for on every pod still holds."""

from modelplane.compose.contract import Remote
from modelplane.compose.gang.gang_metadata import GangMetadata, GangRequest, GangScheduler


def gang_metadata(_gang: GangRequest) -> GangMetadata:
    return GangMetadata()


def objects(_gang: GangRequest) -> dict[str, Remote]:
    return {}


SCHEDULER = GangScheduler(gang_metadata, objects, companion=gang_metadata)
