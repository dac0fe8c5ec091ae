"""The ModelEndpoint of a ModelReplica: made when it serves, kept for a moment after it stops."""

from collections.abc import Callable, Iterable

from modelplane.api.labels import CANARY_WEIGHT, LEAVING, LISTED, REPLICA, REVISION
from modelplane.api.meta import ClusterName
from modelplane.api.models import ModelDeployment
from modelplane.api.objects import (
    API_VERSION,
    Manifest,
    int_at,
    labels_of,
    manifest,
    mapping_at,
    name_of,
    namespace_of,
    text_at,
    value_at,
    with_metadata,
)
from modelplane.api.timestamps import timestamp
from modelplane.compose.contract import ComposeRequest, Local, Observed
from modelplane.compose.engines.served_name import served_name
from modelplane.compose.observed_replicas import ENDPOINT_PREFIX, REPLICA_PREFIX
from modelplane.compose.readiness import SERVING, is_denied, serves, stopped_at
from modelplane.placement.values import PlacedReplica

ENDPOINT_GRACE_S = 3.0
"""How long a ModelEndpoint is kept after its ModelReplica stops serving: the conditions that a host shows may be stale,
and to delete and recreate an endpoint costs clients many seconds, where the gateway retries another replica at once."""
_CLOCK_SKEW_S = 1.0
_FIELDS = ("url", "model", "replica")
"""What the spec of a replica's endpoint is made of. A host may add others."""
_HOST_PREFIX = "crossplane.io/"


def endpoint_is_stale(request: ComposeRequest[ModelDeployment], key: str) -> bool:
    """Whether the key is that of an endpoint whose replica does not serve, nor did within ENDPOINT_GRACE_S.

    A replica that lost its status does not say that it stopped.
    """
    if not key.startswith(ENDPOINT_PREFIX):
        return False
    replica = request.observed.get(REPLICA_PREFIX + key.removeprefix(ENDPOINT_PREFIX))
    return replica is None or not (
        serves(replica.manifest) or grace_left_s(replica, request.now) or not is_denied(replica.manifest, SERVING)
    )


def grace_left_s(replica: Observed, now: float) -> float:
    """Seconds until the endpoint of a replica that stopped serving is stale; 0: it is."""
    stopped = stopped_at(replica.manifest)
    if stopped is None or not now or stopped > now + _CLOCK_SKEW_S:
        return 0.0
    return max(0.0, stopped + ENDPOINT_GRACE_S - now)


def endpoint_key(placed: PlacedReplica) -> str:
    return f"{ENDPOINT_PREFIX}{placed.cluster}-{placed.index}"


def replica_endpoint(
    target: Local, cluster: ClusterName, seen: Observed, weigh: Callable[[str], int | None] = lambda _revision: None
) -> Manifest | None:
    """`weigh` has the percentage of requests for a revision, where that is a canary's.

    A replica that is being changed in place may have the pods of another revision, so the least share holds.
    """
    address = text_at(seen.manifest, "status", "address")
    if not address:
        return None
    name, labels = name_of(target.manifest), labels_of(target.manifest)
    weight = _least(map(weigh, _revisions(target.manifest, seen.manifest)))
    model = served_name(target.manifest)
    made = manifest(
        API_VERSION,
        "ModelEndpoint",
        name,
        namespace=text_at(target.manifest, "metadata", "namespace"),
        labels={**labels, REPLICA: name, **({} if weight is None else {CANARY_WEIGHT: str(weight)})},
        spec={
            "url": address,
            **({"model": model} if model is not None else {}),
            "replica": {"name": name, "clusterName": cluster},
        },
    )
    listed = value_at(seen.manifest, "status", "listed") is True
    return with_metadata(made, annotations={LISTED: "true"}) if listed else made


def leaving_endpoint(seen: Manifest, since: float) -> Manifest:
    """The observed endpoint as it was made, with the mark that it leaves."""
    labels = {key: value for key, value in labels_of(seen).items() if not key.startswith(_HOST_PREFIX)}
    spec = {name: value for name, value in mapping_at(seen, "spec").items() if name in _FIELDS}
    made = manifest(API_VERSION, "ModelEndpoint", name_of(seen), namespace=namespace_of(seen), labels=labels, spec=spec)
    return with_metadata(made, annotations={LEAVING: timestamp(since)})


def _revisions(target: Manifest, seen: Manifest) -> set[str]:
    """The revisions that the pods of a replica may have; an empty one is unknown."""
    known = {labels_of(item).get(REVISION, "") for item in (target, seen)}
    changing = 0 < int_at(seen, "status", "servedGeneration") < int_at(seen, "metadata", "generation")
    return known | ({""} if changing else set())


def _least(weights: Iterable[int | None]) -> int | None:
    return min((weight for weight in weights if weight is not None), default=None)
