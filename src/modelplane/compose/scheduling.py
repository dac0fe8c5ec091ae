"""What a cluster asks of every pod, checked before anything is rendered."""

import re

from modelplane.api.models import Scheduling
from modelplane.compose.tokens import is_label_value, template_fault

_LABELLED = ("KAI", "Kueue")
_VERSION = re.compile(r"v?[0-9]+\.[0-9]+(\.[0-9]+)?")


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
