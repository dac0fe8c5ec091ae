"""One cluster, with what was observed of a cache there. Composition keys name the cluster, source and attempt."""

from dataclasses import dataclass

from modelplane.api.meta import ClusterName
from modelplane.api.models import CacheOnCluster, InferenceCluster
from modelplane.compose.caching.inputs import CacheInputs
from modelplane.compose.caching.relay_choice import RelayPlace, chosen_relay
from modelplane.compose.caching.source import CacheSource, relayed_source
from modelplane.compose.contract import Desired, Observed, keep

RELAY_PARTS = ("relaysecret", "relay", "relayservice")
"""What serves the volume to other clusters."""


def volume_key(cluster: ClusterName, key: str) -> str:
    return f"volume-{cluster}-{key}"


def job_prefix(cluster: ClusterName, key: str) -> str:
    return f"job-{cluster}-{key}-"


def clusters_of(observed: dict[str, Observed]) -> set[ClusterName]:
    """Clusters that a volume of the cache was observed on."""
    return {ClusterName(key[len("volume-") :].rpartition("-")[0]) for key in observed if key.startswith("volume-")}


@dataclass(frozen=True, slots=True)
class Site:
    """One cluster, with what is known of the cache there."""

    inputs: CacheInputs
    name: ClusterName
    cluster: InferenceCluster | None
    """None where the list lacks it."""
    known: CacheOnCluster

    @property
    def source(self) -> CacheSource:
        assert self.inputs.source is not None  # noqa: S101  a cache without a source is adopted, not staged
        return self.inputs.source

    @property
    def fetched(self) -> CacheSource:
        """What the loader fetches from here: the source, or the cluster that relays it."""
        relay = self.relay
        here = relay is None or relay.cluster == self.name
        return relayed_source(self.inputs.cache.spec, self.source, None if here or relay is None else relay.url)

    @property
    def relay(self) -> RelayPlace | None:
        return chosen_relay(self.inputs)

    @property
    def volume(self) -> Observed | None:
        return self.inputs.request.observed.get(volume_key(self.name, self.source.key))

    @property
    def jobs(self) -> dict[str, Observed]:
        prefix = job_prefix(self.name, self.source.key)
        return {key: seen for key, seen in self.inputs.request.observed.items() if key.startswith(prefix)}

    @property
    def retains(self) -> bool:
        return self.inputs.cache.spec.retention.when_deleted == "Retain"

    def observed(self) -> dict[str, Desired]:
        """Everything of the cache on this cluster, as it is."""
        exact = {f"{part}-{self.name}" for part in ("namespace", "secret", "configmap", *RELAY_PARTS)}
        seen = self.inputs.request.observed
        return {
            key: keep(item)
            for key, item in seen.items()
            if key in exact or is_volume(key, self.name) or _is_job(key, self.name)
        }


def is_volume(key: str, cluster: ClusterName) -> bool:
    part, _, rest = key.partition("-")
    return part == "volume" and rest.rpartition("-")[0] == cluster


def _is_job(key: str, cluster: ClusterName) -> bool:
    part, _, rest = key.partition("-")
    return part == "job" and rest.rpartition("-")[0].rpartition("-")[0] == cluster
