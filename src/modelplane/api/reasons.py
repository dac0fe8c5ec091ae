"""Every reason of a condition or an event, with its meaning and what to do.

`docs/reasons.md` is checked against this table, so a reason that is not explained fails the build.
"""

from enum import StrEnum
from typing import Self


class Reason(StrEnum):
    """One CamelCase word as in Kubernetes: stable, for programs to match."""

    meaning: str

    def __new__(cls, word: str, meaning: str) -> Self:
        reason = str.__new__(cls, word)
        reason._value_ = word
        reason.meaning = meaning
        return reason

    AVAILABLE = "Available", "Every composed object is ready."
    CREATING = "Creating", "A composed object is not ready yet. The message names it."
    ACCEPTED = "Accepted", "The spec is valid."
    INVALID = "Invalid", "A field of the spec is invalid. The message names it. Running pods stay."
    NOT_SUPPORTED = "NotSupported", "This build does not support the spec. Nothing is changed."
    UNRESOLVED = "Unresolved", "An object that this one refers to is not read yet. Nothing is decided until it is."

    CLUSTER_RUNNING = "ClusterRunning", "Objects on the cluster are observed and its pools are known."
    CLASS_MISSING = (
        "ClassMissing",
        "A pool names an InferenceClass that does not exist. The pool keeps its last status.",
    )
    WAITING_FOR_CLUSTER = "WaitingForCluster", "The cluster is not observed yet, or it does not answer."
    GATEWAY_RUNNING = "GatewayRunning", "The gateway has an address and answers."
    WAITING_FOR_GATEWAY = "WaitingForGateway", "The gateway has no address yet."

    ALL_PLACED = "AllPlaced", "Every replica of spec.replicas has a cluster."
    NO_CLUSTERS = (
        "NoClusters",
        "No cluster matches the clusterSelector. Running pods stay. Label a cluster or relax the selector.",
    )
    INSUFFICIENT_CAPACITY = (
        "InsufficientCapacity",
        "Some replicas have no cluster: no matching pool has capacity. status.placement says what is missing.",
    )
    WAITING_FOR_CLUSTERS = (
        "WaitingForClusters",
        "Some replicas of a new deployment wait for clusters that are starting, 30 s at most, so that they spread.",
    )
    INVALID_SELECTOR = (
        "InvalidSelector",
        "A device selector does not compile or is too expensive. Running pods stay. The message names the selector.",
    )
    ALL_READY = "AllReady", "Every replica of spec.replicas serves."
    SCALED_TO_ZERO = "ScaledToZero", "spec.replicas is 0."
    STARTING = "Starting", "Some replicas do not serve yet."
    NOT_PLACED = "NotPlaced", "Some replicas have no cluster, so they cannot serve."

    CLUSTER_MISSING = "ClusterMissing", "The cluster of the replica does not exist. Running pods stay."
    NO_CACHES = "NoCaches", "The replica mounts no cache."
    CACHES_STAGED = "CachesStaged", "Every cache that the replica mounts is staged on its cluster."
    CACHE_MISSING = (
        "CacheMissing",
        "A cache that the replica mounts does not exist. Running pods stay. Create it again.",
    )
    CACHE_STAGING = "CacheStaging", "A cache is not staged on the cluster yet. The pods are created when it is."
    CACHE_FAILED = "CacheFailed", "Staging a cache on the cluster failed. The status of the ModelCache says why."
    WAITING_FOR_CACHES = "WaitingForCaches", "The pods are created when the caches are staged."
    WORKLOAD_FAILED = (
        "WorkloadFailed",
        "The cluster rejects the pods of the replica or stopped retrying. The message is the workload's.",
    )
    WORKLOAD_AVAILABLE = "WorkloadAvailable", "The pods of the replica are available."
    WORKLOAD_STARTING = "WorkloadStarting", "The pods of the replica are starting."
    ROUTE_CONFIGURED = "RouteConfigured", "The gateway accepted the route."
    ROUTE_PENDING = "RoutePending", "The gateway has not accepted the route yet."
    ENDPOINTS_FOUND = "EndpointsFound", "The service selects ready endpoints."
    NO_ENDPOINTS = "NoEndpoints", "No endpoint matches. The address answers 503 until one does."
    NO_READY_ENDPOINTS = "NoReadyEndpoints", "Endpoints match and none is ready. The address answers 503 until one is."

    OUTBOUND_REFUSED = (
        "OutboundRefused",
        "The host is in the platform's own network. spec.outbound.allow of the InferenceGateway may allow it.",
    )
    PLACED = "Placed", "A replica was placed on a cluster."
    REMOVED = "Removed", "A replica was removed. The message says why."
    IN_USE = "InUse", "The object is being deleted and other objects use it. It is deleted after them."
    NOT_OURS = (
        "NotOurs",
        "An object that this one composes exists and has another owner. Rename one of them.",
    )
    BROKEN = "Broken", "A bug in Modelplane. Reconciliation is retried and running pods stay. Please report it."
