"""The in-cluster schedulers that we render for, one module each."""

from collections.abc import Mapping
from types import MappingProxyType

from modelplane.api.models import InferenceCluster, Scheduling
from modelplane.api.queues import queue_name
from modelplane.compose.gang import kai, kueue, none, volcano
from modelplane.compose.gang.gang_metadata import GangScheduler
from modelplane.compose.placeholders import is_label_value, template_fault
from modelplane.compose.pod_defaults import is_version

SCHEDULERS: Mapping[str, GangScheduler] = MappingProxyType(
    {
        "None": none.SCHEDULER,
        "KAI": kai.SCHEDULER,
        "Kueue": kueue.SCHEDULER,
        "Volcano": volcano.SCHEDULER,
        "Auto": none.SCHEDULER,
    }
)
"""By `spec.scheduling.type` of an InferenceCluster. Nothing is rendered while it is not known what Auto stands for."""


def domain_fault(cluster: InferenceCluster) -> str | None:
    """Why a cluster cannot keep an engine in one domain of a fabric, as a sentence that names the field."""
    if cluster.spec.stack != "Standard":
        return f"spec.stack: {cluster.spec.stack} cannot keep an engine in one domain of a fabric"
    backend, scheduling = cluster.spec.backend.type_, cluster.spec.scheduling
    if backend != "Native":
        return f"spec.backend.type: {backend} cannot keep an engine in one domain of a fabric"
    return SCHEDULERS[scheduling.type_].domain_fault(scheduling)


def scheduling_fault(scheduling: Scheduling) -> str | None:
    """What is wrong with it, as a sentence that names the field."""
    queue, version = scheduling.queue, scheduling.version
    if version is not None and not is_version(version):
        return f"spec.scheduling.version: {version!r} is no version"
    sample = queue_name(queue, "n") if queue else None
    if queue and sample is None:
        return f"spec.scheduling.queue: {queue!r} may hold {{{{ .Namespace }}}}, and no other token"
    if sample and SCHEDULERS[scheduling.type_].queue_is_label and not is_label_value(sample):
        return f"spec.scheduling.queue: {queue!r} is no label value, and {scheduling.type_} finds queues by label"
    return template_fault(scheduling)
