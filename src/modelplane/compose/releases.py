"""A Helm target as the Release of provider-helm that hosts apply, and what the provider says of it."""

import re
from collections.abc import Mapping

from modelplane.api.meta import ClusterName
from modelplane.api.objects import Json, Manifest, items_at, text_at, value_at
from modelplane.compose.contract import Helm, Observed, Target

RELEASE_API, RELEASE = "helm.m.crossplane.io/v1beta1", "Release"
EXTERNAL_NAME = "crossplane.io/external-name"
ATTEMPTS = 12
"""Past them provider-helm never tries again. It tries once in a poll of five minutes, so that is an hour."""
_WRAPPED = re.compile(r'^(create|update) failed: failed to (install|upgrade) release: |^Release "[^"]*" failed: ')
"""What the provider, or Helm in its history, says before the cause."""
_PASSES = re.compile(r'^connect failed: .*cannot get provider config: ClusterProviderConfig\S* "[^"]*" not found')
"""It is made beside the release. The provider tries again, and the next time it is there."""
_MAX_PROBLEM = 300


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


def problem_of(seen: Observed) -> str:
    """Why an object of the stack is not made, in the words of who refused it; empty where nobody did."""
    if seen.refused or text_at(seen.manifest, "kind") != RELEASE:
        return seen.refused[:_MAX_PROBLEM]
    return release_problem(seen.manifest)


def release_problem(item: Manifest) -> str:
    """Why a chart could not be released, in Helm's words, on one line.

    The provider says it in Synced until it tries again. Between attempts, and when it gives up, Helm's history has it.
    """
    newest = value_at(item, "metadata", "generation")
    for condition in items_at(item, "status", "conditions"):
        is_current = condition.get("observedGeneration", newest) == newest
        if condition.get("type") == "Synced" and condition.get("status") == "False" and is_current:
            message = text_at(condition, "message")
            return "" if _PASSES.match(message) else _cause(message)
    is_failed = text_at(item, "status", "atProvider", "state") == "failed"
    return _cause(text_at(item, "status", "atProvider", "releaseDescription")) if is_failed else ""


def _cause(message: str) -> str:
    return _WRAPPED.sub("", " ".join(message.split()))[:_MAX_PROBLEM]
