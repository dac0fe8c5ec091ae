"""The labels that a cluster puts on what is placed there: how a region reaches the selectors of services."""

from collections.abc import Mapping

from modelplane.api.meta import ClusterName
from modelplane.api.objects import Manifest, value_at
from modelplane.compose.contract import Local, Observed
from modelplane.placement.snapshot import Fleet


def with_placement_labels(target: Local, cluster: ClusterName, fleet: Fleet, seen: Observed | None) -> Local:
    """The ModelReplica with the labels of its cluster's placement; the deployment's own win.

    While the cluster is not known, the labels that the replica has stay.
    """
    known = fleet.cluster(cluster)
    given = known.placement_labels if known is not None else _labels(seen.manifest if seen is not None else {})
    own = _labels(target.manifest)
    if all(key in own for key in given):
        return target
    metadata = value_at(target.manifest, "metadata")
    fields = metadata if isinstance(metadata, Mapping) else {}
    return Local({**target.manifest, "metadata": {**fields, "labels": {**given, **own}}}, target.ready_when)


def _labels(item: Manifest) -> dict[str, str]:
    found = value_at(item, "metadata", "labels")
    return {str(key): str(value) for key, value in found.items()} if isinstance(found, Mapping) else {}
