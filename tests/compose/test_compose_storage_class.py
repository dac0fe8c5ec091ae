import pytest

from modelplane.api.codec import decode
from modelplane.api.models import InferenceCluster
from modelplane.compose.storage_class import class_name, shared_class
from tests.compose.caches import make_cluster


def cluster(**storage) -> InferenceCluster:
    return decode(InferenceCluster, make_cluster("east", storage=storage))


@pytest.mark.parametrize(
    ("filesystem", "provisioner", "parameters"),
    [
        (
            {"driver": "Filestore", "network": "fleet"},
            "filestore.csi.storage.gke.io",
            {"tier": "zonal", "network": "fleet"},
        ),
        ({"driver": "Filestore"}, "filestore.csi.storage.gke.io", {"tier": "zonal", "network": "default"}),
        (
            {"driver": "EFS", "fileSystemId": "fs-0a"},
            "efs.csi.aws.com",
            {
                "provisioningMode": "efs-ap",
                "fileSystemId": "fs-0a",
                "directoryPerms": "755",
                "uid": "65532",
                "gid": "65532",
            },
        ),
        (
            {"driver": "AzureFiles", "tier": "Premium_ZRS", "networkEndpointType": "privateEndpoint"},
            "file.csi.azure.com",
            {"protocol": "nfs", "skuName": "Premium_ZRS", "networkEndpointType": "privateEndpoint"},
        ),
        ({"driver": "AzureFiles"}, "file.csi.azure.com", {"protocol": "nfs", "skuName": "Premium_LRS"}),
    ],
)
def test_the_class_of_each_driver(filesystem, provisioner, parameters):
    made = shared_class(cluster(sharedFilesystem=filesystem))
    assert made.cluster == "east"
    assert made.manifest == {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": "modelplane-rwx"},
        "provisioner": provisioner,
        "parameters": parameters,
        "reclaimPolicy": "Delete",
        "allowVolumeExpansion": True,
        "volumeBindingMode": "Immediate",
    }


def test_a_cluster_with_a_class_of_its_own_gets_none():
    assert shared_class(cluster(storageClassName="rwx")) is None
    assert class_name(cluster(storageClassName="rwx")) == "rwx"
    assert class_name(cluster(sharedFilesystem={"driver": "AzureFiles"})) == "modelplane-rwx"
    assert class_name(cluster()) is None
