"""Copies of Secrets and ConfigMaps on workload clusters, without their values in any Object.

provider-kubernetes copies fields of an object on the control plane into the manifest that it applies
(`references.patchesFrom`). It stores an Object with those fields when it adds its finalizer and before it creates the
remote object, so one Object would keep the values. Two do not:

    KEY         creates and deletes the remote object, and has no values
    copy-KEY    fills it. It may only observe and update, and is born with the provider's finalizer: the provider never
                has a reason to store it. Server-side apply gives it the fields that it fills.

The provider runs with `--sanitize-secrets`, so an observed Secret has no values either. Nothing watches Secrets: the
resourceVersion of the original is an annotation of the Object, and the provider reconciles it when that changes.
"""

from collections.abc import Mapping
from dataclasses import replace

from modelplane.api.objects import Manifest
from modelplane.compose.contract import CopiedFrom, Desired, Observed, Remote
from modelplane.compose.readiness import has_condition
from modelplane.crossplane.provider_objects import OBJECT, OBJECT_API, Composite

PREFIX = "copy-"
SOURCE_VERSION = "modelplane.ai/source-version"
PROVIDER_FINALIZER = "finalizer.managedresource.crossplane.io"


def copy_objects(composite: Composite, desired: Mapping[str, Desired]) -> dict[str, Manifest]:
    """By composition key. A copy whose original is missing has none: it keeps its values on the cluster."""
    return {
        PREFIX + key: _object(composite, PREFIX + key, item.target, item.target.copied_from)
        for key, item in desired.items()
        if isinstance(item.target, Remote) and item.target.copied_from is not None
    }


def with_filled(observed: Mapping[str, Observed], composed: Mapping[str, Manifest]) -> dict[str, Observed]:
    """The observed objects; one that is a copy is ready when it has been filled, too."""
    return {key: _filled(seen, composed.get(PREFIX + key)) for key, seen in observed.items()}


def _filled(seen: Observed, copy: Manifest | None) -> Observed:
    return seen if copy is None else replace(seen, ready=seen.ready and has_condition(copy, "Ready"))


def _object(composite: Composite, key: str, target: Remote, source: CopiedFrom) -> Manifest:
    return {
        "apiVersion": OBJECT_API,
        "kind": OBJECT,
        "metadata": {
            "name": composite.name_for(key),
            "namespace": composite.home,
            "annotations": {SOURCE_VERSION: source.version},
            "finalizers": [PROVIDER_FINALIZER],
        },
        "spec": {
            "providerConfigRef": {"kind": "ClusterProviderConfig", "name": target.cluster},
            "managementPolicies": ["Observe", "Update"],
            "readiness": {"policy": "SuccessfulCreate"},
            "references": [_reference(source, field) for field in source.fields],
            "forProvider": {"manifest": target.manifest},
        },
    }


def _reference(source: CopiedFrom, field: str) -> dict[str, object]:
    origin = {
        "apiVersion": source.api_version,
        "kind": source.kind,
        "name": source.name,
        "namespace": source.namespace,
    }
    return {"patchesFrom": {**origin, "fieldPath": field}}
