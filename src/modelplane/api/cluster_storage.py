"""The StorageClass that an InferenceCluster names for weights, in the spelling of today or an older one."""

from modelplane.api.models import InferenceCluster


def declared_class(cluster: InferenceCluster) -> str | None:
    """None where the cluster names none."""
    source = cluster.spec.cluster
    older = next((each.cache for each in (source.existing, source.gke, source.eks, source.aks) if each), None)
    return cluster.spec.storage.storage_class_name or (older.storage_class_name if older else None)
