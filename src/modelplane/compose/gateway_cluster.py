"""An InferenceGateway that runs on an InferenceCluster: the same objects, written to that cluster.

Until the cluster is there with its software, nothing is made; once something is, it stays whatever becomes of the
cluster's status. The cluster is not deleted while a gateway runs on it.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from modelplane.api.codec import decode
from modelplane.api.conditions import Condition, ConditionStatus, ConditionType, fails, summarise, unknown
from modelplane.api.errors import InputError
from modelplane.api.meta import ClusterName
from modelplane.api.models import InferenceCluster, InferenceGateway
from modelplane.api.objects import API_VERSION, items_at, name_of, text_at
from modelplane.api.reasons import Reason
from modelplane.compose.caller_keys import KEYS
from modelplane.compose.contract import (
    ComposeRequest,
    ComposeResult,
    Desired,
    Local,
    Observed,
    Remote,
    Requirement,
    Use,
    keep_observed,
)
from modelplane.compose.fleet_gateways import runs_on
from modelplane.compose.images import RegistryMirrors

PREFIX: Final = "cluster/"
"""How the keys of its objects begin. The same object beside the control plane is another one, and another kind."""
_BESIDE: Final = frozenset({KEYS})
"""Keys of what is beside the control plane all the same, for copies to be made of."""
_CLUSTER: Final = "cluster"
_NEEDED: Final = (ConditionType.PROVISIONED, ConditionType.REQUIREMENTS_MET)
"""What a cluster says of itself before a gateway can be made there, where it says it."""


def compose_on_cluster(
    request: ComposeRequest[InferenceGateway],
    cluster: ClusterName,
    compose: Callable[[ComposeRequest[InferenceGateway]], ComposeResult],
) -> ComposeResult:
    """What `compose` makes of the gateway, on the cluster."""
    required = {_CLUSTER: Requirement(API_VERSION, "InferenceCluster", name=cluster)}
    there = {key.removeprefix(PREFIX): item for key, item in request.observed.items() if key.startswith(PREFIX)}
    beside = {key: item for key, item in request.observed.items() if key in _BESIDE}
    problem = _problem(request, cluster, started=bool(there))
    if problem is not None:
        return ComposeResult(
            desired=keep_observed(request),
            conditions=(problem,),
            ready=summarise([problem]),
            requirements=required,
            uses=_uses(request, cluster),
        )
    found = compose(replace(request, observed={**there, **beside}))
    return replace(
        found,
        desired=dict(_placed(key, item, cluster) for key, item in found.desired.items()),
        requirements={**found.requirements, **required},
        uses=_uses(request, cluster),
    )


def _placed(key: str, item: Desired, cluster: ClusterName) -> tuple[str, Desired]:
    return (key, item) if key in _BESIDE else (PREFIX + key, _moved(item, cluster))


def _moved(item: Desired, cluster: ClusterName) -> Desired:
    """What is kept as it was observed is there already."""
    target = item.target
    return (
        replace(item, target=Remote(cluster, target.manifest, target.ready_when)) if isinstance(target, Local) else item
    )


def _uses(request: ComposeRequest[InferenceGateway], cluster: ClusterName) -> tuple[Use, ...]:
    """None of a cluster that is known not to exist: Crossplane could not resolve it."""
    absent = request.fetched(_CLUSTER) == ()
    return () if absent else (Use(API_VERSION, "InferenceCluster", cluster, reason="a gateway runs on the cluster"),)


def _problem(request: ComposeRequest[InferenceGateway], name: ClusterName, *, started: bool) -> Condition | None:
    """Why nothing can be made, or changed."""
    kind, found = ConditionType.GATEWAY_READY, request.fetched(_CLUSTER)
    shown = f"spec.clusterName: InferenceCluster {name}"
    if found is None:
        return unknown(kind, Reason.UNRESOLVED, f"{shown} is not read yet")
    if not found:
        stays = "; what runs there stays" if started else ""
        return fails(kind, Reason.CLUSTER_MISSING, f"{shown} does not exist{stays}")
    if _cluster(request) is None:
        return fails(kind, Reason.WAITING_FOR_CLUSTER, f"{shown} cannot be read")
    if started:
        return None
    for condition in items_at(found[0], "status", "conditions"):
        if condition.get("type") in _NEEDED and condition.get("status") != ConditionStatus.TRUE:
            why = text_at(condition, "message") or text_at(condition, "reason")
            return fails(kind, Reason.WAITING_FOR_CLUSTER, f"{shown} is not ready for a gateway: {why}")
    return None


def _cluster(request: ComposeRequest[InferenceGateway]) -> InferenceCluster | None:
    """Its status does not matter here, and may be garbled."""
    found = request.fetched(_CLUSTER)
    try:
        return decode(InferenceCluster, {**found[0], "status": {}}) if found and name_of(found[0]) else None
    except InputError:
        return None


def cluster_image(request: ComposeRequest[InferenceGateway], image: str) -> str:
    """Where nodes of the gateway's cluster find an image of ours."""
    cluster = _cluster(request) if runs_on(request.resource, embedded=request.embedded) is not None else None
    return image if cluster is None else RegistryMirrors.of(cluster).of_image(image)


def observation_problem(request: ComposeRequest[InferenceGateway], seen: Observed | None) -> Condition | None:
    """What keeps the Gateway on a cluster from being made, or from being seen. `seen` is the Gateway."""
    cluster = runs_on(request.resource, embedded=request.embedded)
    if cluster is None:
        return None
    kind, address = ConditionType.GATEWAY_READY, request.resource.status.address
    if seen is not None and seen.refused:
        return fails(
            kind, Reason.WAITING_FOR_GATEWAY, f"InferenceCluster {cluster} refuses the Gateway: {seen.refused}"
        )
    if address is not None and (seen is None or not seen.ready):
        message = f"InferenceCluster {cluster} does not answer, or does not show the Gateway, which was at {address}"
        return unknown(kind, Reason.WAITING_FOR_CLUSTER, message)
    return None
