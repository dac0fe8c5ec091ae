"""The in-cluster scheduler that pods are rendered for."""

import msgspec

from modelplane.api.models import InferenceCluster


def with_chosen_scheduler(cluster: InferenceCluster) -> InferenceCluster:
    """The cluster with what `Auto` stands for by its status. Without that it stays Auto, and nothing is rendered."""
    chosen = cluster.status.in_cluster_scheduler
    if cluster.spec.scheduling.type_ != "Auto" or chosen is None or chosen.type_ is None:
        return cluster
    scheduling = msgspec.structs.replace(cluster.spec.scheduling, type_=chosen.type_)
    return msgspec.structs.replace(cluster, spec=msgspec.structs.replace(cluster.spec, scheduling=scheduling))
