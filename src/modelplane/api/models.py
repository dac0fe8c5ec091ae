"""Written by tools/generate_api.py from apis/; do not edit."""

from collections.abc import Mapping
from typing import Literal

import msgspec

from modelplane.api.conditions import Condition
from modelplane.api.meta import ObjectMeta

__all__ = [
    "Accelerator",
    "Affinity",
    "Agent",
    "ApiKeySecretRef",
    "Attribute",
    "AuthApiKey",
    "AuthSecret",
    "AuthSecretRef",
    "Backend",
    "BaseUrls",
    "BoundPod",
    "Cache",
    "CacheArtifact",
    "CacheMount",
    "CacheOnCluster",
    "CacheRetention",
    "CacheStorage",
    "CacheSummary",
    "CallerAuth",
    "CallerLimits",
    "CanaryLimits",
    "CanaryProgress",
    "CanarySettings",
    "CanaryStep",
    "Candidate",
    "Capabilities",
    "Capacity",
    "CapacityBlock",
    "CelSelector",
    "ClaimVolume",
    "ClaimsOfOther",
    "ClassDevice",
    "ClusterAks",
    "ClusterCivo",
    "ClusterEks",
    "ClusterGateway",
    "ClusterGke",
    "ClusterNebius",
    "ClusterPlacement",
    "ClusterSource",
    "ClusterStorage",
    "ClusterTracing",
    "ClusterVultr",
    "ConfigMap",
    "ConfigMapVolume",
    "ConsumedCounters",
    "Container",
    "ContainerLifecycle",
    "ContainerSecurityContext",
    "Cost",
    "CounterValue",
    "CredentialApiKey",
    "DeploymentEngine",
    "DeploymentMember",
    "DeploymentReference",
    "DeviceRequest",
    "DeviceSelector",
    "EKSCluster",
    "EKSClusterSpec",
    "EKSClusterSpecNodePool",
    "EKSClusterSpecNodePoolFabric",
    "EKSClusterStatus",
    "EmptyDirVolume",
    "EndpointApi",
    "EndpointCounts",
    "EndpointCredential",
    "EndpointGroup",
    "EndpointTraffic",
    "Env",
    "EnvFrom",
    "EnvoyGateway",
    "ExecAction",
    "Existing",
    "ExistingIdentitySecretRef",
    "ExistingPVC",
    "ExistingSecretRef",
    "FabricDomain",
    "Failover",
    "Fallback",
    "FaultyReplica",
    "FieldRef",
    "FleetTracing",
    "GKECluster",
    "GKEClusterSpec",
    "GKEClusterSpecNodePool",
    "GKEClusterStatus",
    "GatewayRoute",
    "GatewayRouter",
    "Gcs",
    "GkeCredentials",
    "Gpu",
    "GpuPool",
    "GrpcAction",
    "HostPathVolume",
    "Http",
    "HttpAuthSecretRef",
    "HttpFile",
    "HttpGetAction",
    "HuggingFace",
    "Images",
    "InClusterScheduler",
    "InferenceClass",
    "InferenceClassSpec",
    "InferenceClassStatus",
    "InferenceCluster",
    "InferenceClusterSpec",
    "InferenceClusterSpecNodePoolFabric",
    "InferenceClusterStatus",
    "InferenceGateway",
    "InferenceGatewaySpec",
    "InferenceGatewayStatus",
    "InitContainer",
    "Inline",
    "K3s",
    "K3sServer",
    "KINDS",
    "KeyPath",
    "KeyReference",
    "Kserve",
    "LabelRequirement",
    "LabelSelector",
    "LifecycleHook",
    "ListedModels",
    "MappedLabel",
    "MappedMetric",
    "MatchAttribute",
    "MatchExpression",
    "MetricMapping",
    "MetricMappingSpec",
    "MetricMappingStatus",
    "ModelCache",
    "ModelCacheSpec",
    "ModelCacheStatus",
    "ModelDeployment",
    "ModelDeploymentSpec",
    "ModelDeploymentStatus",
    "ModelDeploymentStatusCluster",
    "ModelEndpoint",
    "ModelEndpointSpec",
    "ModelEndpointStatus",
    "ModelReplica",
    "ModelReplicaSpec",
    "ModelReplicaStatus",
    "ModelService",
    "ModelServiceSpec",
    "ModelServiceStatus",
    "MutualTLS",
    "NameReference",
    "NebiusIdentitySecretRef",
    "Networking",
    "NoExecuteTaint",
    "NodeAffinity",
    "NodePool",
    "NodePoolDrain",
    "NodeResources",
    "NodeSelector",
    "NodeSelectorTerm",
    "NotReady",
    "ObjectReference",
    "Oci",
    "OlderClusterCache",
    "OlderHuggingFace",
    "OlderSource",
    "OlderStorage",
    "Outbound",
    "Overflow",
    "Override",
    "Phase",
    "PlacementMetadata",
    "PodSecurityContext",
    "PodSpec",
    "PodTemplate",
    "PodVolume",
    "PoolDevice",
    "PoolDomain",
    "Port",
    "Preemption",
    "Preferred",
    "PreferredDuringSchedulingIgnoredDuringExecution",
    "Priority",
    "Probe",
    "ProviderAuth",
    "ProviderConfigRef",
    "Provisioning",
    "ProvisioningAks",
    "ProvisioningCivo",
    "ProvisioningEks",
    "ProvisioningGke",
    "ProvisioningNebius",
    "ProvisioningVultr",
    "Queue",
    "Quota",
    "Rebalance",
    "RegistryMirror",
    "Relay",
    "RelayAuthSecretRef",
    "ReplicaEngine",
    "ReplicaMember",
    "ReplicaReference",
    "RequestedCapacity",
    "RequiredDuringSchedulingIgnoredDuringExecution",
    "Resources",
    "RolloutHalt",
    "RouteCounts",
    "Routing",
    "S3",
    "Scheduling",
    "SecretSelector",
    "SecretVolume",
    "Server",
    "ServiceTimeouts",
    "Serving",
    "ServingStack",
    "ServingStackSpec",
    "ServingStackStatus",
    "ServingStackStatusGateway",
    "SharePolicy",
    "ShareRange",
    "SharedCounters",
    "SharedFilesystem",
    "SinkAuth",
    "SleepAction",
    "SpecCredentials",
    "SpecGateway",
    "SpecPlacement",
    "SpecRollout",
    "SpecSecret",
    "SpecSoftware",
    "Spread",
    "StableLimits",
    "StatusDrain",
    "StatusGateway",
    "StatusPlacement",
    "StatusRollout",
    "StatusSecret",
    "StatusSoftware",
    "Taint",
    "TcpSocketAction",
    "TelemetryDestination",
    "TelemetryDestinationSpec",
    "TelemetryDestinationStatus",
    "TelemetrySink",
    "Template",
    "TemplateMetadata",
    "TemplateRevision",
    "TemplateSpec",
    "TierEndpoint",
    "TierStatus",
    "Tls",
    "Toleration",
    "Topology",
    "Upgrade",
    "ValueFrom",
    "Versions",
    "VolumeMount",
    "WarmUp",
    "WarmUpCall",
    "Weights",
    "Worker",
    "Workers",
]


