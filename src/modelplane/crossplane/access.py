"""ProviderConfigs of a cluster, made from the kubeconfig Secret of its InferenceCluster.

They have the cluster's name. Providers keep a ProviderConfig from deletion while an object uses it, so credentials
outlive every object that they must delete.
"""

from modelplane.api.labels import SYSTEM_NAMESPACE
from modelplane.api.models import Existing, InferenceCluster
from modelplane.api.objects import Manifest

PREFIX = "access-"
_APIS = {"kubernetes": "kubernetes.m.crossplane.io/v1alpha1", "helm": "helm.m.crossplane.io/v1beta1"}


def provider_configs(cluster: InferenceCluster, *, helm: bool) -> dict[str, Manifest]:
    """By composition key. The composition that provisions a cluster makes the ProviderConfigs of that cluster."""
    existing = cluster.spec.cluster.existing
    if existing is None:
        return {}
    wanted = ("kubernetes", "helm") if helm else ("kubernetes",)
    return {PREFIX + provider: _config(cluster.metadata.name, _APIS[provider], existing) for provider in wanted}


def _config(name: str, api_version: str, existing: Existing) -> Manifest:
    reference = {"namespace": SYSTEM_NAMESPACE, "name": existing.secret_ref.name, "key": existing.secret_ref.key}
    spec: dict[str, object] = {"credentials": {"source": "Secret", "secretRef": reference}}
    identity = existing.identity_secret_ref
    if identity is not None:
        secret = {"namespace": SYSTEM_NAMESPACE, "name": identity.name, "key": identity.key}
        spec["identity"] = {"type": identity.type_, "source": "Secret", "secretRef": secret}
    return {"apiVersion": api_version, "kind": "ClusterProviderConfig", "metadata": {"name": name}, "spec": spec}
