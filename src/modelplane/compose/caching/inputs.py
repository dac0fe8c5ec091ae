"""What staging a cache reads beside the cache itself. Each is unresolved, absent or present.

An input that is missing stops new Jobs, and removes nothing.
"""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property

from modelplane.api.codec import decode
from modelplane.api.errors import InputError, InvalidObject
from modelplane.api.labels import CACHE, DEFAULT_GATEWAY
from modelplane.api.meta import ClusterName
from modelplane.api.models import InferenceCluster, InferenceGateway, ModelCache, ModelReplica
from modelplane.api.objects import API_VERSION, Manifest, items_at, mapping_at, text_at
from modelplane.api.outbound import OutboundRule
from modelplane.api.reasons import Reason
from modelplane.api.timestamps import epoch_s
from modelplane.compose.caching.complaints import incomplete_since
from modelplane.compose.caching.source import PEER, CacheSource
from modelplane.compose.caching.storage import StorageSpec
from modelplane.compose.causes import Cause
from modelplane.compose.context import remote_namespace
from modelplane.compose.contract import ComposeRequest, Requirement

_CLUSTERS, _REPLICAS, _CACHES, _GATEWAY = "clusters", "replicas", "caches", "gateway"
_SECRET, _RELAY_SECRET, _CONFIG_MAP = "secret", "relay-secret", "configmap"


@dataclass(frozen=True)
class CacheInputs:
    request: ComposeRequest[ModelCache]
    source: CacheSource | None
    storage: StorageSpec

    @property
    def cache(self) -> ModelCache:
        return self.request.resource

    @cached_property
    def clusters(self) -> dict[ClusterName, InferenceCluster] | None:
        """None while they are not read. One that cannot be decoded is left out, and nothing is removed from it."""
        found = self.request.fetched(_CLUSTERS)
        if found is None:
            return None
        read = (cluster for item in found if (cluster := _decoded_cluster(item)) is not None)
        return {ClusterName(cluster.metadata.name): cluster for cluster in read}

    @cached_property
    def replicas(self) -> tuple[ModelReplica, ...] | None:
        """Replicas of the namespace; None while they are not read."""
        found = self.request.fetched(_REPLICAS)
        return None if found is None else tuple(_replicas(found))

    @property
    def are_others_read(self) -> bool:
        return self.request.fetched(_CACHES) is not None

    @cached_property
    def others(self) -> tuple[ModelCache, ...]:
        """The other caches of the namespace."""
        return tuple(_caches(self.request.fetched(_CACHES) or (), self.cache.metadata.name))

    @property
    def mounting(self) -> int:
        """How many replicas mount it, on any cluster."""
        name = self.cache.metadata.name
        return sum(any(mount.name == name for mount in replica.spec.caches) for replica in self.replicas or ())

    def mounted_keys(self, cluster: ClusterName) -> list[str]:
        """The key that each replica on a cluster mounts; the newest where it does not say."""
        newest = self.source.key if self.source else ""
        name = self.cache.metadata.name
        return [
            mount.key or newest
            for replica in self.replicas or ()
            if replica.spec.cluster_name == cluster
            for mount in replica.spec.caches
            if mount.name == name
        ]

    def incomplete_since(self, cluster: ClusterName, key: str) -> float | None:
        """Since when pods find that the volume of a source is not what was staged; None where none does.

        Of several complaints the newest: an older one is of a pod that has not looked again yet.
        """
        found = (
            epoch_s(incomplete_since(item) or None)
            for item in self.request.fetched(_REPLICAS) or ()
            if text_at(item, "spec", "clusterName") == cluster
            and any(mount.get("key") == key for mount in items_at(item, "spec", "caches"))
        )
        return max((since for since in found if since is not None), default=None)

    def pods(self, cluster: ClusterName) -> tuple[Manifest, ...]:
        return self.request.fetched(_pods_key(cluster)) or ()

    def existing_claim(self, cluster: ClusterName) -> tuple[Manifest, ...] | None:
        return self.request.fetched(_claim_key(cluster))

    @property
    def allowed(self) -> tuple[str, ...]:
        """What the platform allows beside public hosts."""
        found = self.request.fetched(_GATEWAY)
        with suppress(InvalidObject):
            outbound = decode(InferenceGateway, found[0]).spec.outbound if found else None
            return outbound.allow if outbound is not None else ()
        return ()

    def secret(self, source: CacheSource) -> Manifest | None:
        """The Secret that a source names."""
        return next(iter(self.request.fetched(_secret_key(source)) or ()), None)

    @property
    def config_map(self) -> Manifest | None:
        return next(iter(self.request.fetched(_CONFIG_MAP) or ()), None)

    def obstacle(self, source: CacheSource) -> Cause | None:
        """Why nothing can be fetched from a source."""
        return self._refused_host(source) or self._missing_secret(source) or self._missing_config_map(source)

    def _refused_host(self, source: CacheSource) -> Cause | None:
        if not source.hosts:
            return None
        if self.request.fetched(_GATEWAY) is None:
            return Cause(Reason.UNRESOLVED, f"InferenceGateway {DEFAULT_GATEWAY} is not read yet")
        try:
            rule = OutboundRule.read(self.allowed)
        except ValueError as error:
            return Cause(Reason.INVALID, f"InferenceGateway {DEFAULT_GATEWAY}: spec.outbound.allow: {error}")
        for path, host in source.hosts:
            if (refusal := rule.refuse_host(host)) is not None:
                allow = f"InferenceGateway {DEFAULT_GATEWAY} may allow it in spec.outbound.allow"
                return Cause(Reason.OUTBOUND_REFUSED, f"{path}: {refusal}; {allow}")
        return None

    def _missing_secret(self, source: CacheSource) -> Cause | None:
        wanted, found = source.secret, self.secret(source)
        if wanted is None:
            return None
        shown = f"Secret {self.cache.metadata.namespace}/{wanted.name}"
        if self.request.fetched(_secret_key(source)) is None:
            return Cause(Reason.UNRESOLVED, f"{shown} is not read yet")
        if found is None:
            return Cause(Reason.SECRET_MISSING, f"{shown} does not exist")
        if wanted.key and wanted.key not in mapping_at(found, "data"):
            return Cause(Reason.SECRET_MISSING, f"{shown} has no key {wanted.key}")
        return None

    def _missing_config_map(self, source: CacheSource) -> Cause | None:
        name = source.config_map
        if name is None:
            return None
        shown = f"ConfigMap {self.cache.metadata.namespace}/{name}"
        if self.request.fetched(_CONFIG_MAP) is None:
            return Cause(Reason.UNRESOLVED, f"{shown} is not read yet")
        key = text_at(source.document, "key")
        if self.config_map is None:
            return Cause(Reason.CONFIG_MAP_MISSING, f"{shown} does not exist")
        if key and not any(key in mapping_at(self.config_map, part) for part in ("data", "binaryData")):
            return Cause(Reason.CONFIG_MAP_MISSING, f"{shown} has no key {key}")
        return None


