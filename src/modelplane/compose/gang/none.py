"""No gang scheduler: kube-scheduler places each pod by itself. What the cluster asks for on every pod still holds."""

from modelplane.compose.contract import Remote
from modelplane.compose.gang.gang_metadata import Gang, Marks, Scheduler


def marks(_gang: Gang) -> Marks:
    return Marks()


def objects(_gang: Gang) -> dict[str, Remote]:
    return {}


SCHEDULER = Scheduler(marks, objects, companion=marks)
