"""What this build does not act on: kinds, fields and sources of clusters. A condition or a warning says so."""

from collections.abc import Mapping
from typing import Final, TypeVar

import msgspec

from modelplane.api.conditions import ConditionType, fails, summarise
from modelplane.api.models import InferenceCluster
from modelplane.api.reasons import Reason
from modelplane.compose.contract import ComposeRequest, ComposeResult, keep_observed

Resource = TypeVar("Resource", bound=msgspec.Struct)

UNREAD_FIELDS: Final[Mapping[str, tuple[tuple[str, ...], ...]]] = {
    "InferenceClass": (("spec", "provisioning"),),
    "InferenceCluster": (
        ("spec", "nodePools", "[]", "capacityBlock"),
        ("spec", "nodePools", "[]", "minNodeCount"),
    ),
}
"""Fields that no composer reads, by kind; `[]` stands for every item of a list."""

_EARLIER = "is the earlier form"
NOTED_FIELDS: Final[Mapping[str, tuple[tuple[tuple[str, ...], str, str], ...]]] = {
    "ModelEndpoint": (
        (("spec", "auth"), _EARLIER, "write credential: {method: APIKey, apiKey: {secretRef: {name, key}}}"),
        (("spec", "rewritePath"), _EARLIER, "write api: {prefix: PATH/v1}"),
    ),
    "ModelService": (
        (("spec", "endpoints", "[]", "overflow"), "has no effect without the fleet router", "run the router"),
    ),
    "InferenceGateway": (
        (("spec", "tls", "secretRef"), _EARLIER, "write certificateRefs: [{name: NAME}]"),
        (("spec", "clusterName"), "has no effect in this build", "the gateway runs beside the control plane"),
    ),
}
"""Fields that are accepted, with what there is to know of them and what to write instead, by kind."""

STORED_ONLY = frozenset({"ServingStack", "GKECluster", "EKSCluster"})
"""Kinds that are stored and validated and not reconciled."""
_SOURCES = frozenset({"Existing"})


def refuse(request: ComposeRequest[Resource], message: str) -> ComposeResult:
    """What is observed stays; the condition Accepted says that nothing is done."""
    problem = fails(ConditionType.ACCEPTED, Reason.NOT_SUPPORTED, message)
    return ComposeResult(desired=keep_observed(request), conditions=(problem,), ready=summarise([problem]))


def source_fault(cluster: InferenceCluster) -> str | None:
    """Why nothing can run on a cluster from its source, as a sentence that names the field."""
    source = cluster.spec.cluster.source
    if source in _SOURCES:
        return None
    return f"spec.cluster.source: this build does not create {source} clusters; use {', '.join(sorted(_SOURCES))}"
