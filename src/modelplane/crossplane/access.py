"""ProviderConfigs of a cluster, made from the kubeconfig Secret of its InferenceCluster, or of its cloud.

They have the cluster's name. Providers keep a ProviderConfig from deletion while an object uses it, so credentials
outlive every object that they must delete.
"""

from modelplane.api.labels import SYSTEM_NAMESPACE
from modelplane.api.models import InferenceCluster
from modelplane.api.objects import Manifest
from modelplane.compose.clouds import CloudAccess, SecretKeyRef, cloud_of

PREFIX = "access-"
HELM = f"{PREFIX}helm"
_APIS = {"kubernetes": "kubernetes.m.crossplane.io/v1alpha1", "helm": "helm.m.crossplane.io/v1beta1"}


def provider_configs(cluster: InferenceCluster, *, helm: bool) -> dict[str, Manifest]:
    """By composition key. `helm`: provider-helm is installed."""
    wanted = ("kubernetes", "helm") if helm else ("kubernetes",)
    access = access_of(cluster)
    if access is None:
        return {}
    return {PREFIX + provider: _config(cluster.metadata.name, _APIS[provider], access) for provider in wanted}


def access_of(cluster: InferenceCluster) -> CloudAccess | None:
    """The Secrets that a cluster is reached with: those that it names, or those that its cloud writes."""
    existing, cloud = cluster.spec.cluster.existing, cloud_of(cluster)
    if cloud is not None:
        return cloud.access(cluster)
    if existing is None:
        return None
    kubeconfig = SecretKeyRef(existing.secret_ref.name, existing.secret_ref.key)
    identity = existing.identity_secret_ref
    if identity is None:
        return CloudAccess(kubeconfig)
    return CloudAccess(kubeconfig, SecretKeyRef(identity.name, identity.key), identity.type_)


def _config(name: str, api_version: str, access: CloudAccess) -> Manifest:
    spec: dict[str, object] = {"credentials": {"source": "Secret", "secretRef": _reference(access.kubeconfig)}}
    if access.identity is not None:
        secret = _reference(access.identity)
        spec["identity"] = {"type": access.identity_type, "source": "Secret", "secretRef": secret}
    return {"apiVersion": api_version, "kind": "ClusterProviderConfig", "metadata": {"name": name}, "spec": spec}


def _reference(secret: SecretKeyRef) -> dict[str, str]:
    return {"namespace": SYSTEM_NAMESPACE, "name": secret.name, "key": secret.key}
