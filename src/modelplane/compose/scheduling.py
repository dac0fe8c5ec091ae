"""What a cluster asks of every pod, checked before anything is rendered."""

from modelplane.api.models import Scheduling
from modelplane.compose.tokens import is_label_value, template_fault

_LABELLED = ("KAI", "Kueue")


def scheduling_fault(scheduling: Scheduling) -> str | None:
    """What is wrong with it, as a sentence that names the field."""
    queue = scheduling.queue
    if queue and scheduling.type_ in _LABELLED and not is_label_value(queue):
        return f"spec.scheduling.queue: {queue!r} is no label value, and {scheduling.type_} finds queues by label"
    return template_fault(scheduling)


def priority_fault(scheduling: Scheduling, priority: str) -> str | None:
    """A pod of a PriorityClass that is not there is refused, so nothing would run and nothing would say why."""
    offered = [found.name for found in scheduling.priorities]
    if not priority or not offered or priority in offered:
        return None
    return f"priority {priority!r} is not among the cluster's: {', '.join(offered)}"
