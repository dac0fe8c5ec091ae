"""The clouds that clusters are made on. A cloud is one module and one line here; see `resources` for what it says."""

from collections.abc import Mapping
from types import MappingProxyType

from modelplane.api.models import InferenceCluster
from modelplane.compose.clouds.aks import AKS
from modelplane.compose.clouds.civo import CIVO
from modelplane.compose.clouds.eks import EKS
from modelplane.compose.clouds.engine import ProvisioningPlan, class_fault, cloud_requirements, plan_cloud
from modelplane.compose.clouds.gke import GKE
from modelplane.compose.clouds.k3s import K3S
from modelplane.compose.clouds.nebius import NEBIUS
from modelplane.compose.clouds.resources import Cloud, CloudAccess, SecretKeyRef
from modelplane.compose.clouds.vultr import VULTR

__all__ = [
    "CLOUDS",
    "Cloud",
    "CloudAccess",
    "ProvisioningPlan",
    "SecretKeyRef",
    "class_fault",
    "cloud_of",
    "cloud_requirements",
    "plan_cloud",
]

CLOUDS: Mapping[str, Cloud] = MappingProxyType(
    {cloud.source: cloud for cloud in (GKE, EKS, AKS, K3S, VULTR, CIVO, NEBIUS)}
)
"""By `spec.cluster.source`."""


def cloud_of(cluster: InferenceCluster) -> Cloud | None:
    """None for a cluster that exists already."""
    return CLOUDS.get(cluster.spec.cluster.source)
