"""The fields of an `EndpointPickerConfig`, as they are written. Nothing unknown is let through."""

import msgspec

from modelplane.epp.scheduling.units import Amount, Duration

GROUPS = ("llm-d.ai/v1", "llm-d.ai/v1alpha1")
LEGACY_GROUP = "inference.networking.x-k8s.io/v1alpha1"
KIND = "EndpointPickerConfig"


class _Fields(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel", kw_only=True, omit_defaults=True
):
    pass


class PluginFields(_Fields, frozen=True):
    type: str = ""
    name: str = ""
    parameters: dict[str, object] | None = None


class Ref(_Fields, frozen=True):
    plugin_ref: str = ""


class WeightedRef(Ref, frozen=True):
    weight: float | None = None


class ProfileFields(_Fields, frozen=True):
    name: str = ""
    plugins: tuple[WeightedRef, ...] | None = None


class SourceFields(Ref, frozen=True):
    extractors: tuple[Ref, ...] | None = None


class CrossReplicaFields(_Fields, frozen=True):
    syncer_plugin_ref: str = ""
    sync_interval: Duration | None = None
    publish_timeout: Duration | None = None


class DataLayerFields(_Fields, frozen=True):
    inject_defaults: bool | None = None
    sources: tuple[SourceFields, ...] | None = None
    discovery: Ref | None = None
    peer_discovery: Ref | None = None
    cross_replica: CrossReplicaFields | None = None
    cross_replica_syncer_plugin_ref: str = ""
    """This and the next are the names of v1alpha1."""
    cross_replica_sync_interval: Duration | None = None


class BandFields(_Fields, frozen=True):
    """Requests of one priority. What is not given is the default of flow control."""

    priority: int = 0
    max_bytes: Amount | None = None
    max_requests: Amount | None = None
    fairness_policy_ref: str = ""
    ordering_policy_ref: str = ""


class FlowControlFields(_Fields, frozen=True):
    max_bytes: Amount | None = None
    max_requests: Amount | None = None
    default_request_ttl: Duration | None = msgspec.field(default=None, name="defaultRequestTTL")
    no_endpoint_request_ttl: Duration | None = msgspec.field(default=None, name="noEndpointRequestTTL")
    default_priority_band: BandFields | None = None
    default_negative_priority_band: BandFields | None = None
    priority_bands: tuple[BandFields, ...] | None = None
    usage_limit_policy_plugin_ref: str = ""
    saturation_detector: Ref | None = None
    enable_eviction: bool = False


class DetectorFields(Ref, frozen=True):
    """The reference, or what older configurations wrote in its place: the thresholds of the usual detector."""

    queue_depth_threshold: int | None = None
    kv_cache_util_threshold: float | None = None
    metrics_staleness_threshold: str | None = None

    def thresholds(self) -> dict[str, object]:
        found: dict[str, object] = {
            "queueDepthThreshold": self.queue_depth_threshold,
            "kvCacheUtilThreshold": self.kv_cache_util_threshold,
            "metricsStalenessThreshold": self.metrics_staleness_threshold,
        }
        return {name: value for name, value in found.items() if value is not None}


class RequestHandlerFields(_Fields, frozen=True):
    parsers: tuple[Ref, ...] | None = None


class ConfigFields(_Fields, frozen=True):
    api_version: str = ""
    kind: str = ""
    feature_gates: tuple[str, ...] | None = None
    plugins: tuple[PluginFields, ...] | None = None
    scheduling_profiles: tuple[ProfileFields, ...] | None = None
    data_layer: DataLayerFields | None = None
    data: DataLayerFields | None = None
    """The old name of the field above."""
    flow_control: FlowControlFields | None = None
    request_handler: RequestHandlerFields | None = None
    saturation_detector: DetectorFields | None = None
    parser: Ref | None = None
