"""What a cluster asks of every pod, checked before anything is rendered."""

import re

from modelplane.api.models import Scheduling
from modelplane.compose.placeholders import is_label_value, template_fault

_LABELLED = ("KAI", "Kueue")
_VERSION = re.compile(r"v?[0-9]+\.[0-9]+(\.[0-9]+)?")


def version_before(scheduling: Scheduling, minor: int) -> bool:
    """Whether the scheduler is older than 0.`minor`. One that does not say, or cannot, is taken for a recent one."""
    text = scheduling.version
    if text is None or not _VERSION.fullmatch(text):
        return False
    major, found = (int(part) for part in text.removeprefix("v").split(".")[:2])
    return (major, found) < (0, minor)


def version_known_from(scheduling: Scheduling, minor: int) -> bool:
    """Whether the cluster says that the scheduler is 0.`minor` or newer."""
    text = scheduling.version
    return text is not None and bool(_VERSION.fullmatch(text)) and not version_before(scheduling, minor)


def kueue_api(scheduling: Scheduling) -> str:
    """What Kueue's objects are written and read in."""
    return f"kueue.x-k8s.io/{'v1beta1' if version_before(scheduling, 15) else 'v1beta2'}"


def scheduling_fault(scheduling: Scheduling) -> str | None:
    """What is wrong with it, as a sentence that names the field."""
    queue, version = scheduling.queue, scheduling.version
    if version is not None and not _VERSION.fullmatch(version):
        return f"spec.scheduling.version: {version!r} is no version"
    if queue and scheduling.type_ in _LABELLED and not is_label_value(queue):
        return f"spec.scheduling.queue: {queue!r} is no label value, and {scheduling.type_} finds queues by label"
    return template_fault(scheduling)


def priority_fault(scheduling: Scheduling, priority: str) -> str | None:
    """A pod of a PriorityClass that is not there is refused, so nothing would run and nothing would say why."""
    offered = [found.name for found in scheduling.priorities]
    if not priority or not offered or priority in offered:
        return None
    return f"priority {priority!r} is not among the cluster's: {', '.join(offered)}"
