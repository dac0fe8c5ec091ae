"""What this build does not act on: kinds, fields and clusters. A condition or a warning says so."""

from collections.abc import Mapping
from typing import Final, TypeVar

import msgspec

from modelplane.api.conditions import ConditionType, fails, summarise
from modelplane.api.models import InferenceCluster
from modelplane.api.reasons import Reason
from modelplane.compose.clouds import CLOUDS
from modelplane.compose.contract import ComposeRequest, ComposeResult, keep_observed

Resource = TypeVar("Resource", bound=msgspec.Struct)

CLOUD_FIELDS: Final = (
    ("spec", "nodePools", "[]", "capacityBlock"),
    ("spec", "nodePools", "[]", "capacityReservation"),
    ("spec", "nodePools", "[]", "minNodeCount"),
)
"""Fields of an InferenceCluster that matter to a cloud alone; `[]` stands for every item of a list."""

_EARLIER = "is the earlier form"
NOTED_FIELDS: Final[Mapping[str, tuple[tuple[tuple[str, ...], str, str], ...]]] = {
    "ModelEndpoint": (
        (("spec", "auth"), _EARLIER, "write credential: {method: APIKey, apiKey: {secretRef: {name, key}}}"),
        (("spec", "rewritePath"), _EARLIER, "write api: {prefix: PATH/v1}"),
    ),
    "ModelService": (
        (("spec", "endpoints", "[]", "overflow"), "has no effect without the fleet router", "run the router"),
    ),
    "InferenceGateway": ((("spec", "tls", "secretRef"), _EARLIER, "write certificateRefs: [{name: NAME}]"),),
}
"""Fields that are accepted, with what there is to know of them and what to write instead, by kind."""

STORED_ONLY = frozenset({"ServingStack", "GKECluster", "EKSCluster"})
"""Kinds that are stored and validated and not reconciled."""


def refuse(request: ComposeRequest[Resource], message: str) -> ComposeResult:
    """What is observed stays; the condition Accepted says that nothing is done."""
    problem = fails(ConditionType.ACCEPTED, Reason.NOT_SUPPORTED, message)
    return ComposeResult(desired=keep_observed(request), conditions=(problem,), ready=summarise([problem]))


def stack_refusal(cluster: InferenceCluster) -> str | None:
    """Why nothing is rendered for the stack of a cluster, as a sentence that names the field."""
    if cluster.spec.stack == "Standard":
        return None
    if cluster.spec.backend.type_ != "Native":
        return f"spec.stack: Dynamo is for spec.backend.type Native, not {cluster.spec.backend.type_}"
    if cluster.spec.scheduling.type_ not in {"KAI", "Auto"}:
        return "spec.stack: Dynamo needs spec.scheduling.type: KAI, which places the gangs of Grove"
    return None


def cluster_fault(cluster: InferenceCluster) -> str | None:
    """Why nothing is made for a cluster as it is written, as a sentence that names the field."""
    cloud = CLOUDS.get(cluster.spec.cluster.source)
    return stack_refusal(cluster) or (None if cloud is None else cloud.fault(cluster))
