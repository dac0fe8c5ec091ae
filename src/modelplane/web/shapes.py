"""What the dashboard's API sends: frozen values, in JSON with camelCase names.

Health, load, trees, shares and words come from `modelplane.views`, as `status`, `top`, `trace` and `service` show them.
What is not known is null and never zero.
"""

from typing import Generic, TypeVar

import msgspec

from modelplane.views.fleet_load import ClassLoad, DeploymentLoad, DeviceLoad, HourlyPrice, MeasuredTraffic, PoolLoad
from modelplane.views.health import ObjectHealth
from modelplane.views.object_tree import ObjectTree
from modelplane.views.service_load import TokenPrice
from modelplane.views.shapes import SoftwareRow

Row = TypeVar("Row")


class HealthCounts(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Objects of a kind by their state."""

    total: int = 0
    ready: int = 0
    not_ready: int = 0
    unknown: int = 0
    deleting: int = 0


class RowPage(msgspec.Struct, Generic[Row], frozen=True, kw_only=True, rename="camel"):
    """Some rows of those that a filter selects. The counts are of all that its other words select."""

    rows: tuple[Row, ...]
    offset: int
    limit: int
    total: int
    states: HealthCounts


class Activity(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Something that goes on: a roll-out, a drain, a failover or the staging of a cache."""

    kind: str
    object_kind: str
    namespace: str = ""
    name: str
    state: str
    message: str
    percent: int | None = None
    until: str = ""
    """When the next thing happens; empty where that is not a matter of time."""


class NextStep(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    title: str
    commands: tuple[str, ...]


class TimelineEvent(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    at: str
    type: str
    reason: str
    object_kind: str
    namespace: str
    name: str
    message: str
    count: int


class ProblemRow(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    object_kind: str
    namespace: str
    name: str
    state: str
    why: str


class FleetSummary(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    now: str
    gateway: str
    clusters: HealthCounts
    deployments: HealthCounts
    replicas: HealthCounts
    services: HealthCounts
    caches: HealthCounts
    load: DeviceLoad
    price: HourlyPrice | None
    activities: int
    warnings: int


class TelemetryShown(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A TelemetryDestination, and how many clusters run a collector for all of them."""

    name: str
    health: ObjectHealth
    sinks: int
    sending: int
    clusters: int


class OverviewPage(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    classes: tuple[ClassLoad, ...]
    problems: tuple[ProblemRow, ...]
    problems_total: int
    activities: tuple[Activity, ...]
    events: tuple[TimelineEvent, ...]
    telemetry: tuple[TelemetryShown, ...]
    next: tuple[NextStep, ...]


class PodsOnNode(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Pods of one replica, or of others where it is empty."""

    replica: str
    namespace: str
    pods: int
    devices: int


class NodeUse(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """A fleet has many, so what is zero is left out."""

    name: str = ""
    """Empty for nodes that the status does not name: their devices are counted only."""
    devices: int
    used: int = 0
    others: int = 0
    missing: int = 0
    lost: int = 0
    pods: tuple[PodsOnNode, ...] = ()


class PoolMap(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    pool: PoolLoad
    nodes: tuple[NodeUse, ...]
    omitted: int
    """Nodes that are there and not shown."""


class ClusterCard(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    name: str
    health: ObjectHealth
    cordoned: bool
    taints: tuple[str, ...]
    labels: dict[str, str]
    replicas: int
    marks: tuple[str, ...]
    """What is wrong beside its health: an agent that is not connected, faulty devices, an upgrade, telemetry."""
    drain: str
    price: HourlyPrice | None
    pools: tuple[PoolMap, ...]


class ConditionRow(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    type: str
    status: str
    reason: str
    since: str
    message: str


class FaultyShown(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A replica on a device or a node that is reported as faulty."""

    namespace: str
    replica: str
    message: str


class ClusterPage(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    cluster: ClusterCard
    version: str
    conditions: tuple[ConditionRow, ...]
    faulty: tuple[FaultyShown, ...]
    software: SoftwareRow | None
    """None: Modelplane installs no software on it."""
    tree: ObjectTree
    omitted: int
    """Replicas that are on it and not in the tree."""
    events: tuple[TimelineEvent, ...]


class DeploymentShown(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    namespace: str
    name: str
    health: ObjectHealth
    wanted: int
    placed: int
    serving: int
    placement: str
    rollout: str
    load: DeploymentLoad


class PlacementCandidate(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    cluster: str
    pool: str
    verdict: str
    filter: str
    reason: str
    score: str


class NotReadyGroup(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    reason: str
    replicas: int
    cluster: str
    since: str
    message: str
    replaced_at: str


class RevisionRow(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    revision: int
    created_at: str
    cause: str
    images: tuple[str, ...]
    halted: str


class DeploymentPage(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    deployment: DeploymentShown
    rollout_message: str
    activities: tuple[Activity, ...]
    not_ready: tuple[NotReadyGroup, ...]
    candidates: tuple[PlacementCandidate, ...]
    candidates_omitted: int
    revisions: tuple[RevisionRow, ...]
    tree: ObjectTree
    omitted: int
    """Replicas that it has and that are not in the tree."""
    pods: tuple["ReplicaPods", ...]
    events: tuple[TimelineEvent, ...]


class ReplicaPods(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Where pods of a replica are, as its cluster's status says."""

    replica: str
    cluster: str
    pool: str
    node: str
    pods: int
    devices: int


class ServiceShown(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    namespace: str
    name: str
    health: ObjectHealth
    model: str
    address: str
    endpoints: int
    serving: int
    routes_ready: int
    routes: int
    traffic: MeasuredTraffic | None
    token_price: TokenPrice | None
    """None where nobody counts tokens, or the replicas behind it have no price."""


class EndpointOfTier(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    name: str
    group: str
    cluster: str
    share_percent: float
    """Of all requests of the service."""
    why: str
    traffic: MeasuredTraffic | None


class ServiceTier(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    priority: int
    share_percent: int
    matched: int
    ready: int
    endpoints: tuple[EndpointOfTier, ...]


class ClientSnippet(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    title: str
    lines: tuple[str, ...]


class ServiceModels(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What a service lists, the name that a request should have, and requests to paste."""

    models: tuple[str, ...]
    model: str
    snippets: tuple[ClientSnippet, ...]


class ServicePage(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    service: ServiceShown
    tiers: tuple[ServiceTier, ...]
    tree: ObjectTree
    omitted: int
    """Endpoints that it has and that are not in the tree."""
    events: tuple[TimelineEvent, ...]


class CacheClusterShown(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    cluster: str
    phase: str
    progress: str
    percent: int | None
    rate: str
    eta_s: int | None
    references: int
    why: str


class CacheShown(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    namespace: str
    name: str
    health: ObjectHealth
    artifact: str
    source: str
    staged: str
    progress: str
    references: int
    clusters: tuple[CacheClusterShown, ...]
    omitted: int
    """Clusters that it is on and that are not shown."""
