"""Metadata of the object that makes the pods: schedulers look there as well."""

from collections.abc import Mapping

from modelplane.api.labels import ENGINE
from modelplane.api.models import ReplicaEngine, ReplicaMember
from modelplane.api.objects import with_metadata
from modelplane.compose.context import Context
from modelplane.compose.gang.gang_metadata import GangMetadata
from modelplane.compose.pods import cluster_metadata


def workload_metadata(
    context: Context, member: ReplicaMember, gang_metadata: GangMetadata
) -> tuple[dict[str, str], dict[str, str]]:
    labels, annotations = cluster_metadata(context, member)
    return {**labels, **gang_metadata.workload_labels}, {**annotations, **gang_metadata.workload_annotations}


def annotated(item: dict[str, object], annotations: Mapping[str, str]) -> dict[str, object]:
    return with_metadata(item, annotations=dict(annotations) or None)


def engine_label(engine: ReplicaEngine) -> dict[str, str]:
    return {ENGINE: engine.name}
