"""The StorageClass of a cluster for volumes that several nodes mount, from the driver that it has.

Parameters of a StorageClass cannot be changed: a cluster whose driver is edited keeps the class that it has, and the
edit shows in the status of the object that applies it. Volumes are kept when their claims go wrong, not when they go:
retention is the ModelCache's to decide.
"""

from collections.abc import Mapping

from modelplane.api.cluster_storage import declared_class
from modelplane.api.meta import ClusterName
from modelplane.api.models import InferenceCluster, SharedFilesystem
from modelplane.api.objects import manifest
from modelplane.compose.caching.storage import SHARED_CLASS
from modelplane.compose.contract import Remote

_PROVISIONERS: Mapping[str, str] = {
    "Filestore": "filestore.csi.storage.gke.io",
    "EFS": "efs.csi.aws.com",
    "AzureFiles": "file.csi.azure.com",
}
_USER = "65532"
"""Whom the loader runs as: an access point of EFS enforces its owner."""


def shared_class(cluster: InferenceCluster) -> Remote | None:
    """None where the cluster brings its own."""
    found = cluster.spec.storage.shared_filesystem
    if found is None:
        return None
    item = manifest(
        "storage.k8s.io/v1",
        "StorageClass",
        SHARED_CLASS,
        provisioner=_PROVISIONERS[found.driver],
        parameters=_parameters(found),
        reclaimPolicy="Delete",
        allowVolumeExpansion=True,
        volumeBindingMode="Immediate",
    )
    return Remote(ClusterName(cluster.metadata.name), item)


def class_name(cluster: InferenceCluster, *, made: bool = False) -> str | None:
    """What volumes of caches are made with, where the cluster says or its cloud `made` one."""
    ours = SHARED_CLASS if made or cluster.spec.storage.shared_filesystem is not None else None
    return declared_class(cluster) or ours


def _parameters(found: SharedFilesystem) -> dict[str, str]:
    match found.driver:
        case "Filestore":
            return {"tier": found.tier or "zonal", "network": found.network or "default"}
        case "EFS":
            owner = {"uid": _USER, "gid": _USER}
            return {
                "provisioningMode": "efs-ap",
                "fileSystemId": found.file_system_id or "",
                "directoryPerms": "755",
                **owner,
            }
        case _:
            endpoint = {"networkEndpointType": found.network_endpoint_type} if found.network_endpoint_type else {}
            return {"protocol": "nfs", "skuName": found.tier or "Premium_LRS", **endpoint}
