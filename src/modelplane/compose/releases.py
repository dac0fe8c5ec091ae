"""A Helm target as the Release of provider-helm that hosts apply."""

from modelplane.api.objects import Json
from modelplane.compose.contract import Helm

RELEASE_API, RELEASE = "helm.m.crossplane.io/v1beta1", "Release"
EXTERNAL_NAME = "crossplane.io/external-name"
_ROLLBACKS = 3


def release_manifest(name: str, namespace: str, target: Helm) -> Json:
    """Helm knows the release by the target's name for it, or by that of the object."""
    return {
        "apiVersion": RELEASE_API,
        "kind": RELEASE,
        "metadata": {"name": name, "namespace": namespace, "annotations": {EXTERNAL_NAME: target.release or name}},
        "spec": {
            "providerConfigRef": {"kind": "ClusterProviderConfig", "name": target.cluster},
            "rollbackLimit": _ROLLBACKS,
            "forProvider": {
                "namespace": target.namespace,
                # Ready is then a matter of the pods too, which those that need it wait for.
                "wait": True,
                "chart": {"repository": target.repository, "name": target.chart, "version": target.version},
                "values": target.values,
            },
        },
    }
