"""The queue that the pods of a namespace are submitted to, as an InferenceCluster states it.

`spec.scheduling.queue` names it, and may hold `{{ .Namespace }}` where each namespace has a queue of its own. Where it
is left out, so do the labels and annotations that the cluster puts on every pod: KAI and Volcano read the queue there.
A cluster without a `type` whose pods carry such a key has that scheduler all the same.

The token is replaced once, and the replacement is not read again.
"""

import re
from collections.abc import Mapping
from types import MappingProxyType

from modelplane.api.models import Scheduling

MAX_QUEUES = 256
"""As many as the status of a cluster lists."""
_NAMESPACE = re.compile(r"\{\{ ?\.Namespace ?\}\}")
_LABELS: Mapping[str, str] = MappingProxyType({"kai.scheduler/queue": "KAI", "runai/queue": "KAI"})
_ANNOTATIONS: Mapping[str, str] = MappingProxyType({"scheduling.volcano.sh/queue-name": "Volcano"})


def queue_scheduler(scheduling: Scheduling) -> str:
    """The scheduler whose queues count, as in `spec.scheduling.type`; "None" for none."""
    if scheduling.type_ not in {"None", "Auto"}:
        return scheduling.type_
    return next((scheduler for scheduler, _ in _passed_through(scheduling)), "None")


def queue_template(scheduling: Scheduling) -> str | None:
    """The name of the queue, tokens included; None where none is stated."""
    if scheduling.queue:
        return scheduling.queue
    passed = _passed_through(scheduling)
    wanted = scheduling.type_ if scheduling.type_ != "None" or not passed else passed[0][0]
    return next((text for scheduler, text in passed if scheduler == wanted), None)


def _passed_through(scheduling: Scheduling) -> list[tuple[str, str]]:
    if not scheduling.default_labels and not scheduling.default_annotations:
        return []
    labels = [(_LABELS[key], scheduling.default_labels[key]) for key in _LABELS if key in scheduling.default_labels]
    annotations = scheduling.default_annotations
    return labels + [(_ANNOTATIONS[key], annotations[key]) for key in _ANNOTATIONS if key in annotations]


def is_per_namespace(template: str) -> bool:
    return _NAMESPACE.search(template) is not None


def queue_name(template: str, namespace: str) -> str | None:
    """The queue of a namespace; None where it depends on more than that."""
    rest = _NAMESPACE.sub("", template)
    return None if "{{" in rest else _NAMESPACE.sub(lambda _: namespace, template)
