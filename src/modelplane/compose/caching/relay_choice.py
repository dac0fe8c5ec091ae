"""Which cluster relays a cache: the one that is named, or another that can take its place.

In the order of the spec, the first that answers and holds the content; where none holds it, the first that answers:
that one fetches from the source. A cluster that is not listed or not ready does not answer. Where the clusters are not
read, or none answers, it is the first.
"""

from typing import NamedTuple

from modelplane.api.conditions import ConditionStatus, ConditionType
from modelplane.api.meta import ClusterName
from modelplane.api.models import InferenceCluster
from modelplane.compose.caching.inputs import CacheInputs
from modelplane.compose.caching.sharing import entry_of


class RelayPlace(NamedTuple):
    cluster: str
    url: str


def relay_places(inputs: CacheInputs) -> tuple[RelayPlace, ...]:
    relay = inputs.cache.spec.relay
    if relay is None:
        return ()
    others = (RelayPlace(each.cluster, each.url) for each in relay.fallbacks)
    return RelayPlace(relay.cluster, relay.url), *others


def chosen_relay(inputs: CacheInputs) -> RelayPlace | None:
    places = relay_places(inputs)
    if not places:
        return None
    up = [place for place in places if _answers((inputs.clusters or {}).get(ClusterName(place.cluster)))]
    staged = [place for place in up if _holds(inputs, place)]
    return (staged or up or places)[0]


def _answers(cluster: InferenceCluster | None) -> bool:
    if cluster is None or cluster.metadata.deletion_timestamp is not None:
        return False
    ready = next((found for found in cluster.status.conditions if found.type == ConditionType.READY), None)
    return ready is not None and ready.status is ConditionStatus.TRUE


def _holds(inputs: CacheInputs, place: RelayPlace) -> bool:
    entry = entry_of(inputs.cache, ClusterName(place.cluster))
    return entry is not None and inputs.source is not None and inputs.source.key in entry.staged_keys
