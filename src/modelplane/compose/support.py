"""What this build does not act on: kinds that it only stores, and sources of clusters that it cannot make."""

from modelplane.api.models import InferenceCluster

STORED_ONLY = frozenset({"ModelCache", "ServingStack", "GKECluster", "EKSCluster"})
"""Kinds that are stored and validated and not reconciled."""
_SOURCES = frozenset({"Existing"})


def source_fault(cluster: InferenceCluster) -> str | None:
    """Why nothing can run on a cluster from its source, as a sentence that names the field."""
    source = cluster.spec.cluster.source
    if source in _SOURCES:
        return None
    return f"spec.cluster.source: this build does not create {source} clusters; use {', '.join(sorted(_SOURCES))}"


def staging_fault() -> str:
    """Why a cache will not be staged where it is not staged yet; empty where it can be."""
    return "this build does not stage caches" if "ModelCache" in STORED_ONLY else ""