def requirements(inputs: CacheInputs, staging: list[ClusterName], adopted: list[ClusterName]) -> dict[str, Requirement]:
    """`staging` are clusters where a Job runs, `adopted` those whose claim is looked at."""
    metadata = inputs.cache.metadata
    wanted = {
        _CLUSTERS: Requirement(API_VERSION, "InferenceCluster"),
        _REPLICAS: Requirement(API_VERSION, "ModelReplica", namespace=metadata.namespace),
        _CACHES: Requirement(API_VERSION, "ModelCache", namespace=metadata.namespace),
    }
    source = inputs.source
    relay = inputs.cache.spec.relay
    if relay is not None:
        name = relay.auth_secret_ref.name
        wanted[_RELAY_SECRET] = Requirement("v1", "Secret", name=name, namespace=metadata.namespace)
    if source is not None and (source.hosts or relay is not None):
        wanted[_GATEWAY] = Requirement(API_VERSION, "InferenceGateway", name=DEFAULT_GATEWAY)
    if source is not None and source.secret is not None:
        wanted[_SECRET] = Requirement("v1", "Secret", name=source.secret.name, namespace=metadata.namespace)
    if source is not None and source.config_map is not None:
        wanted[_CONFIG_MAP] = Requirement("v1", "ConfigMap", name=source.config_map, namespace=metadata.namespace)
    for cluster in staging:
        wanted[_pods_key(cluster)] = loaders_requirement(metadata.namespace, metadata.name, cluster)
    existing = inputs.storage.existing
    for cluster in adopted if existing is not None else ():
        name = existing.claim_name if existing else ""
        wanted[_claim_key(cluster)] = claim_requirement(metadata.namespace, name, cluster)
    return wanted


def loaders_requirement(namespace: str, name: str, cluster: ClusterName) -> Requirement:
    """The pods of a cache's loaders on a cluster."""
    return Requirement("v1", "Pod", namespace=remote_namespace(namespace), labels={CACHE: name}, cluster=cluster)


def claim_requirement(namespace: str, name: str, cluster: ClusterName) -> Requirement:
    """A claim that exists on a cluster."""
    there = remote_namespace(namespace)
    return Requirement("v1", "PersistentVolumeClaim", name=name, namespace=there, cluster=cluster)


def _secret_key(source: CacheSource) -> str:
    return _RELAY_SECRET if source.block == PEER else _SECRET


def _pods_key(cluster: ClusterName) -> str:
    return f"pods-{cluster}"


def _claim_key(cluster: ClusterName) -> str:
    return f"claim-{cluster}"


def _decoded_cluster(item: Manifest) -> InferenceCluster | None:
    """Without its pools, which are long and not read here. One without a name is none that anything is put on."""
    status: dict[str, object] = {"conditions": list(items_at(item, "status", "conditions"))}
    if version := text_at(item, "status", "kubernetesVersion"):
        status["kubernetesVersion"] = version
    with suppress(InputError):
        cluster = decode(InferenceCluster, {**item, "status": status})
        return cluster if cluster.metadata.name else None
    return None


def _replicas(items: tuple[Manifest, ...]) -> Iterator[ModelReplica]:
    for item in items:
        with suppress(InputError):
            yield decode(ModelReplica, item)


def _caches(items: tuple[Manifest, ...], own: str) -> Iterator[ModelCache]:
    for item in items:
        with suppress(InputError):
            cache = decode(ModelCache, item)
            if cache.metadata.name != own:
                yield cache