class TelemetryDestinationStatus(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    conditions: tuple[Condition, ...] = ()
    sinks: int | None = None


class SinkAuth(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    bearer_token_key: str = msgspec.field(name="bearerTokenKey")


class NameReference(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    name: str


class TelemetrySink(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    name: str
    type_: str = msgspec.field(name="type")
    endpoint: str | None = None
    signals: tuple[Literal["Metrics", "Traces"], ...] = ()
    secret_ref: NameReference | None = msgspec.field(name="secretRef", default=None)
    auth: SinkAuth | None = None
    config: Mapping[str, object] = msgspec.field(default_factory=dict)


class TelemetryDestinationSpec(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    sinks: tuple[TelemetrySink, ...]
    extensions: Mapping[str, object] = msgspec.field(default_factory=dict)
    crossplane: Mapping[str, object] = msgspec.field(default_factory=dict)


class ServingStackStatusGateway(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    address: str | None = None


class ServingStackStatus(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    conditions: tuple[Condition, ...] = ()
    gateway: ServingStackStatusGateway | None = None


class SpecGateway(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    class_name: str = msgspec.field(name="className", default="envoy")
    port: int = 80


class Versions(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    cert_manager: str = msgspec.field(name="certManager", default="v1.17.1")
    envoy_gateway: str = msgspec.field(name="envoyGateway", default="v1.9.0")
    gateway_api: str = msgspec.field(name="gatewayApi", default="v1.6.1")
    leader_worker_set: str = msgspec.field(name="leaderWorkerSet", default="v0.9.0")
    node_feature_discovery: str = msgspec.field(name="nodeFeatureDiscovery", default="0.19.0")
    nvidia_dra_driver: str = msgspec.field(name="nvidiaDraDriver", default="0.4.1")


class SpecSecret(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    type_: Literal["Kubeconfig", "GoogleApplicationCredentials", "AWSWebIdentityCredentials"] = msgspec.field(
        name="type"
    )
    name: str
    namespace: str = "modelplane-system"
    key: str


class ServingStackSpec(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    secrets: tuple[SpecSecret, ...]
    nvidia_driver_root: str = msgspec.field(name="nvidiaDriverRoot", default="/")
    versions: Versions = Versions()
    gateway: SpecGateway = SpecGateway()
    crossplane: Mapping[str, object] = msgspec.field(default_factory=dict)


class EndpointCounts(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    matched: int | None = None
    ready: int | None = None


class TierEndpoint(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    name: str
    group: str | None = None
    cluster: str | None = None
    share_permille: int | None = msgspec.field(name="sharePermille", default=None)
    reason: str | None = None
    message: str | None = None


class TierStatus(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    priority: int
    share_percent: int | None = msgspec.field(name="sharePercent", default=None)
    matched: int | None = None
    ready: int | None = None
    endpoints: tuple[TierEndpoint, ...] = ()


class GatewayRoute(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    name: str
    cluster_name: str | None = msgspec.field(name="clusterName", default=None)
    address: str | None = None
    accepted: bool | None = None
    endpoints: int | None = None


class RouteCounts(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    total: int | None = None
    ready: int | None = None


class ModelServiceStatus(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    conditions: tuple[Condition, ...] = ()
    model: str | None = None
    routes: RouteCounts | None = None
    gateways: tuple[GatewayRoute, ...] = ()
    tiers: tuple[TierStatus, ...] = ()
    address: str | None = None
    endpoints: EndpointCounts | None = None


class ServiceTimeouts(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    request: str = "300s"
    idle: str = "60s"


class Overflow(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    saturation_percent: int | None = msgspec.field(name="saturationPercent", default=None)
    max_percent: int = msgspec.field(name="maxPercent", default=100)
    in_flight_per_endpoint: int | None = msgspec.field(name="inFlightPerEndpoint", default=None)


class LabelRequirement(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    key: str
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist"]
    values: tuple[str, ...] = ()


class LabelSelector(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    match_labels: Mapping[str, str] = msgspec.field(name="matchLabels", default_factory=dict)
    match_expressions: tuple[LabelRequirement, ...] = msgspec.field(name="matchExpressions", default=())


class EndpointGroup(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    name: str | None = None
    selector: LabelSelector
    weight: int = 1
    priority: int = 0
    overflow: Overflow | None = None


class ModelServiceSpec(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    endpoints: tuple[EndpointGroup, ...]
    aliases: tuple[str, ...] = ()
    timeouts: ServiceTimeouts = ServiceTimeouts()
    crossplane: Mapping[str, object] = msgspec.field(default_factory=dict)


class ModelReplicaStatus(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    conditions: tuple[Condition, ...] = ()
    address: str | None = None
    reason: str | None = None
    message: str | None = None
    since: str | None = None
    listed: bool | None = None
    served_generation: int | None = msgspec.field(name="servedGeneration", default=None)


class Spread(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    topology_key: str = msgspec.field(name="topologyKey")
    max_skew: int = msgspec.field(name="maxSkew", default=1)
    when_unsatisfiable: Literal["DoNotSchedule", "ScheduleAnyway"] = msgspec.field(
        name="whenUnsatisfiable", default="DoNotSchedule"
    )


class MatchExpression(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    key: str
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]
    values: tuple[str, ...] = ()


class NodeSelectorTerm(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    match_expressions: tuple[MatchExpression, ...] = msgspec.field(name="matchExpressions")


class PreferredDuringSchedulingIgnoredDuringExecution(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    weight: int
    preference: NodeSelectorTerm


class RequiredDuringSchedulingIgnoredDuringExecution(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    node_selector_terms: tuple[NodeSelectorTerm, ...] = msgspec.field(name="nodeSelectorTerms")


class NodeAffinity(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    required_during_scheduling_ignored_during_execution: RequiredDuringSchedulingIgnoredDuringExecution | None = (
        msgspec.field(name="requiredDuringSchedulingIgnoredDuringExecution", default=None)
    )
    preferred_during_scheduling_ignored_during_execution: tuple[
        PreferredDuringSchedulingIgnoredDuringExecution, ...
    ] = msgspec.field(name="preferredDuringSchedulingIgnoredDuringExecution", default=())


class Affinity(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    node_affinity: NodeAffinity | None = msgspec.field(name="nodeAffinity", default=None)


class PodSecurityContext(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    run_as_user: int | None = msgspec.field(name="runAsUser", default=None)
    run_as_group: int | None = msgspec.field(name="runAsGroup", default=None)
    run_as_non_root: bool | None = msgspec.field(name="runAsNonRoot", default=None)
    fs_group: int | None = msgspec.field(name="fsGroup", default=None)
    fs_group_change_policy: Literal["Always", "OnRootMismatch"] | None = msgspec.field(
        name="fsGroupChangePolicy", default=None
    )
    supplemental_groups: tuple[int, ...] = msgspec.field(name="supplementalGroups", default=())


class HostPathVolume(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    path: str | None = None
    type_: str | None = msgspec.field(name="type", default=None)


class ClaimVolume(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    claim_name: str = msgspec.field(name="claimName")
    read_only: bool | None = msgspec.field(name="readOnly", default=None)


class KeyPath(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    key: str
    path: str


class SecretVolume(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    secret_name: str = msgspec.field(name="secretName")
    items: tuple[KeyPath, ...] = ()
    default_mode: int | None = msgspec.field(name="defaultMode", default=None)
    optional: bool | None = None


class ConfigMapVolume(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    name: str
    items: tuple[KeyPath, ...] = ()
    default_mode: int | None = msgspec.field(name="defaultMode", default=None)
    optional: bool | None = None


class EmptyDirVolume(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    medium: Literal["", "Memory"] | None = None
    size_limit: int | str | None = msgspec.field(name="sizeLimit", default=None)


class PodVolume(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    name: str
    empty_dir: EmptyDirVolume | None = msgspec.field(name="emptyDir", default=None)
    config_map: ConfigMapVolume | None = msgspec.field(name="configMap", default=None)
    secret: SecretVolume | None = None
    persistent_volume_claim: ClaimVolume | None = msgspec.field(name="persistentVolumeClaim", default=None)
    host_path: HostPathVolume | None = msgspec.field(name="hostPath", default=None)


class Resources(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    requests: Mapping[str, int | str] = msgspec.field(default_factory=dict)
    limits: Mapping[str, int | str] = msgspec.field(default_factory=dict)


class Capabilities(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    add: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()


class ContainerSecurityContext(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    run_as_user: int | None = msgspec.field(name="runAsUser", default=None)
    run_as_group: int | None = msgspec.field(name="runAsGroup", default=None)
    run_as_non_root: bool | None = msgspec.field(name="runAsNonRoot", default=None)
    read_only_root_filesystem: bool | None = msgspec.field(name="readOnlyRootFilesystem", default=None)
    privileged: bool | None = None
    allow_privilege_escalation: bool | None = msgspec.field(name="allowPrivilegeEscalation", default=None)
    capabilities: Capabilities | None = None


class VolumeMount(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    name: str
    mount_path: str = msgspec.field(name="mountPath")
    sub_path: str | None = msgspec.field(name="subPath", default=None)
    read_only: bool | None = msgspec.field(name="readOnly", default=None)


class ObjectReference(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    name: str
    optional: bool | None = None


class EnvFrom(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    prefix: str | None = None
    secret_ref: ObjectReference | None = msgspec.field(name="secretRef", default=None)
    config_map_ref: ObjectReference | None = msgspec.field(name="configMapRef", default=None)


class FieldRef(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    field_path: str = msgspec.field(name="fieldPath")
    api_version: str | None = msgspec.field(name="apiVersion", default=None)


class KeyReference(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    name: str
    key: str
    optional: bool | None = None


class ValueFrom(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    secret_key_ref: KeyReference | None = msgspec.field(name="secretKeyRef", default=None)
    config_map_key_ref: KeyReference | None = msgspec.field(name="configMapKeyRef", default=None)
    field_ref: FieldRef | None = msgspec.field(name="fieldRef", default=None)


class Env(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    name: str
    value: str | None = None
    value_from: ValueFrom | None = msgspec.field(name="valueFrom", default=None)


class InitContainer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    name: str
    image: str
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    env: tuple[Env, ...] = ()
    env_from: tuple[EnvFrom, ...] = msgspec.field(name="envFrom", default=())
    working_dir: str | None = msgspec.field(name="workingDir", default=None)
    volume_mounts: tuple[VolumeMount, ...] = msgspec.field(name="volumeMounts", default=())
    security_context: ContainerSecurityContext | None = msgspec.field(name="securityContext", default=None)
    resources: Resources | None = None


class SleepAction(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    seconds: int


class ExecAction(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    command: tuple[str, ...]


class LifecycleHook(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    exec_: ExecAction | None = msgspec.field(name="exec", default=None)
    sleep: SleepAction | None = None


class ContainerLifecycle(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    post_start: LifecycleHook | None = msgspec.field(name="postStart", default=None)
    pre_stop: LifecycleHook | None = msgspec.field(name="preStop", default=None)


class GrpcAction(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    port: int
    service: str | None = None


class TcpSocketAction(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    port: int | str


class HttpGetAction(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    path: str | None = None
    port: int | str
    scheme: Literal["HTTP", "HTTPS"] | None = None


class Probe(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    http_get: HttpGetAction | None = msgspec.field(name="httpGet", default=None)
    tcp_socket: TcpSocketAction | None = msgspec.field(name="tcpSocket", default=None)
    grpc: GrpcAction | None = None
    exec_: ExecAction | None = msgspec.field(name="exec", default=None)
    initial_delay_seconds: int | None = msgspec.field(name="initialDelaySeconds", default=None)
    period_seconds: int | None = msgspec.field(name="periodSeconds", default=None)
    timeout_seconds: int | None = msgspec.field(name="timeoutSeconds", default=None)
    failure_threshold: int | None = msgspec.field(name="failureThreshold", default=None)
    success_threshold: int | None = msgspec.field(name="successThreshold", default=None)


class Port(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    name: str | None = None
    container_port: int = msgspec.field(name="containerPort")


class Container(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    name: str
    image: str
    image_pull_policy: Literal["Always", "IfNotPresent", "Never"] | None = msgspec.field(
        name="imagePullPolicy", default=None
    )
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    ports: tuple[Port, ...] = ()
    env: tuple[Env, ...] = ()
    env_from: tuple[EnvFrom, ...] = msgspec.field(name="envFrom", default=())
    working_dir: str | None = msgspec.field(name="workingDir", default=None)
    volume_mounts: tuple[VolumeMount, ...] = msgspec.field(name="volumeMounts", default=())
    startup_probe: Probe | None = msgspec.field(name="startupProbe", default=None)
    readiness_probe: Probe | None = msgspec.field(name="readinessProbe", default=None)
    liveness_probe: Probe | None = msgspec.field(name="livenessProbe", default=None)
    lifecycle: ContainerLifecycle | None = None
    security_context: ContainerSecurityContext | None = msgspec.field(name="securityContext", default=None)
    resources: Resources | None = None


class PodSpec(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    containers: tuple[Container, ...]
    init_containers: tuple[InitContainer, ...] = msgspec.field(name="initContainers", default=())
    volumes: tuple[PodVolume, ...] = ()
    service_account_name: str | None = msgspec.field(name="serviceAccountName", default=None)
    security_context: PodSecurityContext | None = msgspec.field(name="securityContext", default=None)
    affinity: Affinity | None = None
    topology_spread_constraints: tuple[Spread, ...] = msgspec.field(name="topologySpreadConstraints", default=())
    runtime_class_name: str | None = msgspec.field(name="runtimeClassName", default=None)
    hostname: str | None = None
    host_network: bool | None = msgspec.field(name="hostNetwork", default=None)
    host_pid: bool | None = msgspec.field(name="hostPID", default=None)
    host_ipc: bool | None = msgspec.field(name="hostIPC", default=None)
    image_pull_secrets: tuple[NameReference, ...] = msgspec.field(name="imagePullSecrets", default=())
    termination_grace_period_seconds: int | None = msgspec.field(name="terminationGracePeriodSeconds", default=None)


class TemplateMetadata(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    labels: Mapping[str, str] = msgspec.field(default_factory=dict)
    annotations: Mapping[str, str] = msgspec.field(default_factory=dict)


class PodTemplate(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    metadata: TemplateMetadata | None = None
    spec: PodSpec


class CelSelector(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    cel: str


class RequestedCapacity(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    requests: Mapping[str, str] = msgspec.field(default_factory=dict)


class DeviceRequest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    name: str
    device_class_name: str = msgspec.field(name="deviceClassName")
    count: int = 1
    capacity: RequestedCapacity | None = None
    selectors: tuple[CelSelector, ...] = ()


class NodeResources(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    cpu: str | None = None
    memory: str | None = None


class MatchAttribute(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    attribute: str
    requests: tuple[str, ...] = ()


class ReplicaMember(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    role: Literal["Standalone", "Leader", "Worker"]
    nodes: int = 1
    node_pool_name: str = msgspec.field(name="nodePoolName")
    match_attributes: tuple[MatchAttribute, ...] = msgspec.field(name="matchAttributes", default=())
    node_share: NodeResources | None = msgspec.field(name="nodeShare", default=None)
    root_requests: tuple[str, ...] = msgspec.field(name="rootRequests", default=())
    device_requests: tuple[DeviceRequest, ...] = msgspec.field(name="deviceRequests", default=())
    template: PodTemplate


class Topology(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    tensor: int = 1
    tensor_local: int | None = msgspec.field(name="tensorLocal", default=None)
    pipeline: int = 1
    data: int = 1
    data_local: int | None = msgspec.field(name="dataLocal", default=None)
    expert: bool | None = None


class Server(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    port: int | None = None
    health_path: str | None = msgspec.field(name="healthPath", default=None)
    metrics: (
        Literal["vllm", "sglang", "trtllm-serve", "triton-tensorrt-llm", "triton", "llama.cpp", "tgi", "tei", "nim"]
        | None
    ) = None
    drain_seconds: int | None = msgspec.field(name="drainSeconds", default=None)


class ReplicaEngine(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    name: str
    phase: Literal["Prefill", "Decode"] | None = None
    copies: int = 1
    type_: Literal["vLLM", "SGLang", "TensorRT-LLM", "llama.cpp", "TGI", "TEI", "Triton", "NIM", "Custom"] = (
        msgspec.field(name="type", default="Custom")
    )
    server: Server | None = None
    coordination: Literal["Native", "Ray"] = "Native"
    topology: Topology | None = None
    members: tuple[ReplicaMember, ...]


class CacheMount(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    name: str
    mount_path: str | None = msgspec.field(name="mountPath", default=None)
    key: str | None = None


class WarmUpCall(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    path: str
    body: str


class WarmUp(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    prompts: int | None = None
    requests: tuple[WarmUpCall, ...] = ()
    timeout_seconds: int = msgspec.field(name="timeoutSeconds", default=300)


class Serving(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    mode: Literal["Unified", "PrefillDecode"] = "Unified"


class Toleration(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    key: str | None = None
    operator: Literal["Equal", "Exists"] = "Equal"
    value: str | None = None
    effect: Literal["NoSchedule", "NoExecute"] | None = None
    toleration_seconds: int | None = msgspec.field(name="tolerationSeconds", default=None)


class DeploymentReference(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    name: str
    uid: str | None = None


class ModelReplicaSpec(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    cluster_name: str = msgspec.field(name="clusterName")
    index: int = 0
    deployment: DeploymentReference | None = None
    priority: str | None = None
    protected: bool = False
    preempts: tuple[str, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    serving: Serving | None = None
    warm_up: WarmUp | None = msgspec.field(name="warmUp", default=None)
    caches: tuple[CacheMount, ...] = ()
    engines: tuple[ReplicaEngine, ...]
    crossplane: Mapping[str, object] = msgspec.field(default_factory=dict)


class EndpointTraffic(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    revision: str | None = None
    measured_at: str = msgspec.field(name="measuredAt")
    window_seconds: int = msgspec.field(name="windowSeconds")
    requests: int
    errors: int
    ttft_p95_milliseconds: int | None = msgspec.field(name="ttftP95Milliseconds", default=None)
    latency_p95_milliseconds: int | None = msgspec.field(name="latencyP95Milliseconds", default=None)


class ListedModels(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    url: str
    total: int
    names: tuple[str, ...] = ()


class Routing(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    backend_name: str | None = msgspec.field(name="backendName", default=None)


class ModelEndpointStatus(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    conditions: tuple[Condition, ...] = ()
    origin: str | None = None
    addresses: tuple[str, ...] = ()
    routing: Routing | None = None
    models: ListedModels | None = None
    traffic: EndpointTraffic | None = None


class AuthSecretRef(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    name: str
    key: str


class ProviderAuth(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    header: str = "Authorization"
    scheme: Literal["Bearer", "Raw"] = "Bearer"
    secret_ref: AuthSecretRef = msgspec.field(name="secretRef")


class ReplicaReference(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    name: str
    cluster_name: str = msgspec.field(name="clusterName")


class ApiKeySecretRef(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    name: str
    key: str = "apiKey"


class CredentialApiKey(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    secret_ref: ApiKeySecretRef = msgspec.field(name="secretRef")


class EndpointCredential(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    method: Literal["APIKey"]
    api_key: CredentialApiKey | None = msgspec.field(name="apiKey", default=None)


class EndpointApi(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    schema: Literal["OpenAI", "Anthropic"] = "OpenAI"
    prefix: str | None = None


class ModelEndpointSpec(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    origin: str | None = None
    api: EndpointApi = EndpointApi()
    model: str | None = None
    credential: EndpointCredential | None = None
    url: str | None = None
    rewrite_path: str | None = msgspec.field(name="rewritePath", default=None)
    replica: ReplicaReference | None = None
    auth: ProviderAuth | None = None
    crossplane: Mapping[str, object] = msgspec.field(default_factory=dict)


class Preemption(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    cluster: str | None = None
    replicas: tuple[str, ...] = ()


class Candidate(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    cluster: str | None = None
    pool: str | None = None
    verdict: Literal["Chosen", "Eligible", "Refused"] | None = None
    filter_: str | None = msgspec.field(name="filter", default=None)
    reason: str | None = None
    score: str | None = None


class StatusPlacement(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    summary: str | None = None
    candidates: tuple[Candidate, ...] = ()
    omitted: int | None = None
    preemption: Preemption | None = None


class ModelDeploymentStatusCluster(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    name: str
    replicas: int | None = None
    ready: int | None = None


class NotReady(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    reason: str
    replicas: int
    cluster: str | None = None
    since: str | None = None
    message: str | None = None
    replaced_at: str | None = msgspec.field(name="replacedAt", default=None)


class TemplateRevision(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    revision: int
    hash_: str = msgspec.field(name="hash")
    created_at: str | None = msgspec.field(name="createdAt", default=None)
    change_cause: str | None = msgspec.field(name="changeCause", default=None)
    halted: str | None = None
    images: tuple[str, ...] = ()
    template: str


class RolloutHalt(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    at: str | None = None
    weight: int | None = None
    message: str | None = None


class CanaryProgress(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    step: int | None = None
    steps: int | None = None
    weight: int | None = None
    since: str | None = None
    next_at: str | None = msgspec.field(name="nextAt", default=None)
    analysis: Literal["Passing", "Measuring", "Failing", "TooFewRequests", "NotMeasured"] | None = None
    message: str | None = None


class StatusRollout(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    revision: int | None = None
    hash_: str | None = msgspec.field(name="hash", default=None)
    updated_replicas: int | None = msgspec.field(name="updatedReplicas", default=None)
    ready_replicas: int | None = msgspec.field(name="readyReplicas", default=None)
    promoted: bool | None = None
    complete: bool | None = None
    last_progress_time: str | None = msgspec.field(name="lastProgressTime", default=None)
    stable: str | None = None
    canary: CanaryProgress | None = None
    halted: RolloutHalt | None = None


class ModelDeploymentStatus(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    conditions: tuple[Condition, ...] = ()
    replicas: int | None = None
    ready_replicas: int | None = msgspec.field(name="readyReplicas", default=None)
    updated_replicas: int | None = msgspec.field(name="updatedReplicas", default=None)
    rollout: StatusRollout | None = None
    revisions: tuple[TemplateRevision, ...] = ()
    selector: str | None = None
    reason: str | None = None
    message: str | None = None
    not_ready: tuple[NotReady, ...] = msgspec.field(name="notReady", default=())
    clusters: tuple[ModelDeploymentStatusCluster, ...] = ()
    placement: StatusPlacement | None = None


class Worker(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    nodes: int


class DeviceSelector(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    name: str
    count: int = 1
    capacity: RequestedCapacity | None = None
    selectors: tuple[CelSelector, ...] = ()


class NodeSelector(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    match_attributes: tuple[MatchAttribute, ...] = msgspec.field(name="matchAttributes", default=())
    devices: tuple[DeviceSelector, ...]


class DeploymentMember(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    role: Literal["Standalone", "Leader", "Worker"] = "Standalone"
    node_selector: NodeSelector | None = msgspec.field(name="nodeSelector", default=None)
    worker: Worker | None = None
    template: PodTemplate


class DeploymentEngine(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    name: str
    copies: int = 1
    phase: Literal["Prefill", "Decode"] | None = None
    members: tuple[DeploymentMember, ...]


class TemplateSpec(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    cluster_selector: LabelSelector | None = msgspec.field(name="clusterSelector", default=None)
    model_cache_ref: NameReference | None = msgspec.field(name="modelCacheRef", default=None)
    tolerations: tuple[Toleration, ...] = ()
    serving: Serving | None = None
    engines: tuple[DeploymentEngine, ...]


class PlacementMetadata(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    labels: Mapping[str, str] = msgspec.field(default_factory=dict)


class Template(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    metadata: PlacementMetadata | None = None
    spec: TemplateSpec


class Workers(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    count: int = 1
    engine: Literal["vLLM", "SGLang", "TensorRT-LLM", "llama.cpp", "TGI", "TEI", "Triton", "NIM", "Custom"] = "vLLM"
    server: Server | None = None
    coordination: Literal["Native", "Ray"] = "Native"
    topology: Topology | None = None
    template: PodTemplate


class Phase(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    node_selector: NodeSelector = msgspec.field(name="nodeSelector")
    workers: Workers


class Cache(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    name: str
    mount_path: str | None = msgspec.field(name="mountPath", default=None)
    policy: Literal["Required", "Preferred"] = "Required"


class StableLimits(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    max_error_rate_above: str | None = msgspec.field(name="maxErrorRateAbove", default=None)
    max_ttft_percent: int | None = msgspec.field(name="maxTtftPercent", default=None)
    max_latency_percent: int | None = msgspec.field(name="maxLatencyPercent", default=None)


class CanaryLimits(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    window_seconds: int = msgspec.field(name="windowSeconds", default=60)
    min_requests: int = msgspec.field(name="minRequests", default=20)
    max_error_rate: str | None = msgspec.field(name="maxErrorRate", default=None)
    max_ttft_milliseconds: int | None = msgspec.field(name="maxTtftMilliseconds", default=None)
    max_latency_milliseconds: int | None = msgspec.field(name="maxLatencyMilliseconds", default=None)
    stable: StableLimits | None = None


class CanaryStep(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    weight: int
    pause_seconds: int | None = msgspec.field(name="pauseSeconds", default=None)
    until_promoted: bool = msgspec.field(name="untilPromoted", default=False)


class CanarySettings(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    replicas: int = 1
    bake_seconds: int = msgspec.field(name="bakeSeconds", default=300)
    steps: tuple[CanaryStep, ...] = ()
    analysis: CanaryLimits | None = None


class SpecRollout(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    strategy: Literal["InPlace", "Surge"] = "InPlace"
    max_surge: int = msgspec.field(name="maxSurge", default=1)
    paused: bool = False
    min_ready_seconds: int = msgspec.field(name="minReadySeconds", default=0)
    progress_deadline_seconds: int = msgspec.field(name="progressDeadlineSeconds", default=3600)
    canary: CanarySettings | None = None
    revision_history_limit: int = msgspec.field(name="revisionHistoryLimit", default=10)


class Failover(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    policy: Literal["Replace", "Never"] = "Replace"
    grace_period_seconds: int = msgspec.field(name="gracePeriodSeconds", default=300)


class Weights(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    spread: int | None = None
    staged: int | None = None
    headroom: int | None = None
    price: int | None = None
    stickiness: int | None = None


class Rebalance(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    triggers: tuple[Literal["Tier", "Spread", "Cost"], ...]
    min_saving_percent: int = msgspec.field(name="minSavingPercent", default=20)
    interval_seconds: int = msgspec.field(name="intervalSeconds", default=600)


class Preferred(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    weight: int
    selector: LabelSelector


class SpecPlacement(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    spread: tuple[Spread, ...] = ()
    required: tuple[LabelSelector, ...] = ()
    preferred: tuple[Preferred, ...] = ()
    tiers: tuple[LabelSelector, ...] = ()
    rebalance: Rebalance | None = None
    weights: Weights | None = None


class ModelDeploymentSpec(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    replicas: int = 1
    priority: str | None = None
    preemption_policy: Literal["Never", "PreemptLowerPriority"] = msgspec.field(
        name="preemptionPolicy", default="Never"
    )
    protected: bool = False
    labels: Mapping[str, str] = msgspec.field(default_factory=dict)
    cluster_selector: LabelSelector | None = msgspec.field(name="clusterSelector", default=None)
    tolerations: tuple[Toleration, ...] = ()
    placement: SpecPlacement | None = None
    failover: Failover = Failover()
    rollout: SpecRollout = SpecRollout()
    warm_up: WarmUp | None = msgspec.field(name="warmUp", default=None)
    caches: tuple[Cache, ...] = ()
    node_selector: NodeSelector | None = msgspec.field(name="nodeSelector", default=None)
    workers: Workers | None = None
    decode: Phase | None = None
    prefill: Phase | None = None
    serving: Serving | None = None
    engines: tuple[DeploymentEngine, ...] = ()
    template: Template | None = None
    crossplane: Mapping[str, object] = msgspec.field(default_factory=dict)


class CacheOnCluster(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    name: str
    phase: Literal["Pending", "Hydrating", "Ready", "Failed"] | None = None
    reason: str | None = None
    message: str | None = None
    cause: str | None = None
    staged_bytes: int | None = msgspec.field(name="stagedBytes", default=None)
    total_bytes: int | None = msgspec.field(name="totalBytes", default=None)
    bytes_per_second: int | None = msgspec.field(name="bytesPerSecond", default=None)
    eta_seconds: int | None = msgspec.field(name="etaSeconds", default=None)
    resolved_digest: str | None = msgspec.field(name="resolvedDigest", default=None)
    last_hydrated_at: str | None = msgspec.field(name="lastHydratedAt", default=None)
    failed_at: str | None = msgspec.field(name="failedAt", default=None)
    unused_since: str | None = msgspec.field(name="unusedSince", default=None)
    older_unused_since: str | None = msgspec.field(name="olderUnusedSince", default=None)
    attempts: int | None = None
    references: int | None = None
    shared_with: str | None = msgspec.field(name="sharedWith", default=None)
    staged_keys: tuple[str, ...] = msgspec.field(name="stagedKeys", default=())


class CacheSummary(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    ready: str | None = None
    progress: str | None = None


class ModelCacheStatus(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    conditions: tuple[Condition, ...] = ()
    summary: CacheSummary | None = None
    source: str | None = None
    key: str | None = None
    resolved_digest: str | None = msgspec.field(name="resolvedDigest", default=None)
    last_hydrated_at: str | None = msgspec.field(name="lastHydratedAt", default=None)
    staged_bytes: int | None = msgspec.field(name="stagedBytes", default=None)
    references: int | None = None
    clusters: tuple[CacheOnCluster, ...] = ()


class ExistingPVC(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    claim_name: str = msgspec.field(name="claimName")
    sub_path: str | None = msgspec.field(name="subPath", default=None)


class OlderStorage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    size_gi_b: int | None = msgspec.field(name="sizeGiB", default=None)
    storage_class_name: str | None = msgspec.field(name="storageClassName", default=None)
    access_mode: Literal["ReadWriteMany", "ReadOnlyMany", "ReadWriteOnce"] = msgspec.field(
        name="accessMode", default="ReadWriteMany"
    )


class CacheStorage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    type_: Literal["PVC", "ExistingPVC", "Image"] = msgspec.field(name="type", default="PVC")
    size_gi_b: int | None = msgspec.field(name="sizeGiB", default=None)
    storage_class_name: str | None = msgspec.field(name="storageClassName", default=None)
    access_mode: Literal["ReadWriteMany", "ReadOnlyMany", "ReadWriteOnce"] = msgspec.field(
        name="accessMode", default="ReadWriteMany"
    )
    backend: Literal["PVC", "ExistingPVC"] | None = None
    pvc: OlderStorage | None = None
    existing_pvc: ExistingPVC | None = msgspec.field(name="existingPVC", default=None)


class CacheRetention(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    when_deleted: Literal["Delete", "Retain"] = msgspec.field(name="whenDeleted", default="Delete")
    unused_seconds: int = msgspec.field(name="unusedSeconds", default=3600)


class RelayAuthSecretRef(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    name: str
    key: str = "token"


class Fallback(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    cluster: str
    url: str


class Relay(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    cluster: str
    url: str
    fallbacks: tuple[Fallback, ...] = ()
    auth_secret_ref: RelayAuthSecretRef = msgspec.field(name="authSecretRef")


class Inline(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    filename: str
    content: str


class ConfigMap(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    name: str
    key: str | None = None


class Oci(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    reference: str
    artifact: Literal["ModelPack", "Image"] = "ModelPack"
    sub_path: str | None = msgspec.field(name="subPath", default=None)
    pull_secret_ref: NameReference | None = msgspec.field(name="pullSecretRef", default=None)


class HttpAuthSecretRef(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    name: str
    key: str = "Authorization"


class HttpFile(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    url: str
    digest: str | None = None
    path: str | None = None


class Http(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    url: str | None = None
    digest: str | None = None
    urls: tuple[HttpFile, ...] = ()
    header: str = "Authorization"
    auth_secret_ref: HttpAuthSecretRef | None = msgspec.field(name="authSecretRef", default=None)


class S3(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    uri: str | None = None
    bucket: str | None = None
    prefix: str | None = None
    region: str | None = None
    endpoint: str | None = None
    anonymous: bool = False
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    secret_ref: NameReference | None = msgspec.field(name="secretRef", default=None)


class AuthSecret(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    name: str
    key: str = "HF_TOKEN"


class OlderHuggingFace(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    repo: str
    revision: str | None = None
    token_secret_ref: AuthSecret | None = msgspec.field(name="tokenSecretRef", default=None)
    size_gi_b: int | None = msgspec.field(name="sizeGiB", default=None)


class OlderSource(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    hugging_face: OlderHuggingFace | None = msgspec.field(name="huggingFace", default=None)
    s3: S3 | None = None
    http: Http | None = None
    oci: Oci | None = None
    config_map: ConfigMap | None = msgspec.field(name="configMap", default=None)
    inline: Inline | None = None


class CacheArtifact(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    kind: Literal["Weights", "Tokenizer", "Bytes", "Adapter"] = "Weights"
    source: OlderSource | None = None


class Gcs(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    bucket: str
    prefix: str | None = None
    endpoint: str | None = None
    anonymous: bool = False
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    secret_ref: NameReference | None = msgspec.field(name="secretRef", default=None)


class HuggingFace(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    repo: str
    revision: str | None = None
    endpoint: str | None = None
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    auth_secret: AuthSecret | None = msgspec.field(name="authSecret", default=None)
    size_gi_b: int | None = msgspec.field(name="sizeGiB", default=None)


class ModelCacheSpec(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    source: Literal["HuggingFace", "S3", "GCS", "HTTP", "OCI", "ConfigMap", "Inline"] | None = None
    hugging_face: HuggingFace | None = msgspec.field(name="huggingFace", default=None)
    s3: S3 | None = None
    gcs: Gcs | None = None
    http: Http | None = None
    oci: Oci | None = None
    config_map: ConfigMap | None = msgspec.field(name="configMap", default=None)
    inline: Inline | None = None
    artifact: CacheArtifact = CacheArtifact()
    cluster_selector: LabelSelector | None = msgspec.field(name="clusterSelector", default=None)
    replication: Literal["AllMatchingClusters", "WherePlaced"] = "AllMatchingClusters"
    prewarm: int = 0
    relay: Relay | None = None
    retention: CacheRetention = CacheRetention()
    storage: CacheStorage = CacheStorage()
    crossplane: Mapping[str, object] = msgspec.field(default_factory=dict)


class MetricMappingStatus(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    conditions: tuple[Condition, ...] = ()
    metrics: int | None = None


class MappedLabel(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    name: str
    value: str | None = None
    from_: str | None = msgspec.field(name="from", default=None)
    values: Mapping[str, str] = msgspec.field(default_factory=dict)


class MappedMetric(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    from_: str = msgspec.field(name="from")
    to: str
    from_unit: Literal["Millijoules", "Milliseconds", "Nanoseconds", "Mebibytes", "Percent"] | None = msgspec.field(
        name="fromUnit", default=None
    )
    part: Literal["Count", "Sum"] | None = None
    labels: tuple[MappedLabel, ...] = ()


class MetricMappingSpec(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    metrics: tuple[MappedMetric, ...]
    crossplane: Mapping[str, object] = msgspec.field(default_factory=dict)


class BaseUrls(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    open_ai: str | None = msgspec.field(name="openAI", default=None)
    anthropic: str | None = None


class InferenceGatewayStatus(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    conditions: tuple[Condition, ...] = ()
    address: str | None = None
    endpoints: BaseUrls | None = None
    callers: int | None = None
    client_ca_certificate: str | None = msgspec.field(name="clientCACertificate", default=None)


class Outbound(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    allow: tuple[str, ...] = ()


class FleetTracing(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    host: str
    grpc_port: int = msgspec.field(name="grpcPort", default=4317)
    http_port: int = msgspec.field(name="httpPort", default=4318)
    sample_percent: int = msgspec.field(name="samplePercent", default=1)


class MutualTLS(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    issuer: Literal["CertManager"] = "CertManager"


class GatewayRouter(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    replicas: int = 2
    image: str | None = None


class CallerLimits(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    name: str
    services: tuple[str, ...] = ()
    requests_per_minute: int | None = msgspec.field(name="requestsPerMinute", default=None)
    tokens_per_minute: int | None = msgspec.field(name="tokensPerMinute", default=None)
    monthly_budget: str | None = msgspec.field(name="monthlyBudget", default=None)


class SecretSelector(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    match_labels: Mapping[str, str] = msgspec.field(name="matchLabels")


class AuthApiKey(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    secret_selector: SecretSelector = msgspec.field(name="secretSelector")


class CallerAuth(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    method: Literal["APIKey"]
    api_key: AuthApiKey | None = msgspec.field(name="apiKey", default=None)
    callers: tuple[CallerLimits, ...] = ()


class Tls(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    certificate_refs: tuple[NameReference, ...] = msgspec.field(name="certificateRefs", default=())
    secret_ref: NameReference | None = msgspec.field(name="secretRef", default=None)


class EnvoyGateway(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    version: str = "v1.9.0"
    gateway_class_name: str = msgspec.field(name="gatewayClassName", default="modelplane")


class InferenceGatewaySpec(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    cluster_name: str | None = msgspec.field(name="clusterName", default=None)
    backend: Literal["EnvoyGateway"] = "EnvoyGateway"
    envoy_gateway: EnvoyGateway | None = msgspec.field(name="envoyGateway", default=None)
    hostname: str | None = None
    tls: Tls | None = None
    auth: CallerAuth | None = None
    router: GatewayRouter | None = None
    mutual_tls: MutualTLS | None = msgspec.field(name="mutualTLS", default=None)
    tracing: FleetTracing | None = None
    service_selector: LabelSelector | None = msgspec.field(name="serviceSelector", default=None)
    outbound: Outbound | None = None
    crossplane: Mapping[str, object] = msgspec.field(default_factory=dict)


class Queue(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    name: str
    scheduler: Literal["KAI", "Kueue", "Volcano"] | None = None
    quota: int | None = None
    used: int | None = None
    used_by_others: int | None = msgspec.field(name="usedByOthers", default=None)
    pending: int | None = None


class StatusSoftware(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    release: str | None = None
    revision: str | None = None
    phase: Literal["Installing", "UpToDate", "Upgrading", "Waiting", "Paused", "Incompatible", "Failed"] | None = None
    message: str | None = None
    start_time: str | None = msgspec.field(name="startTime", default=None)
    completion_time: str | None = msgspec.field(name="completionTime", default=None)


class InClusterScheduler(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    type_: Literal["None", "KAI", "Kueue", "Volcano"] | None = msgspec.field(name="type", default=None)
    message: str | None = None


class StatusDrain(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    start_time: str | None = msgspec.field(name="startTime", default=None)
    deadline: str | None = None
    replicas: int | None = None
    total: int | None = None
    summary: str | None = None


class NoExecuteTaint(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    pool: str | None = None
    key: str
    value: str | None = None
    time_added: str | None = msgspec.field(name="timeAdded", default=None)


class FaultyReplica(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    replica: str
    message: str


class BoundPod(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    pool: str
    node: str
    replica: str | None = None
    device: str | None = None
    devices: int
    pods: int = 1


class ClaimsOfOther(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    devices: int
    claims: int


class CounterValue(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    value: str


class ConsumedCounters(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    counter_set: str = msgspec.field(name="counterSet")
    counters: Mapping[str, CounterValue]


class ShareRange(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    min_: str = msgspec.field(name="min")
    max_: str | None = msgspec.field(name="max", default=None)
    step: str | None = None


class SharePolicy(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    default: str | None = None
    valid_values: tuple[str, ...] = msgspec.field(name="validValues", default=())
    valid_range: ShareRange | None = msgspec.field(name="validRange", default=None)


class Capacity(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    value: str
    request_policy: SharePolicy | None = msgspec.field(name="requestPolicy", default=None)


class Attribute(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    string: str | None = None
    version: str | None = None
    bool_: bool | None = msgspec.field(name="bool", default=None)
    int_: int | None = msgspec.field(name="int", default=None)


class PoolDevice(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    name: str
    claim: Literal["DRA", "Synthetic"] | None = None
    driver: str
    device_class_name: str | None = msgspec.field(name="deviceClassName", default=None)
    count: int
    devices_per_value: Mapping[str, int] = msgspec.field(name="devicesPerValue", default_factory=dict)
    attributes: Mapping[str, Attribute] = msgspec.field(default_factory=dict)
    capacity: Mapping[str, Capacity] = msgspec.field(default_factory=dict)
    consumes_counters: tuple[ConsumedCounters, ...] = msgspec.field(name="consumesCounters", default=())
    allow_multiple_allocations: bool = msgspec.field(name="allowMultipleAllocations", default=False)
    allocated: int | None = None
    held_by_others: int | None = msgspec.field(name="heldByOthers", default=None)
    claims_of_others: tuple[ClaimsOfOther, ...] = msgspec.field(name="claimsOfOthers", default=())
    missing: int | None = None
    free: int | None = None


class SharedCounters(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    name: str
    count: int = 1
    counters: Mapping[str, CounterValue]


class PoolDomain(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    topology_key: str = msgspec.field(name="topologyKey")
    node_count: int = msgspec.field(name="nodeCount")
    complete: int | None = None
    fault: str | None = None


class GpuPool(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    name: str
    class_name: str | None = msgspec.field(name="className", default=None)
    nodes: int
    observed_nodes: int | None = msgspec.field(name="observedNodes", default=None)
    short_since: str | None = msgspec.field(name="shortSince", default=None)
    domain: PoolDomain | None = None
    node_resources: NodeResources | None = msgspec.field(name="nodeResources", default=None)
    price_per_node_hour: str | None = msgspec.field(name="pricePerNodeHour", default=None)
    currency: str | None = None
    shared_counters: tuple[SharedCounters, ...] = msgspec.field(name="sharedCounters", default=())
    devices: tuple[PoolDevice, ...] = ()


class StatusGateway(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    address: str | None = None
    hostname: str | None = None
    ca_certificate: str | None = msgspec.field(name="caCertificate", default=None)


class ProviderConfigRef(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    name: str | None = None


class InferenceClusterStatus(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    conditions: tuple[Condition, ...] = ()
    namespace: str | None = None
    provider_config_ref: ProviderConfigRef | None = msgspec.field(name="providerConfigRef", default=None)
    gateway: StatusGateway | None = None
    storage_class_name: str | None = msgspec.field(name="storageClassName", default=None)
    kubernetes_version: str | None = msgspec.field(name="kubernetesVersion", default=None)
    nodes: int | None = None
    free_devices: int | None = msgspec.field(name="freeDevices", default=None)
    lost_devices: int | None = msgspec.field(name="lostDevices", default=None)
    replicas: int | None = None
    gpu_pools: tuple[GpuPool, ...] = msgspec.field(name="gpuPools", default=())
    bound_pods: tuple[BoundPod, ...] = msgspec.field(name="boundPods", default=())
    faulty_replicas: tuple[FaultyReplica, ...] = msgspec.field(name="faultyReplicas", default=())
    no_execute_taints: tuple[NoExecuteTaint, ...] = msgspec.field(name="noExecuteTaints", default=())
    drain: StatusDrain | None = None
    in_cluster_scheduler: InClusterScheduler | None = msgspec.field(name="inClusterScheduler", default=None)
    software: StatusSoftware | None = None
    queues: tuple[Queue, ...] = ()


class ClusterTracing(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    sample_percent: int = msgspec.field(name="samplePercent", default=1)


class ClusterGateway(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    mutual_tls: MutualTLS | None = msgspec.field(name="mutualTLS", default=None)
    tracing: ClusterTracing | None = None


class Images(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    collector: str | None = None
    picker: str | None = None
    warm_up: str | None = msgspec.field(name="warmUp", default=None)
    routing_sidecar: str | None = msgspec.field(name="routingSidecar", default=None)
    loader: str | None = None


class Kserve(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    version: str = "0.20"


class Backend(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    type_: Literal["Native", "KServe", "Dynamo"] = msgspec.field(name="type", default="Native")
    kserve: Kserve | None = None
    routing: Literal["Service", "InferencePool"] = "Service"
    picker_replicas: int | None = msgspec.field(name="pickerReplicas", default=None)
    images: Images = Images()


class SharedFilesystem(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    driver: Literal["Filestore", "EFS", "AzureFiles"]
    tier: str | None = None
    network: str | None = None
    file_system_id: str | None = msgspec.field(name="fileSystemId", default=None)
    network_endpoint_type: Literal["privateEndpoint", "serviceEndpoint"] | None = msgspec.field(
        name="networkEndpointType", default=None
    )


class ClusterStorage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    storage_class_name: str | None = msgspec.field(name="storageClassName", default=None)
    csi_drivers: tuple[Literal["SharedFilesystem", "ObjectStorageMount", "BlockDevice"], ...] = msgspec.field(
        name="csiDrivers", default=()
    )
    shared_filesystem: SharedFilesystem | None = msgspec.field(name="sharedFilesystem", default=None)


class Priority(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    name: str
    value: int
    workload_priority_class: str | None = msgspec.field(name="workloadPriorityClass", default=None)


class Scheduling(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    type_: Literal["None", "KAI", "Kueue", "Volcano", "Auto"] = msgspec.field(name="type", default="None")
    scheduler_name: str | None = msgspec.field(name="schedulerName", default=None)
    version: str | None = None
    queue: str | None = None
    packing: Literal["Any", "BinPack"] = "Any"
    default_priority: str | None = msgspec.field(name="defaultPriority", default=None)
    priorities: tuple[Priority, ...] = ()
    default_labels: Mapping[str, str] = msgspec.field(name="defaultLabels", default_factory=dict)
    default_annotations: Mapping[str, str] = msgspec.field(name="defaultAnnotations", default_factory=dict)


class Quota(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    namespace: str
    devices: int


class ClusterPlacement(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    metadata: PlacementMetadata | None = None


class NodePoolDrain(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    parallelism: int = 4
    deadline_seconds: int | None = msgspec.field(name="deadlineSeconds", default=None)


class Taint(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    key: str
    value: str | None = None
    effect: Literal["NoSchedule", "NoExecute"]
    time_added: str | None = msgspec.field(name="timeAdded", default=None)


class FabricDomain(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    topology_key: str = msgspec.field(name="topologyKey")
    node_count: int = msgspec.field(name="nodeCount")
    compute_domains: bool = msgspec.field(name="computeDomains", default=False)


class InferenceClusterSpecNodePoolFabric(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    type_: Literal["None", "EFA", "InfiniBand", "RoCE"] = msgspec.field(name="type", default="None")
    name: str | None = None
    domain: FabricDomain | None = None


class CapacityBlock(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    capacity_reservation_id: str = msgspec.field(name="capacityReservationId")


class NodePool(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    name: str
    class_name: str = msgspec.field(name="className")
    node_count: int = msgspec.field(name="nodeCount", default=1)
    min_node_count: int | None = msgspec.field(name="minNodeCount", default=None)
    max_node_count: int | None = msgspec.field(name="maxNodeCount", default=None)
    zones: tuple[str, ...] = ()
    taints: tuple[Taint, ...] = ()
    drain: NodePoolDrain | None = None
    capacity_block: CapacityBlock | None = msgspec.field(name="capacityBlock", default=None)
    capacity_reservation: NameReference | None = msgspec.field(name="capacityReservation", default=None)
    fabric: InferenceClusterSpecNodePoolFabric | None = None


class Override(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    name: str
    enabled: bool | None = None
    version: str | None = None
    values: Mapping[str, object] = msgspec.field(default_factory=dict)


class RegistryMirror(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    source: str
    mirror: str


class Upgrade(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    wave: int = 0
    max_unavailable: int = msgspec.field(name="maxUnavailable", default=1)
    pause_seconds: int = msgspec.field(name="pauseSeconds", default=600)
    deadline_seconds: int = msgspec.field(name="deadlineSeconds", default=1800)
    resume: str | None = None


class SpecSoftware(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    paused: bool = False
    upgrade: Upgrade | None = None
    registry_mirrors: tuple[RegistryMirror, ...] = msgspec.field(name="registryMirrors", default=())
    overrides: tuple[Override, ...] = ()


class OlderClusterCache(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    storage_class_name: str | None = msgspec.field(name="storageClassName", default=None)


class GkeCredentials(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    type_: Literal["ProviderConfig", "ClusterProviderConfig"] = msgspec.field(
        name="type", default="ClusterProviderConfig"
    )
    name: str = "default"


class NebiusIdentitySecretRef(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    name: str
    key: str = "credentials"


class ClusterNebius(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    project_id: str = msgspec.field(name="projectId")
    kubernetes_version: str = msgspec.field(name="kubernetesVersion", default="1.34")
    identity_secret_ref: NebiusIdentitySecretRef = msgspec.field(name="identitySecretRef")
    credentials: GkeCredentials | None = None
    cache: OlderClusterCache | None = None


class ClusterCivo(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    region: str
    kubernetes_version: str | None = msgspec.field(name="kubernetesVersion", default=None)
    credentials: GkeCredentials | None = None
    cache: OlderClusterCache | None = None


class ClusterVultr(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    region: str
    kubernetes_version: str = msgspec.field(name="kubernetesVersion", default="v1.36.2+1")
    credentials: GkeCredentials | None = None
    cache: OlderClusterCache | None = None


class Agent(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    name: str
    host: str
    port: int = 22
    pool: str


class K3sServer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    host: str
    port: int = 22


class K3s(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    control_plane: K3sServer = msgspec.field(name="controlPlane")
    agents: tuple[Agent, ...] = ()
    kubernetes_version: str = msgspec.field(name="kubernetesVersion", default="1.34")
    credentials: GkeCredentials | None = None
    cache: OlderClusterCache | None = None


class ClusterAks(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    location: str
    kubernetes_version: str = msgspec.field(name="kubernetesVersion", default="1.34")
    credentials: GkeCredentials | None = None
    cache: OlderClusterCache | None = None


class ClusterEks(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    region: str
    kubernetes_version: str = msgspec.field(name="kubernetesVersion", default="1.36")
    credentials: GkeCredentials | None = None
    cache: OlderClusterCache | None = None


class ClusterGke(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    region: str
    project: str | None = None
    kubernetes_version: str = msgspec.field(name="kubernetesVersion", default="1.35")
    credentials: GkeCredentials | None = None
    cache: OlderClusterCache | None = None


class ExistingIdentitySecretRef(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    name: str
    key: str = "private_key"
    type_: Literal["GoogleApplicationCredentials", "AWSWebIdentityCredentials"] = msgspec.field(
        name="type", default="GoogleApplicationCredentials"
    )


class ExistingSecretRef(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    name: str
    key: str = "kubeconfig"


class Existing(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    secret_ref: ExistingSecretRef = msgspec.field(name="secretRef")
    connection: Literal["Direct", "Agent"] | None = None
    components: Literal["Managed", "Provided"] | None = None
    cache: OlderClusterCache | None = None
    identity_secret_ref: ExistingIdentitySecretRef | None = msgspec.field(name="identitySecretRef", default=None)


class ClusterSource(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    source: Literal["Existing", "GKE", "EKS", "AKS", "K3s", "Vultr", "Civo", "Nebius"]
    existing: Existing | None = None
    gke: ClusterGke | None = None
    eks: ClusterEks | None = None
    aks: ClusterAks | None = None
    k3s: K3s | None = None
    vultr: ClusterVultr | None = None
    civo: ClusterCivo | None = None
    nebius: ClusterNebius | None = None


class InferenceClusterSpec(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    cluster: ClusterSource
    stack: Literal["Standard", "Dynamo"] = "Standard"
    software: SpecSoftware | None = None
    node_pools: tuple[NodePool, ...] = msgspec.field(name="nodePools", default=())
    cordoned: bool = False
    taints: tuple[Taint, ...] = ()
    drain: NodePoolDrain | None = None
    placement: ClusterPlacement | None = None
    quotas: tuple[Quota, ...] = ()
    scheduling: Scheduling = Scheduling()
    storage: ClusterStorage = ClusterStorage()
    backend: Backend = Backend()
    monitors: Literal["None", "PrometheusOperator"] = "None"
    gateway: ClusterGateway | None = None
    crossplane: Mapping[str, object] = msgspec.field(default_factory=dict)


class InferenceClassStatus(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    conditions: tuple[Condition, ...] = ()
    claimable_devices: int | None = msgspec.field(name="claimableDevices", default=None)


class Cost(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    price_per_node_hour: str = msgspec.field(name="pricePerNodeHour")
    currency: str = "USD"


class Accelerator(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    type_: str = msgspec.field(name="type")
    count: int


class ProvisioningNebius(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    platform: str
    preset: str
    drivers_preset: str = msgspec.field(name="driversPreset", default="cuda13.0")
    disk_size_gb: int = msgspec.field(name="diskSizeGb", default=100)
    accelerator: Accelerator


class ProvisioningCivo(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    size: str
    accelerator: Accelerator


class ProvisioningVultr(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    plan: str
    accelerator: Accelerator


class ProvisioningAks(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    vm_size: str = msgspec.field(name="vmSize")
    disk_size_gb: int = msgspec.field(name="diskSizeGb", default=100)
    accelerator: Accelerator


class ProvisioningEks(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    instance_type: str = msgspec.field(name="instanceType")
    disk_size_gb: int = msgspec.field(name="diskSizeGb", default=100)
    accelerator: Accelerator


class ProvisioningGke(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    machine_type: str = msgspec.field(name="machineType")
    disk_size_gb: int = msgspec.field(name="diskSizeGb", default=100)
    accelerator: Accelerator


class Provisioning(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    provider: Literal["GKE", "EKS", "AKS", "Vultr", "Civo", "Nebius"]
    gke: ProvisioningGke | None = None
    eks: ProvisioningEks | None = None
    aks: ProvisioningAks | None = None
    vultr: ProvisioningVultr | None = None
    civo: ProvisioningCivo | None = None
    nebius: ProvisioningNebius | None = None


class ClassDevice(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    name: str
    claim: Literal["DRA", "Synthetic"] = "DRA"
    driver: str
    device_class_name: str | None = msgspec.field(name="deviceClassName", default=None)
    count: int = 1
    consumes_counters: tuple[ConsumedCounters, ...] = msgspec.field(name="consumesCounters", default=())
    allow_multiple_allocations: bool = msgspec.field(name="allowMultipleAllocations", default=False)
    devices_per_value: Mapping[str, int] = msgspec.field(name="devicesPerValue", default_factory=dict)
    attributes: Mapping[str, Attribute] = msgspec.field(default_factory=dict)
    capacity: Mapping[str, Capacity] = msgspec.field(default_factory=dict)


class InferenceClassSpec(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    description: str | None = None
    shared_counters: tuple[SharedCounters, ...] = msgspec.field(name="sharedCounters", default=())
    devices: tuple[ClassDevice, ...]
    node_resources: NodeResources | None = msgspec.field(name="nodeResources", default=None)
    provisioning: Provisioning | None = None
    cost: Cost | None = None
    crossplane: Mapping[str, object] = msgspec.field(default_factory=dict)


class StatusSecret(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    type_: str = msgspec.field(name="type")
    name: str
    namespace: str | None = None
    key: str


class GKEClusterStatus(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    conditions: tuple[Condition, ...] = ()
    secrets: tuple[StatusSecret, ...] = ()
    storage_class_name: str | None = msgspec.field(name="storageClassName", default=None)


class Gpu(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    accelerator_type: str = msgspec.field(name="acceleratorType")
    accelerator_count: int = msgspec.field(name="acceleratorCount", default=1)


class GKEClusterSpecNodePool(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    name: str
    role: Literal["System", "GPU"]
    machine_type: str = msgspec.field(name="machineType")
    disk_size_gb: int = msgspec.field(name="diskSizeGb", default=100)
    node_count: int = msgspec.field(name="nodeCount", default=1)
    min_node_count: int = msgspec.field(name="minNodeCount", default=0)
    max_node_count: int = msgspec.field(name="maxNodeCount", default=8)
    zones: tuple[str, ...] = ()
    gpu: Gpu | None = None


class Networking(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    node_cidr: str = msgspec.field(name="nodeCidr", default="10.0.0.0/24")
    pod_cidr: str = msgspec.field(name="podCidr", default="10.1.0.0/16")
    service_cidr: str = msgspec.field(name="serviceCidr", default="10.2.0.0/16")


class SpecCredentials(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    type_: Literal["ProviderConfig", "ClusterProviderConfig"] = msgspec.field(
        name="type", default="ClusterProviderConfig"
    )
    name: str = "default"


class GKEClusterSpec(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    region: str
    kubernetes_version: str = msgspec.field(name="kubernetesVersion", default="1.35")
    credentials: SpecCredentials = SpecCredentials()
    networking: Networking = Networking()
    node_pools: tuple[GKEClusterSpecNodePool, ...] = msgspec.field(name="nodePools")
    crossplane: Mapping[str, object] = msgspec.field(default_factory=dict)


class EKSClusterStatus(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    conditions: tuple[Condition, ...] = ()
    secrets: tuple[StatusSecret, ...] = ()
    storage_class_name: str | None = msgspec.field(name="storageClassName", default=None)


class EKSClusterSpecNodePoolFabric(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    type_: Literal["None", "EFA"] = msgspec.field(name="type", default="None")


class EKSClusterSpecNodePool(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    name: str
    role: Literal["System", "GPU"]
    instance_type: str = msgspec.field(name="instanceType")
    disk_size_gb: int = msgspec.field(name="diskSizeGb", default=100)
    node_count: int = msgspec.field(name="nodeCount", default=1)
    min_node_count: int = msgspec.field(name="minNodeCount", default=0)
    max_node_count: int = msgspec.field(name="maxNodeCount", default=8)
    zones: tuple[str, ...] = ()
    gpu: Gpu | None = None
    capacity_block: CapacityBlock | None = msgspec.field(name="capacityBlock", default=None)
    fabric: EKSClusterSpecNodePoolFabric = EKSClusterSpecNodePoolFabric()


class EKSClusterSpec(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    region: str
    kubernetes_version: str = msgspec.field(name="kubernetesVersion", default="1.36")
    credentials: SpecCredentials = SpecCredentials()
    vpc_cidr: str = msgspec.field(name="vpcCidr", default="10.0.0.0/16")
    subnet_cidrs: tuple[str, ...] = msgspec.field(
        name="subnetCidrs", default=("10.0.0.0/20", "10.0.16.0/20", "10.0.32.0/20")
    )
    node_pools: tuple[EKSClusterSpecNodePool, ...] = msgspec.field(name="nodePools")
    crossplane: Mapping[str, object] = msgspec.field(default_factory=dict)


class EKSCluster(msgspec.Struct, frozen=True, kw_only=True):
    api_version: Literal["infrastructure.modelplane.ai/v1alpha1"] = msgspec.field(
        name="apiVersion", default="infrastructure.modelplane.ai/v1alpha1"
    )
    kind: Literal["EKSCluster"] = "EKSCluster"
    metadata: ObjectMeta
    spec: EKSClusterSpec
    status: EKSClusterStatus = EKSClusterStatus()


class GKECluster(msgspec.Struct, frozen=True, kw_only=True):
    api_version: Literal["infrastructure.modelplane.ai/v1alpha1"] = msgspec.field(
        name="apiVersion", default="infrastructure.modelplane.ai/v1alpha1"
    )
    kind: Literal["GKECluster"] = "GKECluster"
    metadata: ObjectMeta
    spec: GKEClusterSpec
    status: GKEClusterStatus = GKEClusterStatus()


class InferenceClass(msgspec.Struct, frozen=True, kw_only=True):
    api_version: Literal["modelplane.ai/v1alpha1"] = msgspec.field(name="apiVersion", default="modelplane.ai/v1alpha1")
    kind: Literal["InferenceClass"] = "InferenceClass"
    metadata: ObjectMeta
    spec: InferenceClassSpec
    status: InferenceClassStatus = InferenceClassStatus()


class InferenceCluster(msgspec.Struct, frozen=True, kw_only=True):
    api_version: Literal["modelplane.ai/v1alpha1"] = msgspec.field(name="apiVersion", default="modelplane.ai/v1alpha1")
    kind: Literal["InferenceCluster"] = "InferenceCluster"
    metadata: ObjectMeta
    spec: InferenceClusterSpec
    status: InferenceClusterStatus = InferenceClusterStatus()


class InferenceGateway(msgspec.Struct, frozen=True, kw_only=True):
    api_version: Literal["modelplane.ai/v1alpha1"] = msgspec.field(name="apiVersion", default="modelplane.ai/v1alpha1")
    kind: Literal["InferenceGateway"] = "InferenceGateway"
    metadata: ObjectMeta
    spec: InferenceGatewaySpec
    status: InferenceGatewayStatus = InferenceGatewayStatus()


class MetricMapping(msgspec.Struct, frozen=True, kw_only=True):
    api_version: Literal["modelplane.ai/v1alpha1"] = msgspec.field(name="apiVersion", default="modelplane.ai/v1alpha1")
    kind: Literal["MetricMapping"] = "MetricMapping"
    metadata: ObjectMeta
    spec: MetricMappingSpec
    status: MetricMappingStatus = MetricMappingStatus()


class ModelCache(msgspec.Struct, frozen=True, kw_only=True):
    api_version: Literal["modelplane.ai/v1alpha1"] = msgspec.field(name="apiVersion", default="modelplane.ai/v1alpha1")
    kind: Literal["ModelCache"] = "ModelCache"
    metadata: ObjectMeta
    spec: ModelCacheSpec
    status: ModelCacheStatus = ModelCacheStatus()


class ModelDeployment(msgspec.Struct, frozen=True, kw_only=True):
    api_version: Literal["modelplane.ai/v1alpha1"] = msgspec.field(name="apiVersion", default="modelplane.ai/v1alpha1")
    kind: Literal["ModelDeployment"] = "ModelDeployment"
    metadata: ObjectMeta
    spec: ModelDeploymentSpec
    status: ModelDeploymentStatus = ModelDeploymentStatus()


class ModelEndpoint(msgspec.Struct, frozen=True, kw_only=True):
    api_version: Literal["modelplane.ai/v1alpha1"] = msgspec.field(name="apiVersion", default="modelplane.ai/v1alpha1")
    kind: Literal["ModelEndpoint"] = "ModelEndpoint"
    metadata: ObjectMeta
    spec: ModelEndpointSpec
    status: ModelEndpointStatus = ModelEndpointStatus()


class ModelReplica(msgspec.Struct, frozen=True, kw_only=True):
    api_version: Literal["modelplane.ai/v1alpha1"] = msgspec.field(name="apiVersion", default="modelplane.ai/v1alpha1")
    kind: Literal["ModelReplica"] = "ModelReplica"
    metadata: ObjectMeta
    spec: ModelReplicaSpec
    status: ModelReplicaStatus = ModelReplicaStatus()


class ModelService(msgspec.Struct, frozen=True, kw_only=True):
    api_version: Literal["modelplane.ai/v1alpha1"] = msgspec.field(name="apiVersion", default="modelplane.ai/v1alpha1")
    kind: Literal["ModelService"] = "ModelService"
    metadata: ObjectMeta
    spec: ModelServiceSpec
    status: ModelServiceStatus = ModelServiceStatus()


class ServingStack(msgspec.Struct, frozen=True, kw_only=True):
    api_version: Literal["infrastructure.modelplane.ai/v1alpha1"] = msgspec.field(
        name="apiVersion", default="infrastructure.modelplane.ai/v1alpha1"
    )
    kind: Literal["ServingStack"] = "ServingStack"
    metadata: ObjectMeta
    spec: ServingStackSpec
    status: ServingStackStatus = ServingStackStatus()


class TelemetryDestination(msgspec.Struct, frozen=True, kw_only=True):
    api_version: Literal["modelplane.ai/v1alpha1"] = msgspec.field(name="apiVersion", default="modelplane.ai/v1alpha1")
    kind: Literal["TelemetryDestination"] = "TelemetryDestination"
    metadata: ObjectMeta
    spec: TelemetryDestinationSpec
    status: TelemetryDestinationStatus = TelemetryDestinationStatus()


KINDS = {
    ("infrastructure.modelplane.ai/v1alpha1", "EKSCluster"): EKSCluster,
    ("infrastructure.modelplane.ai/v1alpha1", "GKECluster"): GKECluster,
    ("modelplane.ai/v1alpha1", "InferenceClass"): InferenceClass,
    ("modelplane.ai/v1alpha1", "InferenceCluster"): InferenceCluster,
    ("modelplane.ai/v1alpha1", "InferenceGateway"): InferenceGateway,
    ("modelplane.ai/v1alpha1", "MetricMapping"): MetricMapping,
    ("modelplane.ai/v1alpha1", "ModelCache"): ModelCache,
    ("modelplane.ai/v1alpha1", "ModelDeployment"): ModelDeployment,
    ("modelplane.ai/v1alpha1", "ModelEndpoint"): ModelEndpoint,
    ("modelplane.ai/v1alpha1", "ModelReplica"): ModelReplica,
    ("modelplane.ai/v1alpha1", "ModelService"): ModelService,
    ("infrastructure.modelplane.ai/v1alpha1", "ServingStack"): ServingStack,
    ("modelplane.ai/v1alpha1", "TelemetryDestination"): TelemetryDestination,
}
