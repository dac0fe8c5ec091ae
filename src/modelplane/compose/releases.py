"""A Helm target as the Release of provider-helm that hosts apply."""

from collections.abc import Mapping

from modelplane.api.meta import ClusterName
from modelplane.api.objects import Json, Manifest, text_at, value_at
from modelplane.compose.contract import Helm, Target

RELEASE_API, RELEASE = "helm.m.crossplane.io/v1beta1", "Release"
EXTERNAL_NAME = "crossplane.io/external-name"
ATTEMPTS = 12
"""Past them provider-helm never tries again. It tries once in a poll of five minutes, so that is an hour."""


def release_manifest(name: str, namespace: str, target: Helm) -> Json:
    """Helm knows the release by the target's name for it, or by that of the object."""
    return {
        "apiVersion": RELEASE_API,
        "kind": RELEASE,
        "metadata": {"name": name, "namespace": namespace, "annotations": {EXTERNAL_NAME: target.release or name}},
        "spec": {
            "providerConfigRef": {"kind": "ClusterProviderConfig", "name": target.cluster},
            "rollbackLimit": ATTEMPTS,
            "forProvider": {
                "namespace": target.namespace,
                # Ready is then a matter of the pods too, which those that need it wait for.
                "wait": True,
                "chart": {"repository": target.repository, "name": target.chart, "version": target.version},
                "values": target.values,
            },
        },
    }


def read_release(item: Manifest) -> Helm:
    """The target that a Release stands for."""
    values = value_at(item, "spec", "forProvider", "values")
    return Helm(
        cluster=ClusterName(text_at(item, "spec", "providerConfigRef", "name")),
        chart=text_at(item, "spec", "forProvider", "chart", "name"),
        repository=text_at(item, "spec", "forProvider", "chart", "repository"),
        version=text_at(item, "spec", "forProvider", "chart", "version"),
        namespace=text_at(item, "spec", "forProvider", "namespace"),
        values=values if isinstance(values, Mapping) else {},
        release=text_at(item, "metadata", "annotations", EXTERNAL_NAME),
    )


def chart_of(target: Target) -> Helm | None:
    """The chart that a target releases; the embedded plane observes its Release. None where it is none."""
    if isinstance(target, Helm):
        return target
    return read_release(target.manifest) if text_at(target.manifest, "kind") == RELEASE else None
